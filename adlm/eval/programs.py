"""HumanEval's tasks: what a model gets of one, and the program that its answer makes.

`complete` writes the function after its signature. `infill` masks one line of the known solution
and keeps the rest; the hole has as many tokens as that line.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from adlm.config import DataConfig
from adlm.data import files
from adlm.data.sources import data_dirs
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.samplers import template

FILES = ("HumanEval.jsonl.gz", "HumanEval.jsonl")
HUB = "openai/openai_humaneval"
STOP = re.compile(r"^(?:def |async def |class |if __name__|print\()", re.M)


@dataclass(frozen=True)
class ProgramTask:
    """One function to write."""

    task_id: str
    prompt: str
    canonical_solution: str
    test: str
    entry_point: str


@dataclass(frozen=True)
class Form:
    """What a model gets, and where in it the completion stands."""

    template: np.ndarray  # (L,) token ids and masks
    hole: slice
    cut: int  # tokens of the context that did not fit


def open_tasks(file: str | None, folder: str | None) -> list[ProgramTask]:
    """Return the tasks of a file, of the data folder, or of the hub."""
    if file is not None:
        path = Path(file).expanduser()
        if not path.is_file():
            raise UserError(f"there is no file {file}")
        return read(path)
    dirs = data_dirs(DataConfig(dir=folder))
    for path in (p / name for d in dirs for p in (d / "humaneval", d) for name in FILES):
        if path.is_file():
            return read(path)
    if find_spec("datasets") is None:
        raise UserError(
            f"HumanEval was not found: put humaneval/{FILES[0]} into the folder that --data.dir "
            "or ADLM_DATA names, or pip install 'adlm[data]' to load it from the hub"
        )
    import datasets

    try:
        data = datasets.load_dataset(HUB, split="test")
    except Exception as error:  # network, spelling, access: the library has dozens of types
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"there is no humaneval/{FILES[0]} in a data folder (--data.dir), and hf:{HUB} could "
            f"not be loaded: {first}"
        ) from None
    return [task_of(record, f"hf:{HUB} record {i}") for i, record in enumerate(data)]


def read(path: Path) -> list[ProgramTask]:
    """Return the tasks of a jsonl file, plain or gzipped."""
    out: dict[str, ProgramTask] = {}
    for number, line in enumerate(files.lines(path), 1):
        where = f"{path} line {number}"
        if not line.strip():
            continue
        try:
            task = task_of(json.loads(line), where)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is not JSON ({error})") from None
        if task.task_id in out:
            raise UserError(f"{where}: the task {task.task_id} is there twice")
        out[task.task_id] = task
    if not out:
        raise UserError(f"{path} has no task")
    return list(out.values())


def task_of(record: object, where: str) -> ProgramTask:
    """Return a record as a task."""
    names = [f.name for f in fields(ProgramTask)]
    if not isinstance(record, dict):
        raise UserError(f"{where} must be an object with {', '.join(names)}")
    for name in names:
        if not isinstance(record.get(name), str) or not record[name].strip():
            raise UserError(f"{where} has no text '{name}'; a task has {', '.join(names)}")
    task = ProgramTask(**{name: record[name] for name in names})
    if not task.entry_point.isidentifier():
        raise UserError(f"{where}: entry_point must be a function's name, found {task.entry_point}")
    return task


def hash_of(tasks: Iterable[ProgramTask]) -> str:
    """Identifies the tasks by content."""
    return hashlib.sha256(json.dumps([asdict(t) for t in tasks]).encode()).hexdigest()


def seed_of(seed: int, task: ProgramTask) -> int:
    """Return a seed of its own for each task, whatever tasks stand beside it."""
    return int.from_bytes(hashlib.sha256(f"{seed} {task.task_id}".encode()).digest()[:4]) >> 1


def around(task: ProgramTask, mode: str, seed: int) -> tuple[str, str, str]:
    """Return what stands before the completion, in its place in the known solution, and after it.

    Example:
        >>> task = ProgramTask("a", "def f():\\n", "    x = 1\\n\\n    return x\\n", "", "f")
        >>> around(task, "infill", 0)
        ('def f():\\n    x = 1\\n\\n', '    return x', '\\n')
    """
    if mode == "complete":
        return task.prompt, task.canonical_solution, ""
    lines = task.canonical_solution.splitlines(keepends=True)
    full = [i for i, line in enumerate(lines) if line.strip()]
    chosen = full[seed_of(seed, task) % len(full)]
    line = lines[chosen].rstrip()
    rest = lines[chosen][len(line) :] + "".join(lines[chosen + 1 :])
    return task.prompt + "".join(lines[:chosen]), line, rest


def form(
    task: ProgramTask, mode: str, seed: int, vocab: Vocab, context: int, tokens: int
) -> Form | None:
    """Return the template of a task; None if the hole alone is longer than the context.

    Of a text that does not fit the tokens nearest to the completion stay. A completion has at most
    `tokens` tokens, and where the prompt is long at most half of the context.
    """
    left, line, right = (template.ids(part, vocab) for part in around(task, mode, seed))
    if mode == "complete":
        keep = min(len(left), context - min(tokens, context // 2))
        size, after = min(tokens, context - keep), 0
    else:
        size = len(line)
        if size > context:
            return None
        after = min(len(right), (context - size) // 2)
        keep = min(len(left), context - size - after)
        after = min(len(right), context - size - keep)
    masks = np.full(size, vocab.mask)
    ids = np.concatenate([left[len(left) - keep :], masks, right[:after]])
    return Form(ids, slice(keep, keep + size), len(left) - keep + len(right) - after)


def completion(row: np.ndarray, given: Form, mode: str, vocab: Vocab) -> str:
    """Return the text of a written hole; after a prompt it ends where the function does."""
    made = row[given.hole]
    if mode == "complete" and (made == vocab.eos).any():
        made = made[: int((made == vocab.eos).argmax())]
    prefix = row[: given.hole.start]
    before, both = vocab.decode(prefix), vocab.decode(np.concatenate([prefix, made]))
    text = both[len(before) :] if both.startswith(before) else vocab.decode(made)
    return truncate(text) if mode == "complete" else text


def truncate(text: str) -> str:
    """Up to the next def, class, `if __name__` or print( in the first column.

    Example:
        >>> truncate("    return 1\\n\\nprint(f())")
        '    return 1\\n\\n'
    """
    found = STOP.search(text)
    return text[: found.start()] if found else text


def program(task: ProgramTask, mode: str, seed: int, text: str) -> str:
    """Return the program that a completion makes; it defines the task's function."""
    before, _, after = around(task, mode, seed)
    return f"{before}{text}{after}\n"


def parses(source: str) -> bool:
    """Is it Python? Nothing is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
