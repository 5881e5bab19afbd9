"""A hub on this machine that loses the connection after so many bytes of a file.

What must hold: one sentence, and once the network is back the same command succeeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attack import child, place
from attack.campaign import Outcome
from attack.faults import judge
from tests.hub.endpoint import Handler, running

LOST = (0, 1, 100, 1_000, 5_000, 20_000, 50_000)  # bytes of model.safetensors that arrive


class Losing(Handler):
    """Sends the beginning of the weights and hangs up."""

    after: int | None = None

    def answer(self, data: Any, status: int = 200, **headers: str) -> None:
        wanted = self.path.endswith("model.safetensors") and self.command == "GET"
        if self.after is None or not wanted or not isinstance(data, bytes):
            return super().answer(data, status, **headers)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data[: self.after])
        self.close_connection = True
        self.connection.close()


def case(index: int, seed: int, home: Path) -> Outcome:
    """Download a model, lose the network on the way, and try again."""
    folder, logs, lost = home / "folder", home / "logs", LOST[index % len(LOST)]
    place.copy(["exported"], folder)
    files = {p.name: p.read_bytes() for p in (folder / "exported").iterdir()}
    with running() as hub:
        hub.RequestHandlerClass = Losing
        hub.models["me/small"] = files
        env = place.environment(folder) | {
            "HF_ENDPOINT": hub.address,
            "HF_HOME": str(folder / "hf"),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "2",
        }
        words = ["sample", "me/small", "--steps", "2"]
        Losing.after = lost
        first = child.start(words, folder, logs, env).wait(90)
        Losing.after = None
        again = child.start(words, folder, logs, env).wait(90)
    wrong = judge(first)
    if again.code:
        wrong.append(f"with the network back: {again.sentence or again.code}")
    said = first.err[-1500:] if wrong else ""
    code = "done" if first.code == 0 else "one sentence"
    return Outcome(code, "lost download", "sample", f"lost after {lost} bytes", wrong, said)
