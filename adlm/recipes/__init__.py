"""Recipes: a run is a named function that returns a full configuration."""

from __future__ import annotations

from adlm.config import Config
from adlm.models.size import resize
from adlm.registry import lookup


def recipe(name: str, size: str | None = None) -> Config:
    """Return the configuration of a recipe, at its own size or another.

    Example:
        >>> recipe("laptop-mdlm").objective
        'mdlm'
    """
    config: Config = lookup("recipe", name)()
    return resize(config, size) if size else config
