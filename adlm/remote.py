"""Files from and to the hub, by `huggingface_hub`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from adlm.errors import UserError, need

NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")


def is_name(text: str) -> bool:
    """May it be a model's name on the hub? Not where a folder here begins like it.

    Example:
        >>> is_name("user/model"), is_name("a/b/c"), is_name("./model")
        (True, False, False)
    """
    path = Path(text)
    local = path.exists() or (len(path.parts) > 1 and Path(path.parts[0]).exists())
    return bool(NAME.fullmatch(text)) and not text.startswith(".") and not local


def download(name: str, files: Collection[str]) -> Path:
    """Return the folder with those files of a model that the hub has; others are left there."""
    if not is_name(name):
        raise UserError(f"there is no checkpoint or run {name}, and no file either")
    with one_sentence(name):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, allow_patterns=list(files)))


def contents(folder: Path) -> list[Path]:
    """The files of a folder that are uploaded: all but hidden ones."""
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))


def upload(folder: Path, name: str, private: bool) -> str:
    """Make the repository where there is none, and put all of a folder's files there in one commit.

    Returns its address.
    """
    with one_sentence(name):
        from huggingface_hub import CommitOperationAdd, HfApi

        files = [CommitOperationAdd(p.name, p) for p in contents(folder)]
        api = HfApi()
        address = api.create_repo(name, private=private or None, exist_ok=True)
        api.create_commit(name, files, commit_message=f"Upload {name.split('/')[-1]}")
        return str(address)


@contextmanager
def one_sentence(name: str) -> Iterator[None]:
    """Say in one sentence what went wrong with the hub."""
    try:
        from huggingface_hub import errors
    except ImportError:
        raise need("huggingface_hub", "hub", f"the hub's model {name}") from None
    try:
        yield
    except UserError:
        raise
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"there is no folder {name}, and the hub has no such model (or it is private: "
            "`hf auth login` lets you in)"
        ) from None
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        denied = ": log in with `hf auth login`" if status in (401, 403) else f" ({first(error)})"
        raise UserError(f"the hub refuses {name}{denied}") from None
    except Exception as error:  # no network, a broken answer: the library has many kinds
        raise UserError(
            f"the hub could not be reached for {name} ({first(error)}): is there a network?"
        ) from None


def first(error: Exception) -> str:
    """Return the first line of what an error says."""
    return (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__
