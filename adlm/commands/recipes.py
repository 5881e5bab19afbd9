"""`adlm recipes`."""

from __future__ import annotations

import inspect

from adlm import registry


def start() -> None:
    """List the recipes."""
    for name in registry.names("recipe"):
        print(f"{name:<16}{inspect.getdoc(registry.lookup('recipe', name))}")
