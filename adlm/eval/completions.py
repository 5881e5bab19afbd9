"""The programs that a model writes, kept in a jsonl file as they are written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from adlm.api import Model
from adlm.errors import UserError
from adlm.eval import programs
from adlm.eval.programs import ProgramTask
from adlm.progress import Bar
from adlm.results import write_text
from adlm.samplers.settings import SamplingSettings
from adlm.values import to_text


@dataclass(frozen=True)
class Written:
    """The completions of one task; none where its hole has no room in the context."""

    task_id: str
    cut_tokens: int
    completions: list[str]
    nfe: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Store:
    """The jsonl file of completions: their settings, then a record a task."""

    path: Path
    settings: dict[str, object]

    def known(self) -> dict[str, Written]:
        """Read the completions that an earlier run with these settings wrote, by task."""
        try:
            text = self.path.read_text(encoding="utf-8")
            lines = text.split("\n")[:-1]  # a half-written line has no end
            head, *records = [json.loads(line) for line in lines]
            made = msgspec.convert(records, list[Written])
        except (OSError, ValueError, RecursionError, msgspec.ValidationError):
            return {}
        return {r.task_id: r for r in made} if head == {"settings": self.settings} else {}

    def begin(self, records: dict[str, Written]) -> None:
        """Start the file with what is known; completions of other settings are replaced."""
        lines = [{"settings": self.settings}, *map(asdict, records.values())]
        write_text(self.path, "".join(to_text(line) + "\n" for line in lines))

    def add(self, record: Written) -> None:
        """Add the completions of a task."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(to_text(asdict(record)) + "\n")
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror or error}") from None


@dataclass(frozen=True)
class Writing:
    """How the completions of a task are written."""

    mode: str
    tokens: int  # at most
    sampling: SamplingSettings


def write(model: Model, tasks: list[ProgramTask], how: Writing, store: Store) -> list[Written]:
    """Write the completions of each task; those of an earlier run with the same settings stay."""
    known = store.known()
    todo = [task for task in tasks if task.task_id not in known]
    if known:
        print(f"{len(tasks) - len(todo)} of {len(tasks)} tasks are in {store.path} already")
    with Bar("writing", len(todo), "tasks") as bar:
        for i, task in enumerate(todo, 1):
            record = complete(model, task, how)
            if i == 1:  # not before one was written: bad settings lose nothing
                store.begin(known)
            known[task.task_id] = record
            store.add(record)
            bar.update(i)
    return [known[task.task_id] for task in tasks]


def complete(model: Model, task: ProgramTask, how: Writing) -> Written:
    """Write the completions of one task."""
    seed, vocab, context = how.sampling.seed, model.vocab, model.config.data.length
    given = programs.form(task, how.mode, seed, vocab, context, how.tokens)
    if given is None:
        return Written(task.task_id, 0, [])
    own = replace(how.sampling, seed=programs.seed_of(seed, task))
    made = model.write(given.template, own)
    texts = [programs.completion(row, given, how.mode, vocab) for row in made.tokens]
    return Written(task.task_id, given.cut, texts, float(made.nfe.mean()), made.seconds)
