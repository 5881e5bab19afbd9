"""Does what helps go on helping? Candidates against the best MDLM, at equal training FLOPs.

A budget is a number of tokens on which MDLM is trained; a candidate is trained on as many as take
the same FLOPs. All of them are tried once at the first budget and size; the best by validation PPL
are promoted to every budget, size and seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from adlm.config import AnchorConfig, Config, check
from adlm.data.corpus import open_vocab
from adlm.errors import UserError, nearest
from adlm.models.cost import training_flops
from adlm.models.size import match, resize
from adlm.recipes import recipe
from adlm.studies.anchoring import budget
from adlm.studies.halving import BASE, HalvingStudy, Place
from adlm.studies.language import shared
from adlm.studies.lasting_result import LastingResult
from adlm.studies.runner import StudySettings

OTHERS = ("anchoring", "baselines", "times", "ablate")  # studies that may have runs of the same


@dataclass(frozen=True)
class LastingSettings(StudySettings):
    """What the study is told.

    Attributes:
        tokens: Training tokens of MDLM at the first budget.
        further: How many further budgets there are.
        growth: How many times the budget before each of them is.
        sizes: Sizes of the dial, as a list; all candidates are tried at the first one.
        promote: How many candidates go on after the first budget; 0 = all.
        only: Run only these candidates, as a list: '[deep, loops]'; all by default. What `out`
            knows of others, and of other sizes and budgets, stays in the result.
        share: Result files of other studies, as a list: of those, runs with a row's configuration
            and seed are not done again; by default the other studies' files beside `out`.
    """

    further: int = 2
    growth: int = 2
    sizes: list[str] = field(default_factory=lambda: ["nano", "micro"])
    promote: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.further <= 20, "--further", self.further, "from 0 to 20")
        check(2 <= self.growth <= 100, "--growth", self.growth, "from 2 to 100")
        check(self.promote >= 0, "--promote", self.promote, "0 (all candidates) or more")
        check(len(self.sizes) >= 1, "--sizes", self.sizes, "at least one size")

    @property
    def budgets(self) -> list[int]:
        return [self.tokens * self.growth**i for i in range(self.further + 1)]

    @property
    def others(self) -> tuple[Path, ...]:
        """The result files of other studies."""
        if self.share is not None:
            return shared(self.share)
        found = (Path(self.out).with_name(f"study-{name}.json") for name in OTHERS)
        return tuple(path for path in found if path.is_file())


def candidates(size: str, vocab: int) -> dict[str, Config]:
    """Name -> configuration at a size of the dial; MDLM first. No comma: --only is a list."""
    mdlm = recipe("laptop-mdlm")
    made = {BASE: mdlm, "deep": recipe("laptop-deep"), "ADLM": recipe("laptop-adlm")}
    for sign, name in ((1, "rare longer"), (-1, "frequent longer")):  # visible
        for much in (1, 0.5):
            made[f"{name} {much}"] = ordered(mdlm, sign * much)
        made[f"{name} 1 tilted"] = ordered(mdlm, sign, tilt=True)
        made[f"{name} 1 by bound"] = ordered(mdlm, sign, times="stratified", weight="bound")
    rule = replace(mdlm, anchor=AnchorConfig(rule="corpus"))
    made["anchors longer 1"] = ordered(rule, 1, order_by="anchors")
    made["chance longer 1"] = ordered(mdlm, 1, order_by="chance")  # the control of the order
    made["narrow bell"] = process(mdlm, times="bell:0.5:0.05")
    made["MDLM by bound"] = process(mdlm, times="stratified", weight="bound")
    made["loops"] = replace(mdlm, model=replace(mdlm.model, loops=4))
    made["self-conditioning"] = replace(mdlm, model=replace(mdlm.model, recall=0.5))
    made["complementary"] = process(mdlm, complement=True)
    for block in (4, 8, 16):
        made[f"BD3-LM ({block})"] = process(recipe("laptop-bd3lm"), block=block)
        made[f"BD3-LM ({block}) anchored"] = process(recipe("laptop-bd3lm-anchored"), block=block)
    sized = {name: resize(config, size) for name, config in made.items()}
    sized["larger MDLM"] = match(sized["ADLM"], vocab, by="params")  # the control of ADLM's size
    return sized


def process(config: Config, **changes: Any) -> Config:
    """Return a configuration with another process."""
    return replace(config, process=replace(config.process, **changes))


def ordered(mdlm: Config, order: float, **changes: Any) -> Config:
    """Return MDLM with rare tokens, or anchors, visible longer (order above 0) or less long."""
    return process(replace(mdlm, objective="order"), order=float(order), **changes)


def checked(only: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return names of candidates, or raise UserError where one is none."""
    for name in only:
        if name not in known:
            raise UserError(f"the study has no candidate '{name}'{nearest(name, known)}")
    return tuple(only)


def places_of(result: Path) -> list[tuple[str, int]]:
    """Return the sizes and budgets of an earlier result; none where there is no such file."""
    if not result.is_file():
        return []
    return [(gap.size, gap.tokens) for gap in LastingResult.read(result).gaps]


def study(settings: LastingSettings) -> HalvingStudy:
    """Return every candidate at every size and budget, of which the promoted ones are run.

    What the earlier result has at other sizes and budgets is not run, and stays.
    """
    rows: dict[str, Config] = {}
    places: dict[str, Place] = {}
    seeds: dict[str, int] = {}
    vocab = open_vocab(recipe("laptop-mdlm").data).size
    asked = list(itertools.product(settings.sizes, settings.budgets))
    for size, tokens in dict.fromkeys([*asked, *places_of(Path(settings.out))]):
        known = candidates(size, vocab)
        base = training_flops(known[BASE], vocab)
        for name, config in known.items():
            label = f"{name}, {size}, {tokens / 1e6:g} M"
            rows[label] = budget(config, round(tokens * base / training_flops(config, vocab)))
            places[label] = Place(name, size, tokens)
            seeds[label] = settings.seeds if (size, tokens) in asked else 0
    return HalvingStudy(
        name="lasting",
        home=Path(settings.home),
        asked=checked(settings.only or (), known),
        rows=rows,
        places=places,
        seeds=seeds,
        promote=settings.promote,
        before=Path(settings.out),
        share=settings.others,
        tokens=settings.tokens,
        keep=settings.keep,
    )
