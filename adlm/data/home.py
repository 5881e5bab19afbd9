"""Where what is made once is kept."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """Return the cache folder: ADLM_CACHE, or the user's; a variable that is empty says nothing."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "adlm"
    return Path(os.environ.get("ADLM_CACHE") or default).expanduser()
