"""docs/results.md, and the parts of the README that show figures, from the files in results/."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TypeVar

import summary
import texts
from bench import BENCHES
from follow import ReadmeResult

from adlm import registry
from adlm.config import Config, differences, from_dict, to_dict
from adlm.eval.report import of_file
from adlm.reasoning.plan import ReasoningSettings
from adlm.recipes import recipe
from adlm.results import Json, Result, read_json
from adlm.studies.finetune import FinetuneResult
from adlm.studies.lasting_result import LastingResult
from adlm.studies.quickstart_result import QuickstartResult
from adlm.studies.reasoning import ReasoningStudyResult
from adlm.studies.result import StudyResult
from adlm.train.run import FREE
from adlm.viz.page import Section, markdown
from adlm.viz.table import markdown_table

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from attack.campaign import AttackResult  # noqa: E402
from attack.mutation.result import MutationResult  # noqa: E402

RESULTS = ROOT / "results"
STUDIES = ("study-anchoring", "study-baselines", "study-times", "study-tuning", "study-ablate")
Kind = TypeVar("Kind", bound=Result)


def read(kind: type[Kind], name: str) -> Kind | None:
    """A result file, where there is one."""
    path = RESULTS / f"{name}.json"
    return kind.read(path) if path.is_file() else None


def every(kind: type[Kind], pattern: str) -> dict[str, Kind]:
    """All result files of a pattern, by name."""
    return {p.stem: kind.read(p) for p in sorted(RESULTS.glob(f"{pattern}.json"))}


# how files were asked for that do not say it themselves
ASKED = {
    "eval-efficiency-laptop": "adlm eval efficiency runs/ar runs/mdlm runs/bd3lm runs/adlm "
    "--samplers '[ancestral, remdm-cap, confidence]' --steps '[16, 64]' --batches '[8]' "
    "--caches '[none, delayed, dual]' --thresholds '[0, 0.9]' --anchor_everys '[1, 4]'",
    "eval-efficiency-anchors": "adlm eval efficiency runs/adlm runs/adlm-stale --steps '[64]' "
    "--batches '[8]' --texts 96 --anchor_everys '[1, 4, 8]'",
    "eval-efficiency-nucleus": "adlm eval efficiency runs/ar runs/mdlm runs/bd3lm --samplers "
    "'[ancestral, first-hitting, remdm-cap, confidence]' --steps '[64]' --batches '[8]' "
    "--texts 64 --nucleus 0.9",
    "eval-pretrained-ar": "adlm eval likelihood ar --split test",
    "study-ablate": "adlm study ablate --axes '[gamma, rule=corpus, rare, rate=3e-05, rate=0.0003, "
    "depth=1 + 2]'",
    "quickstart": "adlm quickstart",
    "quickstart-avx2": "adlm quickstart",
    "readme-avx2": "python docs/follow.py --out results/readme-avx2.json",
    "attack": "make attack",
    "mutation": "make attack",
    "finetune": "adlm study finetune",
}
LASTING = "adlm study lasting --tokens 1500000 --growth 4"
BLOCKS = "[BD3-LM (4), BD3-LM (4) anchored]"
BASELINES = "adlm study baselines --tokens 6000000"
# what makes a file, whatever it says itself; of several commands each goes on from the last's file
AGAIN = {
    "study-lasting": [
        f"{LASTING} --further 0 --sizes '[nano]' --seeds 1 --promote 0",
        f"{LASTING} --further 1 --sizes '[nano]' --seeds 1 --promote 0 "
        "--only '[larger MDLM, rare longer 0.5]'",
        f"{LASTING} --further 2 --sizes '[nano]' --seeds 1 --promote 0 --only '{BLOCKS}'",
        f"{LASTING} --further 2 --sizes '[nano]' --seeds 3 --promote 0 --only '[deep, ADLM]'",
        "adlm study lasting --tokens 24000000 --growth 4 --further 0 --sizes '[nano]' --seeds 3 "
        f"--promote 0 --only '{BLOCKS}'",
    ],
    "study-lasting-micro": [
        f"{LASTING} --further 1 --sizes '[micro]' --seeds 1 --promote 0 --only '[ADLM, deep]' "
        "--out results/study-lasting-micro.json",
    ],
    "study-tuning": ["adlm study tuning --tokens 1500000 --seeds 1"],
    "study-baselines": [
        f"{BASELINES} --seeds 1",
        f"{BASELINES} --seeds 3 --only '[MDLM, ADLM, AR, BD3-LM (4), \"BD3-LM (4), anchored\"]' "
        "--share '[results/study-anchoring.json]'",
    ],
}


def commands_of(name: str) -> list[str]:
    """Return the commands that make results/NAME.json, one after the other, as they are typed."""
    limits = read_json(RESULTS / f"{name}.json")["machine"].get("limits") or {}
    typed = [f"{variable}={value}" for variable, value in limits.items()]
    return AGAIN.get(name) or [" ".join([*typed, command_of(name)])]


def command_of(name: str) -> str:
    """Return the command that made results/NAME.json."""
    values = read_json(RESULTS / f"{name}.json")
    command = values.get("command", "")  # none in the oldest
    words = " ".join(command) if isinstance(command, list) else command
    if found := values.get("asked") or ASKED.get(name):
        return str(found).replace(" --peek", "")  # which runs nothing, and says what was run
    if words.startswith("benchmarks/"):
        return f"python {words}"
    if words.startswith("bench-"):
        return f"python benchmarks/{words.removeprefix('bench-').replace('-', '_')}.py"
    if words == "reason eval":
        where = f"--split {values['split']}"
        if not values["source"].startswith("generated"):
            where += " --data files"
        return f"adlm reason eval runs/{values['task']}-{values['method']} {values['task']} {where}"
    if name.startswith("study-reasoning-"):
        return asked_of_reasoning(values)
    if name.startswith("study-"):
        seeds = max(len(row["seeds"]) for row in values["rows"])
        kind = name.removeprefix("study-")
        return f"adlm study {kind} --tokens {values['tokens']} --seeds {seeds}"
    raise ValueError(f"results/{name}.json does not say how it was asked for: see ASKED")


def asked_of_reasoning(values: Json) -> str:
    """Return the command of a study of reasoning, from what of its settings is not the default."""
    seeds = max(len(row["seeds"]) for row in values["rows"])
    given = unusual(values["rows"][0]["plan"]["settings"])
    return " ".join(["adlm study reasoning", values["task"], *given, f"--seeds {seeds}"])


def unusual(settings: Json) -> list[str]:
    """Return a reasoning plan's settings as options, where they are not the default."""
    usual, given = to_dict(ReasoningSettings()), []
    for field, value in settings.items():
        if isinstance(value, dict):
            given += [f"--{field}.{k} {plain(v)}" for k, v in value.items()]
        elif value != usual[field] and field != "seed":
            given.append(f"--{field} {plain(value)}")
    return given


def plain(value: object) -> str:
    """Write a value of an option."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def trainings(name: str) -> list[str]:
    """Return the commands that train the runs which results/NAME.json measures, by what it stores.

    None where the file's own command trains them, or its runs are shipped.
    """
    values = read_json(RESULTS / f"{name}.json")
    if "configs" in values:
        return [training(run, from_dict(config)) for run, config in values["configs"].items()]
    if values.get("command") == "reason eval":
        task, method = values["task"], values["method"]
        given = " ".join(unusual(values["plan"]["settings"]))
        return [f"adlm reason train {task} {method} {given} --out runs/{task}-{method}"]
    return []


def training(run: str, config: Config) -> str:
    """Return the command that trains a run: the nearest recipe, and what is not as in it."""
    known = [name for name in registry.names("recipe") if name.startswith("laptop-")]
    changes = {name: differences(recipe(name), config) for name in known}
    nearest = min(known, key=lambda name: len(changes[name]))
    idle = FREE - {"train.steps"}  # settings that change no step
    given = [f"--{k} {plain(new)}" for k, (_, new) in changes[nearest].items() if k not in idle]
    return " ".join([f"adlm train {nearest}", *given, f"--out {run}"])


def machine(result: Result, name: str) -> str:
    """Where, when and by which commands the result in results/NAME.json was made."""
    about = result.machine
    made = f"{about['cpu']}{limited(result)}, {about['cores']} cores, torch {about['torch']}"
    typed = ", then ".join(f"`{command}`" for command in commands_of(name))
    runs = ", ".join(f"`{command}`" for command in trainings(name))
    needed = f". Runs of the configurations that it stores: {runs}" if runs else ""
    return f"{typed} on {made}; {summary.age(result)}{needed}"


def limited(result: Result) -> str:
    """What a machine was kept from using, as its environment says."""
    limits = result.machine.get("limits", {}).values()
    return f" limited to {max(limits).upper()}" if limits else ""


def shown(section: Section, result: Result, name: str) -> list[str]:
    """A section of the page, with its command and age."""
    return [f"## {section.title}", markdown(section), f"{machine(result, name)}."]


def studies() -> dict[str, Result]:
    """All studies, by the names of their files."""
    found = {name: study for name in STUDIES if (study := read(StudyResult, name))}
    lasting = every(LastingResult, "study-lasting*")
    return {**found, **lasting, **every(ReasoningStudyResult, "study-reasoning*")}


def tables() -> dict[Path, str]:
    """The tables beside the studies' files, results/NAME.md."""
    return {
        RESULTS / f"{name}.md": markdown(study.section(name)) + "\n"
        for name, study in studies().items()
    }


def page() -> str:
    """docs/results.md."""
    parts = ["# Results", "Generated by `docs/build.py` from the JSON files in `results/`."]
    quick, followed = every(QuickstartResult, "quickstart*"), every(ReadmeResult, "readme*")
    reasoning = every(ReasoningStudyResult, "study-reasoning*")
    anchoring = read(StudyResult, "study-anchoring")
    parts += summary.summary(anchoring, quick.get("quickstart"), reasoning)
    for name, result in (*quick.items(), *followed.items()):
        section = result.section("Quickstart")
        section.title += limited(result)
        parts += shown(section, result, name)
    for kind in BENCHES:
        if bench := read(kind, kind.command):
            parts += shown(bench.section(kind.command), bench, kind.command)
    for name, study in studies().items():
        parts += [f"## {name}", markdown(study.section(name))]
        parts += [f"![{name}](../results/{name}.png)", f"{machine(study, name)}."]
        if said := texts.read(name):
            parts.append(said)
    for kind in (AttackResult, MutationResult):
        if tried := read(kind, kind.command):
            parts += shown(tried.section(kind.command), tried, kind.command)
    if tuned := read(FinetuneResult, "finetune"):
        parts += shown(tuned.section("finetune"), tuned, "finetune")
    for path in sorted(RESULTS.glob("eval-*.json")):
        parts += shown(of_file(path), Result.from_json(read_json(path), path), path.stem)
        if path.with_suffix(".png").is_file():
            parts.append(f"![{path.stem}](../results/{path.stem}.png)")
        if said := texts.read(path.stem):
            parts.append(said)
    return "\n\n".join(parts) + "\n"


def quickstart_table() -> str:
    """The quickstart's table, and what its signs mean; nothing before it was run."""
    found = read(QuickstartResult, "quickstart")
    if found is None:
        return ""
    section = found.section("quickstart")
    said = (
        f"{found.budget()} A diffusion model's figure is an upper bound of its perplexity; ± is "
        f"one standard error over {found.first.se_over}."
    )
    return f"{markdown_table(section.header, section.rows)}\n\n{texts.wrapped(said)}"


def first_text() -> str:
    """What `adlm sample` writes with the shipped model and seed 0; nothing without one."""
    path = RESULTS / "pretrained-samples.jsonl"
    if not path.is_file():
        return ""
    text = json.loads(path.read_text(encoding="utf-8").splitlines()[0])["text"]
    quoted = texts.wrapped(" ".join(text.split())).replace("\n", "\n> ")
    said = (
        "Three small models are shipped: after `pip install .`, `adlm sample`, `adlm infill` and "
        "`adlm watch` need no training ([weights](docs/weights.md)). What `adlm sample` writes "
        "with its first seed, unpicked:"
    )
    return f"{texts.wrapped(said)}\n\n> {quoted}"


def minutes(files: dict[str, ReadmeResult]) -> str:
    """How long the README takes to follow, a line for each machine that did."""
    lines = [
        f"- {found.machine['cores']} cores ({found.machine['cpu']}{limited(found)}, "
        f"{found.precision}): {said}"
        for found in files.values()
        if (said := found.minutes())
    ]
    return "\n".join(["Measured by following this page:", "", *lines]) if lines else ""


def readme() -> str:
    """README.md with its tables, its minutes, and the first paragraph on anchoring."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = (texts.read("study-anchoring") or "").split("\n\n")[0]
    small, whole = (
        read(ReasoningStudyResult, f"study-reasoning-prosqa{part}") for part in ("", "-full")
    )
    front = summary.front(read(StudyResult, "study-anchoring"), whole or small)
    made = {
        "minutes": minutes(every(ReadmeResult, "readme*")),
        "quickstart": quickstart_table(),
        "shipped": first_text(),
        "results": f"{front}\n\n{said}",
    }
    for name, part in made.items():
        marks = rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)"
        part = f"{part}\n" if part else ""
        text = re.sub(marks, lambda m, part=part: f"{m[1]}{part}{m[2]}", text, flags=re.DOTALL)
    return text
