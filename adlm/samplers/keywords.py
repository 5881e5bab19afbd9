"""Settings of a sampler from plain keywords, as Python and other libraries' users write them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np

from adlm.errors import UserError, in_python, nearest
from adlm.registry import allow, outside
from adlm.samplers.cache import CacheSettings
from adlm.samplers.categorical import Draw
from adlm.samplers.settings import SamplingSettings
from adlm.values import typed, typed_fields

ALIASES = {"top_p": "nucleus", "num_samples": "n"}  # names that other libraries have


@in_python
def settings(*own_words: str, **how: Any) -> SamplingSettings:
    """Return settings from plain keywords; those of a draw may stand among them.

    `own_words` are keywords that the caller takes itself: the error of an unknown one lists them.
    """
    for alias, name in ALIASES.items():
        if alias in how:
            value = how.pop(alias)
            if how.get(name, 1) not in (1, value):  # 1 is the default of either
                raise UserError(f"{alias} is another name of {name}: give one of them")
            how[name] = value
    how = {k: v.item() if isinstance(v, np.generic) else v for k, v in how.items()}
    own = {f.name for f in fields(SamplingSettings)}
    drawn = {f.name for f in fields(Draw)}
    if isinstance(how.get("cache"), str):
        how["cache"] = typed_fields({"kind": how["cache"]}, CacheSettings)
    unknown = sorted(set(how) - own - drawn)
    if unknown:
        known = own | drawn | set(ALIASES) | set(own_words)
        raise UserError(f"there is no setting '{unknown[0]}'{nearest(unknown[0], known)}")
    for given in (how.get("sampler"), (how.get("policy") or {}).get("inner")):
        if given and outside("sampler", given):
            allow(given)
    draw = typed_fields({k: v for k, v in how.items() if k in drawn}, Draw)
    hints = get_type_hints(SamplingSettings)
    own_values = {k: v for k, v in how.items() if k in own}
    plain = {
        k: v if k in ("draw", "cache") else typed(v, hints[k], k) for k, v in own_values.items()
    }
    return SamplingSettings(**{"draw": draw, **plain})
