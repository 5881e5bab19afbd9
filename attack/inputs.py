"""Bad input: valid commands with one or two things spoiled, in their words or in their files.

What must hold of each: no traceback, no abort, no hang; refused in one sentence with exit code 2
and nothing written, or done where what was asked for is valid after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from adlm.cli import options_of
from adlm.models.manifest import MANIFEST
from attack import child, place
from attack.campaign import Outcome
from attack.child import Ended
from attack.scenes import Scene, scenes
from attack.spoil import sign, spoil

HUGE = ("9" * 5000, str(10**18), str(2**63 - 1), str(10**11), "1e18")
WORDS = (
    "", " ", "0", "-1", "-0", "1.5", "1e-320", "nan", "inf", "-inf", "²", "٣", "null", "true",
    "[]", "[1,", "{", "{a:1}", "{:}", "x", "../x", "/", "/dev/null", "/dev/full", "~",
    "~nobody/x", ".", "\n", "\x1b[31m", "a" * 4000, "ünïcödé", "os:system", "hf:x/y", "bpe:²",
    "bpe:0", "bpe:9999999999", "no", "corpus.txt", "run-mdlm", "--", "-", "%s%n", "{0}", "$(id)",
    "[MASK:0]", "[MASK:99999999]", "\ud800", "a:b:c", "cuda", "cuda:99", "mps", "bf16", "fp64",
    "uniform", "mask", "mixture:2", "bert", "muon",
)  # fmt: skip
AMOUNTS = (
    "steps", "items", "n", "tokens", "draws", "epochs", "rows", "limit", "batch", "length", "valid",
    "eval_rows", "texts", "max_new_tokens", "per_stage", "speed", "mauve_seeds",
)  # fmt: skip
KNOWN: dict[str, list[str]] = {}


def options(command: str) -> list[str]:
    if command not in KNOWN:
        KNOWN[command] = [o.name for o in options_of(command)]
    return KNOWN[command]


def value(dice: Random) -> str:
    """Return a hostile value for an option."""
    return dice.choice(HUGE) if dice.random() < 0.12 else dice.choice(WORDS)


def spoiled_words(scene: Scene, dice: Random) -> list[str]:
    """Return the scene's words with one or two of them changed, added or left out."""
    words = list(scene.words)
    for _ in range(dice.choice((1, 1, 1, 2))):
        first = len(scene.command.split())
        values = [i for i in range(first, len(words)) if not words[i].startswith("--")]
        kind = dice.choice(
            ("value", "value", "value", "option", "option", "option", "drop", "twice")
        )
        if kind == "value" and values:
            words[dice.choice(values)] = value(dice)
        elif kind == "drop" and len(words) > first:
            del words[dice.randrange(first, len(words))]
        elif kind == "twice" and len(words) > first:
            at = dice.randrange(first, len(words))
            words.insert(at, words[at])
        elif names := options(scene.command):
            words += [dice.choice(names), value(dice)]
    return [word.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for word in words]


def spoiled_files(scene: Scene, folder: Path, dice: Random) -> tuple[str, bool]:
    """Spoil one or two files; return what was done, and whether it must be found out.

    A checkpoint that was not signed again has a manifest that its files do not fit.
    """
    files = sorted({p for pattern in scene.reads for p in folder.glob(pattern)})
    told, must = [], False
    for path in dice.sample(files, min(len(files), dice.choice((1, 1, 1, 2)))):
        if not path.is_file():
            continue
        was = path.read_bytes()
        told.append(f"{path.relative_to(folder)}: {spoil(path, dice)}")
        manifest = path.parent / MANIFEST
        if not manifest.is_file() or path.name == MANIFEST:
            continue
        listed = f'"{path.name}"'.encode() in manifest.read_bytes()
        if dice.random() < 0.9:
            sign(path.parent)
        elif listed and not any(MANIFEST in said for said in told):
            must = not path.is_file() or path.read_bytes() != was
    return ", ".join(told), must


def case(index: int, seed: int, home: Path) -> Outcome:
    """Make one case, run it and judge it."""
    dice = Random(f"{seed} inputs {index}")
    every = scenes()
    scene = dice.choices(every, [s.weight for s in every])[0]
    folder = home / "folder"
    place.copy(scene.needs, folder)
    in_files = bool(scene.reads) and dice.random() < 0.6
    words, told, must = list(scene.words), "", False
    if in_files:
        told, must = spoiled_files(scene, folder, dice)
    else:
        words = spoiled_words(scene, dice)
    before = place.listing(folder)
    much = scene.long or asks_for_much(words)
    patience = 5.0 if much else child.LIMIT
    ended = child.start(words, folder, home / "logs", place.environment(folder)).wait(patience)
    wrong = list(faults(ended, words, must, much))
    if ended.code == 2:
        wrong += written(before, place.listing(folder))
    wrong += left_behind(folder)
    group = ("files" if in_files else "words") + (", past the options" if ended.parsed else "")
    shown = f"adlm {' '.join(words)}" + (f" [{told}]" if told else "")
    return Outcome(result(ended), group, scene.command, shown, wrong, ended.err[-1500:])


def asks_for_much(words: list[str]) -> bool:
    """May it rightly take long? Then it must end when told to.

    A huge amount was asked for, or a study itself instead of a look at it.
    """
    if words[:1] == ["study"] and "--peek" not in words:
        return True
    pairs = zip(words, [*words[1:], ""], strict=True)
    return any(v in HUGE and k.split(".")[-1].lstrip("-") in AMOUNTS for k, v in pairs)


def result(ended: Ended) -> str:
    names = {0: "accepted", 1: "stopped", 2: "refused", 130: "interrupted"}
    return names.get(ended.code, f"code {ended.code}")


def faults(ended: Ended, words: list[str], must: bool, much: bool) -> Iterator[str]:
    """Yield what is wrong with how it ended."""
    if "Traceback (most recent call last)" in ended.err or ended.code == child.CRASH:
        yield "traceback"
    if ended.code < 0:
        yield f"ended by signal {-ended.code}"
    if ended.late and not (much and ended.code == 130):
        yield f"not done after {child.LIMIT:.0f} seconds"
    if ended.code not in (0, 1, 2, 130) and ended.code >= 0 and ended.code != child.CRASH:
        yield f"exit code {ended.code}"
    if ended.code in (1, 2) and not ended.sentence:
        yield "no sentence"
    if ended.code == 0 and must:
        yield "a file that its manifest does not fit was accepted"
    if ended.code in (0, 2) and "\x1b" in ended.out + ended.err and "watch" not in words:
        yield "an escape code reaches the output"


def written(before: dict, after: dict) -> Iterator[str]:
    """Yield what a refused command wrote, changed or took away."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name) and not name.endswith(".lock"):
            yield f"refused, but {name} was {'changed' if name in before else 'written'}"


def left_behind(folder: Path) -> Iterator[str]:
    """Yield half-written files that were left."""
    for path in folder.rglob("*.tmp"):
        yield f"left behind: {path.name[:12]}"
