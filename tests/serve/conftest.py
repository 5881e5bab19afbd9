"""Models with random weights, and a real server of them."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import torch

from adlm import api
from adlm.config import Config
from adlm.data.lengths import Lengths
from adlm.data.vocab import byte_vocab
from adlm.models.build import build_model
from adlm.recipes import recipe
from adlm.serve.engine import ServeEngine
from adlm.serve.limits import ServeLimits
from adlm.serve.served import Served
from tests.conftest import make_config

LENGTH = 64


def config_of(objective: str) -> Config:
    """The laptop recipe's process, on a network that passes in a millisecond."""
    base = objective.removeprefix("adlm-")
    others = {"adlm": "laptop-mdlm", "a2r": "laptop-ar", "order": "laptop-mdlm"}
    wanted = recipe(others.get(base, f"laptop-{base}"))
    made = make_config("none", objective)
    front = int(objective.startswith("adlm") or objective == "a2r")
    model = replace(made.model, anchor_blocks=front, time=8 if wanted.process.conditioned else 0)
    data = replace(made.data, length=LENGTH)
    anchor = replace(made.anchor, positions="all")
    return replace(made, data=data, model=model, process=wanted.process, anchor=anchor)


def model_of(objective: str) -> api.Model:
    config, vocab = config_of(objective), byte_vocab()
    torch.manual_seed(0)
    network = build_model(config, vocab.size).eval()
    for parameter in network.parameters():  # so that tokens are not all equally likely
        parameter.data += 0.2 * torch.randn_like(parameter)
    return api.Model(network, vocab, config, "cpu", Lengths.unknown(LENGTH))


def served(*objectives: str, limits: ServeLimits = ServeLimits()) -> dict[str, Served]:
    return {name: Served(name, model_of(name), limits) for name in objectives}


@dataclass
class Running:
    """A server in a thread of this process."""

    address: str
    engine: ServeEngine

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        """Status and text of an answer; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path: str, body: object = None) -> dict:
        status, text = self.ask(path, body)
        assert status == 200, text
        return json.loads(text)

    def refused(self, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        """Status and sentence of a refusal."""
        status, text = self.ask(path, body, **headers)
        assert status >= 400, text
        return status, json.loads(text)["error"]["message"]

    def idle(self, seconds: float = 10.0) -> bool:
        """Does the engine come to rest?"""
        end = time.monotonic() + seconds
        while self.engine.busy and time.monotonic() < end:
            time.sleep(0.01)
        return not self.engine.busy


@contextmanager
def running(
    models: dict[str, Served], limits: ServeLimits = ServeLimits(), **how: str
) -> Iterator[Running]:
    import uvicorn

    from adlm.serve.app import listen, make_app

    with listen("127.0.0.1", 0) as listener:
        guard = make_app(models, limits, how.get("host", "127.0.0.1"), how.get("token"))
        config = uvicorn.Config(guard, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        engine = guard.app.state.desk.engine  # type: ignore[attr-defined]
        try:
            yield Running(f"http://127.0.0.1:{listener.getsockname()[1]}", engine)
        finally:
            server.should_exit = True
            engine.join()
            thread.join(10)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package)
    with running(served("mdlm", "adlm", "ar")) as made:
        yield made


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Make every pass of the networks take longer."""

    def slow(seconds: float) -> None:
        from adlm.models.denoiser import Denoiser

        whole = Denoiser.forward

        def later(self, *given, **named):  # type: ignore[no-untyped-def]
            time.sleep(seconds)
            return whole(self, *given, **named)

        monkeypatch.setattr(Denoiser, "forward", later)

    return slow
