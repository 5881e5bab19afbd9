"""The facade that a notebook uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adlm import device as devices
from adlm.config import Config
from adlm.data.cache import TokenStore
from adlm.data.pack import pack
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.eval.likelihood import evaluator, score
from adlm.models.denoiser import Denoiser
from adlm.models.hub import load_model
from adlm.samplers.categorical import Draw
from adlm.samplers.generate import generate
from adlm.train import checkpoint


@dataclass(frozen=True)
class Model:
    """A trained model with its vocabulary."""

    network: Denoiser
    vocab: Vocab
    config: Config
    device: str

    def generate(
        self,
        n: int = 1,
        prompt: str = "",
        sampler: str | None = None,
        steps: int = 0,
        seed: int = 0,
        **draw: float,
    ) -> list[str]:
        """n texts after a prompt; `draw` is temperature, top_k and nucleus."""
        settings = Draw(**draw)  # type: ignore[arg-type]
        made = generate(
            self.network,
            self.config,
            self.vocab,
            n,
            prompt,
            sampler,
            steps,
            settings,
            seed,
            device=self.device,
        )
        return made.texts

    def nll(self, texts: Sequence[str], draws: int = 16, seed: int = 0) -> np.ndarray:
        """Nats of each text, its end included: exact for AR, an upper bound for diffusion.

        A text longer than the model's context is scored in pieces of that length.
        """
        objective = evaluator(self.config, self.vocab)
        if not all(text.strip() for text in texts):
            raise UserError("every text must have at least one character that is not a space")
        ids = [np.append(e, self.vocab.eos) for e in self.vocab.encode(texts)]
        if not ids:
            return np.zeros(0)
        ends = np.cumsum([len(i) for i in ids])
        store = TokenStore(np.concatenate(ids), ends, 0, "")
        rows = pack(store, self.vocab, self.config.data.length, "document")
        found = score(
            self.network,
            objective,
            rows,
            np.arange(len(rows)),
            draws,
            seed,
            device=self.device,
            quiet=True,
        )
        text_of_row = np.searchsorted(ends, rows.start, side="right")
        return np.bincount(text_of_row, found.nats.mean(axis=1), minlength=len(texts))


def load(path: str | Path, device: str = "auto") -> Model:
    """Load a checkpoint, or the newest one of a run."""
    saved = checkpoint.load(path)
    where = devices.pick(device)
    return Model(load_model(saved, where), saved.vocab, saved.config, where)
