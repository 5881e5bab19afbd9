"""Other systems, as far as Linux can play them: their features are gone, and all goes on."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adlm import results, system
from adlm.errors import UserError
from adlm.eval.sandbox import Limits, probe
from adlm.train.signals import StopFlag
from tests.conftest import small_corpus

ROOT = Path(__file__).parents[1]

# what Windows does not have; macOS has no /proc and no sched_getaffinity either
WITHOUT = """
import importlib, os, pkgutil, shutil, signal, sys
from importlib.util import find_spec

THEIRS = ("torch", "torch.distributed.fsdp", "torch.distributed.checkpoint", "filelock")
for name in (*THEIRS, "rich.console", "lm_eval", "matplotlib.pyplot"):
    if find_spec(name.split(".")[0]):
        importlib.import_module(name)
for name in ("SIGHUP", "SIGKILL", "SIGXCPU", "SIGUSR1", "SIGALRM", "SIGPIPE", "SIGQUIT"):
    delattr(signal, name)
gone = ["sched_getaffinity", "fork", "killpg", "geteuid", "getuid", "getegid", "waitid", "setsid"]
for name in [*gone, "getpgid", "sysconf", "fchmod", "setresuid"]:
    delattr(os, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty"):
    sys.modules[name] = None
shutil._use_fd_functions = False

def opening(event, given):
    if event == "open" and isinstance(given[0], str):
        if given[0].startswith("/proc/"):
            raise FileNotFoundError(given[0])
        if os.path.isdir(given[0]):
            raise PermissionError(given[0])  # as Windows says of a folder

sys.addaudithook(opening)
import adlm
for module in pkgutil.walk_packages(adlm.__path__, "adlm."):
    if module.name != "adlm.__main__":
        importlib.import_module(module.name)

from pathlib import Path
from adlm.cli import main
from adlm.device import memory_bytes
from adlm.eval.generation_cost import peak_memory
corpus, run, out = sys.argv[1:]
words = ["--data", corpus, "--data.tokenizer", "byte", "--data.length", "16", "--out", run]
words += ["--model.width", "16", "--model.heads", "2", "--model.blocks", "1", "--train.batch", "2"]
assert main(["train", "laptop-mdlm", *words, "--train.steps", "2"]) == 0
assert main(["train", "laptop-mdlm", *words, "--train.steps", "3", "--resume"]) == 0
assert main(["sample", run, "-n", "1", "--steps", "2"]) == 0
assert main(["eval", "likelihood", run, "--limit", "2", "--out", out + "/likelihood.json"]) == 0
assert memory_bytes() is None and peak_memory("cpu") is None

from adlm.studies.pool import Job, work
try:  # a process of its own; there is no such corpus
    config = adlm.config.to_dict(adlm.load(run).config)
    config["data"]["name"] = corpus + ".gone"
    work([Job("one", Path(out) / "job", "adlm.studies.worker", [config, False])], 1, 1)
except adlm.errors.UserError as error:
    assert "one: " in str(error) and ".gone" in str(error), error
    print("fine")
"""


def test_all_modules_and_the_main_paths_do_without_what_other_systems_lack(tmp_path):
    words = [small_corpus(tmp_path), tmp_path / "run", tmp_path]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip().endswith("fine"), done.stderr[-3000:]


def test_a_run_is_in_a_group_of_its_own_and_can_catch_what_it_is_sent(monkeypatch):
    assert system.own_group() == {"process_group": 0}
    sent: list[int] = []
    child = type("Child", (), {"send_signal": lambda self, number: sent.append(number)})()
    system.ask_to_leave(child)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)  # Windows
    monkeypatch.setattr(signal, "CTRL_BREAK_EVENT", 1, raising=False)
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    monkeypatch.delattr(signal, "SIGHUP")
    assert system.own_group() == {"creationflags": 512}
    assert system.hangup() == []
    system.ask_to_leave(child)
    assert sent == [signal.SIGTERM, 1]
    with StopFlag() as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert stop.raised == signal.SIGUSR1


def test_a_closed_terminal_ends_a_study_but_for_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert system.hangup() == [signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert system.hangup() == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_where_programs_cannot_be_limited_none_is_run(monkeypatch):
    monkeypatch.delattr(os, "waitid")
    with pytest.raises(UserError, match="cannot be run on this system"):
        probe(Limits(), "limits")


def test_memory_is_in_mib_whatever_the_system_counts_in(monkeypatch):
    found = system.peak_memory_mib()
    assert found is not None
    assert 20 < found < 1_000_000
    monkeypatch.setattr(sys, "platform", "darwin")  # counts bytes
    counted = system.peak_memory_mib()
    assert counted == pytest.approx(found / 1024, rel=0.1)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_memory_is_that_of_a_program_and_not_of_who_started_it():
    mine = bytearray(b"x") * (300 << 20)  # 300 MiB more in this process
    asked = "from adlm.system import peak_memory_mib; print(peak_memory_mib())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200 < len(mine) / 2**20


def texts_without_encoding(source: str) -> list[int]:
    """The lines that read or write text in whatever encoding the system has."""
    found = []
    for call in (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        given = {k.arg: k.value for k in call.keywords}
        words = [*call.args, given.get("mode")]
        mode = [w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str)]
        owner = getattr(getattr(call.func, "value", None), "id", "")
        text = {
            "open": owner not in ("os", "Image", "tarfile")
            and not any("b" in m for m in mode[-1:]),
            "read_text": True,
            "write_text": isinstance(call.func, ast.Attribute),
            "run": "text" in given,
            "Popen": "text" in given,
        }
        if text.get(name) and "encoding" not in given:
            found.append(call.lineno)
    return found


def test_text_is_read_and_written_as_utf8_everywhere():
    sample = "open('x')\nopen('x', 'rb')\np.read_text()\nrun(w, text=True)"
    assert texts_without_encoding(sample) == [1, 3, 4]
    files = [
        f for d in ("adlm", "docs", "benchmarks", "examples") for f in (ROOT / d).rglob("*.py")
    ]
    assert len(files) > 100
    bad = {f.name: texts_without_encoding(f.read_text(encoding="utf-8")) for f in files}
    assert not {name: lines for name, lines in bad.items() if lines}


def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    """As /dev/null: a result that is written whole, by renaming, would take its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    results.try_place(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text, "utf-8")
        results.write_text(pipe, "figures\n")
        assert read.result(timeout=10) == "figures\n"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
