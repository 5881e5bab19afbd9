"""Write results.md, cli.md and api.md of docs and the README's table from results and code.

python docs/build.py            write
python docs/build.py --check    exit 1 if what is written differs
python docs/build.py --site     build the site of what would be written into build/site
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import api_page
import summary
import texts

from adlm.cli import COMMANDS, arguments_of, options_of, short_forms
from adlm.eval.report import of_file, over
from adlm.viz.page import to_markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
STUDIES = ("study-anchoring", "study-times", "study-ablate")
REASONING = [p.stem for p in RESULTS.glob("study-reasoning*.json")]


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine(result: dict[str, Any]) -> str:
    about = result["machine"]
    made = f"{about['cpu']}, {about['cores']} cores, torch {about['torch']}"
    return f"{made}; {summary.age(result)}"


def laptop() -> str:
    """The quickstart's models on the test split."""
    found = read("quickstart")
    rows = []
    for name, r in found["rows"].items() if found else ():
        bound = "" if r["exact"] else "≤ "
        train = r["config"]["train"]
        tokens = train["steps"] * train["batch"] * r["config"]["data"]["length"]
        rows.append(
            [
                name,
                f"{r['parameters']:,}",
                f"{tokens / 1e6:.1f} M",
                f"{r['training_seconds'] / 60:.1f}",
                f"{bound}{r['ppl']:.1f} ± {r['se_ppl']:.1f}",
                f"{bound}{r['bits_per_byte']:.3f}",
            ]
        )
    header = ["recipe", "parameters", "training tokens", "minutes", "test PPL", "bits a byte"]
    return table(header, rows)


def captioned() -> str:
    """The quickstart's table, and what its signs mean; nothing before it was run."""
    found = read("quickstart")
    if found is None:
        return ""
    kinds = {over(r) for r in found["rows"].values()}
    return (
        f"{laptop()}\n\nA diffusion model's figure is an upper bound of its perplexity; ± is one "
        f"standard error over {' or '.join(sorted(kinds))}."
    )


def train_step(result: dict[str, Any]) -> str:
    rows = [
        [
            r["size"],
            f"{r['precision']}{', AVX2' * (r.get('isa') == 'avx2')}",
            str(r["length"]),
            f"{r['tokens_per_s']:,.0f}",
            f"{r['gflops']:,.0f} of {r['matmul_peak_gflops']:,.0f}",
            f"{r['share_of_peak']:.0%}",
            f"{r['update_share_of_time']:.0%}" if "update_share_of_time" in r else "left out",
            f"{r['peak_memory_mib']:,.0f}",
        ]
        for r in result["rows"]
    ]
    header = ["size", "precision", "L", "tokens/s", "GFLOP/s of the peak", "share"]
    header += ["the update's time", "peak MiB"]
    return table(header, rows)


def anchored_step(result: dict[str, Any]) -> str:
    rows, said = [], []
    for phase, found in result["phases"].items():
        for name, seconds in found["seconds"].items():
            middle, low, high = statistics.median(seconds), min(seconds), max(seconds)
            time = f"{middle:.1f} ({low:.1f} to {high:.1f})"
            work, memory = found["flops"][name] / 1e12, found["peak_memory_mib"][name]
            rows.append([phase, name, time, f"{work:.2f}", f"{memory:,.0f}"])
        for name, pair in found["against_literal"].items():
            said.append(
                f"- {phase}, {name}: **{pair['as_fast']:.2f}x** as fast as literal "
                f"({pair['by_flops']:.2f}x by FLOPs), **{pair['memory']:.2f}** of its memory"
            )
        said.append(f"- {phase}: **{found['time_of_plain']:.2f}x** the time of the plain model")
    shown = table(["phase", "model", "seconds", "TFLOP", "peak MiB"], rows)
    each = [f"{f['memory_rows']} for the memory of {p}" for p, f in result["phases"].items()]
    how = f"{result['rows']} rows for the seconds, {', '.join(each)}; {result['precision']}."
    return f"{shown}\n\n{how}\n\n" + "\n".join(said)


def sampling(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{r['seconds']:.1f}",
            f"{r['tokens_per_s']:,.1f}",
            f"{r['nfe']:.1f}",
            f"{r['ms_per_pass']:,.0f}",
            r["note"],
        ]
        for name, r in result["cases"].items()
    ]
    ratios = result["times_as_fast_as_literal"].items()
    said = ", ".join(f"{name} {ratio:.1f}x" for name, ratio in ratios)
    shown = table(["sampler", "seconds", "tokens/s", "passes a row", "ms a pass", ""], rows)
    return f"{shown}\n\nAs fast as literal: {said}."


def followed(result: dict[str, Any]) -> str:
    rows = [
        [
            f"`{s['command'].splitlines()[0].replace('|', chr(92) + '|')}`",
            f"{s['seconds']:.1f}",
            "Ctrl-C: saved" if s["stopped"] else "failed" if s["code"] else "done",
        ]
        for s in result["steps"]
    ]
    return table(["command", "seconds", ""], rows)


def page() -> str:
    """docs/results.md."""
    parts = ["# Results", "Generated by `docs/build.py` from the JSON files in `results/`."]
    parts += summary.summary(read, sorted(REASONING))
    quick = read("quickstart")
    if quick:
        first = quick["rows"]["laptop-mdlm"]
        parts += ["## Quickstart", laptop()]
        parts.append(
            f"`adlm quickstart`: State of the Union addresses, test split, {first['tokens']:,} "
            f"tokens, vocabulary {first['config']['data']['tokenizer'].split(':')[1]}; ± is one "
            f"standard error over {over(first)}; diffusion figures are upper bounds "
            f"({first['estimator']}, {first['draws']} draw a row); two models at a time, one core "
            f"each. {machine(quick)}."
        )
    for title, name, show, note in (
        (
            "The README, followed",
            "readme",
            followed,
            "`python docs/follow.py`: every command of the README in its order, in a fresh clone "
            "with an empty home folder; `make quickstart` includes the installation.",
        ),
        (
            "Training step",
            "bench-train-step",
            train_step,
            "`python benchmarks/train_step.py --compile`: one MDLM step, the optimiser's update "
            "included where its share of the time stands, against the matrix-product peak of the "
            "same run; rows of L and 4 L, as many tokens; AVX2: without AVX-512 and bf16 units.",
        ),
        (
            "Anchored step",
            "bench-anchored-step",
            anchored_step,
            "`python benchmarks/anchored_step.py`: V 50258, d 768, 12 + 6 blocks, L 128; they take "
            "turns, ratios are medians over rounds. Inference: folded and plain have the "
            "denoiser's logits or log p at the masked half; literal has the anchor's and the "
            "denoiser's logits at every position, and log p by both SUBS rules, as the published "
            "forward does. Training: seconds of forward and backward; peak memory of a step with "
            "AdamW's update and moments.",
        ),
        (
            "Sampling",
            "bench-sampling",
            sampling,
            "`python benchmarks/sampling.py`: 12 blocks, d 768, V 50258, L 256, T 256, batch 8, "
            "against the published loop written plainly.",
        ),
    ):
        if result := read(name):
            parts += [f"## {title}", show(result), f"{note} {machine(result)}."]
    for name in (*STUDIES, *sorted(REASONING)):
        if (RESULTS / f"{name}.md").is_file():
            result = read(name)
            assert result is not None
            parts += [f"## {name}", (RESULTS / f"{name}.md").read_text(encoding="utf-8").strip()]
            parts += [f"![{name}](../results/{name}.png)", f"{machine(result)}."]
            if said := texts.read(name):
                parts.append(said)
    for path in sorted(RESULTS.glob("eval-*.json")):
        parts.append(to_markdown([of_file(path)], "").split("\n", 2)[2].strip())
        parts.append(f"{machine(json.loads(path.read_text(encoding='utf-8')))}.")
    return "\n\n".join(parts) + "\n"


def readme() -> str:
    """README.md with its two tables, and the first paragraph of what is said of anchoring."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = (texts.read("study-anchoring") or "").split("\n\n")[0]
    made = {"quickstart": captioned(), "results": f"{summary.front(read)}\n\n{said}"}
    for name, part in made.items():
        marks = rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)"
        text = re.sub(marks, lambda m, part=part: f"{m[1]}{part}\n{m[2]}", text, flags=re.DOTALL)
    return text


def escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def shown(value: Any) -> str:
    """A default value; nothing where there is none."""
    return "" if value in (None, "", [], {}) else escape(f"`{value}`")


def commands() -> str:
    """docs/cli.md: every command with its options, from the code."""
    parts = ["# Commands", "Generated by `docs/build.py` from the code; `adlm COMMAND --help` says"]
    parts[-1] += " the same."
    for name, what in COMMANDS.items():
        parts += [f"## adlm {name}", f"{what[0].upper()}{what[1:]}."]
        options = [*arguments_of(name), *options_of(name)]
        if options:
            rows = [[f"`{o.name}`", escape(o.meaning), shown(o.default)] for o in options]
            parts.append(table(["option", "meaning", "default"], rows))
        if short := short_forms(name):
            said = ", ".join(f"`{k}` for `{v}`" for k, v in short.items())
            parts.append(f"Short forms: {said}.")
    return "\n\n".join(parts) + "\n"


def dress(home: Path, generated: set[str]) -> None:
    """Set the formulas of the pages that people wrote, and put the style sheet beside them."""
    from formulas import set_formulas

    for page_file in home.glob("*.md"):
        if page_file.name not in generated:  # samples of text may have dollars
            text = page_file.read_text(encoding="utf-8")
            page_file.write_text(set_formulas(text), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "site.css", home)


def site(made: dict[Path, str]) -> None:
    """The pages with their pictures in build/docs, and the site in build/site."""
    home = ROOT / "build" / "docs"
    shutil.rmtree(home, ignore_errors=True)
    (home / "results").mkdir(parents=True)
    for page_file in (ROOT / "docs").glob("*.md"):
        text = (made.get(page_file) or page_file.read_text(encoding="utf-8")).replace(
            "../results/", "results/"
        )
        (home / page_file.name).write_text(
            text.replace("<!-- table -->", captioned()), encoding="utf-8"
        )
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        (home / name.lower()).write_text(text, encoding="utf-8")
    for picture in RESULTS.glob("*.png"):
        shutil.copy(picture, home / "results")
    dress(home, {page_file.name for page_file in made})
    words = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"the site could not be built:\n{done.stdout}{done.stderr}")
    print(f"open {ROOT / 'build' / 'site' / 'index.html'}")


def main() -> None:
    made = {
        ROOT / "docs" / "results.md": page(),
        ROOT / "docs" / "cli.md": commands(),
        ROOT / "docs" / "api.md": api_page.page(),
        ROOT / "README.md": readme(),
    }
    if "--check" in sys.argv:
        stale = [
            p.name
            for p, text in made.items()
            if not p.is_file() or p.read_text(encoding="utf-8") != text
        ]
        sys.exit(f"not as the results say: {', '.join(stale)}" if stale else 0)
    if "--site" in sys.argv:
        site(made)
        return
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
