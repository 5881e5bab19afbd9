"""What a server takes on, and the refusals: each is one sentence with an HTTP status."""

from __future__ import annotations

from dataclasses import dataclass

from adlm.values import check_sizes


@dataclass(frozen=True)
class ServeLimits:
    """What a request, and all of them together, may ask for.

    Attributes:
        texts: Texts of a request, and texts that are written at once.
        tokens: Tokens of a text, prompt and holes included; also steps, at most four times that.
        queue: Texts that may wait; above that the answer is 429.
        seconds: Time from a request to its answer.
        body: Bytes of a request's body.
        clients: Requests that are open at once.
    """

    texts: int = 64
    tokens: int = 2048
    queue: int = 256
    seconds: float = 120.0
    body: int = 1 << 20
    clients: int = 256

    def __post_init__(self) -> None:
        check_sizes(self, "--limits.", 1, texts=10**5, tokens=10**6, queue=10**6, body=2**30)
        check_sizes(self, "--limits.", 1, clients=10**6, seconds=10**6)


class Refusal(Exception):
    """A request that is not served: a status and one sentence."""

    def __init__(self, status: int, sentence: str, field: str | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.field = status, sentence, field


def refuse_unless(ok: bool, sentence: str, field: str | None = None) -> None:
    """Raise a Refusal of bad input unless ok."""
    if not ok:
        raise Refusal(400, sentence, field)
