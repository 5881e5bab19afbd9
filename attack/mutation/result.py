"""results/mutation.json: what became of each mutant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from adlm.results import Result
from adlm.viz.page import Section


@dataclass(frozen=True)
class Verdict:
    """One mutant, and the test that noticed it."""

    file: str
    line: int
    before: str
    after: str
    killed: bool
    how: str  # the test that failed, "timeout", "import", or "" where none noticed
    tests: int  # that were run on it
    answer: str = ""  # of a survivor: why it is no fault


@dataclass(frozen=True, kw_only=True)
class MutationResult(Result):
    """`python -m attack.mutation`."""

    command: ClassVar[str] = "mutation"
    seed: int
    drawn: int  # of how many mutants the core has
    possible: int
    verdicts: list[Verdict]

    @property
    def killed(self) -> int:
        return sum(v.killed for v in self.verdicts)

    def section(self, name: str) -> Section:
        groups: dict[str, Counter[bool]] = {}
        for verdict in self.verdicts:
            part = "/".join(verdict.file.split("/")[:2])
            groups.setdefault(part, Counter())[verdict.killed] += 1
        rows = [[p, str(c.total()), str(c[True]), f"{c[True] / c.total():.0%}"]
                for p, c in sorted(groups.items())]  # fmt: skip
        total = len(self.verdicts)
        rows.append(["all", str(total), str(self.killed), f"{self.killed / max(1, total):.0%}"])
        said = [
            f"`python -m attack.mutation --seed {self.seed}`: {total} mutants drawn of the "
            f"{self.possible:,} that the core has; each is put to the tests that run its line."
        ]
        left = [v for v in self.verdicts if not v.killed]
        for v in left:
            why = v.answer or "not answered"
            said.append(f"`{v.file}:{v.line}`: `{v.before}` as `{v.after}` is not noticed: {why}.")
        return Section("Mutants of the core", ["part", "mutants", "noticed", "share"], rows, said)
