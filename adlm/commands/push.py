"""`adlm push`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from adlm import remote
from adlm.errors import UserError
from adlm.hub import export as hub
from adlm.models import checkpoint


def push(checkpoint_or_run: str, name: str, private: bool = False, dry_run: bool = False) -> None:
    """Upload a model to the hub, as `adlm export` would write it.

    Args:
        checkpoint_or_run: A checkpoint, a run (its newest checkpoint is taken) or a folder that
            `adlm export` wrote, whose model card you may have edited.
        name: The model's name there, user/name.
        private: Let only you see it, where it is new.
        dry_run: Only list what would go.
    """
    if not remote.NAME.fullmatch(name) or "/" not in name:
        raise UserError(f"a model on the hub is named user/name, found '{name}'")
    with TemporaryDirectory() as home:
        given = Path(checkpoint_or_run).expanduser()
        saved = checkpoint.load(given)
        exported = given == saved.path and (given / hub.CODE[0]).is_file()
        folder = given if exported else Path(home) / name.split("/")[1]
        if not exported:
            hub.export(saved, folder)
        for file in remote.contents(folder):
            print(f"{file.stat().st_size:>14,}  {file.name}")
        if dry_run:
            print(f"nothing was uploaded; without --dry-run this goes to {name}")
            return
        print(f"uploaded to {remote.upload(folder, name, private)}")
