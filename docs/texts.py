"""What is said of a result file: results/NAME.txt is a template, filled from results/NAME.json.

No figure is typed. A number of the text stands in braces, as an expression with an optional format
after a colon, and is looked up or computed from the file beside it when the pages are built:

    MDLM ends at {ppl("MDLM")}, ADLM {percent(lead("ADLM", "MDLM"))} lower; after {million(1.5e6)}
    tokens it was {percent(lead("ADLM", "MDLM", 1.5e6), 0)}. In one run it has {mean("ADLM"):.1f}.

What an expression may use (`Facts` below has the list, each with its meaning): the rows of a study
by their names, `setting("ADLM", "anchor.gamma")` for what was configured, `value("machine",
"cores")` for anything else in the file, `file("study-anchoring")` for another file's facts (then
`.ppl("MDLM")` and the rest), `published("prosqa", "Coconut")` for figures of the literature, and
min, max, abs, round, len. A name that the file does not have is an error: a text cannot outlive its
figures.

Outside braces a digit may stand only in `code`, in a fenced block, in a name such as A2R or GPT-2,
and in what KINDS lists; `typed` finds all others, and a test asks it. Paragraphs are wrapped anew.
"""

from __future__ import annotations

import math
import re
import textwrap
from functools import reduce
from pathlib import Path
from typing import Any

from adlm.eval import paper
from adlm.eval.report import result_of
from adlm.eval.seeds import interval
from adlm.results import Result, read_json
from adlm.studies.lasting_result import Gap, Trend
from adlm.studies.result import StudyPair, StudyRow
from adlm.viz.table import spread

RESULTS = Path(__file__).parents[1] / "results"
WIDTH = 104
FENCE = re.compile(r"(```.*?```)", re.DOTALL)
PLACE = re.compile(r"\{([^{}]+?)(?::([,+.\w%]+))?\}")
# numbers that are no figures: which seed, how sure an interval is, where something stands
KINDS = re.compile(r"seeds? \d+|95 % interval|(?:Table|Section|Theorem|Proposition) [\d.]+")
NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)\d[\w.,-]*")
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class Facts:
    """What the text of one result file may say."""

    def __init__(self, result: Result):
        self.result = result
        rows = getattr(result, "rows", [])
        rows = rows if isinstance(rows, list) else []  # of a likelihood: how many
        self.rows: dict[str, Any] = {getattr(r, "row", None) or r.method: r for r in rows}

    def value(self, *path: str | int) -> Any:
        """Anything in the file, by fields, keys and places."""
        return reduce(into, path, self.result)

    def row(self, name: str) -> Any:
        """A row of a study, by its name or method."""
        if name not in self.rows:
            raise KeyError(f"there is no row {name!r} among {list(self.rows)}")
        return self.rows[name]

    def setting(self, name: str, path: str) -> Any:
        """What a row was configured with: setting("ADLM", "anchor.gamma")."""
        row = self.row(name)
        stored = row.config if isinstance(row, StudyRow) else row.plan["settings"]
        return reduce(into, path.split("."), stored)

    def mean(self, name: str) -> float:
        """Mean over seeds: test PPL, or the share of right answers."""
        return self.row(name).mean

    def sd(self, name: str) -> float | None:
        """Its standard deviation over seeds."""
        return self.row(name).sd

    def ppl(self, name: str) -> str:
        """Test PPL as it is written: mean ± sd, where there is more than one seed."""
        return f"{self.mean(name):.2f}{spread(self.sd(name))}"

    def valid(self, name: str, tokens: float) -> float:
        """Validation PPL where a row's training was nearest to so many tokens."""
        curve = self.row(name).curve
        gaps = [abs(t - tokens) for t in curve.tokens]
        return math.exp(curve.valid_nll_mean[gaps.index(min(gaps))])

    def lead(self, name: str, other: str, tokens: float | None = None) -> float:
        """By what share a row's test PPL (or validation PPL, after tokens) is below another's."""
        if tokens is None:
            return 1 - self.mean(name) / self.mean(other)
        return 1 - self.valid(name, tokens) / self.valid(other, tokens)

    def seeds(self, name: str) -> str:
        """How many seeds a row has, as a word."""
        return word(len(self.row(name).seeds))

    def tokens(self, name: str) -> str:
        """What a row was trained on, in millions."""
        return million(self.row(name).tokens)

    def ratio(self, name: str, other: str, what: str) -> float:
        """How many times another row's "parameters", "tokens", "training_flops" a row has."""
        return getattr(self.row(name), what) / getattr(self.row(other), what)

    def against(self, name: str, other: str) -> StudyPair:
        """The seed-by-seed comparison of two rows: its `test_ppl` differences and `ci95`."""
        pairs = self.value("pairs")
        return next(p for p in pairs if (p.row, p.against) == (name, other))

    def apart(self, name: str, other: str) -> str:
        """How far two rows are apart, seed by seed: "+0.13, 95 % interval -0.10 to +0.36"."""
        pair = self.against(name, other)
        mean = sum(pair.test_ppl) / len(pair.test_ppl)
        ends = f", 95 % interval {pair.ci95[0]:+.2f} to {pair.ci95[1]:+.2f}" if pair.ci95 else ""
        return f"{mean:+.2f}{ends}"

    def gap(self, candidate: str, size: str, tokens: float) -> Gap:
        """How far a candidate of study lasting is ahead of MDLM: gap("deep", "nano", 6e6).mean."""
        return next(
            g
            for g in self.value("gaps")
            if (g.candidate, g.size, g.tokens) == (candidate, size, tokens)
        )

    def seeds_apart(self) -> float:
        """By what share the validation PPL of a row's worst seed is above its best's, at most."""
        each = [[run.valid_ppl for run in row.runs] for row in self.rows.values()]
        return max(max(seeds) / min(seeds) for seeds in each) - 1

    def below(self, case: int, other: int) -> float:
        """By what share the generative PPL of one case is below another's."""
        cases = self.value("cases")
        return 1 - cases[case].generative_ppl / cases[other].generative_ppl

    def written(self, model: str, sampler: str, what: str) -> dict[str, float]:
        """A figure of what a model's seeds wrote: written("mdlm-24M", "remdm-cap", "mauve")."""
        cases = [c for c in self.value("cases") if c.sampler == sampler]
        found = {Path(c.checkpoint).name: getattr(c, what) for c in cases}
        start = f"{model}-seed"
        return {run.removeprefix(start): v for run, v in found.items() if run.startswith(start)}

    def trend(self, candidate: str, size: str) -> Trend:
        """Where that goes: trend("deep", "nano").doubling, in points of percent."""
        return next(t for t in self.value("trends") if (t.candidate, t.size) == (candidate, size))


def over(one: dict[str, float], other: dict[str, float]) -> str:
    """By how many percent one figure is above another, seed by seed, with the mean's interval.

    Example:
        >>> over({"0": 11.0, "1": 12.0, "2": 13.0}, {"0": 10.0, "1": 10.0, "2": 10.0})
        '+20 % (95 % interval -5 to +45)'
    """
    seeds = sorted(one)
    if seeds != sorted(other):
        raise KeyError(f"seeds {seeds} and {sorted(other)}")
    ratios = [100 * (one[seed] / other[seed] - 1) for seed in seeds]
    ends = interval(ratios)
    if not ends:
        raise ValueError("an interval takes three seeds")
    return f"{sum(ratios) / len(ratios):+.0f} % (95 % interval {ends[0]:+.0f} to {ends[1]:+.0f})"


def mean_of(found: dict[str, float]) -> float:
    """The mean over seeds."""
    return sum(found.values()) / len(found)


def into(found: Any, key: str | int) -> Any:
    """A field, a key or a place."""
    return found[key] if isinstance(found, dict | list) else getattr(found, str(key))


def percent(share: float, digits: int = 1) -> str:
    """A share as it is written.

    Example:
        >>> percent(0.0693), percent(0.23, 0)
        ('6.9 %', '23 %')
    """
    return f"{100 * share:.{digits}f} %"


def million(count: float) -> str:
    """A count in millions: "6 M", "1.5 M"."""
    return f"{count / 1e6:.1f}".removesuffix(".0") + " M"


def word(count: int) -> str:
    """A small number in letters."""
    return WORDS[count]


def each(values: list[float], digits: int = 2) -> str:
    """Numbers one after the other."""
    return ", ".join(f"{v:.{digits}f}" for v in values)


def published(task: str, method: str) -> float:
    """A share of right answers as published."""
    return paper.REASONING[task][method]


def file(name: str) -> Facts:
    """The facts of another result file."""
    path = RESULTS / f"{name}.json"
    return Facts(result_of(read_json(path), path))


HELPERS = {f.__name__: f for f in (percent, million, word, each, over, mean_of, published, file)}
HELPERS |= {f.__name__: f for f in (min, max, abs, round, len)}


def fill(text: str, facts: Facts) -> str:
    """The text with its figures.

    Example:
        >>> fill('It has {million(1.5e6)} tokens.', Facts(Result()))
        'It has 1.5 M tokens.'
    """
    methods = {n: getattr(facts, n) for n in dir(facts) if not n.startswith("_")}
    known = {**HELPERS, **methods, "__builtins__": {}}

    def figure(found: re.Match[str]) -> str:
        asked = " ".join(found[1].split())  # a line may end anywhere
        try:
            return format(eval(asked, known), found[2] or "")  # a template is a source of ours
        except Exception as error:
            reason = " ".join(map(str, error.args))
            raise ValueError(f"{found[0]}: {type(error).__name__}: {reason}") from None

    return "".join(
        part if FENCE.fullmatch(part) else wrapped(PLACE.sub(figure, part))
        for part in FENCE.split(text)
    )


def wrapped(text: str) -> str:
    """Every paragraph in lines of at most WIDTH; a figure and its sign stay together."""
    paragraphs = re.split(r"(\n\s*\n)", re.sub(r"(?<=\d) (?=[%±])|(?<=±) ", "\0", text))
    lines = [
        p
        if not p.strip()
        else textwrap.fill(p.strip(), WIDTH, break_long_words=False, break_on_hyphens=False)
        for p in paragraphs
    ]
    return "".join(lines).replace("\0", " ")


def typed(text: str) -> list[str]:
    """Numbers that stand in a template as such, though they are figures.

    Example:
        >>> typed('A2R with seed 0 has `tau 5` and {mean("A2R"):.2f}: 93 %, 3e-3, -2.04')
        ['93', '3e-3', '2.04']
    """
    for known in (FENCE, PLACE, re.compile(r"`[^`]*`"), KINDS):
        text = known.sub(" ", text)
    return [n.rstrip(".,") for n in NUMBER.findall(text)]


def read(name: str) -> str | None:
    """results/NAME.txt with its figures; None where there is none."""
    path = RESULTS / f"{name}.txt"
    return fill(path.read_text(encoding="utf-8").strip(), file(name)) if path.is_file() else None
