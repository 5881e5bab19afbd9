"""/v1/completions and /v1/models, in the form that existing clients speak."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator

import msgspec
import numpy as np
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from adlm.serve.exchange import Desk, body_of, events, reply, result
from adlm.serve.limits import refuse_unless
from adlm.serve.messages import Choice, Completion, CompletionRequest, Logprobs, Usage
from adlm.serve.served import ModelCard, Served
from adlm.serve.work import Step, Work, WriteWork, WrittenRows


class ModelList(Struct):
    """The answer of /v1/models."""

    data: list[ModelCard]
    object: str = "list"


async def list_models(request: Request) -> Response:
    """Answer /v1/models."""
    desk: Desk = request.app.state.desk
    return reply(ModelList([served.card(desk.began) for served in desk.models.values()]))


async def complete(request: Request) -> Response:
    """Answer /v1/completions."""
    desk: Desk = request.app.state.desk
    asked = await body_of(request, CompletionRequest, desk.limits)
    order = CompletionOrder(desk, asked)
    works: list[Work] = list(order.works)
    if not asked.stream:
        found = await result(request, desk, works)
        choices = [c for at, made in enumerate(found) for c in order.choices(at, made)]  # type: ignore[arg-type]
        return reply(order.answer(choices, order.usage(choices)))
    for work in works:
        desk.engine.submit(work)
    return events(request, works, order.stream())


class CompletionOrder:
    """A request for completions: a work for each of its prompts."""

    def __init__(self, desk: Desk, asked: CompletionRequest):
        self.asked, self.served = asked, desk.served(asked.model)
        self.id, self.began = f"cmpl-{uuid.uuid4().hex}", int(time.time())
        self.stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        check_unserved(asked, self.stops)
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        refuse_unless(bool(prompts), "prompt must be a text or a list of at least one", "prompt")
        seeds, settings = self.served.seeds(asked), self.served.settings(asked)
        count, most = len(prompts) * len(seeds), desk.limits.texts
        refuse_unless(count <= most, f"{count} texts are asked for, and at most {most} given", "n")
        self.works, self.places = [], []
        for prompt in prompts:
            given, place = self.served.between(prompt, asked.suffix or "", asked.max_tokens or 16)
            rows = np.tile(self.served.fits(given, settings), (len(seeds), 1))
            self.places.append(place)
            work = WriteWork(
                served=self.served,
                size=len(seeds),
                deadline=desk.deadline(),
                template=rows,
                seeds=seeds,
                settings=settings,
                steps=bool(asked.stream) and self.served.keeps(settings),
            )
            self.works.append(work)

    def choices(self, at: int, made: WrittenRows) -> list[Choice]:
        """Return the completions of a prompt."""
        place, first = self.places[at], at * self.works[at].size
        found = []
        for row, end in enumerate(made.ends.tolist()):
            stop = max(place.start, min(place.stop, end))
            tokens = made.tokens[row, place.start : stop]
            text = self.served.model.vocab.decode(tokens)
            cut = cut_at(text, self.stops)
            whole = cut == len(text) and not (tokens == self.served.model.vocab.eos).any()
            sure = made.probability[row, place.start : stop]
            log = None
            if self.asked.logprobs is not None:
                log = logprobs(self.served, tokens, sure, cut)
            found.append(Choice(text[:cut], first + row, log, "length" if whole else "stop"))
        return found

    def usage(self, choices: list[Choice]) -> Usage:
        """Return how many tokens prompts and completions have."""
        mask = self.served.model.vocab.mask
        given = sum(int((w.template[0] != mask).sum()) for w in self.works)
        texts = self.served.model.vocab.encode([c.text for c in choices])
        made = sum(len(ids) for ids in texts)
        return Usage(given, made, given + made)

    def answer(self, choices: list[Choice], usage: Usage | None = None) -> Completion:
        """Return the body of an answer or of an event."""
        return Completion(self.id, self.began, self.served.id, choices, usage)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield each text from its beginning on, as far as it stands."""
        done: list[Choice] = []
        for at, work in enumerate(self.works):
            told = [""] * work.size
            z = work.template.copy()
            while isinstance(item := await work.next(), Step):
                for row, changes in enumerate(item.events):
                    for event in changes:
                        z[row, event.position] = -1 if event.token is None else event.token
                    text = self.standing(z[row], self.places[at])
                    if changes and len(text) > len(told[row]) and text.startswith(told[row]):
                        fresh, told[row] = text[len(told[row]) :], text
                        yield self.event([Choice(fresh, at * work.size + row, None, None)])
            assert isinstance(item, WrittenRows)
            for row, choice in enumerate(self.choices(at, item)):
                done.append(choice)
                rest = choice.text.removeprefix(told[row])
                yield self.event(
                    [Choice(rest, choice.index, choice.logprobs, choice.finish_reason)]
                )
        if (self.asked.stream_options or {}).get("include_usage"):
            yield self.event([], self.usage(done))
        yield b"data: [DONE]\n\n"

    def standing(self, z: np.ndarray, place: slice) -> str:
        """Return what is written from the beginning on, up to where a stop could begin."""
        vocab = self.served.model.vocab
        part = z[place]
        open_ = (part == vocab.mask) | (part == -1)
        part = part[: int(open_.argmax())] if open_.any() else part
        if self.served.model.config.data.packing != "wrap" and (part == vocab.eos).any():
            part = part[: int((part == vocab.eos).argmax())]
        text = vocab.decode(part).rstrip("\ufffd")  # half a character
        held = max((len(stop) for stop in self.stops), default=1) - 1
        return text[: min(cut_at(text, self.stops), max(0, len(text) - held))]

    def event(self, choices: list[Choice], usage: Usage | None = None) -> bytes:
        """Return a server-sent event."""
        return b"data: " + msgspec.json.encode(self.answer(choices, usage)) + b"\n\n"


def check_unserved(asked: CompletionRequest, stops: list[str]) -> None:
    """Refuse what OpenAI has and these models have not."""
    refuse_unless(not asked.echo, "echo is not served: prompt and text can be joined", "echo")
    best = asked.best_of in (None, asked.n or 1)
    refuse_unless(best, "best_of is not served: it must be n or absent", "best_of")
    for name in ("frequency_penalty", "presence_penalty", "logit_bias"):
        refuse_unless(not getattr(asked, name), f"{name} is not served", name)
    right = len(stops) <= 4 and all(stops)
    refuse_unless(right, "stop must have at most four texts, none of them empty", "stop")


def cut_at(text: str, stops: list[str]) -> int:
    """Return where the first stop begins, or the text's length.

    Example:
        >>> cut_at("one. two", [".", " "])
        3
    """
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))


def logprobs(served: Served, tokens: np.ndarray, sure: np.ndarray, cut: int) -> Logprobs:
    """Return the log-probabilities of the tokens whose text begins before `cut`."""
    pieces = served.model.vocab.pieces(tokens.tolist())
    offsets = np.cumsum([0, *map(len, pieces)])[: len(pieces)].tolist()
    count = sum(at < max(cut, 1) for at in offsets)
    log = np.log(np.maximum(sure, 1e-300)).tolist()
    return Logprobs(pieces[:count], log[:count], offsets[:count])
