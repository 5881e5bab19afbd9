"""The bodies of requests and answers, as types: what is not in them is refused in one sentence."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from adlm.serve.limits import Refusal

Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1, le=10**6)]
Option = bool | int | float | str  # a sampler's own


class Manner(Struct, forbid_unknown_fields=True, kw_only=True):
    """How texts are written.

    Attributes:
        model: Which model, as /v1/models names it; the first by default.
        n: How many texts.
        seed: Seed; the same seed gives the same text. Drawn anew by default.
        temperature: Divides the logits; 0 takes the likeliest token.
        top_p: Keep the likeliest tokens up to this share of the probability; 1 = all.
        top_k: Keep only so many of the likeliest tokens; 0 = all.
        sampler: One of the model's samplers; its usual one by default.
        steps: Denoising steps; one for each token by default.
        policy: The sampler's own options, by name.
        cache: What is kept between steps of a model of whole rows: none (exact), prefix, dual or
            delayed.
        cache_every: Steps after which everything is renewed; 1 is exact.
        anchor_every: Steps between two passes of an anchor network; 1 is exact.
        goal: exact (the model's reverse process), best (chooses the sampler, and top_p 0.9 unless
            told otherwise) or fast (sampler, cache and anchor_every).
    """

    model: str | None = None
    n: Annotated[int, Meta(ge=1)] | None = 1
    seed: Seed | None = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Meta(ge=0, le=10**9)] | None = 0
    sampler: str | None = None
    steps: Count | None = None
    policy: dict[str, Option] | None = None
    cache: Literal["none", "prefix", "dual", "delayed"] | None = "none"
    cache_every: Count | None = 16
    anchor_every: Count | None = 1
    goal: Literal["exact", "best", "fast"] | None = "exact"


class CompletionRequest(Manner, kw_only=True):
    """POST /v1/completions, in OpenAI's form.

    Attributes:
        prompt: What a text begins with, or a list of such.
        suffix: What comes after the completion: max_tokens tokens are filled in between.
        max_tokens: Tokens of the completion.
        stop: Texts, at most four, before which a completion ends.
        logprobs: If given, log-probabilities of the tokens when they were written; alternatives
            (top_logprobs) are not computed.
        stream: Answer by server-sent events: the text from its beginning on, as far as it stands.
        stream_options: include_usage asks for a last event with the number of tokens.
        user: Ignored.
        echo: Must be false or absent.
        best_of: Must be n or absent.
        frequency_penalty: Must be 0 or absent.
        presence_penalty: Must be 0 or absent.
        logit_bias: Must be empty or absent.
    """

    prompt: str | list[str] = ""
    suffix: str | None = None
    max_tokens: Count | None = 16
    stop: str | list[str] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    stream: bool | None = False
    stream_options: dict[str, bool] | None = None
    user: str | None = None
    echo: bool | None = False
    best_of: int | None = None
    frequency_penalty: float | None = 0
    presence_penalty: float | None = 0
    logit_bias: dict[str, float] | None = None


class InfillRequest(Manner, kw_only=True):
    """POST /infill: fill the holes of a text.

    Attributes:
        text: The text; [MASK] is a hole of one token, [MASK:4] one of four.
    """

    text: str


class TraceRequest(Manner, kw_only=True):
    """POST /trace: server-sent events of how texts are written; give text, prompt or template.

    Attributes:
        text: A text with holes, as /infill takes it.
        prompt: What the text begins with; max_tokens tokens follow.
        max_tokens: Tokens after the prompt; by default up to the trained length.
        template: Token ids, null where a token is to be written.
    """

    text: str | None = None
    prompt: str | None = None
    max_tokens: Count | None = None
    template: list[int | None] | None = None


class NllRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """POST /nll: what texts cost, in nats.

    Attributes:
        model: Which model, as /v1/models names it; the first by default.
        text: A text, or a list of such.
        draws: Draws of the noise, over which a diffusion model's bound is averaged.
        seed: Seed of the draws.
    """

    text: str | list[str]
    model: str | None = None
    draws: Annotated[int, Meta(ge=1, le=256)] = 16
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 0


class Choice(Struct):
    """A completion."""

    text: str
    index: int
    logprobs: Logprobs | None
    finish_reason: str | None


class Logprobs(Struct):
    """Of the tokens of a completion."""

    tokens: list[str]
    token_logprobs: list[float]
    text_offset: list[int]
    top_logprobs: None = None


class Usage(Struct):
    """How many tokens a request took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(Struct):
    """The answer of /v1/completions, and each event of its stream."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None
    object: str = "text_completion"


class Infilled(Struct):
    """The answer of /infill: whole texts, and what stands in the holes of each."""

    model: str
    seed: int
    texts: list[str]
    holes: list[list[str]]


class TokenNats(Struct):
    """A token and its nats; a diffusion model's are the token's share of the bound."""

    text: str
    nats: float


class TextNats(Struct):
    """The nats of a text, its end included; `length_nats`, which they include, code its length."""

    nats: float
    length_nats: float
    perplexity: float
    tokens: list[TokenNats]


class Nll(Struct):
    """The answer of /nll; nats are exact, or an upper bound of them."""

    model: str
    exact: bool
    texts: list[TextNats]


Body = TypeVar("Body", bound=Struct)


def read(body: bytes, kind: type[Body]) -> Body:
    """Return the request that a body holds, or raise a Refusal that says what is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        found = re.search(r"\$\.(\w+)", where)
        field = found[1] if found else None
        said = what.replace("`", "")
        said = said[0].lower() + said[1:]
        raise Refusal(400, f"{field}: {said}" if field else f"the body: {said}", field) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refusal(400, "the body must be a JSON object in UTF-8") from None
