"""Which tests run which lines of the core, and how long each takes: seen once, kept in a file.

A test that does not run a changed line cannot notice it, so a mutant is put to those alone that do,
the quick ones first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from attack.mutation.mutants import CORE, ROOT, Mutant

FOLDERS = ("process", "objectives", "samplers", "data", "train", "models", "theory", "golden")
ALSO = ("tests/test_block_diffusion.py", "tests/test_api.py", "tests/eval/test_likelihood.py")
# tests whose work is done by processes of their own, where nobody looks at lines
APART = {"adlm/train/": ["tests/train/test_shard.py"]}
LONG = 25.0  # seconds: a longer test is left out
QUIET = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore", "-m", "not slow"]


def chosen() -> list[str]:
    """Return the tests of the core: the mirrored folders, and the examples in docstrings."""
    found = [f"tests/{name}" for name in FOLDERS] + list(ALSO) + list(CORE)
    return [name for name in found if (ROOT / name).exists()]


@dataclass
class Map:
    """What each test ran, and its seconds."""

    lines: dict[str, list[str]] = field(default_factory=dict)  # test -> "file:line"
    seconds: dict[str, float] = field(default_factory=dict)

    def of(self, mutant: Mutant, budget: float) -> list[str]:
        """Return the tests that may notice a mutant, quick ones first, within a budget."""
        where = f"{mutant.file}:{mutant.line}" if mutant.inside else f"{mutant.file}:"
        hit = self.hit(where) or self.hit(f"{mutant.file}:")
        picked, spent = [], 0.0
        for test in sorted(hit, key=lambda t: self.seconds[t]):
            spent += self.seconds[test]
            if picked and spent > budget:
                break
            picked.append(test)
        return picked

    @staticmethod
    def apart(mutant: Mutant) -> list[str]:
        """Return the tests that may notice it in processes of their own."""
        return [t for start, some in APART.items() if mutant.file.startswith(start) for t in some]

    def hit(self, where: str) -> list[str]:
        """Return the tests that ran a line, or with `file:` any line of the file."""
        return self.ran.get(where, [])

    @cached_property
    def ran(self) -> dict[str, list[str]]:
        """Line, and file, to the tests that ran it."""
        found: dict[str, list[str]] = {}
        for test, seen in self.lines.items():
            for where in {*seen, *(s.rpartition(":")[0] + ":" for s in seen)}:
                found.setdefault(where, []).append(test)
        return found


class Watch:
    """A plugin that notes the lines of the core that each test runs."""

    def __init__(self) -> None:
        self.map = Map()
        self.seen: set[str] = set()
        self.prefixes = tuple(str(ROOT / name) for name in CORE)

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return self.line if name.startswith(self.prefixes) else None

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            name = os.path.relpath(frame.f_code.co_filename, ROOT)
            self.seen.add(f"{name}:{frame.f_lineno}")
        return self.line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.seen, began = set(), time.monotonic()
        sys.settrace(self.enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            spent = time.monotonic() - began
            if self.seen and spent < LONG:
                self.map.lines[item.nodeid] = sorted(self.seen)
                self.map.seconds[item.nodeid] = round(spent, 3)


def load(kept: Path) -> Map:
    """Read the map, or make it: that takes as long as the tests do, and a little more."""
    if not kept.is_file():
        watch = Watch()
        words = [*QUIET, "-o", "addopts=", "--doctest-modules", "--rootdir", str(ROOT), *chosen()]
        pytest.main(words, plugins=[watch])
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(vars(watch.map)), encoding="utf-8")
    return Map(**json.loads(kept.read_text(encoding="utf-8")))


if __name__ == "__main__":
    load(Path(sys.argv[1]))
