"""`adlm serve`."""

from __future__ import annotations

from importlib.util import find_spec

from adlm.errors import need
from adlm.models import shipped
from adlm.serve.limits import ServeLimits


def serve(
    runs: list[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    device: str = "auto",
    limits: ServeLimits = ServeLimits(),
) -> None:
    """Serve models: a playground in the browser, and an API that OpenAI's clients speak.

    Ctrl-C or SIGTERM ends it; what is being answered is finished within seconds.

    Args:
        runs: Checkpoints or runs (their newest checkpoints are taken), shown by their folders'
            names; without any, the models that are shipped.
        host: Where to listen; with any other address than this machine's own loopback a token is
            needed, which is printed once.
        port: The port; 0 takes a free one.
        device: auto, cpu, mps, cuda or cuda:N.
        limits: What a request, and all of them together, may ask for.
    """
    for package in ("starlette", "uvicorn"):
        if not find_spec(package):
            raise need(package, "serve", "adlm serve")
    from adlm.serve.app import serve_models
    from adlm.serve.served import load_all

    serve_models(load_all(runs or shipped.every(), device, limits), limits, host, port)
