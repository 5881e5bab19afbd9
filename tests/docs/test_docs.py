"""What README and docs show is executed or checked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

import adlm
from adlm import registry
from adlm.cli import main
from adlm.config import AnchorConfig, DataConfig, ProcessConfig
from adlm.data.sources import open_source
from adlm.data.vocab import byte_vocab
from adlm.process.anchors import Anchors
from adlm.process.schedule import make_schedule
from adlm.reasoning.plan import Plan, ReasoningSettings
from adlm.reasoning.train import train as train_to_reason
from adlm.recipes import recipe
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

ROOT = Path(__file__).parents[2]
# the README's commands with everything that costs minutes made small
SMALL = (
    "--train.steps 2 --train.batch 4 --train.eval_rows 4 --model.width 16 --model.heads 2 "
    "--data.length 32"
)


CHEAP = {
    "likelihood": "--limit 20",
    "zeroshot": "--limit 2 --sets [ptb]",
    "samples": "--n 16 --steps 2 --judge none --features minilm",
    "anchors": "--rows 4 --texts 0",
    "suite": "--texts 16 --rows 2 --judge none --grid [2]",
    "efficiency": "--texts 2 --steps [2] --batches [2] --judge none",
}


PAGES = ("sampling", "evaluation", "reasoning", "index")
REASON = {
    "train": "--items 8 --epochs 6 --valid 1 --size pico",
    "eval": "--limit 2",
    "reasoning": "--items 8 --stages 1 --epochs 2 --valid 1 --size pico --seeds 1 --tests 2",
}


def commands_of(*pages: str) -> list[str]:
    text = "\n".join((ROOT / page).read_text() for page in pages)
    lines = re.findall(r"^    ((?:adlm|torchrun|make) .*)$", text, re.M)
    return [line.split("#")[0].strip() for line in lines]


def test_the_readme_names_only_make_targets_that_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    named = re.findall(r"(?:`|    )make (\w+)", (ROOT / "README.md").read_text())
    assert {"quickstart", "test"} <= set(named) <= set(targets)


@pytest.mark.usefixtures("one_cache")
def test_every_command_of_the_readme_runs(tmp_path, monkeypatch, capsys, text_file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-texts").mkdir()
    (tmp_path / "my-texts" / "a.txt").write_text(text_file.read_text())
    (tmp_path / "my-data" / "ptb").mkdir(parents=True)
    (tmp_path / "my-data" / "ptb" / "ptb.valid.txt").write_text(text_file.read_text())
    (tmp_path / "runs" / "quickstart").mkdir(parents=True)
    (tmp_path / "runs" / "quickstart" / "laptop-adlm").symlink_to(tmp_path / "runs" / "adlm")
    pages = ("README.md", *(f"docs/{p}.md" for p in PAGES))
    commands = list(dict.fromkeys(commands_of(*pages)))
    assert len(commands) >= 10
    for command in commands:
        words = shlex.split(command)
        if words[0] == "make":
            continue
        if "bpe:4096" in words:
            words[words.index("bpe:4096")] = "bpe:300"
        if "reason" in words or "reasoning" in words:
            words += REASON.get(words[2], "").split()
        elif "train" in words:
            words += SMALL.split()
        if words[0] == "torchrun":
            run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            done = subprocess.run(
                [*run, *words[1:]],
                capture_output=True,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            assert done.returncode == 0, done.stderr[-2000:]
            continue
        if words[1] == "eval":
            words += CHEAP[words[2]].split()
        assert main(words[1:]) == 0, (command, capsys.readouterr().err)
    for page in ("README.md", "docs/sampling.md"):
        python = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
        assert python
        exec(python.group(1), {})
        assert capsys.readouterr().out.strip().splitlines()[-1].startswith("[")


def test_the_follower_of_the_readme_knows_every_command(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import follow

    typed = follow.commands((ROOT / "README.md").read_text())
    assert set(commands_of("README.md")) < set(typed)
    assert typed[:2] == ["git clone <this repository> && cd adlm", "make quickstart"]
    assert typed[-1].startswith("python - <<'END'\nimport adlm")


def test_the_table_of_samplers_is_whole():
    page = (ROOT / "docs" / "sampling.md").read_text()
    for name in registry.names("sampler"):
        row = re.search(rf"^\| `{name}` \|.*$", page, re.M)
        assert row, name
        options = {f.name for f in fields(registry.lookup("sampler", name))}
        for option in options - {"schedule", "context"}:
            assert f"`{option}`" in row[0] or "as `confidence`" in row[0], (name, option)


def test_the_tables_of_tasks_and_methods_are_whole():
    page = (ROOT / "docs" / "reasoning.md").read_text()
    for axis in ("task", "method"):
        for name in registry.names(axis):
            row = re.search(rf"^\| `{name}` \|.*$", page, re.M)
            assert row, name
            for field in fields(registry.lookup(axis, name)):
                assert f"`{field.name}`" in row[0], (name, field.name)


def test_the_examples_of_the_extension_guide_work(tmp_path, text_file):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extend.md").read_text(), re.S)
    assert len(blocks) == 8
    for block in blocks:
        exec(compile(block, "example", "exec", dont_inherit=True), {"__name__": "example"})
    try:
        import torch

        x = torch.tensor([[1, 2, 3, 4]])
        late = Anchors(AnchorConfig(rule="late"), byte_vocab())(x, x > 0)
        assert late.tolist() == [[False, False, True, True]]
        schedule, t = make_schedule("square-root"), torch.tensor([0.25])
        assert torch.allclose(schedule.weight(t), -schedule.dalpha(t) / (1 - schedule.alpha(t)))
        (tmp_path / "poems.jsonl").write_text('{"verse": "a rose"}\n')
        config = DataConfig(name="poems", dir=str(tmp_path))
        assert list(open_source(config, "train").documents()) == ["a rose"]
        assert recipe("laptop-mdlm-adamw").optim.name == "adamw"
        train(make_config(text_file, steps=2), tmp_path / "plain")
        seen = adlm.load(tmp_path / "plain").trace(sampler="left-first", steps=8)
        order = [event.position for event in seen.events[0]]
        assert order == sorted(order) == list(range(16))
        how = {"sampler": "left-first", "policy": {"eager": 3.0}, "steps": 8}
        early = adlm.load(tmp_path / "plain").trace(**how)
        assert sum(e.step <= 2 for e in early.events[0]) > sum(e.step <= 2 for e in seen.events[0])
        noise = ProcessConfig(kernel="flat-mixture", masking="bernoulli", conditioned=True)
        flat = make_config(text_file, "flat-noise", steps=2)
        flat = replace(flat, process=noise, model=replace(flat.model, time=8))
        train(flat, tmp_path / "flat")
        assert len(adlm.load(tmp_path / "flat").generate(n=2, steps=4)) == 2
        small = ReasoningSettings(items=8, epochs=2, batch=4, valid=1)
        plan = Plan("doubling", "cold-turkey", small)
        assert train_to_reason(plan, tmp_path / "run") == 0
    finally:
        for axis, name in (
            ("anchors", "late"),
            ("schedule", "square-root"),
            ("sampler", "left-first"),
            ("dataset", "poems"),
            ("kernel", "flat-mixture"),
            ("objective", "flat-noise"),
            ("recipe", "laptop-mdlm-adamw"),
            ("task", "doubling"),
            ("method", "cold-turkey"),
        ):
            registry._tables[axis].pop(name)


def test_every_file_named_in_the_docs_exists():
    pages = [p for p in (ROOT / "docs").glob("*.md") if p.stem != "cli"]  # it has output files
    for page in [ROOT / "README.md", *pages]:
        for name in re.findall(
            r"`((?:adlm|benchmarks|results|docs|examples)/[\w./-]+)`", page.read_text()
        ):
            assert (ROOT / name).exists(), (page.name, name)


@pytest.mark.parametrize("axis", sorted(registry.HOMES))
def test_every_axis_is_in_the_extension_guide(axis):
    assert f"`{axis}`" in (ROOT / "docs" / "extend.md").read_text()


def test_every_named_set_is_documented():
    page = (ROOT / "docs" / "data.md").read_text()
    assert all(name in page for name in registry.names("dataset"))


def test_the_pages_show_what_the_result_files_say():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_site_is_built_without_a_warning_and_fits_the_screen(request):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), "--site"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    nav = re.findall(r"(\w+)\.md", (ROOT / "mkdocs.yml").read_text())
    beside = {"contributing", "changelog"}  # these two stand beside the README
    assert {p.stem for p in (ROOT / "docs").glob("*.md")} | beside == set(nav)
    for name in nav:
        assert (ROOT / "build" / "site" / f"{name}.html").is_file()
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return
    browser = request.getfixturevalue("browser")
    for width in (420, 1200):
        browser.set_window_size(width, 900)
        for name in nav:
            browser.get((ROOT / "build" / "site" / f"{name}.html").as_uri())
            size = "return [document.documentElement.scrollWidth, window.innerWidth]"
            wide, window = browser.execute_script(size)
            assert wide <= window, (name, width)


def example(home: Path, name: str, *words: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=home)


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Path:
    """A folder with the run that the first example trains."""
    home = tmp_path_factory.mktemp("examples")
    done = example(home, "train_on_own_text", small_corpus(home), "--steps", 2, "--out", "run")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "- " in done.stdout
    return home


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("infill", "run --page page.html", "nats  The"),
        ("compare_samplers", "run -n 2", "anchor-first"),
        ("anchored_chain_of_thought", "--items 8 --epochs 3 --tests 2 --out reason", "acot: "),
    ],
)
def test_the_examples_run(name, words, says, examples):
    done = example(examples, name, *words.split())
    assert done.returncode == 0, done.stderr[-2000:]
    assert says in done.stdout


def test_a_plain_model_is_compared_without_the_samplers_it_lacks(examples, text_file):
    train(make_config(text_file, steps=2), examples / "plain")
    done = example(examples, "compare_samplers", "plain", "-n", 2)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "anchor-first" not in done.stdout


@pytest.mark.parametrize("name", ["infill", "compare_samplers", "train_on_own_text"])
def test_an_example_given_a_wrong_path_says_so(name, tmp_path):
    done = example(tmp_path, name, "/nowhere")
    assert done.returncode == 2
    assert "/nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_registry_or_machine_path_is_named():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert tracked
    for name in tracked:
        if name.endswith((".py", ".md", ".toml", ".txt", "Makefile", "run")):
            text = (ROOT / name).read_text()
            assert not re.search(r"(?:pypi|pythonhosted|debian|npmjs)\.org", text), name


def test_the_readme_counts_the_named_sets():
    words = {12: "twelve", 13: "thirteen", 14: "fourteen"}
    assert f"{words[len(registry.names('dataset'))]} named sets" in (ROOT / "README.md").read_text()
