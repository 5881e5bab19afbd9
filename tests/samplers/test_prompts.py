"""Prompts of different lengths are answered together as each is alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import adlm
from adlm.api import Model, settings
from adlm.samplers.generate import samplers_for
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

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
