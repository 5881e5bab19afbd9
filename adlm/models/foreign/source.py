"""What is imported: a folder in the hub's layout, a name on the hub, or a training checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.foreign.unpickle import Archive, Stored, plain
from adlm.remote import download
from adlm.values import read_plain

WRAPPERS = ("_orig_mod.", "module.")  # of torch.compile and DDP: they may stand anywhere
BUFFERS = ("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached")


@dataclass(frozen=True)
class Source:
    """Weights as another project wrote them."""

    path: Path  # the folder or file
    config: dict[str, Any]  # config.json, or the settings in a training checkpoint
    tensors: dict[str, Tensor]  # under their published names
    training: bool = False  # is it a training checkpoint?

    @property
    def file(self) -> Path:
        """The file that holds the tensors."""
        return self.path if self.training else self.path / "model.safetensors"

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting by its dotted name."""
        value: Any = self.config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return default if value is None else value

    def number(self, *names: str) -> int | None:
        """A whole number of the settings, by the first name that has one."""
        found = (self.setting(name) for name in names)
        return next((n for n in found if type(n) is int), None)


def open_source(name: str, raw: bool = False) -> Source:
    """Read a folder, a training checkpoint, or what the hub has under that name.

    `raw` takes a training checkpoint's weights as they are, not their average.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return read_training(path, raw)
    if not path.is_dir():
        path = download(name, checkpoint.FILES)
    return read_folder(path)


def read_folder(folder: Path) -> Source:
    """Return a folder with config.json and model.safetensors."""
    config, weights = folder / "config.json", folder / "model.safetensors"
    if not weights.is_file():
        pickled = [p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt")]
        said = f"; {min(pickled)} is pickled, and never read from a folder" if pickled else ""
        raise UserError(f"{folder} has no model.safetensors{said}")
    values = read_plain(config)
    if not isinstance(values, dict):
        raise UserError(f"{config} must hold an object, found {values!r}")
    try:
        tensors = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{weights} is not a safetensors file, or is truncated ({error})") from None
    return Source(folder, values, {unwrapped(k): t for k, t in tensors.items()})


def read_training(path: Path, raw: bool) -> Source:
    """A Lightning .ckpt: `state_dict`, and `ema` with the averaged weights as a nameless list."""
    archive = Archive(path)
    saved = archive.content if isinstance(archive.content, dict) else {}
    state = saved.get("state_dict")
    if not isinstance(state, dict) or not all(isinstance(t, Stored) for t in state.values()):
        raise UserError(f"{path} is not a training checkpoint: it has no state_dict of tensors")
    wanted = state if raw else averaged(path, state, saved.get("ema"))
    settings = plain((saved.get("hyper_parameters") or {}).get("config"))
    tensors = {unwrapped(k): archive.tensor(t, k) for k, t in wanted.items()}
    return Source(path, settings or {}, tensors, training=True)


def averaged(path: Path, state: dict[str, Stored], ema: Any) -> dict[str, Stored]:
    """Return the state with averaged weights in place of the raw ones; buffers have no average.

    They lie in the order of parameters(): that of the state without its buffers.
    """
    names = [k for k in state if not is_buffer(k)]
    shadow = ema.get("shadow_params") if isinstance(ema, dict) else None
    if not isinstance(shadow, list) or not all(isinstance(t, Stored) for t in shadow):
        raise UserError(f"{path} has no averaged weights (ema): --raw takes the raw ones")
    if len(shadow) != len(names):
        raise UserError(f"{path} has {len(shadow)} averaged tensors for {len(names)} weights")
    for name, found in zip(names, shadow, strict=True):
        if found.shape != state[name].shape:
            raise UserError(
                f"{path}: the average of {name} has shape {found.shape} "
                f"instead of {state[name].shape}"
            )
    return {**state, **dict(zip(names, shadow, strict=True))}


def is_buffer(name: str) -> bool:
    """Is the tensor one that the network makes itself?"""
    return name.endswith((*BUFFERS, "sampling_eps_min", "sampling_eps_max"))


def unwrapped(name: str) -> str:
    """Return a tensor's name without what wrappers put into it.

    Example:
        >>> unwrapped("module.backbone._orig_mod.blocks.0.norm1.weight")
        'backbone.blocks.0.norm1.weight'
    """
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name
