"""Greedy decoding with a cache, many problems at once.

All rows go in step, position by position, from the length of the shortest question: a row whose
prompt is longer reads its own tokens while another already writes. So no row is padded, and each
comes out as if it were alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from adlm import device as devices
from adlm.models.denoiser import Denoiser
from adlm.nn.context import Context
from adlm.nn.layout import Layout
from adlm.reasoning.sequence import Row


@dataclass(frozen=True)
class Decoded:
    """What the model made of one prompt."""

    ids: list[int]  # generated, up to EOS
    slots: list[int]  # the likeliest token at each slot of the prompt
    finished: bool  # did it end with EOS within the limit?


@torch.no_grad()
def greedy(
    model: Denoiser,
    prompts: list[Row],
    eos: int,
    limit: int,
    precision: str = "fp32",
    device: str = "cpu",
) -> list[Decoded]:
    """Decode prompts (question and slots of each row) up to `limit` tokens each."""
    longest = max(p.prompt for p in prompts)
    ids = torch.full((len(prompts), longest + limit), eos)  # (B, P)
    given = torch.zeros_like(ids, dtype=torch.bool)
    thought = torch.zeros_like(given)
    for row, p in enumerate(prompts):
        ids[row, : p.prompt] = torch.tensor(p.ids[: p.prompt])
        given[row, : p.prompt] = True
        thought[row, : p.prompt] = torch.tensor(p.thoughts[: p.prompt])
    ids, given, thought = (t.to(device) for t in (ids, given, thought))
    with devices.autocast(precision, device):
        said = _run(model, ids, given, thought, eos, min(p.question for p in prompts))
    return [_read(said[row].tolist(), p, eos, limit) for row, p in enumerate(prompts)]


def _run(
    model: Denoiser, ids: Tensor, given: Tensor, thought: Tensor, eos: int, start: int
) -> Tensor:
    """(B, P) the likeliest token at every position from `start` on; ids are filled in."""
    cache = model.new_cache()
    said = torch.full_like(ids, eos)
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    context = Context(Layout(True), cache=cache)
    h = model(ids[:, :start], context).denoiser[:, -1]  # (B, D)
    for t in range(start, ids.shape[1]):
        said[:, t] = model.head(h).argmax(dim=-1)
        ids[:, t] = torch.where(given[:, t], ids[:, t], said[:, t])
        done |= ~given[:, t] & (said[:, t] == eos)
        if done.all() or t + 1 == ids.shape[1]:
            break
        x = torch.where(thought[:, t, None], h, model.embed(ids[:, t]))  # (B, D)
        h = model(x[:, None], context).denoiser[:, -1]
    return said


def _read(said: list[int], prompt: Row, eos: int, limit: int) -> Decoded:
    made = said[prompt.prompt : prompt.prompt + limit]
    finished = eos in made
    ids = made[: made.index(eos)] if finished else made
    return Decoded(ids, said[prompt.question : prompt.prompt], finished)


def batches(prompts: list[Row], size: int) -> Iterator[list[int]]:
    """Yield indices of prompts of about the same length, `size` at a time."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids[: prompts[i].prompt]))
    for low in range(0, len(order), size):
        yield order[low : low + size]
