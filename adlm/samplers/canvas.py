"""Canvas: rows being written, and the network that is asked for some of their positions.

Positions come before tokens: the vocabulary head and the fp64 draw run on just the positions that
get a token, and a row whose canvas has not changed since its last pass is not passed again. Numbers
stay on the device: the host waits for it once in `ask`, to know the positions, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from adlm import device as devices
from adlm.errors import UserError
from adlm.models.anchored import Anchored
from adlm.models.denoiser import Denoiser, States
from adlm.nn.context import Context
from adlm.nn.layout import PartLayout
from adlm.process.kernel import Kernel, Mask
from adlm.process.schedule import LogLinear
from adlm.samplers.cache import CacheSettings, Memory, Pass, anchor_every
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
    cache: CacheSettings = field(default_factory=CacheSettings)
    anchor_every: int = 1  # steps between two passes of an anchor network
    alpha: Tensor = field(init=False)  # (B,) share of visible tokens at the present time
    chance: Tensor = field(init=False)  # (B, L) uniform numbers of this step, for positions
    token_chance: Tensor = field(init=False)  # (B, L) and for tokens
    nfe: Tensor = field(init=False)  # (B,) network passes of each row
    passed: Tensor = field(init=False)  # (B,) positions of all its passes
    anchors_passed: Tensor = field(init=False)  # (B,) and of those of the anchor trunk
    heads: int = field(init=False, default=0)  # positions at which a vocabulary head was computed
    kernel: Kernel = field(init=False)
    probability: Tensor = field(init=False)  # (B, L) of a token when it was written
    block: slice = field(init=False, default_factory=lambda: slice(None))
    window: slice = field(init=False, default_factory=lambda: slice(None))
    clock: int = field(init=False, default=0)  # steps begun
    memory: Memory = field(init=False)
    finite: Tensor = field(init=False)  # () have all numbers that the network gave been finite?
    _changed: Tensor = field(init=False)  # (B, L) has the position changed since its row's pass?
    _stale: Tensor = field(init=False)  # (B,) has the row, or what it is told?

    def __post_init__(self) -> None:
        self.device = self.device or str(self.z.device)
        size = self.model.head.out_features
        self.kernel = self.noise or Mask(LogLinear(), self.mask, size)
        self.alpha = torch.zeros(len(self.z), dtype=torch.float64, device=self.z.device)
        self.nfe = torch.zeros(len(self.z), dtype=torch.long)
        self.passed, self.anchors_passed = torch.zeros_like(self.nfe), torch.zeros_like(self.nfe)
        self.probability = torch.ones(self.z.shape, dtype=torch.float64, device=self.z.device)
        rows, length = self.z.shape
        rest = anchor_every(self.model, self.anchor_every)
        self.finite = torch.ones((), dtype=torch.bool, device=self.z.device)
        self.memory = Memory(rows, length, self.cache, rest)
        self._changed = torch.zeros_like(self.frozen)
        self._stale = torch.ones(len(self.z), dtype=torch.bool, device=self.z.device)

    def start(self) -> None:
        """Fill what may be written with noise, where that is not the mask."""
        if self.kernel.uniform:
            self.next_step()
            drawn = self.kernel.start(self.chance, self.token_chance)
            even = torch.full_like(self.chance, 1 / self.kernel.real)
            self.place(self.free & (drawn != self.z), drawn, even)

    def next_step(self) -> None:
        """Draw a step's randomness: as much for every row, whatever happens in it."""
        self.clock += 1
        length = self.z.shape[1]
        both = self.random.uniform(2 * length).to(self.z.device)
        self.chance, self.token_chance = both.split(length, dim=1)

    def tell(self, alpha: Tensor) -> None:
        """Set the share of visible tokens, (B,), of which a conditioned network is told."""
        if self.conditioned:
            self._stale |= alpha != self.alpha
        self.alpha = alpha

    def focus(self, block: slice, window: slice) -> None:
        """From here on only `block` is written, seen through `window`."""
        if window != self.window or not self.memory.exact:
            self._stale[:] = True
            self.memory.forget()
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

    def look(self, positions: Tensor) -> np.ndarray:
        """Pass the rows with such positions, (B, L) bool, that have changed since their last.

        Returns the positions on the host, which waits for the device here and nowhere else.
        """
        length = self.z.shape[1]
        renew = positions | self._changed | (self.z == self.mask)
        packed = torch.cat((positions, renew, self._stale[:, None]), dim=1).cpu().numpy()
        asked, renewed, stale = packed[:, :length], packed[:, length:-1], packed[:, -1]
        wanted = asked.any(axis=1) & stale
        for each in self.memory.plan(wanted, renewed, self.block, self.window, self.clock):
            with torch.no_grad(), devices.autocast(self.precision, self.device):
                self.pass_through(each)
        if wanted.any():
            done = torch.from_numpy(wanted).to(self.z.device)
            self._stale, self._changed = self._stale & ~done, self._changed & ~done[:, None]
            self.nfe += torch.from_numpy(wanted)
        return asked

    def pass_through(self, each: Pass) -> None:
        """Make one call of the network and keep what it says."""
        home, every = self.z.device, len(each.rows) == len(self.z)
        rows = torch.from_numpy(each.rows).to(home)
        columns = torch.arange(self.z.shape[1], device=home)[self.window]
        width, layout, at = len(columns), None, None
        if each.at is not None:
            at = torch.from_numpy(each.at).to(home)
            columns, at = columns[at], at.to(self.device)
            layout = PartLayout(False, at=at, total=width)
        there = None if every else rows.to(self.device)
        cache = self.memory.shown(self.model, there, at)
        earlier = self.memory.earlier(rows, columns, each.anchors)
        earlier = None if earlier is None else earlier.to(self.device)
        context = Context(layout, self.sigma(rows), cache, earlier=earlier)
        states = self.states(rows, self.z[rows[:, None], columns].to(self.device), context)
        if cache is not None and self.memory.kept is not None:
            self.memory.kept.merge(there, cache, len(self.z))
        self.memory.keep(rows, columns, states)
        self.passed[each.rows] += columns.shape[-1]
        self.anchors_passed[each.rows] += columns.shape[-1] * each.anchors

    def states(self, rows: Tensor, seen: Tensor, context: Context) -> States:
        """Pass what is seen of these rows, (n, S)."""
        return self.model(seen, context)

    def sigma(self, rows: Tensor) -> Tensor | None:
        """The noise level of some rows, (n,), where the network sees it."""
        level = self.kernel.level(self.alpha[rows].float())
        return level.to(self.device) if self.conditioned else None

    def ask(
        self, use: Use, positions: Tensor, *given: Tensor, anchor: bool = False
    ) -> tuple[Tensor, ...]:
        """use(logits, *given) at positions, (B, L) bool; `given` is (B, L), the results (N,) each.

        A few positions at a time: (n, V) logits of theirs are all that exist at once. With `anchor`
        they are the anchor network's.
        """
        at = np.flatnonzero(self.look(positions))
        self.heads += len(at)
        states, head = self.memory.hidden, self.model.head
        if anchor:
            assert isinstance(self.model, Anchored)
            states, head = self.memory.anchor, self.model.anchor_head
        size, home = head.out_features, self.z.device
        few = max(1, (GPU_ELEMENTS if home.type == "cuda" else ELEMENTS) // size)
        flat = [x.flatten(0, 1) for x in given]
        parts = []
        for low in range(0, max(1, len(at)), few):
            some = torch.from_numpy(at[low : low + few]).to(home)
            logits = torch.zeros(0, size, device=home)
            if len(some):
                assert states is not None
                with torch.no_grad(), devices.autocast(self.precision, self.device):
                    logits = head(states.flatten(0, 1)[some].to(self.device))  # (n, V)
            self.heed(logits)
            parts.append(use(logits.to(home), *(x[some] for x in flat)))
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def heed(self, logits: Tensor) -> None:
        """Note on the device, which is not waited for, whether all are finite: `verify` tells."""
        self.finite = self.finite & logits.isfinite().all().to(self.finite.device)

    def verify(self) -> None:
        """Raise UserError where the network gave numbers that are not finite."""
        if not self.finite:
            raise UserError(
                "the network gives numbers that are not finite (NaN or Inf): the weights are "
                "damaged or of a run that diverged, or --precision fp32 is needed"
            )

    def propose(self, positions: Tensor) -> tuple[Tensor, ...]:
        """A drawn token and its probability for each of the positions: (N,) each."""
        return self.ask(partial(self.draw, forbid=self.mask), positions, self.token_chance)

    def fill(self, positions: Tensor) -> None:
        """Draw and write tokens at positions: (B, L) bool."""
        self.write(positions, *self.propose(positions))

    def write(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put tokens at positions: (B, L) bool, which have (N,) of them."""
        self.place(positions, *self.spread(positions, tokens, probability))

    def change(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put tokens, the mask among them, where they differ from what stands there."""
        tokens, probability = self.spread(positions, tokens, probability)
        self.place(positions & (tokens != self.z), tokens, probability)

    def spread(
        self, positions: Tensor, tokens: Tensor, probability: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(N,) tokens and probabilities of positions -> (B, L), elsewhere what stands there."""
        z = self.z.masked_scatter(positions, tokens)
        return z, self.probability.masked_scatter(positions, probability.double())

    def place(self, positions: Tensor, tokens: Tensor, probability: Tensor) -> None:
        """Put (B, L) tokens where positions, (B, L) bool, say so and nothing is frozen."""
        chosen = positions & ~self.frozen
        self.z = torch.where(chosen, tokens, self.z)
        self.probability = torch.where(chosen, probability, self.probability)
        self.touch(chosen)

    def remask(self, positions: Tensor) -> None:
        """Take tokens back: (B, L) bool."""
        chosen = positions & ~self.frozen
        self.z = self.z.masked_fill(chosen, self.mask)
        self.touch(chosen)

    def touch(self, chosen: Tensor) -> None:
        """Have rows with such positions passed again."""
        self._changed = self._changed | chosen
        self._stale = self._stale | chosen.any(dim=1)
