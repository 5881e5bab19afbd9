"""Prompts of different lengths are answered together as each is alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import adlm
from adlm import registry
from adlm.api import Model, settings
from adlm.data.vocab import byte_vocab
from adlm.models.build import build_model
from adlm.samplers import template
from adlm.samplers.base import find_policy
from adlm.samplers.choice import find_way, samplers_for
from adlm.samplers.generate import groups, write
from adlm.samplers.random import RowRandom
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

RAGGED = ["ancestral", "first-hitting", "confidence", "anchor-first", "remdm-cap", "remdm-rescale"]
RAGGED += ["remdm-conf", "remdm-loop", "remdm-switch", "forward-backward", "dfm"]
PROMPTS = ["the ", "the law of", "a", "the law of ", "peac"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("prompts")
    corpus = small_corpus(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        for objective in ("ar", "mdlm", "bd3lm"):
            made = make_config(corpus, objective, steps=3)
            train(replace(made, process=replace(made.process, block=4)), home / objective)
    return home


def cases() -> list[tuple[str, str]]:
    """Every sampler of masked diffusion; block diffusion has them inside its blocks."""
    every = [("mdlm", sampler) for sampler in samplers_for(make_config("any"))]
    return [("ar", "causal"), *every, ("bd3lm", "first-hitting"), ("bd3lm", "remdm-cap")]


@pytest.mark.parametrize(("objective", "sampler"), cases())
@pytest.mark.parametrize("how", [{"length": 16}, {"max_new_tokens": 5}])
def test_a_batch_of_prompts_is_answered_as_each_alone(
    runs: Path, objective: str, sampler: str, how: dict
) -> None:
    model = adlm.load(runs / objective, "cpu")
    model = replace(model, network=model.network.double())
    given = {"n": 2, "sampler": sampler, "seed": 3, **how}
    together = model.generate(PROMPTS, **given)
    assert together == [model.generate(prompt, **given) for prompt in PROMPTS]
    assert together[0][0] != together[0][1]  # n are different ones


def test_as_many_at_once_as_you_like(runs: Path) -> None:
    model = adlm.load(runs / "mdlm", "cpu")
    found = [model.generate(PROMPTS, n=3, at_once=size) for size in (1, 4, 64)]
    assert found[0] == found[1] == found[2]


def test_passes_are_those_of_each_row(runs: Path) -> None:
    model: Model = adlm.load(runs / "ar", "cpu")
    given = [model.blank(p, new=3) for p in PROMPTS]
    made = model.write(given, settings())
    assert made.nfe.tolist() == [len(one) for one in given]
    assert [len(ids) for ids in made.ids] == [len(one) for one in given]


def test_the_command_answers_a_file(runs: Path, tmp_path: Path, adlm_cli) -> None:
    asked = [{"prompt": "the "}, {"messages": [{"role": "user", "content": "a"}]}]
    path, out = tmp_path / "prompts.jsonl", tmp_path / "out.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in asked[:1] * 2))
    words = ["sample", runs / "ar", "--prompts", path, "--n", 2, "--max_new_tokens", 4]
    done = adlm_cli(*words, "--json", out)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 4
    assert all(line["text"] == line["prompt"] + line["answer"] for line in lines)
    alone = adlm.load(runs / "ar", "cpu").generate("the ", n=2, max_new_tokens=4)
    assert [line["text"] for line in lines] == alone * 2


def test_bad_prompts_are_one_sentence_with_file_and_line(
    runs: Path, tmp_path: Path, adlm_cli
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "' + "b" * 40 + '"}')
    done = adlm_cli("sample", runs / "ar", "--prompts", path)
    assert done.returncode == 2
    assert f"{path} line 2: the prompt has 40 tokens, and only 16 fit" in done.stderr
    path.write_text('{"prompt": "a"}\n{"question": "b"}')
    done = adlm_cli("sample", runs / "ar", "--prompts", path, "--json", tmp_path / "no.jsonl")
    assert (done.returncode, "line 2 has no prompt" in done.stderr) == (2, True)
    assert not (tmp_path / "no.jsonl").exists()


def test_samplers_of_masked_diffusion_take_rows_of_any_length_at_once() -> None:
    found = [name for name in registry.names("sampler") if find_policy(name).ragged]
    assert sorted(found) == sorted(RAGGED)


@pytest.mark.parametrize("sampler", RAGGED)
@pytest.mark.parametrize("how", [{}, {"steps": 4}, {"cache": "delayed", "anchor_every": 2}])
@pytest.mark.parametrize("time", [0, 4], ids=["", "conditioned"])
def test_rows_of_different_lengths_are_one_batch_and_each_as_alone(sampler, how, time) -> None:
    """In fp64: texts, passes and the probability of every token."""
    config = make_config("none", "adlm")
    shape = replace(config.model, anchor_blocks=1, conv=3, qk_norm=True, time=time)
    config = replace(config, model=shape, process=replace(config.process, conditioned=bool(time)))
    vocab = byte_vocab()
    torch.manual_seed(0)
    network = build_model(config, vocab.size).double().eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    given = [
        template.after(p, 0, vocab, new=n) for p, n in zip(PROMPTS, (5, 3, 12, 1, 9), strict=True)
    ]
    chosen = settings(sampler=sampler, seed=3, **how)
    policy = find_way(sampler, config, chosen)
    assert len(groups(given, policy, vocab.mask)) == 1

    def write_rows(rows: list[int]):
        random = RowRandom.of((3, row) for row in rows)
        some = [given[row] for row in rows]
        return write(network, config, vocab, some, random, chosen, policy, "cpu")

    together = write_rows(list(range(5)))
    for row in range(5):
        alone, length = write_rows([row]), len(given[row])
        assert torch.equal(together.z[row, :length], alone.z[0])
        assert together.nfe[row] == alone.nfe[0]
        sure = (together.probability[row, :length], alone.probability[0])
        torch.testing.assert_close(*sure, atol=1e-12, rtol=0)
