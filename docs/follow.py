"""Follow the README word for word, as somebody does who has just found the repository.

    python docs/follow.py [--most 90] [--folder FOLDER] [--out results/readme.json]

A fresh clone of the last commit, an empty home folder, and every command of its README in order.
Only the address of the clone is filled in, and `my-texts/` is made. A training that takes longer
than --most seconds gets Ctrl-C, as the README says it may, and must save and leave. The file --out
names every step; the quickstart's own results.json is copied beside it. A machine without bf16 and
AVX-512 is had with ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2, which the files then say.
"""

from __future__ import annotations

import argparse
import os
import pydoc_data.topics
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adlm import device as devices
from adlm.results import stamped, write_json

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds to save and leave after Ctrl-C


def commands(text: str) -> list[str]:
    """What is to be typed, in order; a Python block is one command."""
    line, block = r"^    ((?:git clone|make|adlm|torchrun) .*)$", r"^```python\n((?:.*\n)*?)```"
    found = re.findall(f"{line}|{block}|(`make fast`)", text, re.M)
    return [
        typed.split("  #")[0].strip()
        or (f"python - <<'END'\n{code}END" if code else said.strip("`"))
        for typed, code, said in found
    ]


def follow(home: Path, most: float) -> Iterator[dict[str, Any]]:
    """Type every command; stop at the first that fails."""
    clone = home / "adlm"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ADLM_", "OMP_"))}
    environment |= {"HOME": str(home / "home"), "PATH": f"{clone}/.venv/bin:{os.environ['PATH']}"}
    environment.pop("VIRTUAL_ENV", None)
    (home / "home").mkdir(exist_ok=True)
    shown = subprocess.run(
        ["git", "show", "HEAD:README.md"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    for command in commands(shown.stdout):
        typed = command.replace("<this repository>", f"file://{ROOT} adlm")
        limit = most if " train " in command else None
        if "my-texts" in command:
            write_texts(clone / "my-texts")
        print(f"$ {command}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(
            ["bash", "-c", typed],
            cwd=clone if clone.is_dir() else home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        stopped = False
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=PATIENCE)
            stopped = True
        seconds = time.monotonic() - began
        tail = [line[:200] for line in said.replace("\r", "\n").splitlines() if line.strip()][-6:]
        print("\n".join(tail), f"\n  ({seconds:.1f} s, code {process.returncode})", flush=True)
        step = {
            "command": command,
            "seconds": seconds,
            "code": process.returncode,
            "stopped": stopped,
            "last_lines": [line.replace(str(home), "~") for line in tail],
        }
        yield step
        if failed(step):
            break


def failed(step: dict[str, Any]) -> bool:
    """A training that was stopped must say so by its code; torchrun ends with 1 whatever it ran."""
    if not step["stopped"]:
        return step["code"] != 0
    return step["code"] != (1 if step["command"].startswith("torchrun") else 130)


def write_texts(folder: Path) -> None:
    """Half a megabyte of English that every Python brings along."""
    folder.mkdir(exist_ok=True)
    for name, text in pydoc_data.topics.topics.items():
        (folder / f"{name.replace('/', '-')}.txt").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=float, default=90.0, help="seconds of a training")
    parser.add_argument("--folder", help="where the clone stays; a temporary one by default")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "readme.json")
    given = parser.parse_args()
    home = Path(given.folder or tempfile.mkdtemp(prefix="adlm-readme-")).resolve()
    home.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    steps: list[dict[str, Any]] = []
    for step in follow(home, given.most):
        steps.append(step)
        result = {"command": sys.argv, "commit": commit.stdout.strip(), "steps": steps}
        write_json(given.out, stamped(result, "cpu", devices.precision("auto", "cpu")))
    if (made := home / "adlm" / "runs" / "quickstart" / "results.json").is_file():
        name = given.out.name.replace("readme", "quickstart")
        shutil.copy(made, given.out.with_name(name))
    if not given.folder:
        shutil.rmtree(home)
    sys.exit(f"failed: {steps[-1]['command']}" if failed(steps[-1]) else 0)


if __name__ == "__main__":
    main()
