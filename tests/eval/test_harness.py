"""The real lm-eval package on a local task."""

from __future__ import annotations

import json

import pytest
import torch

from adlm.cli import main
from adlm.objectives.subs import zero_masking
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

pytest.importorskip("lm_eval")

CHOICE = """
task: local_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
doc_to_choice: ["law", "sea"]
metric_list: [{{metric: acc}}]
"""
WRITE = """
task: local_write
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "law"
generation_kwargs: {{until: ["."], max_gen_toks: 4}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("harness")
    text = small_corpus(home)
    for objective in ("ar", "mdlm"):
        train(make_config(text, objective, steps=2), home / objective)
    (home / "tasks").mkdir()
    data = home / "data.json"
    rows = [{"question": "the ", "answer": 0}, {"question": "a long text before the ", "answer": 1}]
    data.write_text("\n".join(map(json.dumps, rows)))
    for name, task in (("choice", CHOICE), ("write", WRITE)):
        (home / "tasks" / f"{name}.yaml").write_text(task.format(data=data))
    return home


@pytest.mark.parametrize("objective", ["ar", "mdlm"])
def test_local_tasks_run(home, objective, tmp_path, capsys):
    out = tmp_path / "h.json"
    words = ["eval", "harness", str(home / objective), "[local_choice, local_write]"]
    words += ["--include", str(home / "tasks"), "--draws", "8", "--out", str(out)]
    assert main(words) == 0
    result = json.loads(out.read_text())
    assert 0 <= result["results"]["local_choice"]["acc,none"] <= 1
    assert "exact_match,none" in result["results"]["local_write"]
    assert result["adlm_draws"] == (1 if objective == "ar" else 8)
    assert (result["adlm_mean_stderr_nats"] > 0) == (objective == "mdlm")
    assert "mean standard error" in capsys.readouterr().out


def harness(path, **how):
    from adlm.eval.harness import Harness

    return Harness(str(path), device="cpu", **how)


def test_a_causal_likelihood_is_the_chain_rule(home):
    made = harness(home / "ar")
    whole, before = made.score([], made.ids("the law"))[0], made.score([], made.ids("the"))[0]
    assert -made.pair("the", " law")[0] == pytest.approx(whole - before, rel=1e-5)
    assert made.pair("the ", "law") == made.pair("the", " law"), "a trailing space goes along"


def test_a_diffusion_likelihood_is_the_enumerated_bound(home):
    made = harness(home / "mdlm", draws=4000)
    given, target = made.ids("the "), made.ids("la")
    net, vocab = made.model.network, made.model.vocab
    x = torch.tensor([given + target])

    def nll(masked: list[int], at: int) -> float:
        z = x.clone()
        z[0, masked] = vocab.mask
        with torch.no_grad():
            log_p = zero_masking(net.logits(z)[0, at], vocab.mask)
        return -float(log_p[x[0, at]])

    one = 2 * (nll([4], 4) + nll([5], 5)) / 2
    both = nll([4, 5], 4) + nll([4, 5], 5)
    found, _ = made.score(given, target)
    assert found == pytest.approx((one + both) / 2, abs=5 * made.errors[-1] + 1e-6)


def test_long_texts_are_scored_in_pieces(home):
    made = harness(home / "ar")
    text = "the law of the union is the law of the sea and more"
    tokens = made.ids(text)
    pieces = [tokens[i : i + 16] for i in range(0, len(tokens), 16)]
    request = type("Request", (), {"args": (text,)})()
    found = made.loglikelihood_rolling([request])[0]
    assert found == pytest.approx(-sum(made.score([], p)[0] for p in pieces))
    assert made.pair("x" * 50, "y" * 40)[0] < 0


def test_generation_stops_at_the_stop_string(home):
    made = harness(home / "ar")
    free = made.write("the ", {"max_gen_toks": 8})
    assert made.write("the ", {"max_gen_toks": 8, "until": [free[3]]}) == free.split(free[3])[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("[no_such_task]", "the harness has no task 'no_such_task'"),
        ("[local_choice] --draws 0", "--draws must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(home, words, says, capsys):
    assert main(["eval", "harness", str(home / "mdlm"), *words.split()]) == 2
    assert says in capsys.readouterr().err
