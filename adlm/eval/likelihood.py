"""`eval likelihood`: exact for AR, an upper bound for diffusion, and said to be so.

Rows that show where a document ends tell a diffusion model the lengths, so its bound is one given
the lengths, and is said to be; beside it stands the bound with the lengths coded
(`data/lengths.py`), which is the one to compare with an autoregressive model's likelihood.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

from adlm.config import Config, DataConfig
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.lengths import Lengths
from adlm.data.pack import Rows
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.eval.base import CheckpointResult, Scoring
from adlm.eval.figures import CodedFigures, Figures, OrderFigures
from adlm.eval.order import check_order, score_in_order
from adlm.models.checkpoint import Checkpoint
from adlm.models.hub import load_model
from adlm.objectives.base import Objective, make_objective
from adlm.objectives.likelihood import Likelihood, evaluator, length_nats, score, spread
from adlm.objectives.mdlm import of_bound
from adlm.registry import register
from adlm.viz.page import Section


@dataclass(frozen=True)
class DataChoice:
    """Which text is scored; what is not given is as the checkpoint was trained.

    Attributes:
        name: A named set, a file or folder, or hf:NAME (--data is short for it).
        dir: Folder that holds the named sets' files.
        field: Name of the text field.
        length: Tokens in a row.
        packing: wrap, document or pair.
        skip_long: Leave out pairs that are longer than a row.
        tokenizer: Must be the checkpoint's own; here to be checked.
        workers: Processes that tokenise; 0 = all cores.
    """

    name: str | None = None
    dir: str | None = None
    field: str | None = None
    length: int | None = None
    packing: Literal["wrap", "document", "pair"] | None = None
    skip_long: bool | None = None
    tokenizer: str | None = None
    workers: int | None = None

    def of(self, saved: Checkpoint) -> DataConfig:
        """Put what was given into the checkpoint's data settings."""
        given: dict[str, Any] = {k: v for k, v in vars(self).items() if v is not None}
        chosen = replace(saved.config.data, **given)
        if self.tokenizer is not None and open_vocab(chosen).hash != saved.vocab.hash:
            raise UserError(
                f"the tokenizer '{self.tokenizer}' is not the checkpoint's "
                f"({saved.config.data.tokenizer}): leave --data.tokenizer out"
            )
        if chosen.length > saved.config.data.length:
            raise UserError(
                f"--data.length {chosen.length} is beyond the {saved.config.data.length} tokens "
                "that the checkpoint was trained with"
            )
        return chosen


@dataclass(frozen=True)
class LikelihoodSettings(Scoring):
    """What is scored, and how.

    Attributes:
        data: Which text.
        split: Which part of it.
        estimator: auto takes exact-k where the model is time-agnostic; recipe keeps the training's,
            which is no bound where process.eps is above 0.
        order: Score also the exact NLL of writing one token after the other in this order, for
            masked diffusion: a pass for each token, so mind --limit.
    """

    data: DataChoice = DataChoice()
    split: Literal["train", "valid", "test"] = "test"
    estimator: Literal["auto", "recipe"] = "auto"
    order: Literal["confidence", "anchor-first", "left-to-right"] | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredText(Figures):
    """What was found on one text, and what kind of figure it is."""

    quantity: str
    exact: bool
    bound: bool = True
    given: str | None = None  # "length": a bound given the lengths of documents
    with_length: CodedFigures | None = None
    se_over: str = "rows"  # files of older versions do not say it
    documents: int | None = None
    se_monte_carlo: float | None = None
    rows: int
    tokens: int
    bytes: int
    bytes_counted: str = ""
    draws: int
    estimator: str
    seed: int

    @property
    def sign(self) -> str:
        """What stands before a figure: nothing, "at most", or "about" where it is no bound."""
        return "" if self.exact else "≤ " if self.bound else "~ "


@register("result", "eval likelihood")
@dataclass(frozen=True, kw_only=True)
class LikelihoodResult(ScoredText, CheckpointResult):
    """The likelihood of a text under a checkpoint."""

    command: ClassVar[str] = "eval likelihood"
    data: str
    split: str
    data_hash: str
    length: int
    packing: str
    limit: int
    parameters: int | None = None
    in_order: OrderFigures | None = None

    def section(self, name: str) -> Section:
        text = f"{self.data} ({self.split})"
        named: dict[str, Figures] = {text: self}
        notes = [
            f"{self.quantity}, {self.estimator}, {self.draws} draw(s) a row; "
            f"± is one standard error over {self.se_over}."
        ]
        if coded := self.with_length:
            named[f"{text}, lengths coded"] = coded
            notes.append(f"To be compared with AR is the row with coded lengths: {coded.code}.")
        rows = [
            [what, f.cell(self.sign), f"{self.sign}{f.bits_per_byte:.4f}", f"{self.tokens:,}"]
            for what, f in named.items()
        ]
        if exact := self.in_order:
            bits, counted = f"{exact.bits_per_byte:.4f}", f"{self.tokens:,}"
            rows.append([f"{text}, order {exact.order}", exact.cell(), bits, counted])
            notes.append("The figure of an order is exact: the NLL of writing in that order.")
        header = ["data", "PPL", "bits a byte", "tokens scored"]
        return Section(f"Likelihood: {name}", header, rows, notes)

    def text(self) -> str:
        said = (
            f"{self.data} ({self.split}): {self.line(self.sign)}\n"
            f"{self.quantity}; {self.tokens:,} tokens in {self.rows:,} rows, "
            f"{self.draws} draw(s), {self.estimator}; "
            f"± is one standard error over {self.documents:,} documents"
        )
        if coded := self.with_length:
            said += (
                f"\nwith the lengths coded: {coded.line(self.sign)}\n"
                f"this one compares with an autoregressive model's; {coded.code}"
            )
        return said + (f"\n{self.in_order.said()}" if self.in_order else "")


def measure(
    saved: Checkpoint, settings: LikelihoodSettings = LikelihoodSettings()
) -> LikelihoodResult:
    """Score a text under a checkpoint."""
    device, precision = settings.place()
    if settings.order:
        check_order(settings.order, saved.config)
    chosen = settings.data.of(saved)
    rows = open_rows(chosen, settings.split, saved.vocab)
    objective = (evaluator if settings.estimator == "auto" else recipe)(saved.config, saved.vocab)
    model = load_model(saved, device)
    index = spread(len(rows), settings.limit)
    how = (settings.draws, settings.seed, settings.batch, device, precision)
    found = score(model, objective, rows, index, *how)
    if not math.isfinite(found.nll):
        raise UserError(f"{saved.path} gives a likelihood that is not finite on {chosen.name}")
    told = describe(found, rows, objective, saved.lengths(), settings.seed)
    in_order = None
    if settings.order:
        where = (saved.vocab.mask, settings.batch, device, precision)
        exact = score_in_order(model, saved.config, rows, index, settings.order, *where)
        own, longest = asdict(figures(exact, told.bytes)), int(exact.tokens.max())
        in_order = OrderFigures(**own, order=settings.order, passes=longest)
    result = LikelihoodResult(
        **vars(told),
        data=chosen.name,
        split=settings.split,
        data_hash=rows.store.key,
        length=chosen.length,
        packing=chosen.packing,
        limit=settings.limit,
        parameters=sum(p.numel() for p in model.parameters()),
        in_order=in_order,
    )
    return result.of(saved).stamped(device, precision)


def recipe(config: Config, vocab: Vocab) -> Objective:
    """Make the objective that scores as the training did."""
    return make_objective(of_bound(config), vocab)


def describe(
    found: Likelihood, rows: Rows, objective: Objective, lengths: Lengths, seed: int
) -> ScoredText:
    """Say what was found, and what kind of figure it is."""
    tokens = int(found.tokens.sum())
    total = rows.scored_tokens
    every = tokens == total
    share = tokens / total
    text_bytes = rows.store.text_bytes if every else round(rows.store.text_bytes * share)
    given = rows.shows_ends and not objective.exact
    coded = None
    if given:
        whole = figures(found.plus(length_nats(rows, found.index, lengths)), text_bytes)
        coded = CodedFigures(**asdict(whole), code=str(lengths.cut(rows.length)))
    return ScoredText(
        **asdict(figures(found, text_bytes)),
        quantity=quantity(objective, given, answers=rows.given is not None),
        exact=objective.exact,
        bound=objective.bound,
        given="length" if given else None,
        with_length=coded,
        se_over="documents",
        documents=found.documents,
        se_monte_carlo=0.0 if objective.exact else _number(found.se_monte_carlo),
        rows=len(found.tokens),
        tokens=tokens,
        bytes=text_bytes,
        bytes_counted="exactly" if every else "in proportion to tokens",
        draws=found.nats.shape[1],
        estimator=objective.estimator,
        seed=seed,
    )


def figures(found: Likelihood, text_bytes: int) -> Figures:
    """Take nats, perplexity and bits from scored rows."""
    return Figures(
        nll_per_token=found.nll,
        ppl=_number(found.ppl),
        bits_per_byte=found.nll * float(found.tokens.sum()) / text_bytes / math.log(2),
        se_nll=_number(found.se),
        se_ppl=_number(found.ppl * found.se),
    )


def quantity(objective: Objective, given: bool, answers: bool = False) -> str:
    """What the figure is, in words.

    Example:
        >>> from adlm.objectives.ar import Autoregressive
        >>> quantity(Autoregressive, given=False)
        'NLL (exact)'
        >>> quantity(Autoregressive, given=False, answers=True)
        'NLL of the answers given their prompts (exact)'
    """
    what = "NLL of the answers given their prompts" if answers else "NLL"
    if objective.exact:
        return f"{what} (exact)"
    lengths = " and lengths" if answers else " given the lengths of documents"
    of = f"the {what}" + (lengths if given else "")
    return f"NELBO (upper bound of {of})" if objective.bound else f"estimate of {of}, no bound"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
