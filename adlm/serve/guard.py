"""Who may ask: Host and Origin are checked, a token where one is needed, and sizes are limited."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from adlm.serve.limits import Refusal, ServeLimits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
OPEN = (
    "/",
    "/docs",
    "/page.js",
    "/page.css",
    "/view.js",
    "/share.js",
)  # no secret in them: a token is not asked for
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Lets through what may be answered; everything else gets a refusal."""

    def __init__(self, app: App, limits: ServeLimits, host: str, token: str | None):
        self.app, self.limits, self.host, self.token = app, limits, host, token
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        self.open += 1
        try:
            self.check(scope)
            await self.app(scope, receive, dressed)
        except Refusal as refusal:
            await answer(refusal, dressed)
        finally:
            self.open -= 1
        return None

    def check(self, scope: Scope) -> None:
        """Raise a Refusal unless the request may be answered."""
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        host = headers.get("host", "")
        if not self.known(host):
            raise Refusal(403, f"this server does not answer for the host '{host[:60]}'")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            raise Refusal(403, "a page of another site may not ask this server")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"] != "/":
            raise Refusal(403, "a page of another site may not ask this server")
        if self.token and scope["path"] not in OPEN:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise Refusal(401, "this server needs its token: Authorization: Bearer TOKEN")
        size = headers.get("content-length", "0")
        if not size.isdigit() or int(size[:12]) > self.limits.body:
            raise Refusal(413, f"the body must have at most {self.limits.body} bytes")
        if self.open > self.limits.clients:
            raise Refusal(429, f"{self.limits.clients} requests are open already: try again soon")

    def known(self, host: str) -> bool:
        """Is it an address of ours? A name that someone else can point here is not."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name in ("localhost", self.host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return bool(self.token) and name == socket.gethostname().lower()
        return bool(self.token) or address.is_loopback


async def answer(refusal: Refusal, send: Send) -> None:
    """Send a refusal in OpenAI's form."""
    headers = [(b"content-type", b"application/json")]
    if refusal.status == 429:
        headers.append((b"retry-after", b"1"))
    start = {"type": "http.response.start", "status": refusal.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": as_json(refusal)})


class Problem(msgspec.Struct):
    """What was wrong with a request."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorAnswer(msgspec.Struct):
    """The body of a refusal."""

    error: Problem


def as_json(refusal: Refusal) -> bytes:
    """Return the body of a refusal."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    problem = Problem(refusal.sentence, kind, refusal.field, refusal.status)
    return msgspec.json.encode(ErrorAnswer(problem))
