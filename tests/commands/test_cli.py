"""The command line as a user meets it: one sentence and exit code 2 for every mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adlm import cli
from adlm.cli import COMMANDS, load, main
from adlm.errors import UserError
from adlm.options import Command
from adlm.progress import console
from adlm.recipes import recipe
from adlm.results import write_text
from adlm.samplers.categorical import Draw
from adlm.samplers.settings import SamplingSettings

CASES = [
    ("tain", "did you mean 'train'"),
    ("eval", "likelihood"),
    ("eval likelyhood X", "did you mean 'likelihood'"),
    ("train laptop-mdml", "did you mean 'laptop-mdlm'"),
    ("train laptop-mdlm --model.widht 5", "did you mean '--model.width'"),
    ("train laptop-mdlm --model.width abc", "model.width must be a whole number, found 'abc'"),
    ("train laptop-mdlm --model.conv 4", "model.conv must be 0 or an odd number, found 4"),
    ("train laptop-mdlm --model.heads 3", "model.heads"),
    ("train laptop-mdlm --optim.name sgd", "one of 'adamw', 'muon', found 'sgd'"),
    ("train laptop-mdlm --optim.lr -1", "optim.lr must be above 0, found -1.0"),
    ("train laptop-mdlm --train.steps 0", "train.steps must be at least 1"),
    ("train laptop-mdlm --size huge", "no size 'huge'"),
    ("train laptop-mdlm --objective mdmm --out {out}", "did you mean 'mdlm'"),
    ("train laptop-mdlm --process.masking fuzzy --out {out}", "bernoulli, exact-k"),
    ("train laptop-mdlm --process.steps 8 --out {out}", "process.steps must be 0"),
    ("train laptop-mdlm --process.conditioned --out {out}", "needs model.time"),
    ("train laptop-mdlm --data no/such.txt --out {out}", "no file or folder no/such.txt"),
    ("train laptop-mdlm --data.tokenizer gpt3 --out {out}", "did you mean 'gpt2'"),
    ("train laptop-mdlm --data.tokenizer bpe:x --out {out}", "such as bpe:1024"),
    ("train laptop-mdlm --data.dir no/folder --data ptb --out {out}", "does not exist"),
    ("train laptop-mdlm --train.device tpu --out {out}", "device must be auto, cpu"),
    ("train laptop-mdlm extra", "'extra' is one argument too many"),
    ("train", "recipe is missing: adlm train RECIPE"),
    ("train --resume", "recipe is missing"),
    ("train --resume no/run", "no/run is no recipe, and no run either"),
    ("train --resume=no/run", "resume must be true or false, found 'no/run'"),
    ("train laptop-mdlm --lr 3", "there is no option --lr; did you mean --optim.lr?"),
    ("train laptop-mdlm --epochs 5", "there is no option --epochs; --help lists the"),
    ("train laptop-mdlm --batch=3", "there is no option --batch; did you mean --train.batch?"),
    ("train laptop-mdlm --out", "--out needs a value"),
    ("train laptop-mdlm --train.steps=", "train.steps must be a whole number, found ''"),
    ("train laptop-mdlm --optim.betas [0.9]", "betas must be a list of 2, each a finite number"),
    ("train laptop-mdlm --optim.lr 1e400", "optim.lr must be a finite number, found '1e400'"),
    ("train laptop-mdlm --model.blocks 1000000000", "model.blocks must be at most 1,000"),
    ("train laptop-mdlm --data.length 1000000000000000000", "data.length must be at most"),
    ("train laptop-mdlm --data.tokenizer bpe:² --out {out}", "such as bpe:1024"),
    ("train --train.steps 5", "recipe is missing"),
    ("sample no/run --n 9223372036854775807", "--n must be at most 10,000,000"),
    ("sample no/run --steps 100000000000", "--steps must be at most 1,000,000"),
    ("sample no/run --policy 3", "policy must be names with values, such as {name: 1}, found '3'"),
    ("eval efficiency a b --steps [1,x]", "a list, each item a whole number, found '[1,x]'"),
    ("eval zeroshot no/run --hub=maybe", "hub must be true or false, found 'maybe'"),
    ("eval likelihood no/such/run", "there is no checkpoint or run"),
    ("plan owt-mdlm --gpu h10", "did you mean 'h100'"),
    ("plan laptop-mdlm --process.schedule nonsense", "there is no schedule 'nonsense'"),
    ("plan laptop-mdlm --anchor.rule nonsense", "there is no anchor rule 'nonsense'"),
    ("plan owt-adlm --gpu h100 --process.tilt true", "has no process.tilt: it must be false"),
    ("anchors text --anchor.gamma nan", "anchor.gamma must be a finite number, found 'nan'"),
    ("anchors text --anchor.rule cuont", "there is no anchor rule 'cuont'; did you mean 'count'"),
    ("doctor --size pico", "--size is that of a recipe"),
    ("report x.json --out page.md", "must end in .html"),
]


@pytest.mark.parametrize(("words", "says"), CASES)
def test_a_mistake_is_one_sentence_and_writes_nothing(words, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert main(words.format(out=out).split()) == 2
    err = capsys.readouterr().err.strip()
    assert says in err
    assert err.startswith("adlm: ")
    assert "\n" not in err
    assert not out.exists()
    assert not (tmp_path / "runs").exists()


def test_adlm_alone_lists_every_command(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"adlm {name}" in shown for name in COMMANDS)


@pytest.mark.parametrize("group", ["eval", "study", "reason"])
def test_help_of_a_group_lists_its_commands(group, capsys):
    assert main([group, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all((f"adlm {name}" in shown) == name.startswith(group + " ") for name in COMMANDS)


def test_help_tells_short_forms_and_what_needs_no_name(capsys):
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    assert "--nucleus = --draw.nucleus" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    assert "adlm doctor [RECIPE]" in capsys.readouterr().out


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="is a folder: name a file in it"):
        write_text(tmp_path, "text")
    with pytest.raises(UserError, match="is a folder"):
        write_text(Path("."), "text")


def test_square_brackets_in_messages_are_kept():
    with console.capture() as kept:
        console.print("pip install 'adlm[judge]'")
    assert kept.get() == "pip install 'adlm[judge]'\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_meanings_and_defaults(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*name.split(), "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: adlm {name}" in shown
    assert "CONFIG" not in shown
    if name == "train":
        assert "Taps of the short convolution" in shown
        assert "default: bpe:2048" in " ".join(shown.split())


def test_help_of_a_recipe_has_its_own_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["train", "owt-adlm", "--size", "medium", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Optimiser steps. (type: int, default: 1000000)" in shown
    assert "Size D of the residual stream. (type: int, default: 1024)" in shown
    assert "The defaults are those of owt-adlm at size medium." in shown
    assert "a DataSet of yours, module:name" in shown
    assert "--use MODULE:NAME" in shown


def test_recipes_tell_size_and_cost(capsys):
    assert main(["recipes"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "parameters" in lines["recipe"]
    assert re.search(r"293 M +524 B +7e\+20 +2.4 days on 8 x h100 +ADLM on", lines["owt-adlm"])
    assert re.search(r"1.12 M +2.05 M +\de\+12 +[\d.]+ \w+ here", lines["laptop-mdlm"])


def test_plan_and_doctor_run(capsys):
    assert main(["plan", "owt-mdlm", "--gpu", "gh200", "--count", "32"]) == 0
    assert "169,627,218" in capsys.readouterr().out
    assert main(["doctor", "laptop-mdlm"]) == 0
    shown = capsys.readouterr().out
    assert "GFLOP/s" in shown
    assert "sotu: found" in shown


def test_plan_says_what_does_not_fit_and_what_would(capsys):
    assert main(["plan", "owt-adlm", "--gpu", "h100", "--count", "4"]) == 0
    shown = capsys.readouterr().out
    assert "estimated: does NOT fit into 80.0 GiB; --train.micro 64 does, with" in shown
    assert "524,288,000,000 in 1,000,000 steps; half of them, 262 B, are masked" in shown
    assert main(["plan", "laptop-adlm", "--gpu", "h100", "--count", "8"]) == 0
    assert "GiB, estimated: fits into 80.0 GiB" in capsys.readouterr().out
    assert main(["plan", "owt-adlm", "--gpu", "t4", "--size", "medium"]) == 0
    assert "does NOT fit into 16.0 GiB, nor does one row" in capsys.readouterr().out
    assert main(["plan", "owt-ar", "--gpu", "h100"]) == 0
    assert "in 500,000 steps\n" in capsys.readouterr().out  # AR predicts every token


def test_the_dial_derives_everything_from_one_word():
    base, tiny = recipe("laptop-mdlm"), recipe("laptop-mdlm", "tiny")
    assert (tiny.model.width, tiny.model.blocks, tiny.model.heads) == (256, 8, 8)
    assert tiny.train.batch == 128
    assert tiny.optim.lr == base.optim.lr  # beside Muon; alone, AdamW's rate follows the size
    assert recipe("owt-mdlm", "medium").optim.lr < recipe("owt-mdlm").optim.lr
    assert recipe("laptop-mdlm", "nano") == base
    for name in ("laptop-adlm", "laptop-a2r", "owt-adlm", "lm1b-adlm"):
        own = "small" if name.startswith(("owt", "lm1b")) else "nano"
        assert recipe(name, own) == recipe(name)
    assert recipe("laptop-adlm", "tiny").model.anchor_blocks == 5


def test_options_may_stand_before_the_recipe(capsys):
    assert main(["plan", "--count", "2", "--gpu", "h100", "laptop-adlm"]) == 0
    assert "1,647,488" in capsys.readouterr().out


def test_a_command_is_the_function_of_its_name():
    for name in COMMANDS:
        own = "import_" if name == "import" else name.replace(" ", "_")  # a word of Python's
        assert load(name).__name__ == own
        assert load(name).__module__ == f"adlm.commands.{own}"


def evaluate(
    runs: list[str],
    lengths: list[int] | None = None,
    settings: SamplingSettings = SamplingSettings(),
) -> None:
    """Stand for a command."""


@pytest.mark.parametrize(
    "words",
    [
        "a b --lengths [1,2] --draw.top_k 3 --n 2 --policy.eta 0.5 --draw.compat",
        "--lengths=[1,2] --draw.top-k=3 -n 2 --eta 0.5 --draw.compat=true a b",
        "--draw.compat true --num_samples 2 --policy {eta:0.5} --top_k 3 --lengths [1,2] -- a b",
    ],
)
def test_options_have_values_short_forms_and_any_order(words):
    command = Command("evaluate", evaluate)
    given = command.arguments(command.read(words.split()))
    assert given == {
        "runs": ["a", "b"],
        "lengths": [1, 2],
        "settings": SamplingSettings(n=2, policy={"eta": 0.5}, draw=Draw(top_k=3, compat=True)),
    }


def test_a_checkpoint_may_be_left_out_before_the_text():
    command = Command("infill", load("infill"))
    assert command.usage == "adlm infill [CHECKPOINT_OR_RUN] TEXT [--option value ...]"
    assert command.read(["a [MASK]"]) == {"TEXT": "a [MASK]"}
    both = {"--checkpoint_or_run": "runs/a", "TEXT": "a [MASK]"}
    assert command.read(["runs/a", "a [MASK]"]) == both
    with pytest.raises(UserError, match="text is missing"):
        command.read([])
    with pytest.raises(UserError, match="'c' is one argument too many"):
        command.read(["a", "b", "c"])


def test_a_panic_of_the_tokenizer_is_one_sentence(monkeypatch, capsys):
    class PanicException(BaseException):
        """What pyo3 raises, where a library in Rust gives up."""

    def panic(words):
        raise PanicException("no thread pool\nmore")

    monkeypatch.setattr(cli, "obey", panic)
    assert main(["recipes"]) == 2
    assert capsys.readouterr().err == "adlm: the tokenizer cannot go on: no thread pool\n"


def test_no_memory_for_a_thread_is_one_sentence(monkeypatch, capsys):
    def no_thread(words):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cli, "obey", no_thread)
    assert main(["recipes"]) == 2
    said = capsys.readouterr().err
    assert said == "adlm: there is not enough memory: can't start new thread\n"
