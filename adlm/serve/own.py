"""/infill, /nll and /trace: what OpenAI's form has no words for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from adlm import registry
from adlm.data.vocab import Vocab
from adlm.samplers.trace import Event
from adlm.serve.exchange import Desk, body_of, events, reply, result
from adlm.serve.limits import Refusal, refuse_unless
from adlm.serve.messages import (
    Infilled,
    InfillRequest,
    Manner,
    Nll,
    NllRequest,
    TextNats,
    TokenNats,
    TraceRequest,
)
from adlm.serve.served import Served
from adlm.serve.work import ScoredTexts, ScoreWork, Step, WriteWork, WrittenRows
from adlm.values import to_text


async def infill(request: Request) -> Response:
    """Answer /infill."""
    desk: Desk = request.app.state.desk
    asked = await body_of(request, InfillRequest, desk.limits)
    served = desk.served(asked.model)
    given = served.holes(asked.text)
    work = writing(desk, served, asked, given)
    (made,) = await result(request, desk, [work])
    assert isinstance(made, WrittenRows)
    vocab = served.model.vocab
    texts = [vocab.decode(row[:end]) for row, end in zip(made.tokens, made.ends, strict=True)]
    spans = holes_of(given, vocab)
    holes = [[vocab.decode(row[span]) for span in spans] for row in made.tokens]
    return reply(Infilled(served.id, work.seeds[0][0], texts, holes))


def holes_of(given: np.ndarray, vocab: Vocab) -> list[slice]:
    """Return where the holes of a template, (L,), are; holes without a token between are one."""
    edges = np.flatnonzero(np.diff(np.pad(given == vocab.mask, 1).astype(int)))
    return [slice(low, high) for low, high in edges.reshape(-1, 2).tolist()]


def writing(desk: Desk, served: Served, asked: Manner, given: np.ndarray) -> WriteWork:
    """Return the work of writing a template: (L,)."""
    settings, seeds = served.settings(asked), served.seeds(asked)
    return WriteWork(
        served=served,
        size=len(seeds),
        deadline=desk.deadline(),
        template=np.tile(served.fits(given, settings), (len(seeds), 1)),
        seeds=seeds,
        settings=settings,
        steps=isinstance(asked, TraceRequest),
        about=about(served, settings.sampler or "", seeds[0][0]),
    )


def about(served: Served, sampler: str, seed: int) -> str:
    """Return one line on how a text is written."""
    kind = registry.lookup("objective", served.model.config.objective)
    ahead = ", sees nothing behind a hole" if kind.causal or kind.in_blocks else ""
    how = f"sampler {sampler}, seed {seed}{ahead}"
    return f"{served.id} ({served.model.config.objective}), {how}"


async def nll(request: Request) -> Response:
    """Answer /nll."""
    desk: Desk = request.app.state.desk
    asked = await body_of(request, NllRequest, desk.limits)
    served = desk.served(asked.model)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    most, vocab = desk.limits.texts, served.model.vocab
    refuse_unless(0 < len(texts) <= most, f"text must be 1 to {most} texts", "text")
    for text in texts:
        served.check_text(text, "text")
        refuse_unless(bool(text.strip()), "text must have a character that is no space", "text")
    ids = [np.append(found, vocab.eos) for found in vocab.encode(texts)]
    tokens = sum(map(len, ids))
    sentence = f"text has {tokens} tokens, and at most {desk.limits.tokens} are scored"
    refuse_unless(tokens <= desk.limits.tokens, sentence, "text")
    work = ScoreWork(
        served=served,
        size=len(texts),
        deadline=desk.deadline(),
        ids=ids,
        draws=asked.draws,
        seed=asked.seed,
    )
    (made,) = await result(request, desk, [work])
    assert isinstance(made, ScoredTexts)
    rows = zip(made.nats, made.pieces, made.length_nats.tolist(), strict=True)
    return reply(Nll(served.id, made.exact, [scored_text(*row) for row in rows]))


def scored_text(nats: np.ndarray, pieces: list[str], length: float) -> TextNats:
    """Return the figures of a text, as `model.nll` has them."""
    total = float(nats.sum()) + length
    perplexity = float(np.exp(min(total / len(nats), 700.0)))
    tokens = [TokenNats(p, n) for p, n in zip(pieces, nats.tolist(), strict=True)]
    return TextNats(total, length, perplexity, tokens)


async def trace(request: Request) -> Response:
    """Answer /trace."""
    desk: Desk = request.app.state.desk
    asked = await body_of(request, TraceRequest, desk.limits)
    served = desk.served(asked.model)
    work = writing(desk, served, asked, template_of(asked, served))
    desk.engine.submit(work)
    return events(request, [work], tell(work))


def template_of(asked: TraceRequest, served: Served) -> np.ndarray:
    """Return what is to be written: (L,)."""
    given = [f for f in ("text", "prompt", "template") if getattr(asked, f) is not None]
    refuse_unless(len(given) == 1, "give one of text, prompt and template")
    if asked.text is not None:
        return served.holes(asked.text)
    if asked.template is not None:
        return served.ids(asked.template)
    rest = served.model.config.data.length - len(served.between(asked.prompt or "", "", 1)[0]) + 1
    if rest < 1:
        raise Refusal(400, "the prompt leaves no room for a token", "prompt")
    return served.between(asked.prompt or "", "", asked.max_tokens or rest)[0]


async def tell(work: WriteWork) -> AsyncIterator[bytes]:
    """Yield the template, each step and the whole record as server-sent events."""
    vocab = work.served.model.vocab
    given = work.template[0].tolist()
    pieces = {t: vocab.piece(t) for t in set(given) if t != vocab.mask}
    start = {"mask": vocab.mask, "template": given, "pieces": pieces, "rows": work.size}
    yield event("start", to_text(start | {"seed": work.seeds[0][0], "about": work.about}))
    while isinstance(item := await work.next(), Step):
        told = [[shown(change, vocab) for change in row] for row in item.events]
        yield event("step", to_text({"step": item.number, "rows": told}))
    assert isinstance(item, WrittenRows)
    assert item.trace is not None
    yield event("end", item.trace.to_json())


def shown(change: Event, vocab: Vocab) -> list[int | float | str | None]:
    """Return step, position, token, probability and text of a change."""
    text = None if change.token is None else vocab.piece(change.token)
    return [*change[:3], round(change.probability, 4), text]


def event(name: str, data: str) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {data}\n\n".encode()
