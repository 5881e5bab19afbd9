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
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from adlm import device as devices
from adlm.results import Result
from adlm.viz.page import Section

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds to save and leave after Ctrl-C
PROMISE = re.compile(r"about [\d.,]+ (?:seconds|minutes|hours)")


@dataclass(frozen=True)
class Step:
    """One command of the README, typed."""

    command: str
    seconds: float
    code: int
    stopped: bool  # by Ctrl-C
    last_lines: list[str]
    promised: str | None = None  # its first word on the time left
    promised_after: float | None = None  # seconds

    @property
    def failed(self) -> bool:
        """A training that was stopped must say so by its code; torchrun ends with 1 always."""
        if not self.stopped:
            return self.code != 0
        return self.code != (1 if self.command.startswith("torchrun") else 130)

    def cells(self) -> list[str]:
        end = "stopped by Ctrl-C" if self.stopped else "failed" if self.code else "done"
        if self.promised and self.promised_after and not self.stopped:
            end += f"; after {self.promised_after:.1f} it said {self.promised} left"
        return [f"`{self.command.splitlines()[0]}`", f"{self.seconds:.1f}", end]


@dataclass(frozen=True, kw_only=True)
class ReadmeResult(Result):
    """How long every step of the README takes."""

    command: ClassVar[str] = "readme"
    steps: list[Step]

    def section(self, name: str) -> Section:
        note = (
            "`python docs/follow.py`: every command of the README in its order, in a fresh clone "
            "with an empty home folder; `make quickstart` includes the installation."
        )
        header = ["command", "seconds", ""]
        return Section("The README, followed", header, [s.cells() for s in self.steps], [note])

    def minutes(self) -> str | None:
        """What the README says of the time; None before the quickstart has ended well."""
        by = {step.command: step for step in self.steps if not step.failed}
        if "make quickstart" not in by:
            return None
        step = by["make quickstart"]
        said = re.search(r"([\d.]+) minutes; written to", "\n".join(step.last_lines))
        trained = float(said[1]) if said else 0.0
        text = f"{step.seconds / 60 - trained:.1f} minutes to install and {trained:.1f} to train"
        if fast := by.get("make fast"):
            text += f", {fast.seconds / 60:.1f} for the fast form"
        return text


def commands(text: str) -> list[str]:
    """What is to be typed, in order; a Python block is one command."""
    line, block = r"^    ((?:git clone|make|adlm|torchrun) .*)$", r"^```python\n((?:.*\n)*?)```"
    found = re.findall(f"{line}|{block}|(`make fast`)", text, re.M)
    return [
        typed.split("  #")[0].strip()
        or (f"python - <<'END'\n{code}END" if code else said.strip("`"))
        for typed, code, said in found
    ]


def follow(home: Path, most: float) -> Iterator[Step]:
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
        said: list[tuple[float, str]] = []
        reader = threading.Thread(target=listen, args=(process.stdout, began, said))
        reader.start()
        stopped = False
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=PATIENCE)
            stopped = True
        seconds = time.monotonic() - began
        reader.join()
        tail = [line for _, line in said][-6:]
        found = ((at, PROMISE.search(line)) for at, line in said)
        after, promised = next(((at, f[0]) for at, f in found if f), (None, None))
        print("\n".join(tail), f"\n  ({seconds:.1f} s, code {process.returncode})", flush=True)
        last = [line.replace(str(home), "~") for line in tail]
        step = Step(command, seconds, process.returncode, stopped, last, promised, after)
        yield step
        if step.failed:
            break


def listen(stream: IO[str] | None, began: float, said: list[tuple[float, str]]) -> None:
    """Write down every line with the seconds after which it was said."""
    for line in stream or ():
        if line.strip():
            said.append((time.monotonic() - began, line.strip("\n")[:200]))


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
    steps: list[Step] = []
    precision = devices.precision("auto", "cpu")
    for step in follow(home, given.most):
        steps.append(step)
        ReadmeResult(steps=steps).stamped("cpu", precision).save(given.out)
    if (made := home / "adlm" / "runs" / "quickstart" / "results.json").is_file():
        name = given.out.name.replace("readme", "quickstart")
        shutil.copy(made, given.out.with_name(name))
    if not given.folder:
        shutil.rmtree(home)
    sys.exit(f"failed: {steps[-1].command}" if steps[-1].failed else 0)


if __name__ == "__main__":
    main()
