"""The facade that a notebook uses: what it gives, and what it says of misuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import adlm
from adlm.errors import UserError
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

TEXT = "the law of"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("api")
    corpus = small_corpus(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        for objective in ("ar", "mdlm", "bd3lm", "sedd"):
            config = make_config(corpus, objective, steps=3)
            if objective == "sedd":
                process = replace(config.process, masking="bernoulli", conditioned=True)
                model = replace(config.model, time=8)
                config = replace(config, process=process, model=model)
            train(config, home / objective)
    return home


def test_log_probabilities_of_ar_are_those_of_the_text(runs: Path) -> None:
    model = adlm.load(runs / "ar", "cpu")
    found = model.token_logprobs(TEXT)
    assert "".join(piece for piece, _ in found) == TEXT
    ids = model.vocab.encode([TEXT])[0]
    logits = model.logits(np.append(model.vocab.bos, ids)[None])[0].double()
    logits[:, model.vocab.mask] = -torch.inf
    right = logits.log_softmax(-1)
    assert [p for _, p in found] == pytest.approx([right[i, t].item() for i, t in enumerate(ids)])
    end = right[len(ids), model.vocab.eos].item()
    assert model.nll([TEXT])[0] == pytest.approx(-sum(p for _, p in found) - end, rel=1e-5)


def test_log_probabilities_of_diffusion_hide_one_token_at_a_time(runs: Path) -> None:
    model = adlm.load(runs / "mdlm", "cpu")
    ids = torch.from_numpy(model.vocab.encode([TEXT])[0])
    place = 4
    z = ids.clone()
    z[place] = model.vocab.mask
    logits = model.logits(z)[0, place].double()
    logits[model.vocab.mask] = -torch.inf
    right = logits.log_softmax(-1)[ids[place]].item()
    assert model.token_logprobs(TEXT)[place][1] == pytest.approx(right, rel=1e-5)


def test_block_diffusion_has_them_too_and_scores_have_not(runs: Path) -> None:
    found = adlm.load(runs / "bd3lm", "cpu").token_logprobs(TEXT)
    assert len(found) == len(TEXT)
    assert all(p < 0 for _, p in found)
    with pytest.raises(UserError, match="sedd has no log-probability"):
        adlm.load(runs / "sedd", "cpu").token_logprobs(TEXT)


@pytest.mark.parametrize("objective", ["ar", "mdlm", "bd3lm", "sedd"])
def test_hidden_states_are_those_of_each_token(runs: Path, objective: str) -> None:
    model = adlm.load(runs / objective, "cpu")
    h = model.hidden(TEXT)
    assert h.shape == (len(TEXT), 16)
    longer = model.hidden(TEXT + " it")[: len(TEXT)]
    assert torch.allclose(h, longer, atol=1e-6) == model.network.causal


def test_a_pass_gives_states_and_raw_logits(runs: Path) -> None:
    model = adlm.load(runs / "mdlm", "cpu")
    ids = [[1, 2, 3], [4, 5, 6]]
    states, logits = model.forward(ids), model.logits(ids)
    assert states.denoiser.shape == (2, 3, 16)
    assert logits.shape == (2, 3, model.vocab.size)
    assert torch.equal(model.network.head(states.denoiser), logits)
    assert torch.isfinite(logits).all()  # the mask's too
    timed = adlm.load(runs / "sedd", "cpu")
    assert torch.equal(timed.logits(ids, sigma=0.5), timed.logits(ids, sigma=[0.5, 0.5]))
    assert timed.tokenizer.get_vocab_size() == timed.vocab.size


def test_nll_has_an_error_bar_that_is_one(runs: Path) -> None:
    """Over seeds the figure scatters as its standard error says; AR's is exact."""
    model = adlm.load(runs / "mdlm", "cpu")
    found = [model.nll([TEXT], draws=8, seed=seed) for seed in range(24)]
    scatter = np.std([f[0] for f in found], ddof=1)
    said = np.sqrt(np.mean([f.se[0] ** 2 for f in found]))
    assert 0.5 < said / scatter < 2
    assert np.isnan(model.nll([TEXT], draws=1).se).all()
    assert (model.nll([TEXT], draws=2).se > 0).all()
    assert adlm.load(runs / "ar", "cpu").nll([TEXT]).se.tolist() == [0]


def test_a_saved_model_is_the_same_one(runs: Path, tmp_path: Path) -> None:
    model = adlm.load(runs / "mdlm", "cpu").to("cpu")
    model.save(tmp_path / "copy")
    again = adlm.load(tmp_path / "copy", "cpu")
    assert again.config == model.config
    assert torch.equal(again.logits([[1, 2]]), model.logits([[1, 2]]))
    assert (again.nll([TEXT]) == model.nll([TEXT])).all()
    with pytest.raises(UserError, match="is there already"):
        model.save(tmp_path / "copy")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.generate(2), "prompt must be a text, or a list of texts, found 2"),
        (lambda m: m.generate("a", n=0), "n must be at least 1, found 0"),
        (lambda m: m.generate("a", n="two"), "n must be a whole number, found 'two'"),
        (lambda m: m.generate("a", top_p=2.0), r"nucleus must be in \(0, 1\], found 2"),
        (lambda m: m.generate("a", temperature=-1), r"temperature must be 0 .*found -1"),
        (lambda m: m.generate("a", max_new_tokens=0), "max_new_tokens must be at least 1"),
        (lambda m: m.generate("a", length=3.5), "length must be a whole number, found 3.5"),
        (lambda m: m.generate("a", length=9, max_new_tokens=3), "give length .* or max_new_tokens"),
        (lambda m: m.generate("a", tempersture=1), "no setting 'tempersture'; did you mean"),
        (lambda m: m.generate("a", policy={"eta": "x"}, sampler="remdm-cap"), "policy.eta must be"),
        (lambda m: m.infill(3), "text must be a text, or a list of texts, found 3"),
        (lambda m: m.nll("the law"), "nll takes a list of texts"),
        (lambda m: m.nll(["a"], draws=0), "draws must be at least 1"),
        (lambda m: m.hidden("a" * 99), "text must be 1 to 16 tokens long, found '99 tokens'"),
        (lambda m: m.logits([[1, 999]]), "ids must be from 0 to 257, .* found 999"),
        (lambda m: m.logits([[0, -1]]), "ids must be from 0 to 257, .* found -1"),
        (lambda m: m.logits(np.zeros((1, 0), dtype=np.int64)), "ids must be whole numbers of sha"),
        (lambda m: m.logits([[1.5]]), r"ids must be whole numbers .* found .float32 of shape"),
        (lambda m: m.logits([[1], [2, 3]]), "ids must be whole numbers of shape"),
        (lambda m: m.logits([[1]], sigma=0.5), "sigma is for networks that see the noise level"),
    ],
)
def test_misuse_is_said_in_pythons_words(runs: Path, call: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as found:
        call(adlm.load(runs / "mdlm", "cpu"))
    assert "--" not in str(found.value)
