"""`eval suite`: parts that are each done once, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from adlm.errors import UserError
from adlm.progress import console


@dataclass(frozen=True)
class Part:
    """One measurement: `work` writes the result file that it is given."""

    kind: str
    name: str
    work: Callable[[str], None]


def run(parts: Sequence[Part], home: Path) -> list[Path]:
    """Do the parts that are not there yet; one that cannot be done is said and left out."""
    made = []
    for part in parts:
        path = home / f"eval-{part.kind}-{part.name}.json"
        try:
            if not path.is_file():
                console.print(f"{part.kind} of {part.name}")
                finish(part.work, path)
            made.append(path)
        except UserError as error:
            console.print(f"{part.kind} of {part.name} left out: {error}", soft_wrap=True)
    if not made:
        raise UserError("nothing could be measured")
    return made


def finish(work: Callable[[str], None], path: Path) -> None:
    """Do a part in a folder of its own, where samples outlive a stop; when whole, move it."""
    home = path.parent / ".unfinished" / path.stem
    work(str(home / path.name))
    made = [file for file in home.iterdir() if not file.name.startswith(".")]
    for file in sorted(made, key=lambda f: f.name == path.name):  # the result comes last
        file.rename(path.parent / file.name)
    shutil.rmtree(home)
    if not any(home.parent.iterdir()):
        home.parent.rmdir()
