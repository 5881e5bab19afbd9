"""Text from elsewhere does not steer the terminal, whatever prints it."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from adlm import device as devices
from adlm.cli import main
from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.models.hub import load_model
from adlm.progress import Screen
from adlm.results import write_json
from adlm.train.log import Log
from adlm.train.run import train
from adlm.viz.page import Section, to_markdown
from tests.conftest import make_config
from tests.models.test_checkpoint import forge

RED = "\x1b]0;mine\x07\x1b[31mred"


def test_rich_shows_it_and_keeps_its_own_colours():
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="standard", highlight=False)
    screen.print(Text(RED, "bold"), RED, markup=False)
    assert "␛]0;mine␛[31mred" in out.getvalue(), "a bell is left out by rich itself"
    assert out.getvalue().startswith("\x1b[1m"), "bold is rich's own"
    assert RED not in out.getvalue()


@pytest.mark.parametrize("words", [["sample", RED], [RED], ["anchors", RED], ["report", RED]])
def test_commands_show_it(words, capsys):
    main(words)
    said = capsys.readouterr()
    assert "␛[31mred" in said.out + said.err
    assert "\x1b[31m" not in said.out + said.err


def test_texts_that_a_model_writes_are_shown(text_file, tmp_path, capsys):
    train(make_config(text_file, steps=1), tmp_path / "run")
    capsys.readouterr()
    assert main(["sample", str(tmp_path / "run"), "--prompt", "a\x1b[2J"]) == 0
    assert "a␛[2J" in capsys.readouterr().out
    assert main(["watch", str(tmp_path / "run"), "--prompt", "a\x1b[2J"]) == 0
    assert "\x1b[2J" not in capsys.readouterr().out


def test_watch_needs_no_stdin_and_a_full_disk_is_told(text_file, tmp_path):
    train(make_config(text_file, steps=1), tmp_path / "run")
    words = [sys.executable, "-m", "adlm", "watch", str(tmp_path / "run"), "--steps", "2"]
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    shell = ["sh", "-c", 'exec "$@" <&- >/dev/full', "sh", *words]
    told = subprocess.run(shell, capture_output=True, text=True)
    assert told.returncode == 2
    assert told.stderr.splitlines()[-1].startswith("adlm: the output cannot be written: No space")


def test_a_metrics_file_that_cannot_be_written_is_named(tmp_path):
    log = Log(tmp_path, 0)
    log.file.close()
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    log.file = open("/dev/full", "w")  # noqa: SIM115
    with pytest.raises(UserError, match=r"metrics.jsonl cannot be written: No space left"):
        log.write({"step": 1})


def test_json_has_no_nan(tmp_path):
    write_json(tmp_path / "a.json", {"x": [math.nan, math.inf, 1.5], "y": {"z": -math.inf}})
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == {"x": [None, None, 1.5], "y": {"z": None}}


def test_markdown_is_escaped():
    made = to_markdown([Section("<b>", ["a|b"], [["![x](y)"]], texts=["# <script>"])], "t")
    assert "<script>" not in made
    assert "<b>" not in made
    assert "![x](y)" not in made


def test_what_memory_cannot_hold_is_refused_before_it_is_taken(text_file, tmp_path, capsys):
    if devices.memory_bytes() is None:
        pytest.skip("the system does not tell its memory")
    words = f"train laptop-mdlm --data {text_file} --data.tokenizer byte --data.length 16"
    words += f" --model.width 65536 --model.blocks 1000 --out {tmp_path / 'big'}"
    assert main(words.split()) == 2
    assert "there is not enough memory: a step of this training takes" in capsys.readouterr().err
    assert not (tmp_path / "big").exists()


def test_no_network_is_made_of_a_size_that_a_file_only_claims(text_file, tmp_path):
    train(make_config(text_file, steps=1), tmp_path / "run")
    folder = checkpoint.find(tmp_path / "run")
    values = json.loads((folder / "config.json").read_text())
    values["model"] |= {"width": 65536, "blocks": 1000}
    (folder / "config.json").write_text(json.dumps(values))
    forge(folder)
    with pytest.raises(UserError, match="does not fit its configuration: a network of"):
        load_model(checkpoint.load(folder))
