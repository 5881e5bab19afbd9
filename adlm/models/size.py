"""The one dial: a size's name gives width, depth, heads, learning rates and batch.

Also the plain model that costs as much as an anchored one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from adlm.config import AnchorConfig, Config
from adlm.errors import UserError, nearest
from adlm.models.cost import flops_per_token, head_share, parameters


@dataclass(frozen=True)
class Size:
    """What one position of the dial means."""

    width: int
    blocks: int
    heads: int
    lr: float  # AdamW's, where AdamW trains everything
    muon_lr: float
    batch: int  # rows in a step


SIZES = {
    "pico": Size(64, 4, 4, 5e-3, 0.01, 32),
    "nano": Size(128, 3, 4, 3e-3, 0.01, 32),
    "micro": Size(192, 6, 6, 2e-3, 0.01, 64),
    "tiny": Size(256, 8, 8, 1e-3, 0.01, 128),
    "small": Size(768, 12, 12, 3e-4, 0.01, 512),
    "medium": Size(1024, 24, 16, 2e-4, 0.01, 512),
}


def resize(config: Config, name: str) -> Config:
    """Return the configuration at another size of the dial.

    Example:
        >>> resize(Config(), "tiny").model.width
        256
        >>> from adlm.recipes import recipe
        >>> big = recipe("owt-adlm", "medium").model
        >>> big.anchor_blocks, big.blocks
        (24, 12)
    """
    if name not in SIZES:
        raise UserError(f"there is no size '{name}'{nearest(name, SIZES)}")
    size, old = SIZES[name], config.model
    # an anchored model keeps its proportions: both depths grow as the plain depth does
    plain = {s.width: s.blocks for s in SIZES.values()}
    before = (
        plain.get(old.width, old.blocks + old.anchor_blocks) if old.anchor_blocks else old.blocks
    )
    model = replace(
        old,
        width=size.width,
        heads=size.heads,
        blocks=max(1, round(old.blocks * size.blocks / before)),
        anchor_blocks=round(old.anchor_blocks * size.blocks / before),
    )
    optim = config.optim
    if optim.name == "adamw":
        optim = replace(optim, lr=size.lr)
    else:  # beside Muon, AdamW has the vectors and embeddings only
        optim = replace(optim, muon_lr=size.muon_lr)
    return replace(config, model=model, optim=optim, train=replace(config.train, batch=size.batch))


def match(config: Config, vocab_size: int, by: str = "params") -> Config:
    """The plain model (MDLM for ADLM, AR for A2R) of equal parameters or equal FLOPs a token.

    It has as many blocks as both networks together; the width is fitted, in steps that every head
    shares evenly.

    Example:
        >>> from adlm.recipes import recipe
        >>> plain = match(recipe("owt-adlm"), 50258, by="params")
        >>> plain.objective, plain.model.blocks, plain.model.width
        ('mdlm', 18, 936)
        >>> match(recipe("owt-adlm"), 50258, by="flops").model.width
        768
    """
    plain = {"adlm": "mdlm", "a2r": "ar"}.get(config.objective)
    if config.objective.startswith("adlm-"):
        plain = config.objective.removeprefix("adlm-")
    if plain is None:
        raise UserError(f"only an anchored model can be matched, found '{config.objective}'")
    if by not in ("params", "flops"):
        raise UserError(f"models are matched by params or flops, found '{by}'")

    def cost(c: Config) -> float:
        share = head_share(c)
        return (
            parameters(c, vocab_size) if by == "params" else flops_per_token(c, vocab_size, share)
        )

    m, step = config.model, 2 * config.model.heads
    depth = m.blocks + m.anchor_blocks
    bare = replace(m, anchor_blocks=0, bridge="linear", residual=False, shared=False)
    candidates = [
        replace(
            config,
            objective=plain,
            model=replace(bare, blocks=depth, width=width),
            anchor=AnchorConfig(),
            optim=replace(config.optim, bridge_lr=0.0),
        )
        for width in range(step, 3 * m.width, step)
    ]
    wanted = cost(config)
    above = bisect_left(candidates, wanted, key=cost)  # a wider one costs more
    near = candidates[max(0, above - 1) : above + 1]
    return min(near, key=lambda c: abs(cost(c) - wanted))
