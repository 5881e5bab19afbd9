"""The application: routes, the page, and the server that ends with its answers finished."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable
from importlib.resources import files
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adlm.errors import UserError
from adlm.serve import manual, openai, own
from adlm.serve.engine import as_refusal
from adlm.serve.exchange import Desk
from adlm.serve.guard import Guard, as_json
from adlm.serve.limits import Refusal, ServeLimits
from adlm.serve.served import Served
from adlm.serve.work import Stopped

ENDING = 4  # seconds that connections have when the server ends


def static(name: str, kind: str, home: str = "adlm.serve") -> Route:
    """Return the route of a file of the package."""
    content = files(home).joinpath(name).read_bytes()

    async def send(request: Request) -> Response:
        return Response(content, media_type=kind)

    return Route("/" if name == "page.html" else f"/{name}", send)


def make_app(models: dict[str, Served], limits: ServeLimits, host: str, token: str | None) -> Guard:
    """Return the application with its guard before it."""
    routes = [
        static("page.html", "text/html"),
        static("page.css", "text/css"),
        static("page.js", "text/javascript"),
        static("view.js", "text/javascript"),
        static("share.js", "text/javascript"),
        static("replay.html", "text/plain", "adlm.viz"),
        Route("/docs", manual.show),
        Route("/v1/models", openai.list_models),
        Route("/v1/completions", openai.complete, methods=["POST"]),
        Route("/infill", own.infill, methods=["POST"]),
        Route("/nll", own.nll, methods=["POST"]),
        Route("/trace", own.trace, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={Exception: refused, HTTPException: refused})
    for kind in (UserError, Refusal, Stopped):
        app.add_exception_handler(kind, refused)
    app.state.desk = Desk(models, limits)
    return Guard(app, limits, host, token)


async def refused(request: Request, error: Exception) -> Response:
    """Return the refusal that an error stands for."""
    if isinstance(error, HTTPException):
        said = f"there is no {request.method} {request.url.path[:60]}: /docs says what there is"
        error = Refusal(error.status_code, said)
    if isinstance(error, Stopped):
        error = Refusal(499, "the client has gone")
    refusal = as_refusal(error)
    again = {"retry-after": "1"} if refusal.status == 429 else {}
    return Response(as_json(refusal), refusal.status, again, "application/json")


class Ending(uvicorn.Server):
    """A server that tells the engine when it is asked to end."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]):
        super().__init__(config)
        self.end = end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, with answers finished."""
        self.end()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{host}, port {port} cannot be opened: {reason}") from None


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    return host in ("localhost", "::1") or host.startswith("127.")


def serve_models(models: dict[str, Served], limits: ServeLimits, host: str, port: int) -> None:
    """Serve until the process is asked to end."""
    logging.basicConfig(format="%(message)s")
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    with listen(host, port) as listener:
        guard = make_app(models, limits, host, token)
        engine = guard.app.state.desk.engine  # type: ignore[attr-defined]
        config = uvicorn.Config(
            guard,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=ENDING,
        )
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}/"
        print(f"serving {', '.join(models)} at {address}", flush=True)
        if token:
            print(f"token (shown once): {token}\npage: {address}#token={token}", flush=True)
        Ending(config, engine.end).run(sockets=[listener])
        engine.join()
