"""Several processes: the numbers of one, whatever is sharded and however it was saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from adlm.cli import main
from adlm.models import checkpoint, parts
from adlm.models.parts import Piece
from adlm.results import read_json
from tests.train.test_run import metrics, torchrun

# a batch that does not divide evenly, tied weights, averaged weights
WORDS = "laptop-adlm --resume --size pico --model.width 16 --model.heads 2 --model.tied true "
WORDS += "--data.tokenizer byte --data.length 16 --anchor.rule corpus --anchor.warmup 0 "
WORDS += "--optim.lr 1e-3 --optim.ema 0.9 --optim.decay constant "
WORDS += "--train.keep 9 --train.batch 7 --train.precision fp32 "
WORDS += "--train.log_every 1 --train.eval_every 2 --train.eval_rows 150 --train.save_every 2"
WAYS = {
    "grad": "--optim.name adamw --train.shard grad --train.micro 2",
    "full": "--optim.name adamw --train.shard full --train.micro 1 --train.checkpoint_blocks true",
    "muon": "--optim.name muon --train.shard full",
}


def training(corpus: Path, out: Path, way: str, steps: int) -> list[str]:
    own = ["--data", str(corpus), "--train.steps", str(steps), "--out", str(out)]
    return ["train", *WORDS.split(), *way.split(), *own]


def together(processes: int, *commands: list[str]) -> None:
    torchrun(processes, "-m", "tests.many", json.dumps(commands))


def of_one(way: str) -> str:
    """The same for one process that has everything at once."""
    return way.split(" --train.shard")[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Trainings by two processes, and what they say of one of them."""
    home = tmp_path_factory.mktemp("runs")
    corpus = home / "corpus.txt"
    corpus.write_text("\n".join(f"law {i * i % 97} of {i % 13} seas" for i in range(900)))
    (home / "ptb").mkdir()
    (home / "ptb" / "ptb.valid.txt").write_text(corpus.read_text())
    made = [training(corpus, home / name, way, 3) for name, way in WAYS.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADLM_CACHE", str(home / "cache"))
        together(2, *made, *asked(home / "grad", home, "two"))
    return home


def asked(run: Path, home: Path, name: str) -> list[list[str]]:
    """Commands that several processes answer, each a share; 5 texts are 3 and 2."""
    out = [str(home / f"{what} {name}.json") for what in ("likelihood", "zeroshot", "sample")]
    zeroshot = ["--sets", "[ptb]", "--data.dir", str(home), "--limit", "70"]
    return [
        ["eval", "likelihood", str(run), "--limit", "150", "--draws", "2", "--out", out[0]],
        ["eval", "zeroshot", str(run), "--draws", "1", *zeroshot, "--out", out[1]],
        ["sample", str(run), "--n", "5", "--steps", "4", "--json", out[2]],
    ]


@pytest.mark.parametrize("name", list(WAYS))
def test_shards_train_as_one_process_does_and_it_goes_on_with_them(runs, tmp_path, name):
    whole, rough = tmp_path / "whole", name == "muon"  # which orthogonalises rounding too
    two = checkpoint.load(runs / name)
    assert len(two.parts) == 2
    assert main(training(runs / "corpus.txt", runs / name, WAYS[name], 5)) == 0
    assert not checkpoint.load(runs / name).parts  # saved by one process, in one file
    assert main(training(runs / "corpus.txt", whole, of_one(WAYS[name]), 5)) == 0
    found = [r for r in metrics(runs / name) if r["step"] != 3 or "loss" in r]
    for left, right in zip(found, metrics(whole), strict=True):
        assert left == pytest.approx(right, rel=1e-3 if rough else 1e-5)
    one = checkpoint.load(whole / "checkpoints" / "step-00000004").training()
    mine = checkpoint.load(runs / name / "checkpoints" / "step-00000004").training()
    assert mine.keys() == one.keys()
    for key, tensor in one.items():
        assert torch.allclose(mine[key], tensor, rtol=1e-3, atol=1e-3 if rough else 1e-6), key
    assert two.training().keys() == one.keys()
    averaged = two.weights()
    assert torch.equal(averaged["head.weight"], averaged["embed.weight"])  # tied: both names


def test_several_processes_evaluate_and_sample_as_one_does(runs):
    for words in asked(runs / "grad" / "checkpoints" / "step-00000003", runs, "one"):
        assert main(words) == 0
    for what in ("likelihood", "zeroshot"):
        one, two = (read_json(runs / f"{what} {n}.json") for n in ("one", "two"))
        assert one == two
    one, two = ((runs / f"sample {n}.json").read_text() for n in ("one", "two"))
    assert one == two
    assert len(one.splitlines()) == 5


MORE = {
    "bf16": ("--train.precision bf16", 2e-2),
    "compiled": ("--train.compile true", 1e-4),
    "idle": ("--model.bridge hidden --anchor.until 0.4", 1e-5),  # heads without a gradient
    "time": ("--model.time 8 --process.masking bernoulli --process.conditioned true", 1e-5),
}


@pytest.mark.slow
def test_shards_of_other_networks_train_as_one_process_does(text_file, tmp_path):
    def made(name: str, way: str) -> list[str]:
        return training(text_file, tmp_path / f"{name} {way[-4:]}", f"{MORE[name][0]} {way}", 3)

    full = "--optim.name adamw --train.shard full"
    together(2, *(made(name, full) for name in MORE))
    for name, (_, close) in MORE.items():
        assert main(made(name, full.replace("full", "none"))) == 0
        runs = [metrics(tmp_path / f"{name} {mode}") for mode in ("full", "none")]
        for left, right in zip(*runs, strict=True):
            assert left == pytest.approx(right, rel=close), name


def test_parts_that_do_not_fit_are_refused_before_memory_is_taken(tmp_path):
    with pytest.raises(ValueError, match="missing"):
        parts.join(tmp_path, "w", [Piece("a", (10**12, 0), (2, 3))])
    with pytest.raises(ValueError, match="over each other"):
        parts.join(tmp_path, "w", [Piece("a", (0, 0), (2, 3)), Piece("b", (1, 0), (2, 3))])
