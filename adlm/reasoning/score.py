"""How good the answers are: exact match, sound traces, anchors, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from adlm.data.vocab import Vocab
from adlm.models.denoiser import Denoiser
from adlm.reasoning.decode import Decoded, batches, greedy
from adlm.reasoning.item import Item
from adlm.reasoning.methods.base import Method, Stage
from adlm.reasoning.sequence import IGNORE, Row
from adlm.reasoning.tasks.base import Task
from adlm.reasoning.vocab import ANSWER, MARKS, pieces


@dataclass(frozen=True)
class Attempt:
    """One problem, solved or not."""

    item: Item
    trace: str
    answer: str
    right: bool
    sound: bool | None  # does the trace prove the right answer? None = there is no trace
    tokens: int  # generated, EOS not counted
    slots: list[str]  # the likeliest word at each slot
    hits: int  # slots whose anchor is right
    anchors: int  # slots that have one
    fits: bool = True  # False: the question is longer than the model can read


@dataclass(frozen=True)
class Solver:
    """A trained model with what it needs to solve a task's items."""

    model: Denoiser
    vocab: Vocab
    task: Task
    method: Method
    stage: Stage  # the last one of its plan
    length: int  # positions that the model has
    limit: int  # tokens that it may generate
    device: str = "cpu"
    precision: str = "fp32"

    def solve(
        self, items: list[Item], batch: int = 64, told: Callable[[int], None] | None = None
    ) -> list[Attempt]:
        """Return all items, in their order."""
        rows = [self.method.row(pieces(i, self.vocab), self.stage, self.vocab) for i in items]
        fit = [i for i, r in enumerate(rows) if r.prompt + self.limit <= self.length]
        out = [Attempt(i, "", "", False, None, 0, [], 0, 0, fits=False) for i in items]
        done = 0
        for part in batches([rows[i] for i in fit], batch):
            chosen = [fit[i] for i in part]
            prompts = [rows[i] for i in chosen]
            made = greedy(
                self.model, prompts, self.vocab.eos, self.limit, self.precision, self.device
            )
            for i, decoded in zip(chosen, made, strict=True):
                out[i] = self.judge(items[i], rows[i], decoded)
            done += len(part)
            if told:
                told(done)
        return out

    def judge(self, item: Item, row: Row, decoded: Decoded) -> Attempt:
        text = self.vocab.decode(decoded.ids)
        trace, mark, answer = text.rpartition(ANSWER)
        labels = row.labels[row.question : row.prompt]
        pairs = [(a, b) for a, b in zip(labels, decoded.slots, strict=True) if a != IGNORE]
        right = bool(mark) and decoded.finished and self.task.same(answer, item.answer)
        traced = bool(trace.strip())
        inside = zip(row.ids[row.question : row.prompt], decoded.slots, strict=True)
        marks = {self.vocab.tokenizer.token_to_id(m) for m in MARKS}
        return Attempt(
            item,
            trace.strip(),
            answer.strip(),
            right,
            self.task.sound(item.question, trace, item.answer) if traced else None,
            len(decoded.ids),
            [self.vocab.tokenizer.id_to_token(t) or "" for i, t in inside if i not in marks],
            sum(a == b for a, b in pairs),
            len(pairs),
        )


def wilson(right: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson interval of a share: it stays in [0, 1] and is honest at both ends.

    Example:
        >>> [round(x, 3) for x in wilson(9, 10)]
        [0.596, 0.982]
        >>> wilson(0, 0)
        (0.0, 1.0)
    """
    if not count:
        return 0.0, 1.0
    p, n = right / count, count
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How well problems were solved, and what it cost."""

    items: int
    right: int
    accuracy: float
    interval: tuple[float, float]  # 95 %, Wilson
    sound_traces: float | None  # share of the traces; None = there is none
    tokens: float  # generated, of an item
    slots: float  # of an item
    anchor_recall: float | None  # share of the anchors that a slot predicts
    too_long: int  # questions; counted as wrong


def tally(attempts: list[Attempt]) -> Tally:
    """Count what became of the problems."""
    right = sum(a.right for a in attempts)
    traced = [a for a in attempts if a.sound is not None]
    anchors = sum(a.anchors for a in attempts)
    fitting = [a for a in attempts if a.fits]
    return Tally(
        items=len(attempts),
        right=right,
        accuracy=right / len(attempts),
        interval=wilson(right, len(attempts)),
        sound_traces=sum(bool(a.sound) for a in traced) / len(traced) if traced else None,
        tokens=sum(a.tokens for a in fitting) / max(1, len(fitting)),
        slots=sum(len(a.slots) for a in fitting) / max(1, len(fitting)),
        anchor_recall=sum(a.hits for a in attempts) / anchors if anchors else None,
        too_long=len(attempts) - len(fitting),
    )
