"""Penn Treebank: lower case, one sentence a line, rare words `<unk>`, numbers `N`."""

from __future__ import annotations

from adlm.data import detokenize
from adlm.data.dataset import SPLITS, DataSet
from adlm.data.sets.lm1b import sentences
from adlm.registry import register

register("dataset", "ptb")(
    DataSet(
        files={split: (f"ptb.{split}.txt",) for split in SPLITS},
        read=sentences,
        detokenize=detokenize.ptb,
        hub=("ptb-text-only/ptb_text_only", None),
        hub_splits={"train": "train", "valid": "validation", "test": "test"},
        hub_text=lambda record: record["sentence"],
    )
)
