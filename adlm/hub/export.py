"""A checkpoint as a folder for the hub, which transformers and adlm both load.

config.json  generation_config.json  tokenizer.json  tokenizer_config.json
model.safetensors                       the tensors, under adlm's own names
configuration_adlm.py  modeling_adlm.py the network written out for transformers
README.md                               the model card
vocab.json  lengths.json  manifest.json what adlm reads besides
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from adlm import __version__, registry
from adlm.config import Config, to_dict
from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.hub.card import card, plain_name
from adlm.models import checkpoint
from adlm.models.checkpoint import Checkpoint
from adlm.values import to_text

PLAIN = Path(__file__).parent / "plain"
CODE = ("configuration_adlm.py", "modeling_adlm.py")
# what its owner may edit on the hub
FREE = ("README.md", "generation_config.json", "tokenizer_config.json", *CODE)


def export(saved: Checkpoint, folder: Path) -> list[Path]:
    """Write the folder, whole or not at all; returns its files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--to {folder} is there already: name a new or an empty folder")
    objective = registry.lookup("objective", saved.config.objective)
    causal, in_blocks = objective.causal, objective.in_blocks
    with checkpoint.whole(folder, FREE) as work:
        for name in ("tokenizer.json", "vocab.json", "lengths.json", "source.json"):
            if (saved.path / name).is_file():
                shutil.copy(saved.path / name, work)
        checkpoint.write_tensors(work, saved.weights(), saved.counts(), {"format": "pt"})
        for name in CODE:
            shutil.copy(PLAIN / name, work)
        texts = {
            "config.json": config(saved, causal, in_blocks),
            "generation_config.json": generation(saved.vocab),
            "tokenizer_config.json": tokenizer(saved.vocab, saved.config.data.length),
        }
        for name, text in {**texts, "README.md": card(saved, causal)}.items():
            (work / name).write_text(text, encoding="utf-8")
    return sorted(folder.iterdir())


def config(saved: Checkpoint, causal: bool, in_blocks: bool) -> str:
    """config.json: transformers' fields, and ours under `adlm`."""
    kind, vocab = "ForCausalLM" if causal else "ForMaskedLM", saved.vocab
    return as_json(
        {
            "model_type": "adlm",
            "architectures": [f"Adlm{kind}"],
            "auto_map": {
                "AutoConfig": "configuration_adlm.AdlmConfig",
                f"AutoModel{kind}": f"modeling_adlm.Adlm{kind}",
            },
            "dtype": "float32",
            "vocab_size": vocab.size,
            "causal": causal,
            "block": saved.config.process.block if in_blocks else 0,
            "mask_token_id": vocab.mask,
            "bos_token_id": vocab.bos,
            "eos_token_id": vocab.eos,
            "pad_token_id": vocab.pad,
            "tie_word_embeddings": saved.config.model.tied or saved.config.model.shared,
            "adlm_version": __version__,
            "adlm": to_dict(public(saved.config)),
        }
    )


def public(config: Config) -> Config:
    """Return the configuration without the folders of this machine."""
    data = config.data
    tokenizer = data.tokenizer if Path(data.tokenizer).suffix == "" else "tokenizer.json"
    data = replace(data, name=plain_name(data.name), tokenizer=tokenizer, dir=None)
    base = replace(config.base, name=config.base.name and plain_name(config.base.name))
    return replace(config, data=data, base=base)


def generation(vocab: Vocab) -> str:
    """generation_config.json: the mask is never written."""
    return as_json(
        {
            "bos_token_id": vocab.bos,
            "eos_token_id": vocab.eos,
            "pad_token_id": vocab.pad,
            "suppress_tokens": [vocab.mask],
            "use_cache": False,
        }
    )


def tokenizer(vocab: Vocab, length: int) -> str:
    """tokenizer_config.json: which tokens are special."""
    ids = {"mask": vocab.mask, "bos": vocab.bos, "eos": vocab.eos, "pad": vocab.pad}
    named = {f"{role}_token": vocab.tokenizer.id_to_token(token) for role, token in ids.items()}
    return as_json(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": length,
            "clean_up_tokenization_spaces": False,
            **named,
        }
    )


def as_json(values: object) -> str:
    return to_text(values, indent=2) + "\n"
