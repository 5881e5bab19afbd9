"""Prompts and answers: the answer alone is hidden and scored, padding is neither."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import adlm
from adlm.config import Config
from adlm.data.corpus import open_rows, open_vocab
from adlm.data.pack import Rows
from adlm.errors import UserError
from adlm.eval.likelihood import LikelihoodSettings, measure
from adlm.models import checkpoint
from adlm.models.build import build_model
from adlm.objectives.base import make_objective
from adlm.objectives.likelihood import evaluator, score
from adlm.recipes.anchoring import anchored
from adlm.train.run import train
from adlm.types import Batch
from tests.conftest import make_config

PAIRS = [{"prompt": f"{i}+{i}=", "answer": f"{2 * i}" * (1 + i % 3)} for i in range(40)]
OBJECTIVES = ["ar", "mdlm", "adlm", "bd3lm", "d3pm", "udlm"]


def written(home: Path, records: list[dict], name: str = "pairs.jsonl") -> Path:
    path = home / name
    path.write_text("\n".join(json.dumps(r) for r in records))
    return path


def config_of(path: Path, objective: str = "mdlm", **train: object) -> Config:
    made = make_config(path, "mdlm" if objective == "adlm" else objective, **train)
    made = replace(made, data=replace(made.data, packing="pair"))
    if objective == "udlm":
        process = {"kernel": "uniform", "masking": "bernoulli", "conditioned": True}
        model = replace(made.model, time=8)
        made = replace(made, model=model, process=replace(made.process, **process))
    if objective == "d3pm":
        made = replace(made, process=replace(made.process, steps=4, masking="bernoulli"))
    return anchored(made, "adlm", front=1) if objective == "adlm" else made


def rows_of(config: Config, split: str = "train") -> Rows:
    return open_rows(config.data, split, open_vocab(config.data))


def test_a_row_is_a_prompt_and_its_answer(tmp_path: Path) -> None:
    config = config_of(written(tmp_path, PAIRS))
    rows, vocab = rows_of(config), open_vocab(config.data)
    batch = rows.batch(np.arange(len(rows)))
    assert len(rows) == 32  # of every ten the ninth and tenth are for validation and test
    for x, valid, scored in zip(batch.x, batch.valid, batch.scored, strict=True):
        prompt, answer = vocab.decode(x[valid & ~scored]), vocab.decode(x[scored])
        assert {"prompt": prompt, "answer": answer} in PAIRS
        assert x[scored][-1] == vocab.eos
    assert rows.scored.sum() == batch.scored.sum()


def test_csv_and_chats_are_read_too(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("prompt,answer\n" + "\n".join(f"{r['prompt']},{r['answer']}" for r in PAIRS))
    own, other = config_of(written(tmp_path, PAIRS)), config_of(table)
    assert np.array_equal(rows_of(own).store.tokens, rows_of(other).store.tokens)
    said = [
        {"messages": [{"role": "user", "content": r["prompt"]},
                      {"role": "assistant", "content": r["answer"]}]}
        for r in PAIRS
    ]  # fmt: skip
    chat = config_of(written(tmp_path, said, "chat.jsonl"))
    rows = rows_of(replace(chat, data=replace(chat.data, length=32)))
    batch, vocab = rows.batch(np.arange(1)), open_vocab(chat.data)
    assert vocab.decode(batch.x[0, batch.given[0]]) == "user: 0+0=\nassistant: "


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_answer_alone_is_hidden_and_scored(tmp_path: Path, objective: str) -> None:
    config = config_of(written(tmp_path, PAIRS), objective)
    vocab = open_vocab(config.data)
    batch = rows_of(config).batch(np.arange(8))
    made = make_objective(config, vocab)
    noise = made.noise(8, 16, torch.Generator().manual_seed(0))
    view = made.view(batch, noise)
    assert view.wanted.any()
    assert not (view.wanted[:, :16] & ~batch.scored).any()
    if not made.causal:
        assert torch.equal(view.z[:, :16][~batch.scored], batch.x[~batch.scored])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_padding_holds_changes_nothing(tmp_path: Path, objective: str) -> None:
    config = config_of(written(tmp_path, PAIRS), objective)
    vocab = open_vocab(config.data)
    torch.manual_seed(0)
    model = build_model(config, vocab.size)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    batch = rows_of(config).batch(np.arange(8))
    other = Batch(torch.where(batch.valid, batch.x, 7), batch.valid, given=batch.given)
    made = make_objective(config, vocab)
    noise = made.noise(8, 16, torch.Generator().manual_seed(0))
    one, two = (made.score(model, b, noise, anchor=True) for b in (batch, other))
    assert torch.allclose(one.rows, two.rows, rtol=1e-5)
    if one.anchor is not None:
        assert torch.allclose(one.anchor, two.anchor, rtol=1e-5)


def test_ar_scores_an_answer_as_the_chain_rule_does(tmp_path: Path) -> None:
    """NLL of the answer = NLL of the whole less that of the prompt."""
    config = config_of(written(tmp_path, PAIRS), "ar", steps=4)
    train(config, tmp_path / "run")
    model = adlm.load(tmp_path / "run", "cpu")
    rows = rows_of(config, "test")
    found = score(model.network, evaluator(config, model.vocab), rows, np.arange(4), quiet=True)
    batch = rows.batch(np.arange(4))
    bare = Batch(batch.x, batch.valid)
    objective = evaluator(config, model.vocab)
    with torch.no_grad():
        whole = objective.score(model.network, bare, None).rows
        asked = objective.score(model.network, Batch(batch.x, batch.given), None).rows
    assert found.nats[:, 0] == pytest.approx((whole - asked).numpy(), rel=1e-6)
    assert found.tokens.tolist() == batch.scored.sum(dim=1).tolist()


def test_a_model_of_pairs_is_trained_and_its_likelihood_says_what_it_is_of(tmp_path: Path) -> None:
    config = config_of(written(tmp_path, PAIRS), steps=4)
    train(config, tmp_path / "run")
    saved = checkpoint.load(tmp_path / "run")
    found = measure(saved, LikelihoodSettings(draws=2, device="cpu"))
    assert found.quantity == (
        "NELBO (upper bound of the NLL of the answers given their prompts and lengths)"
    )
    rows = rows_of(config, "test")
    assert found.tokens == rows.scored.sum()
    assert found.bytes == sum(len(r["answer"]) for r in PAIRS[9::10])
    assert found.with_length is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"prompt": "a"}, "pairs.jsonl line 3 has no answer: it has prompt"),
        ({"prompt": "a", "answer": " "}, "pairs.jsonl line 3 has no answer"),
        ({"answer": "a"}, "pairs.jsonl line 3 has no prompt"),
        ({"messages": [{"role": "user", "content": "a"}]}, "line 3 has no answer: its last"),
        ({"messages": "hello"}, "line 3: messages must be a list"),
        ([1], "line 3 is not an object"),
        ({"prompt": "a" * 20, "answer": "b"}, "pair 3 of .* has 22 tokens, and a row 16"),
    ],
)
def test_a_bad_line_is_one_sentence(tmp_path: Path, line: object, said: str) -> None:
    config = config_of(written(tmp_path, [*PAIRS[:2], line, *PAIRS[3:]]))
    with pytest.raises(UserError, match=said):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_long_pairs_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    config = config_of(written(tmp_path, [*PAIRS[:2], {"prompt": "a" * 20, "answer": "b"}]))
    config = replace(config, data=replace(config.data, skip_long=True))
    rows = rows_of(config)
    assert (len(rows), rows.left_out) == (2, 1)


def test_pairs_read_as_texts_are_told_apart(tmp_path: Path) -> None:
    config = make_config(written(tmp_path, PAIRS))
    with pytest.raises(UserError, match="prompts and answers: --data"):
        rows_of(config)
