"""Several processes at once: two writers, readers while checkpoints are pruned, quickstarts.

What must hold: one of them does the work and the others wait or are refused in one sentence; what
is left is what one alone leaves; and no reader ever fails.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from adlm.errors import UserError
from adlm.models import checkpoint
from adlm.results import read_json
from attack import child, kills, place
from attack.campaign import Outcome
from attack.kills import LONG, QUICK, Target

READERS = 3
PRUNING = [*LONG, "--train.save_every", "1", "--train.keep", "1"]


def together(commands: list[list[str]], folder: Path, home: Path, gap: float) -> list[child.Ended]:
    """Start commands one shortly after the other, and wait for all."""
    started = []
    for number, words in enumerate(commands):
        logs = home / f"logs-{number}"
        started.append(child.start(words, folder, logs, place.environment(folder)))
        time.sleep(gap)
    return [one.wait(120) for one in started]


def plain(ended: list[child.Ended]) -> list[str]:
    """Say which of them did not end well or in one sentence."""
    wrong = []
    for one in ended:
        if one.code not in (0, 2) or "Traceback" in one.err or (one.code and not one.sentence):
            wrong.append(f"code {one.code}: {one.err.strip()[-200:]}")
    if all(one.code for one in ended):
        wrong.append("none did the work")
    return wrong


def as_alone(name: str, folder: Path, home: Path) -> list[str]:
    """Say in what the folder differs from that of an undisturbed run."""
    whole, found = kills.undisturbed(name, home), kills.remains(folder)
    differ = [n for n in sorted(whole.keys() | found.keys()) if whole.get(n) != found.get(n)]
    return [f"{n} is not as of one alone" for n in differ[:3]]


def two_writers(folder: Path, home: Path, dice: Random) -> list[str]:
    ended = together([LONG, LONG], folder, home, dice.uniform(0, 0.5))
    return plain(ended) + as_alone("train", folder, home)


def one_cache(folder: Path, home: Path, dice: Random) -> list[str]:
    """Two runs read the same new corpus: it is tokenised once, for both."""
    words = [*LONG, "--train.steps", "2", "--data.tokenizer", "bpe:300"]
    both = [words, [*words, "--out", "other"]]
    ended = together(both, folder, home, dice.uniform(0, 0.2))
    stores = [p for p in (folder / "cache" / "tokens").iterdir() if p.is_dir()]
    wrong = [f"{len(stores)} stores for two splits"] if len(stores) != 2 else []
    wrong += [f"code {one.code}" for one in ended if one.code]
    return plain(ended) + wrong


def one_result(folder: Path, home: Path, dice: Random) -> list[str]:
    """Two evaluations write the same file: it is one of theirs, whole."""
    place.copy(["run-mdlm", "corpus.txt"], folder)
    words = ["eval", "likelihood", "run-mdlm", "--limit", "4", "--batch", "4", "--draws", "1"]
    ended = together([[*words, "--out", "out.json"]] * 3, folder, home, dice.uniform(0, 0.1))
    return plain(ended) + ([] if read_json(folder / "out.json").get("ppl") else ["no figures"])


def readers(folder: Path, home: Path, dice: Random) -> list[str]:
    """Readers load a run all the time while it saves and prunes at every step."""
    logs = home / "logs"
    writer = child.start(PRUNING, folder, logs, place.environment(folder))
    others = [
        child.start([], folder, home / f"logs-{n}", work=load_on(folder / "out"))
        for n in range(READERS)
    ]
    ended = writer.wait(120)
    for one in others:
        one.signal(signal.SIGUSR1)
    read = [one.wait(60) for one in others]
    loads = sum(int(one.out.strip() or 0) for one in read if one.code == 0)
    wrong = [f"a reader failed: {one.err.strip()[-300:]}" for one in read if one.code]
    return plain([ended]) + wrong + ([] if loads else ["no reader read anything"])


def load_on(run: Path) -> Callable[[], int]:
    """Return what loads a run's newest weights until it is told to stop."""

    def work() -> int:
        told, loads = [], 0
        signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
        while not told:
            if loads or checkpoint.steps(run):
                checkpoint.load(run).weights()
                loads += 1
        print(loads)
        return 0

    def guarded() -> int:
        try:
            return work()
        except UserError as error:
            print(f"adlm: {error}")
            os.write(2, f"adlm: {error}\n".encode())
            return 2

    return guarded


def two_quickstarts(folder: Path, home: Path, dice: Random) -> list[str]:
    """The second is refused or waits; the page is there."""
    target = Target("quickstart", [], [], 30.0, QUICK)
    both = [kills.begin(target, [], folder, home / f"logs-{n}") for n in range(2)]
    for one in both:
        one.wait(300)
    codes = sorted(one.code() for one in both)
    wrong = [] if codes in ([0, 0], [0, 2]) else [f"codes {codes}"]
    for number in range(2):
        if "Traceback" in (home / f"logs-{number}" / "err").read_text():
            wrong.append("traceback")
    return wrong + as_alone("quickstart", folder, home)


KINDS = {
    "two writers": two_writers,
    "readers and pruning": readers,
    "one cache for two": one_cache,
    "one result for three": one_result,
    "two quickstarts": two_quickstarts,
}
ORDER = [*list(KINDS)[:4] * 3, "two quickstarts"]


def case(index: int, seed: int, home: Path) -> Outcome:
    """Let several processes loose on one folder."""
    name, folder = ORDER[index % len(ORDER)], home / "folder"
    place.copy(["corpus.txt"], folder)
    wrong = KINDS[name](folder, home, Random(f"{seed} crowd {index}"))
    wrong += [f"left behind: {p.name}" for p in folder.rglob("*.tmp")]
    return Outcome("done", name, name, name, wrong)
