"""The package keeps its shape: short files, typed signatures, one name for one thing."""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "adlm"
FILES = {p.relative_to(PACKAGE): p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")}
TREES = {path: ast.parse(text) for path, text in FILES.items()}
LINES = {path: len(text.splitlines()) for path, text in FILES.items()}
COPY = Path("hub/plain")  # written out for transformers: it imports nothing of the package


def annotations() -> Iterator[tuple[str, str]]:
    """Yield a place and the text of each annotation of a function's parameters and result."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                for found in [*(a.annotation for a in every), node.returns]:
                    if found is not None:
                        yield f"{path}:{node.lineno} {node.name}", ast.unparse(found)


def loose_names() -> set[str]:
    """Names that stand for dict[str, Any]: itself, and every alias of it."""
    names = {"dict[str, Any]"}
    for tree in TREES.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.value) == "dict[str, Any]":
                names |= {ast.unparse(target) for target in node.targets}
    return names


def test_no_file_is_longer_than_300_lines():
    assert {path: count for path, count in LINES.items() if count > 300} == {}


def test_half_of_the_files_have_at_most_100_lines():
    assert statistics.median(LINES.values()) <= 100


def test_few_signatures_take_or_return_untyped_objects():
    """What is left is JSON as such, or what another library hands over."""
    loose = loose_names()
    found = [place for place, text in annotations() if any(name in text for name in loose)]
    assert len(found) <= 15, "\n".join(found)


def test_a_class_name_means_one_thing():
    where = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not path.is_relative_to(COPY):
                where[node.name].append(str(path))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}
