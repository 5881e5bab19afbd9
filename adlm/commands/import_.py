"""`adlm import`."""

from __future__ import annotations

from pathlib import Path

from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.foreign.load import load_foreign
from adlm.values import to_text


def import_(
    source: str,
    out: str | None = None,
    raw: bool = False,
    tokenizer: str | None = None,
    data_dir: str | None = None,
) -> None:
    """Make a checkpoint out of another project's weights: MDLM, BD3-LM, ADLM, SEDD, GIDD or GPT-2.

    Args:
        source: A folder with config.json and model.safetensors, a name on the hub, or a training
            checkpoint (.ckpt) of ADLM's or MDLM's code, of which nothing is ever executed.
        out: Folder of the checkpoint, new or empty; runs/SOURCE by default.
        raw: Take a training checkpoint's weights as they are, not their average.
        tokenizer: byte, gpt2, bert or a tokenizer.json, where the folder has none and the number
            of tokens does not tell.
        data_dir: Folder that holds the files of gpt2 or bert; the variable ADLM_DATA by default.
    """
    folder = Path(out or f"runs/{Path(source).stem}").expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--out {folder} is there already: name a new or an empty folder")
    found = load_foreign(source, raw, tokenizer, data_dir)
    with checkpoint.whole(folder) as work:
        weights = found.model.state_dict()
        checkpoint.write(work, found.config, found.vocab, weights, found.lengths, found.counts)
        origin = to_text(found.origin, indent=2) + "\n"
        (work / "source.json").write_text(origin, encoding="utf-8")
    size = sum(p.numel() for p in found.model.parameters())
    kind = found.origin["format"]
    print(f"{kind}: {size:,} parameters, {found.vocab.size:,} tokens, written to {folder}")
    print(f"next: adlm sample {folder}, adlm eval likelihood {folder}, adlm export {folder}")
