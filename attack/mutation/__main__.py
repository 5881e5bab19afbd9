"""Put mutants of the core to its tests, and write results/mutation.json; resumable.

    python -m attack.mutation [--count 210] [--seed 23] [--seconds 600]

Each mutant is written into a copy of the tree and tested in a forked process in which torch and
pytest are imported already. A mutant that is in the file is not tested again.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attack.mutation.answers import ANSWERS
from attack.mutation.mutants import ROOT, Mutant, draw, files, mutants
from attack.mutation.result import MutationResult, Verdict
from attack.mutation.tests import QUIET, load

HOME = ROOT / "build" / "mutation"
TREE = HOME / "tree"
OUT = ROOT / "results" / "mutation.json"
PATIENCE = 4.0  # times as much of the processor, at most
WALL = 600.0  # seconds, whatever else the machine does
MINE = {"adlm", "attack", "tests"}  # imported anew in each child
Verdicts = dict[tuple[str, str, str], Verdict]
HEAVY = "torch torch._dynamo numpy safetensors.torch tokenizers hypothesis rich msgspec scipy"


def copy_tree() -> None:
    """Copy what the tests need: the package, the tests and the files beside them."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    left = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("adlm", "tests", "docs", "results", "examples"):
        shutil.copytree(ROOT / name, TREE / name, ignore=left)
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, TREE)


class First:
    """A plugin that keeps the name of the first test that fails."""

    failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def child(tests: list[str], said: int, limit: int) -> None:
    """Run the tests in the copy of the tree, in this forked process; write which one failed."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    os.chdir(TREE)
    os.environ |= {"PYTHONPATH": str(TREE), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(TREE), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] in MINE]:
        del sys.modules[name]
    first, quiet = First(), io.StringIO()
    with redirect_stdout(quiet), redirect_stderr(quiet):
        words = [*QUIET, "-x", "-o", "addopts=", "--doctest-modules", "--rootdir", str(TREE)]
        code = pytest.main([*words, *tests], plugins=[first])
    os.write(said, (first.failed or ("import" if int(code) not in (0, 5) else "")).encode())
    os._exit(0)


def notice(tests: list[str], limit: float) -> str:
    """Return the test that fails, "timeout", or nothing where all pass.

    The limit is of the processor's time, which does not depend on what else the machine does.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child(tests, write, int(limit))
        finally:
            os.write(write, b"import")
            os._exit(1)
    os.close(write)
    until, ended, status = time.monotonic() + WALL, 0, 0
    while time.monotonic() < until and not ended:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    if not ended:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    killed = not ended or os.waitstatus_to_exitcode(status) in (-signal.SIGXCPU, -signal.SIGKILL)
    return "timeout" if killed else said


def judge(mutant: Mutant, tests: list[str], limit: float, apart: list[str]) -> Verdict:
    """Write a mutant into the copy, test it, and put the file back; tests `apart` come last."""
    path = TREE / mutant.file
    source = (ROOT / mutant.file).read_bytes()
    path.write_bytes(mutant.apply(source))
    try:
        how = notice(tests, limit) if tests else ""
        how = notice(apart, WALL) if apart and not how else how
    finally:
        path.write_bytes(source)
    shown = (mutant.file, mutant.line, mutant.before, mutant.after)
    return Verdict(*shown, bool(how), how, len(tests) + len(apart))


def key(verdict: Verdict | Mutant) -> tuple[str, str, str]:
    """Name a mutant; its line may move."""
    return verdict.file, verdict.before, verdict.after


def run(count: int, seed: int, seconds: float, again: bool, budget: float) -> MutationResult:
    """Test what is not in the file yet; survivors too where `again`."""
    until = time.monotonic() + seconds
    earlier = MutationResult.read(OUT).verdicts if OUT.is_file() else []
    have = {key(v): v for v in earlier if v.killed or not again}
    found = load(HOME / "map.json")
    for name in HEAVY.split():
        importlib.import_module(name)
    copy_tree()
    drawn = draw(count, seed)
    possible = sum(len(mutants(path)) for path in files())
    for mutant in drawn:
        if key(mutant) in have or time.monotonic() > until:
            continue
        tests = found.of(mutant, budget)
        limit = 30 + PATIENCE * sum(found.seconds[t] for t in tests)
        have[key(mutant)] = verdict = judge(mutant, tests, limit, found.apart(mutant))
        print(f"{mutant.file}:{mutant.line} {verdict.how or 'SURVIVED'}", flush=True)
        save(drawn, have, seed, possible)
    return save(drawn, have, seed, possible)


def save(drawn: list[Mutant], have: Verdicts, seed: int, possible: int) -> MutationResult:
    """Write what is known of the drawn mutants."""
    kept = [
        replace(have[key(m)], line=m.line, answer=ANSWERS.get(key(m), ""))
        for m in drawn
        if key(m) in have
    ]
    result = MutationResult(seed=seed, drawn=len(drawn), possible=possible, verdicts=kept)
    result = result.stamped("cpu", "fp32")
    result.save(OUT)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m attack.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=210, help="how many mutants")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tests on each")
    parser.add_argument("--again", action="store_true", help="test earlier survivors again")
    given = parser.parse_args()
    print(run(given.count, given.seed, given.seconds, given.again, given.budget).text())


if __name__ == "__main__":
    main()
