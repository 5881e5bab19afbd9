"""Foreign checkpoints: GPT-2's weights (safetensors in the hub's layout) in the one trunk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from adlm.config import Config, DataConfig, ModelConfig
from adlm.data.sources import data_dirs
from adlm.data.vocab import Vocab, file_vocab, gpt2_vocab
from adlm.errors import UserError, need
from adlm.models import hub
from adlm.models.build import build_model
from adlm.models.denoiser import Denoiser

# of a block: GPT-2's name -> ours; its matrices are stored the other way round
MATRICES = {
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.out",
    "mlp.c_fc": "up",
    "mlp.c_proj": "down",
}
NORMS = {"ln_1": "norm1", "ln_2": "norm2"}


def is_gpt2(path: str) -> bool:
    """Is it a folder with GPT-2's weights, or a name on the hub that says gpt2?"""
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        return not folder.exists() and "gpt2" in path
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("model_type") == "gpt2"


def load_gpt2(path: str, data_dir: str | None = None) -> tuple[Config, Vocab, Denoiser]:
    """GPT-2 as a causal trunk of ours: (configuration, vocabulary, model)."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        folder = _download(path)
    config = gpt2_config(json.loads((folder / "config.json").read_text(encoding="utf-8")), folder)
    tensors = _weights(folder)
    if "wte.weight" not in tensors:
        raise UserError(f"{folder / 'model.safetensors'} is not GPT-2's: it has no wte.weight")
    own = (folder / "tokenizer.json").is_file()
    vocab = (
        file_vocab(folder) if own else gpt2_vocab([folder, *data_dirs(DataConfig(dir=data_dir))])
    )
    tensors["wte.weight"] = tensors["wte.weight"][: vocab.size]  # some are padded with empty rows
    vocab_size = len(tensors["wte.weight"])
    model = build_model(config, vocab_size)
    hub.fill(model, translate(tensors, config), folder)
    if vocab.size > vocab_size:  # the mask, which GPT-2 has not: a row that is never read
        model = widen(model, config, vocab.size)
    return config, vocab, model.eval()


def gpt2_config(values: dict, folder: Path) -> Config:
    """Our configuration of the same network."""
    try:
        width, heads = int(values["n_embd"]), int(values["n_head"])
        blocks, length = int(values["n_layer"]), int(values["n_positions"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'} is not GPT-2's: {error!r}") from None
    inner = values.get("n_inner") or 4 * width
    if values.get("activation_function", "gelu_new") != "gelu_new" or inner % width:
        raise UserError(f"{folder} is a variant of GPT-2 that this trunk cannot be")
    model = ModelConfig(
        width=width,
        blocks=blocks,
        heads=heads,
        mlp=inner // width,
        tied=True,
        bias=True,
        positions="learned",
    )
    return Config(objective="ar", model=model, data=DataConfig(tokenizer="gpt2", length=length))


def translate(tensors: dict[str, Tensor], config: Config) -> dict[str, Tensor]:
    """GPT-2's tensors under our names."""
    try:
        embed = tensors["wte.weight"]
        out = {
            "embed.weight": embed,
            "head.weight": embed,
            "head.bias": torch.zeros(len(embed)),
            "trunk.positions.weight": tensors["wpe.weight"],
            "trunk.norm.weight": tensors["ln_f.weight"],
            "trunk.norm.bias": tensors["ln_f.bias"],
        }
        for n in range(config.model.blocks):
            for theirs, ours in MATRICES.items():
                stem = f"trunk.blocks.{n}.{ours}"
                out[f"{stem}.weight"] = tensors[f"h.{n}.{theirs}.weight"].T.contiguous()
                out[f"{stem}.bias"] = tensors[f"h.{n}.{theirs}.bias"]
            for theirs, ours in NORMS.items():
                for part in ("weight", "bias"):
                    name = f"trunk.blocks.{n}.{ours}.{part}"
                    out[name] = tensors[f"h.{n}.{theirs}.{part}"]
    except KeyError as error:
        raise UserError(f"GPT-2's weights lack the tensor {error}") from None
    return out


@torch.no_grad()
def widen(model: Denoiser, config: Config, size: int) -> Denoiser:
    """The model with rows for new tokens, which start as the mean of the old ones."""
    wide = build_model(config, size)
    old = model.state_dict()
    for name, tensor in wide.state_dict().items():
        have = old[name]
        if tensor.shape == have.shape:
            tensor.copy_(have)
            continue
        axis = int(len(tensor) == len(have))  # the vocabulary's; a bridge's matrix is (D, V)
        tensor.copy_(have.float().mean(axis, keepdim=True).expand_as(tensor))
        tensor.narrow(axis, 0, have.shape[axis]).copy_(have)
    return wide


def _weights(folder: Path) -> dict[str, Tensor]:
    path = folder / "model.safetensors"
    if not path.is_file():
        raise UserError(f"{folder} has no model.safetensors (pickled weights are never loaded)")
    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a safetensors file ({error})") from None
    return {k.removeprefix("transformer."): v.float() for k, v in found.items()}


def _download(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise need("huggingface_hub", "data", f"the hub's model {name}") from None
    wanted = ["config.json", "model.safetensors", "tokenizer.json"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # no network, no such model: the library has many kinds
        said = str(error).splitlines()[0]
        raise UserError(f"there is no folder {name}, nor could the hub give it ({said})") from None
