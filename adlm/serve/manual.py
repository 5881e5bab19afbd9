"""/docs: one page on the API, made of the types of its requests; it loads nothing."""

from __future__ import annotations

from html import escape
from typing import get_type_hints

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from adlm.options import headline, meanings
from adlm.serve.messages import CompletionRequest, InfillRequest, NllRequest, TraceRequest

EXAMPLES: dict[type[Struct], str] = {
    CompletionRequest: '{"prompt": "The state of", "suffix": " is strong.", "max_tokens": 4}',
    InfillRequest: '{"text": "The [MASK] of the union is [MASK:4] .", "n": 2}',
    TraceRequest: '{"prompt": "The state of", "steps": 16}',
    NllRequest: '{"text": "The state of the Union is strong."}',
}
REST = (
    "GET /v1/models lists the models, with their samplers and the samplers' options. A refusal is "
    '{"error": {"message": ...}}: 400 bad input, 401 no token, 403 another site, 404 no such model '
    "or path, 413 too large, 429 too many wait (try again), 503 and 504 out of time. /trace sends "
    "the events start (template), step (changes: step, position, token or null where it is taken "
    "back, probability, text), end (the record of a replay page) and error."
)


async def show(request: Request) -> Response:
    """Answer /docs."""
    return HTMLResponse(page())


def page() -> str:
    """Return the page."""
    parts = [section(kind) for kind in EXAMPLES]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>adlm serve: API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="page.css"></head><body class="manual"><main>'
        '<h1>The API of adlm serve</h1><p><a href="./">to the playground</a></p>'
        f"<p>{escape(REST)}</p>{''.join(parts)}</main></body></html>"
    )


def section(kind: type[Struct]) -> str:
    """Return what the page says of one kind of request."""
    told, kinds = meanings(kind), get_type_hints(kind)
    defaults = dict(
        zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False)
    )
    head = headline(kind)
    path = head.split()[1].rstrip(":,")
    rows = "".join(
        f"<tr><td><code>{name}</code></td><td>{escape(told[name])}</td>"
        f"<td>{escape(default_of(defaults.get(name)))}</td></tr>"
        for name in sorted(kinds, key=list(told).index)
    )
    call = f"curl SERVER{path} -H 'Content-Type: application/json' -d '{EXAMPLES[kind]}'"
    return (
        f"<h2>{escape(head)}</h2><pre>{escape(call)}</pre><table><tr><th>field</th>"
        f"<th>meaning</th><th>default</th></tr>{rows}</table>"
    )


def default_of(value: object) -> str:
    """Return a default as JSON shows it; nothing where there is none."""
    plain = value is None or isinstance(value, int | float)
    return "" if value is None or not plain else str(value).lower()
