"""The canvas: rows being written, and the network that is asked about some of their positions.

The vocabulary head and the fp64 draw run on just the positions that get a token, and a row that has
not changed since its last pass is not passed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from adlm import device as devices
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser, States
from adlm.nn.context import Context
from adlm.process.kernel import Kernel, Mask
from adlm.process.schedule import LogLinear
from adlm.samplers.categorical import Draw
from adlm.samplers.random import RowRandom

ELEMENTS = 1 << 22  # logits worked on at once: 32 MiB in fp64, about a processor's cache
GPU_ELEMENTS = 1 << 26
Use = Callable[..., tuple[Tensor, ...]]  # of (n, V) logits and more of n


@dataclass
class Canvas:
    """Rows being written. Frozen positions are never touched.

    A part may be in focus: only its block is written, and only its window is shown to the network.
    """

    z: Tensor  # (B, L) tokens, the mask where nothing is written yet
    frozen: Tensor  # (B, L) bool
    mask: int
    model: Denoiser
    draw: Draw
    random: RowRandom
    precision: str = "fp32"
    device: str = ""  # the network's, where it is not the canvas's own: fp64 has to be there
    conditioned: bool = False  # does the network see the noise level?
    noise: Kernel | None = None  # what noise is to the network; None: the mask
    reads: bool = False  # may it predict the mask, and reads the text off z_0?
    alpha: Tensor = field(init=False)  # (B,) share of visible tokens at the present time
    chance: Tensor = field(init=False)  # (B, L) uniform numbers of this step, for positions
    token_chance: Tensor = field(init=False)  # (B, L) and for tokens
    nfe: Tensor = field(init=False)  # (B,) network passes of each row
    heads: int = field(init=False, default=0)  # positions at which a vocabulary head was computed
    kernel: Kernel = field(init=False)
    probability: Tensor = field(init=False)  # (B, L) of a token when it was written
    block: slice = field(init=False, default_factory=lambda: slice(None))
    window: slice = field(init=False, default_factory=lambda: slice(None))
    _hidden: Tensor | None = field(init=False, default=None)  # (B, L, D) of the last pass
    _anchor: Tensor | None = field(init=False, default=None)  # (B, L, D) the anchor network's
    _stale: Tensor = field(init=False)  # (B,) has the row changed since?

    def __post_init__(self) -> None:
        self.device = self.device or str(self.z.device)
        size = self.model.head.out_features
        self.kernel = self.noise or Mask(LogLinear(), self.mask, size)
        self.alpha = torch.zeros(len(self.z), dtype=torch.float64, device=self.z.device)
        self.nfe = torch.zeros(len(self.z), dtype=torch.long)
        self.probability = torch.ones(self.z.shape, dtype=torch.float64)
        self._stale = torch.ones(len(self.z), dtype=torch.bool)

    def start(self) -> None:
        """Fill what may be written with noise, where that is not the mask."""
        if self.kernel.uniform:
            self.next_step()
            drawn = self.kernel.start(self.chance, self.token_chance)
            even = torch.full_like(self.chance, 1 / self.kernel.real)
            self.change(self.free, drawn[self.free], even[self.free])

    def next_step(self) -> None:
        """Draw a step's randomness: as much for every row, whatever happens in it."""
        length = self.z.shape[1]
        both = self.random.uniform(2 * length).to(self.z.device)
        self.chance, self.token_chance = both.split(length, dim=1)

    def tell(self, alpha: Tensor) -> None:
        """Set the share of visible tokens, (B,), of which a conditioned network is told."""
        if self.conditioned:
            self._stale |= (alpha != self.alpha).cpu()
        self.alpha = alpha

    def focus(self, block: slice, window: slice) -> None:
        """From here on only `block` is written, seen through `window`."""
        if window != self.window:
            self._stale[:] = True
        self.block, self.window = block, window

    @property
    def free(self) -> Tensor:
        """(B, L) positions that may change now."""
        inside = torch.zeros_like(self.frozen)
        inside[:, self.block] = True
        return inside & ~self.frozen

    @property
    def shown(self) -> Tensor:
        """(B,) the share of the window that is not masked."""
        return (self.z[:, self.window] != self.mask).double().mean(dim=1)

    @property
    def open(self) -> Tensor:
        """(B, L) positions that wait for a token."""
        return (self.z == self.mask) & self.free

    @property
    def written(self) -> Tensor:
        """(B, L) positions that the sampler has written and may take back."""
        return (self.z != self.mask) & self.free

    def look(self, positions: Tensor) -> None:
        """Pass the rows with such positions, (B, L) bool, that have changed since their last."""
        wanted = positions.any(dim=1).cpu() & self._stale
        if not wanted.any():
            return
        rows = wanted.nonzero()[:, 0].to(self.z.device)
        with torch.no_grad(), devices.autocast(self.precision, self.device):
            states = self.states(rows)
        if states.anchor is not None:
            self._anchor = self._keep(self._anchor, rows, states.anchor)
        self._hidden = self._keep(self._hidden, rows, states.denoiser)
        self.nfe += wanted
        self._stale &= ~wanted

    def states(self, rows: Tensor) -> States:
        """Pass these rows, (n,), seen through the window."""
        seen = self.z[rows][:, self.window].to(self.device)
        return self.model(seen, Context(sigma=self.sigma(rows)))

    def sigma(self, rows: Tensor) -> Tensor | None:
        """Return the noise level of some rows, (n,), where the network sees it."""
        level = self.kernel.level(self.alpha[rows].float())
        return level.to(self.device) if self.conditioned else None

    def _keep(self, store: Tensor | None, rows: Tensor, h: Tensor) -> Tensor:
        h = h.to(self.z.device)
        if store is None:
            store = h.new_zeros(
                *self.z.shape, h.shape[-1], dtype=torch.promote_types(h.dtype, torch.float32)
            )
        store[rows[:, None], torch.arange(self.z.shape[1], device=rows.device)[self.window]] = h.to(
            store.dtype
        )
        return store

    def ask(
        self, use: Use, positions: Tensor, *given: Tensor, anchor: bool = False
    ) -> tuple[Tensor, ...]:
        """use(logits, *given) at positions, (B, L) bool; `given` is (B, L), the results (N,) each.

        A few positions at a time: (n, V) logits of theirs are all that exist at once. With `anchor`
        they are the anchor network's.
        """
        self.look(positions)
        self.heads += int(positions.sum())
        states, head = self._hidden, self.model.head
        if anchor:
            assert isinstance(self.model, Anchored)
            states, head = self._anchor, self.model.anchor_head
        assert states is not None
        few = max(1, (GPU_ELEMENTS if states.is_cuda else ELEMENTS) // head.out_features)
        parts = []
        for h, *some in zip(*(x[positions].split(few) for x in (states, *given)), strict=True):
            with torch.no_grad(), devices.autocast(self.precision, self.device):
                logits = head(h.to(self.device))  # (n, V)
            parts.append(use(logits.to(self.z.device), *some))
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def propose(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Return a drawn token and its probability for each of the positions: (N,) each."""
        return self.ask(partial(self.draw, forbid=self.mask), positions, self.token_chance)

    def fill(self, positions: Tensor) -> None:
        """Draw and write tokens at positions: (B, L) bool."""
        if positions.any():
            self.write(positions, *self.propose(positions))

    def write(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put tokens at positions: (B, L) bool."""
        if positions.any():
            assert not (positions & self.frozen).any()
            self.z = self.z.masked_scatter(positions, tokens)
            self.probability[positions.cpu()] = probability.cpu()
            self._stale |= positions.any(dim=1).cpu()

    def change(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put tokens, the mask among them, where they differ from what stands there."""
        differ = tokens != self.z[positions]
        moved = positions.clone()
        moved[positions] = differ
        self.write(moved, tokens[differ], probability[differ])

    def remask(self, positions: Tensor) -> None:
        """Take tokens back: (B, L) bool."""
        if positions.any():
            assert not (positions & self.frozen).any()
            self.z = self.z.masked_fill(positions, self.mask)
            self._stale |= positions.any(dim=1).cpu()
