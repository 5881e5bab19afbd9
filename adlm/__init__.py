"""Anchored language models: masked diffusion and autoregressive LMs that predict anchors first.

    import adlm
    model = adlm.load("runs/laptop-mdlm")
    model.nll(["The state of the union is strong."])

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adlm.api import Model, load, use

__all__ = ["Model", "load", "use"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in __all__:
        from adlm import api

        return getattr(api, name)
    raise AttributeError(f"module 'adlm' has no attribute '{name}'")
