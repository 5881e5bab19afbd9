"""Small changes of a source file: each is one operator, condition, number or call made wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
# the maths and what must not be lost: folders with all their files, and single files
CORE = (
    "adlm/process",
    "adlm/objectives",
    "adlm/samplers",
    "adlm/data/pack.py",
    "adlm/models/checkpoint.py",
    "adlm/models/manifest.py",
    "adlm/train/engine.py",
    "adlm/train/ema.py",
)
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
JOINED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "zeros": "ones"}
SWAPPED |= {"ones": "zeros", "argmax": "argmin", "argmin": "argmax"}


@dataclass(frozen=True)
class Mutant:
    """One change: the text between two places of a file becomes another."""

    file: str
    line: int
    inside: bool  # a function, so that a test that runs the line can notice it
    start: int  # in bytes
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def files() -> list[Path]:
    """List the files of the core."""
    found = [p for name in CORE for p in ([ROOT / name] if name.endswith(".py") else [])]
    found += [p for name in CORE for p in sorted((ROOT / name).glob("*.py"))]
    return [p for p in found if p.name != "__init__.py"]


def draw(count: int, seed: int) -> list[Mutant]:
    """Draw mutants of the whole core, without repetition."""
    every = [m for path in files() for m in mutants(path)]
    return Random(seed).sample(every, min(count, len(every)))


def mutants(path: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    name = str(path.relative_to(ROOT))
    made = []
    for node, inside in walk(ast.parse(source), False):
        for after in changes(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            before = source[start:end].decode()
            if ast.dump(ast.parse(before.strip())) != ast.dump(ast.parse(after)):
                made.append(Mutant(name, node.lineno, inside, start, end, before, after))
    return made


def walk(node: ast.AST, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the nodes that may be changed: no annotation, decorator, message or text."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.expr | ast.stmt):
        yield node, inside
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child, inside or (function and field == "body"))


def changes(node: ast.AST) -> Iterator[str]:
    """Yield the texts that may stand in place of a node."""
    match node:
        case ast.Compare(left, [op, *ops], others) if type(op) in COMPARED:
            yield text(ast.Compare(left, [COMPARED[type(op)](), *ops], others))
        case ast.BinOp(left, op, right) if type(op) in JOINED and not is_text(left):
            yield text(ast.BinOp(left, JOINED[type(op)](), right))
        case ast.BoolOp(op, values):
            yield text(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(ast.Not() | ast.Invert() | ast.USub(), operand):
            if not isinstance(operand, ast.Constant):
                yield text(operand)
        case ast.Constant(bool() as value):
            yield str(not value)
        case ast.Constant(int() as value):
            yield str(value + 1)
        case ast.Constant(float() as value):
            yield repr(2 * value if value else 1.0)
        case ast.Expr(ast.Call()):
            yield "pass"
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name) as called):
            if name in SWAPPED:
                other = ast.parse(ast.unparse(node), mode="eval").body
                part = other.func
                if isinstance(called, ast.Name):
                    part.id = SWAPPED[name]
                else:
                    part.attr = SWAPPED[name]
                yield text(other)
            elif isinstance(node, ast.Call) and name in ("clamp", "detach", "flip", "clone"):
                yield text(called.value) if isinstance(called, ast.Attribute) else "None"


def text(node: ast.expr) -> str:
    """Return a node's text in brackets, so that it stays one operand."""
    return f"({ast.unparse(node)})"


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
