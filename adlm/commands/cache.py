"""`adlm cache`."""

from __future__ import annotations

from typing import Literal

from adlm.config import check
from adlm.data import tidy
from adlm.data.home import folder
from adlm.progress import bytes_of


def cache(
    action: Literal["list", "prune", "path"] = "list",
    older: float = 30.0,
    limit: float | None = None,
) -> None:
    """List what was tokenised and is kept, remove what is old, or say where it lies.

    Args:
        action: list shows sizes and ages; prune removes what killed processes left and what was
            not used for --older days; path prints the folder (ADLM_CACHE, or ~/.cache/adlm).
        older: Days without use after which prune removes.
        limit: GB that prune leaves at most, by removing first what was used least recently.
    """
    check(older >= 0, "--older", older, "0 or more")
    check(limit is None or limit >= 0, "--limit", limit, "0 or more")
    if action == "path":
        print(folder())
        return
    most = None if limit is None else limit * 1e9
    found = tidy.entries() if action == "list" else tidy.prune(older, most)
    for entry in found:
        if entry.kind != "hash":
            print(f"{bytes_of(entry.size):>8}  {entry.days:6.1f} d  {entry.kind:<11}{entry.what}")
    done = "in" if action == "list" else "removed from"
    print(f"{bytes_of(sum(entry.size for entry in found))} {done} {folder()}")
