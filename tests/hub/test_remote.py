"""Models go to a hub and come back; a lost network is one sentence."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from adlm.models import checkpoint
from adlm.train.run import train
from tests.conftest import make_config, small_corpus
from tests.hub.endpoint import running

pytest.importorskip("huggingface_hub")
LOAD = "import adlm, sys; print(adlm.load(sys.argv[1]).nll(['the law of the sea'], draws=2)[0])"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("trained")
    train(make_config(small_corpus(home), steps=2), home / "run")
    return home / "run"


@pytest.fixture
def hub():
    with running() as found:
        yield found


@pytest.fixture
def settings(hub, tmp_path):
    return {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "hf_of_a_test",
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}  # fmt: skip


@pytest.fixture
def script(settings, tmp_path):
    """Run a line of Python where the hub is that of the test."""
    import os

    def call(code: str, *words: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True, text=True, env={**os.environ, **settings, **more}, timeout=120,
        )  # fmt: skip

    return call


def test_a_model_goes_to_the_hub_and_comes_back(run, hub, settings, adlm_cli, script):
    done = adlm_cli("push", run, "me/small", **settings)
    assert done.returncode == 0, done.stderr
    saved = checkpoint.load(run)
    files = hub.models["me/small"]
    assert {"README.md", "config.json", "modeling_adlm.py", "tokenizer.json"} <= files.keys()
    there, here = script(LOAD, "me/small"), script(LOAD, str(run))
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert not any(name.endswith((".py", ".md")) for name in hub.asked)  # no code is fetched
    assert json.loads(files["manifest.json"])["files"]["model.safetensors"]["bytes"] == len(
        files["model.safetensors"]
    )
    assert saved.config.objective in files["README.md"].decode()


def test_a_dry_run_lists_and_uploads_nothing(run, hub, settings, adlm_cli):
    done = adlm_cli("push", run, "me/small", "--dry-run", **settings)
    assert done.returncode == 0
    assert "model.safetensors" in done.stdout
    assert "README.md" in done.stdout
    assert "nothing was uploaded" in done.stdout
    assert not hub.models


def test_a_card_that_was_edited_goes_as_it_is(run, hub, settings, adlm_cli, tmp_path, script):
    assert adlm_cli("export", run, "--to", tmp_path / "mine").returncode == 0
    (tmp_path / "mine" / "README.md").write_text("# Mine\n")
    done = adlm_cli("push", tmp_path / "mine", "me/mine", "--private", **settings)
    assert done.returncode == 0, done.stderr
    assert hub.models["me/mine"]["README.md"] == b"# Mine\n"
    assert hub.private["me/mine"]
    assert script(LOAD, "me/mine").returncode == 0


def test_files_of_the_hub_are_verified(run, hub, settings, adlm_cli, script):
    assert adlm_cli("push", run, "me/small", **settings).returncode == 0
    data = bytearray(hub.models["me/small"]["model.safetensors"])
    data[-1] ^= 1
    hub.models["me/small"]["model.safetensors"] = bytes(data)
    said = script(LOAD, "me/small").stderr.strip().splitlines()[-1]
    assert "is not the file that was saved" in said


def test_another_format_is_sent_to_import(hub, settings, adlm_cli, script):
    hub.models["they/mdlm"] = {"config.json": b'{"model_type": "mdlm"}', "x.py": b"raise"}
    said = script(LOAD, "they/mdlm").stderr.strip().splitlines()[-1]
    assert "adlm import they/mdlm --out DIR" in said
    done = adlm_cli("import", "they/mdlm", "--out", "nowhere", **settings)
    assert done.returncode == 2
    assert "no model.safetensors" in done.stderr


@pytest.mark.parametrize("command", ["push", "load", "import"])
def test_a_lost_network_is_one_sentence(command, run, settings, adlm_cli, script):
    settings["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nothing listens there
    words = {
        "push": ("push", run, "me/small"),
        "import": ("import", "me/small", "--out", "nowhere"),
    }
    if command == "load":
        said = script(LOAD, "me/small").stderr.strip().splitlines()[-1]
    else:
        done = adlm_cli(*words[command], **settings)
        assert done.returncode == 2
        (said,) = done.stderr.strip().splitlines()
    assert "the hub could not be reached for me/small" in said


def test_what_the_hub_has_not_or_refuses_is_one_sentence(run, settings, adlm_cli, script):
    said = script(LOAD, "me/nothing").stderr.strip().splitlines()[-1]
    assert "the hub has no such model" in said
    done = adlm_cli("push", run, "me/small", **{**settings, "HF_TOKEN": ""})
    assert done.returncode == 2
    (said,) = done.stderr.strip().splitlines()
    assert "hf auth login" in said


def test_a_path_that_is_mistyped_does_not_ask_the_hub(run, hub, script, monkeypatch):
    monkeypatch.chdir(run.parent)
    said = script(LOAD, "run/checkpoint").stderr.strip().splitlines()[-1]
    assert "there is no checkpoint or run run/checkpoint" in said
    assert not hub.asked


@pytest.mark.parametrize("name", ["small", "a/b/c", "me/with space"])
def test_a_name_that_is_none(name, run, adlm_cli):
    done = adlm_cli("push", run, name)
    assert done.returncode == 2
    assert "named user/name" in done.stderr
