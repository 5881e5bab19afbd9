"""Valid commands, each with the files that it reads: what bad input is mutated from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attack.place import REASON, SMALL

CHECKPOINT = (
    "config.json",
    "manifest.json",
    "model.safetensors",
    "tokenizer.json",
    "vocab.json",
    "lengths.json",
    "state.json",
    "train.safetensors",
)


@dataclass(frozen=True)
class Scene:
    """A command that succeeds in seconds."""

    words: tuple[str, ...]
    needs: tuple[str, ...] = ()  # files and folders of the place
    reads: tuple[str, ...] = ()  # patterns of the files among them that it reads
    weight: int = 4  # how often it is drawn
    long: bool = False  # spoiled a little, it may be hours of valid work

    @property
    def command(self) -> str:
        two = " ".join(self.words[:2])
        return two if self.words[0] in ("eval", "study", "reason") else self.words[0]


def scene(line: str, *needs: str, reads: tuple[str, ...] = (), weight: int = 4) -> Scene:
    words = []
    for word in line.split():
        words += {"SMALL": SMALL, "REASON": REASON}.get(
            word, [word.replace("_", " ")] if word.startswith("'") else [word]
        )
    return Scene(tuple(w.strip("'") for w in words), needs, reads, weight)


def hours(*lines: str) -> list[Scene]:
    return [replace(scene(line, weight=1), long=True) for line in lines]


def checkpoints(*runs: str, resume: bool = False) -> tuple[str, ...]:
    names = CHECKPOINT if resume else CHECKPOINT[:-2]
    return tuple(f"{run}/checkpoints/*/{name}" for run in runs for name in names)


TEXTS = ("corpus.txt", "corpus.jsonl", "corpus.csv", "corpus.parquet", "corpus.txt.gz")


def scenes() -> list[Scene]:
    """Return all of them."""
    return [*training(), *writing(), *measuring(), *other()]


def training() -> list[Scene]:
    made = [
        scene(f"train laptop-mdlm SMALL --data {name} --out out", name, reads=(name,))
        for name in TEXTS
    ]
    made += [
        scene(f"train laptop-{name} SMALL --out out", "corpus.txt", weight=2)
        for name in ("ar", "adlm", "bd3lm", "udlm", "sedd", "a2r")
    ]
    pair = (
        "train laptop-mdlm SMALL --data pairs.jsonl --data.packing pair --data.length 32 --out out"
    )
    words = "train laptop-mdlm SMALL --data.tokenizer tokenizer.json --out out"
    again = "train --resume run-adlm --train.steps 3"
    based = "train laptop-adlm SMALL --base run-ar --out out"
    reason = "reason train arithmetic cot REASON --out out"
    return [
        *made,
        scene(pair, "pairs.jsonl", reads=("pairs.jsonl",)),
        scene(words, "corpus.txt", "tokenizer.json", reads=("tokenizer.json",), weight=8),
        scene(again, "run-adlm", "corpus.txt", weight=16,
              reads=(*checkpoints("run-adlm", resume=True), "run-adlm/config.json",
                     "run-adlm/metrics.jsonl")),
        scene(based.replace("--data.tokenizer byte ", ""), "corpus.txt", "run-ar",
              reads=checkpoints("run-ar")),
        scene(reason, weight=6),
        scene("reason train arithmetic coconut REASON --stages 1 --epochs 2 --out out", weight=2),
    ]  # fmt: skip


def writing() -> list[Scene]:
    runs = ("run-mdlm", "run-adlm", "run-ar", "run-bd3lm", "run-udlm", "run-bpe")
    made = [
        scene(f"sample {run} --steps 2 --n 2 --json out.jsonl", run, reads=checkpoints(run))
        for run in runs
    ]
    answers = "sample run-mdlm --prompts prompts.jsonl --steps 2 --json out.jsonl"
    return [
        *made,
        scene(answers, "run-mdlm", "prompts.jsonl", reads=("prompts.jsonl",)),
        scene("sample run-adlm --steps 2 --trace out.html --draw.top_k 3", "run-adlm",
              reads=checkpoints("run-adlm")),
        scene("infill run-mdlm 'the_[MASK:3]_of' --steps 2", "run-mdlm",
              reads=checkpoints("run-mdlm")),
        scene("watch run-adlm --steps 2 --speed 1000", "run-adlm", reads=checkpoints("run-adlm")),
        scene("anchors 'the_law_of_the_union' --data corpus.txt --data.tokenizer bpe:300",
              "corpus.txt", reads=("corpus.txt",)),
        scene("reason show run-cot arithmetic --n 1 --device cpu", "run-cot",
              reads=checkpoints("run-cot")),
        scene("export run-mdlm --to out", "run-mdlm", reads=checkpoints("run-mdlm")),
        scene("import exported --out out", "exported", weight=8,
              reads=tuple(f"exported/{name}" for name in CHECKPOINT[:-2])),
        scene("sample exported --steps 2", "exported",
              reads=tuple(f"exported/{name}" for name in CHECKPOINT[:-2])),
        scene("push run-mdlm me/name --dry-run", "run-mdlm", reads=checkpoints("run-mdlm")),
    ]  # fmt: skip


def measuring() -> list[Scene]:
    likely = "eval likelihood run-mdlm --limit 4 --batch 4 --draws 1 --data corpus.jsonl"
    own = "eval likelihood run-ar --limit 4 --batch 4"
    anchors = "eval anchors run-adlm --rows 4 --draws 1 --texts 0 --out out.json"
    samples = "eval samples samples.jsonl --judge none --out out.json"
    written = "eval samples run-mdlm --n 2 --steps 2 --judge none --out out.json"
    cost = "eval efficiency run-mdlm --steps [2] --texts 0 --judge none --out out.json"
    programs = "eval humaneval run-mdlm --file tasks.jsonl --tokens 4 --steps 2 --out out.json"
    return [
        scene(likely, "run-mdlm", "corpus.jsonl", reads=("corpus.jsonl", *checkpoints("run-mdlm"))),
        scene(own, "run-ar", "corpus.txt", reads=("corpus.txt", *checkpoints("run-ar"))),
        scene(anchors, "run-adlm", "corpus.txt", reads=checkpoints("run-adlm")),
        scene(samples, "samples.jsonl", reads=("samples.jsonl",)),
        scene(written, "run-mdlm", "corpus.txt", reads=checkpoints("run-mdlm")),
        scene(cost, "run-mdlm", "corpus.txt", reads=checkpoints("run-mdlm"), weight=1),
        scene(programs, "run-mdlm", "tasks.jsonl", reads=("tasks.jsonl",)),
        scene("eval interval run-bd3lm --limit 4 --batch 4", "run-bd3lm", "corpus.txt",
              reads=checkpoints("run-bd3lm"), weight=2),
        scene("eval zeroshot run-mdlm --sets [lambada] --limit 2", "run-mdlm", weight=1),
        replace(scene("eval suite run-mdlm no-run --out out", "run-mdlm", weight=1), long=True),
        scene("reason eval run-acot arithmetic --limit 2 --device cpu", "run-acot",
              reads=checkpoints("run-acot")),
    ]  # fmt: skip


def other() -> list[Scene]:
    page = "report run-mdlm study.json study-reasoning.json likelihood.json --out out.html"
    results = ("study.json", "study-reasoning.json", "likelihood.json")
    peek = "study baselines --peek --home study --out out.json"
    reasons = "study reasoning arithmetic --peek --home study-reasoning --out out.json"
    return [
        scene(page, "run-mdlm", *results, reads=(*results, "run-mdlm/metrics.jsonl"), weight=12),
        scene(peek, "study", reads=("study/*/result.json", "study/*/config.json")),
        scene(reasons, "study-reasoning", reads=("study-reasoning/*/*.json",)),
        *hours("study anchoring --tokens 0", "study times --seeds 0", "study ablate [gama]"),
        scene("plan laptop-adlm --gpu a100 --data corpus.txt", "corpus.txt", weight=2),
        scene("doctor laptop-mdlm --size pica", weight=1),
        scene("recipes", weight=1),
        scene("completion bash", weight=1),
        *hours("quickstart --rows -1", "study finetune --steps 0 --home out"),
        scene("eval harness no-run no-task", "run-mdlm", weight=1),
        scene("serve run-mdlm --port 70000", "run-mdlm", reads=checkpoints("run-mdlm"), weight=2),
        scene("theory --out corpus.txt", "corpus.txt", weight=1),
    ]
