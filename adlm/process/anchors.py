"""Which tokens are anchors: y = A(x). One registered function a rule, vectorised over the batch.

A rule maps a row's tokens to a (B, L) bool mask. Special tokens and padding are never anchors:
a rule sees them as not valid, and whatever it says of them does not count (with `anchor.compat`
BOS and EOS are tokens like others, as in the published code). `Anchors` sees to that,
and checks what a user's own function returns. A rule that reads the corpus table says so with
`@needs_table`; it is counted before the training and kept in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from adlm import registry
from adlm.config import AnchorConfig
from adlm.data.counts import CorpusCounts
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.registry import register

Rule = Callable[[Tensor, Tensor, AnchorConfig, CorpusCounts | None], Tensor]


def needs_table(rule: Rule) -> Rule:
    """Mark a rule that reads the corpus table."""
    rule.needs_table = True  # type: ignore[attr-defined]
    return rule


def reads_table(name: str) -> bool:
    """Does the rule of that name read the corpus table?

    A user's function that is not at hand counts as one that does not: only training needs it.
    """
    return registry.at_hand("anchors", name) and getattr(find(name), "needs_table", False)


def occurrences(x: Tensor, valid: Tensor) -> Tensor:
    """(B, L) how often each token occurs in its row, padding left out.

    Example:
        >>> x = torch.tensor([[7, 3, 7, 9]])
        >>> occurrences(x, x > 0)
        tensor([[2, 1, 2, 1]])
    """
    x = torch.where(valid, x, -1)
    ordered = x.sort(dim=1).values
    return torch.searchsorted(ordered, x, right=True) - torch.searchsorted(ordered, x)


@register("anchors", "count")
def count(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """The paper's rule: tokens that occur at most tau times in their row."""
    return occurrences(x, valid) <= config.tau


@register("anchors", "frequency")
def frequency(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """Tokens whose share of their row is at most `share`."""
    length = valid.sum(dim=1, keepdim=True)
    return occurrences(x, valid) <= config.share * length


@register("anchors", "corpus")
@needs_table
def corpus(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """The rarest tokens of the training corpus, up to `share` of all its tokens."""
    assert table is not None
    counts = table.tokens
    order = counts.argsort(stable=True)  # rarest first
    mass = counts[order].cumsum(0) / counts.sum()
    rare = torch.zeros_like(counts, dtype=torch.bool)
    rare[order] = mass <= config.share
    return rare[x]


@register("anchors", "tfidf")
@needs_table
def tfidf(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """The `share` of a row's tokens with the highest count * log(rows / rows with the token).

    Tokens of one score are in or out together, so a little more than the share may be in.
    """
    assert table is not None
    idf = torch.log(table.total / table.rows.clamp(min=1))
    score = torch.where(valid, occurrences(x, valid) * idf[x], -torch.inf)  # (B, L)
    wanted = (config.share * valid.sum(dim=1, keepdim=True)).ceil().long()  # (B, 1)
    ranked = score.sort(dim=1, descending=True).values
    lowest = ranked.gather(1, (wanted - 1).clamp(min=0))  # the score of the last one in
    return (score >= lowest) & (wanted > 0)


@register("anchors", "all")
def every(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """Every token: plain deep supervision, the control for any choice of anchors."""
    return torch.ones_like(valid)


@register("anchors", "none")
def none(x: Tensor, valid: Tensor, config: AnchorConfig, table: CorpusCounts | None) -> Tensor:
    """No token."""
    return torch.zeros_like(valid)


class Anchors:
    """A rule with its settings, ready for a vocabulary.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> vocab = byte_vocab()
        >>> x = torch.tensor([[1, 1, 2, vocab.eos]])
        >>> Anchors(AnchorConfig(tau=1), vocab)(x, x >= 0)
        tensor([[False, False,  True, False]])
    """

    def __init__(self, config: AnchorConfig, vocab: Vocab):
        self.config = config
        self.rule = find(config.rule)
        special = {vocab.mask, vocab.bos, vocab.eos, vocab.pad}
        self.special = [] if config.compat else sorted(special)
        self.size = vocab.size
        self.reads_table = getattr(self.rule, "needs_table", False)
        if ":" in config.rule:  # a user's function: see now that it works
            for rows, length in ((1, 4), (3, 7)):
                sample = torch.arange(rows * length).view(rows, length) % self.size
                self(sample, sample >= 0, CorpusCounts.even(self.size))

    def __call__(self, x: Tensor, valid: Tensor, table: CorpusCounts | None = None) -> Tensor:
        """x: (B, L) clean tokens, valid: (B, L) -> (B, L) bool; worked out where the table is."""
        here = x.device
        if self.reads_table:
            if table is None:
                raise UserError(f"the anchor rule '{self.config.rule}' needs a table of the corpus")
            if len(table.tokens) != self.size:
                raise UserError(
                    f"the corpus table has {len(table.tokens)} tokens, the vocabulary {self.size}"
                )
            x, valid = x.to(table.tokens.device), valid.to(table.tokens.device)
        special = torch.isin(x, torch.tensor(self.special, dtype=x.dtype, device=x.device))
        valid = valid & ~special
        try:
            # a user's function gets copies: whatever it does to them, the batch stays as it is
            own = ":" in self.config.rule
            given = (x.clone(), valid.clone()) if own else (x, valid)
            chosen = self.rule(*given, self.config, table)
        except (Exception, SystemExit) as error:
            if not own:
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise UserError(f"the anchor rule '{self.config.rule}' raised {reason}") from None
        if not isinstance(chosen, Tensor) or chosen.dtype != torch.bool or chosen.shape != x.shape:
            kind = getattr(chosen, "dtype", type(chosen).__name__)
            shape = tuple(getattr(chosen, "shape", ()))
            raise UserError(
                f"the anchor rule '{self.config.rule}' must return a bool tensor of shape "
                f"{tuple(x.shape)}, found {kind} of shape {shape}"
            )
        return (chosen & valid).to(here)


def find(name: str) -> Rule:
    """A registered rule, or a user's function, module:function, where that is allowed."""
    rule = registry.lookup("anchors", name)
    if not callable(rule):
        raise UserError(f"the anchor rule '{name}' must be a function, found {rule!r}")
    return rule
