"""A request from body to answer: read within limits, worked on while the client is there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from adlm.serve.engine import ServeEngine, as_refusal, workers_for
from adlm.serve.guard import as_json
from adlm.serve.limits import Refusal, ServeLimits
from adlm.serve.messages import Body, read
from adlm.serve.served import Served
from adlm.serve.work import Item, Step, Work

READING = 10.0  # seconds in which a body must be there


class Desk:
    """The models, the engine and the limits: what every route needs."""

    def __init__(self, models: dict[str, Served], limits: ServeLimits):
        self.models, self.limits = models, limits
        workers = workers_for(served.model for served in models.values())
        self.engine = ServeEngine(limits, workers)
        self.began = int(time.time())

    def served(self, name: str | None) -> Served:
        """Return the model of that name; the first where none is named."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            known = ", ".join(self.models)
            raise Refusal(404, f"there is no model '{name[:60]}'; there is {known}", "model")
        return self.models[name]

    def deadline(self) -> float:
        """Return the time by which an answer must be there."""
        return time.monotonic() + self.limits.seconds


async def body_of(request: Request, kind: type[Body], limits: ServeLimits) -> Body:
    """Return a request's body as its type."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(READING):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limits.body:
                    raise Refusal(413, f"the body must have at most {limits.body} bytes")
    except TimeoutError:
        raise Refusal(408, f"the body was not there after {READING:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "the client has gone") from None
    return read(b"".join(parts), kind)


@contextlib.asynccontextmanager
async def attended(request: Request, works: list[Work]) -> AsyncIterator[None]:
    """Stop the works when the client goes away, or when the answer is given up."""

    async def attend() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        drop(works)

    watcher = asyncio.create_task(attend())
    try:
        yield
    finally:
        watcher.cancel()
        drop(works)


def drop(works: list[Work]) -> None:
    """Tell works that nobody waits for them, and who still does."""
    for work in works:
        work.leave()


async def result(request: Request, desk: Desk, works: list[Work]) -> list[Item]:
    """Have works done, and return what each ended with."""
    async with attended(request, works):
        for work in works:
            desk.engine.submit(work)
        return [await last(work) for work in works]


async def last(work: Work) -> Item:
    """Wait for a work's end."""
    while isinstance(item := await work.next(), Step):
        pass
    return item


def reply(value: msgspec.Struct) -> Response:
    """Return an answer as JSON."""
    return Response(msgspec.json.encode(value), media_type="application/json")


def events(request: Request, works: list[Work], parts: AsyncIterator[bytes]) -> Response:
    """Return server-sent events; what goes wrong on the way is the last of them."""

    async def guarded() -> AsyncIterator[bytes]:
        async with attended(request, works):
            try:
                async for part in parts:
                    yield part
            except Exception as error:
                yield b"event: error\ndata: " + as_json(as_refusal(error)) + b"\n\n"

    return StreamingResponse(guarded(), media_type="text/event-stream")
