"""What all attacks share: cases by number, each made from its seed, counted, kept and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from adlm.locks import lock
from adlm.results import Result, commit
from adlm.viz.page import Section
from attack import place

OUT = Path(__file__).parents[1] / "results" / "attack.json"


@dataclass(frozen=True)
class Outcome:
    """How one case went."""

    result: str  # accepted, refused, finished, ...
    group: str  # which sort of case it was
    target: str  # the command or part that was attacked
    shown: str  # what was done, to be read
    wrong: list[str]  # what does not hold; empty where all does
    said: str = ""  # the end of its standard error
    count: int = 1  # attacks in this case: kills of one run, say


@dataclass(frozen=True)
class Failure:
    """A case in which something did not hold."""

    case: int
    shown: str
    wrong: list[str]
    said: str = ""


@dataclass(frozen=True)
class Tally:
    """What is known of one kind of attack."""

    seed: int
    asked: int
    done: int = 0  # cases
    attacks: int = 0  # in them
    mended: int = 0  # cases that failed once and hold since
    results: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    def plus(self, index: int, outcome: Outcome) -> Tally:
        """Count a case."""
        failed = [Failure(index, outcome.shown, outcome.wrong, outcome.said)]
        now = commit() or "" if self.done % 50 == 0 or not self.commits else self.commits[-1]
        return replace(
            self,
            done=max(self.done, index + 1),
            attacks=self.attacks + outcome.count,
            results=more(self.results, outcome.result, outcome.count),
            groups=more(self.groups, outcome.group, outcome.count),
            targets=more(self.targets, outcome.target, outcome.count),
            failures=self.failures + (failed if outcome.wrong else []),
            commits=[*self.commits, *([now] if now not in self.commits else [])],
        )


def more(counts: dict[str, int], name: str, by: int) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + by}


@dataclass(frozen=True, kw_only=True)
class AttackResult(Result):
    """`make attack`."""

    command: ClassVar[str] = "attack"
    kinds: dict[str, Tally]

    def section(self, name: str) -> Section:
        header = ["attack", "cases", "attacks", "of which", "held", "did not hold", "mended"]
        rows = []
        for kind, tally in self.kinds.items():
            groups = sorted(tally.groups.items(), key=lambda g: -g[1])
            parts = ", ".join(f"{name} {count:,}" for name, count in groups)
            failed = len(tally.failures)
            cases = f"{tally.done:,}" + (f" of {tally.asked:,}" if tally.done < tally.asked else "")
            held = f"{tally.done - failed:,}"
            row = [
                kind,
                cases,
                f"{tally.attacks:,}",
                parts,
                held,
                f"{failed:,}",
                f"{tally.mended:,}",
            ]
            rows.append(row)
        said = [
            "`make attack`; the page on reliability says what is done in each and what must "
            "hold. Mended: cases that did not hold at first, and do since."
        ]
        for kind, tally in self.kinds.items():
            said += [f"{kind}, case {f.case}: {'; '.join(f.wrong)}." for f in tally.failures[:20]]
        return Section("Attacks", header, rows, said)


Case = Callable[[int, int, Path], Outcome]  # number, seed, a folder to work in


@dataclass
class Campaign:
    """Runs kinds of attack, keeps what was found in a file, and goes on from it."""

    seed: int
    home: Path
    out: Path = OUT
    saved: float = 0.0

    def read(self) -> AttackResult:
        return AttackResult.read(self.out) if self.out.is_file() else AttackResult(kinds={})

    def run(self, kind: str, case: Case, asked: int, seconds: float) -> Tally:
        """Try earlier failures again, then go on with new cases, for at most so long."""
        until = time.monotonic() + seconds
        tally = self.read().kinds.get(kind)
        if tally is None or tally.seed != self.seed:
            tally = Tally(self.seed, asked)
        tally = self.again(kind, case, replace(tally, asked=max(asked, tally.asked)), until)
        for index in range(tally.done, asked):
            if time.monotonic() > until:
                break
            outcome = case(index, self.seed, self.home / kind)
            if outcome.wrong:
                print(
                    f"{kind} {index}: {'; '.join(outcome.wrong)}\n    {outcome.shown}", flush=True
                )
            tally = tally.plus(index, outcome)
            self.keep(kind, tally)
        self.keep(kind, tally, last=True)
        return tally

    def again(self, kind: str, case: Case, tally: Tally, until: float) -> Tally:
        """Repeat the cases that failed: what holds now is mended."""
        for failure in tally.failures:
            if time.monotonic() > until:
                break
            outcome = case(failure.case, self.seed, self.home / kind)
            rest = [f for f in tally.failures if f.case != failure.case]
            if outcome.wrong:
                rest.append(Failure(failure.case, outcome.shown, outcome.wrong, outcome.said))
            mended = tally.mended + (not outcome.wrong)
            tally = replace(tally, failures=sorted(rest, key=lambda f: f.case), mended=mended)
        return tally

    def keep(self, kind: str, tally: Tally, last: bool = False) -> None:
        """Write the file, now and then; another process may attack in another way meanwhile."""
        if last or time.monotonic() - self.saved > 10:
            self.saved = time.monotonic()
            with lock(place.HOME / "result.lock"):
                kinds = {**self.read().kinds, kind: tally}
                AttackResult(kinds=kinds).stamped("cpu", "fp32").save(self.out)
