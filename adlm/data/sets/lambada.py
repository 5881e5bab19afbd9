"""LAMBADA: passages of novels whose last word can be guessed only from the whole passage."""

from __future__ import annotations

from adlm.data import detokenize
from adlm.data.dataset import DataSet
from adlm.data.sets.lm1b import sentences
from adlm.registry import register

register("dataset", "lambada")(
    DataSet(
        files={
            "valid": ("lambada_development_plain_text.txt",),
            "test": ("lambada_test_plain_text.txt",),
        },
        read=sentences,
        detokenize=detokenize.lambada,
        hub=("EleutherAI/lambada_openai", None),
        hub_splits={"test": "test"},
    )
)
