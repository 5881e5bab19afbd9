"""The site's own parts: formulas, the Python API, the summary of the results."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adlm.config import to_dict
from adlm.recipes import recipe
from adlm.studies.anchoring import LONGER
from adlm.studies.reasoning import ReasoningStudyResult
from adlm.studies.result import LearningCurve, StudyPair, StudyResult, StudyRow
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import api_page  # noqa: E402
import formulas  # noqa: E402
import results_page  # noqa: E402
import summary  # noqa: E402
from follow import ReadmeResult, Step  # noqa: E402

WRITTEN = [p for p in DOCS.glob("*.md") if p.stem not in ("results", "cli", "api")]


def test_formulas_become_mathml_and_code_stays():
    page = (
        "The share $\\alpha_t$ and `$x$`:\n\n$$a\n\\le b$$\n\n    echo $HOME $PATH\n\n"
        "```\na ` $b$\n```\n\nfor $5.\n"
    )
    made = formulas.set_formulas(page)
    assert made.count("<math") == 2
    assert 'display="block"' in made
    for kept in ("`$x$`", "    echo $HOME $PATH", "```\na ` $b$\n```", "for $5."):
        assert kept in made


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.stem)
def test_no_formula_of_a_page_is_left_as_latex(page):
    made = formulas.set_formulas(page.read_text(encoding="utf-8"))
    prose = formulas.PARTS.sub("", made)  # what is left when code is taken out
    assert not re.search(r"\$|\\[a-z]+", prose), page.name


def test_the_maths_are_set_as_formulas():
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    assert formulas.set_formulas(page).count("<math") > 50


def test_everything_in_the_api_page_is_documented():
    for part in api_page.PARTS:
        for thing in part.things:
            assert inspect.getdoc(thing), thing
            methods = vars(thing).items() if inspect.isclass(thing) else ()
            for name, value in methods:
                if inspect.isfunction(value) and api_page.public(thing, name):
                    assert inspect.getdoc(value), (thing, name)


def test_the_api_page_shows_signature_defaults_and_comments():
    page = api_page.page()
    assert "from adlm import load\n\nload(\n    path: str | Path | None = None,\n" in page
    assert "| `n` | `1` | How many. |" in page
    assert "| `z` | `Tensor` | (B, L) tokens, the mask where nothing is written yet |" in page
    assert ">>> list(clock(2))" in page
    assert "_tables" not in page


def test_the_examples_of_the_api_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-texts").mkdir()
    config = make_config(small_corpus(tmp_path / "my-texts").parent, steps=2)
    config = api_page.anchored(config, "adlm", front=1)
    config = replace(config, data=replace(config.data, length=48))
    train(config, tmp_path / "runs" / "anchored")
    names: dict = {"__name__": "notebook"}
    page = api_page.page()
    for part in api_page.PARTS:
        code = textwrap.dedent(part.example)
        assert code in page
        exec(compile(code, "api.md", "exec", dont_inherit=True), names)
    assert (tmp_path / "runs" / "from-python" / "checkpoints").is_dir()
    assert (tmp_path / "replay.html").is_file()
    assert names["made"].tokens.shape == (4, 16)


def row(name: str, made_by: str, ppl: float, **changes: object) -> StudyRow:
    config = to_dict(recipe(made_by)) | changes
    curve = LearningCurve([], [], [])
    return StudyRow(name, 1, 1, 1.0, [0], [ppl], ppl, None, ppl, False, curve, config)


def told(study: StudyResult | None, tasks: dict | None = None) -> str:
    return "\n\n".join(summary.summary(study, None, tasks or {})).replace("\u00a0", " ")


def study(*rows: StudyRow, **more: Any) -> StudyResult:
    return StudyResult(study="anchoring", rows=list(rows), **more)


def test_without_results_there_is_no_summary():
    assert told(None) == ""


def test_the_summary_shows_what_is_there():
    pair = StudyPair("deep", "MDLM", [-5.0], None)
    rows = row("MDLM", "laptop-mdlm", 60.0), row("deep", "laptop-deep", 55.0)
    text = told(study(*rows, pairs=[pair], date="2031-05-07", commit="0123456789abcdef"))
    assert "| MDLM | masked diffusion | ≤ 60.00 | 1 |  |" in text
    assert "no anchors | ≤ 55.00" in text
    assert "- deep against MDLM: -5.00 PPL" in text
    assert "| ADLM |" not in text
    assert "study-anchoring: made 2031-05-07, commit 012345678." in text


def test_a_row_of_other_settings_is_not_called_what_the_recipe_is_today():
    old = row("ADLM", "laptop-adlm", 60.0, model=to_dict(recipe("laptop-deep").model))
    gone = row("MDLM", "laptop-mdlm", 70.0, no_such_field=1)
    text = told(study(old, gone))
    assert text.count(summary.OLDER) == 2
    assert "paper's system" not in text


def test_a_longer_training_is_no_other_setting():
    config = to_dict(recipe("laptop-mdlm"))
    longer = row(LONGER["deep"], "laptop-mdlm", 58.0, train=config["train"] | {"steps": 7})
    assert "as many FLOPs as deep | ≤ 58.00" in told(study(longer))


def test_acot_stands_beside_cot():
    found = ReasoningStudyResult.read(ROOT / "results" / "study-reasoning-prosqa.json")
    one = {"mean": 0.9, "sd": 0.01, "tokens": 30.0, "slots": 5.0}
    rows = [replace(found.rows[0], method=m, **one) for m in ("cot", "acot")]
    text = told(None, {"sums": replace(found, task="sums", rows=rows)})
    assert "| sums |  | 90.0 ± 1.0 %, 35 tokens | 90.0 ± 1.0 %, 35 tokens |" in text


def followed(seconds: float, **about: Any) -> ReadmeResult:
    last = ["10.0 minutes; written to runs/quickstart/results.json", "open x"]
    steps = [Step("make quickstart", seconds, 0, False, last), Step("make fast", 90, 0, False, [])]
    machine = {"cpu": "A CPU", "cores": 2, **about}
    return ReadmeResult(steps=steps, machine=machine, precision="bf16")


def test_the_readme_says_how_long_it_takes_on_both_machines():
    limits = {"ATEN_CPU_CAPABILITY": "avx2"}
    said = results_page.minutes({"readme": followed(780), "b": followed(1200, limits=limits)})
    assert said.splitlines()[2:] == [
        "- 2 cores (A CPU, bf16): 3.0 minutes to install and 10.0 to train, 1.5 for the fast form",
        "- 2 cores (A CPU limited to AVX2, bf16): 10.0 minutes to install and 10.0 to train, "
        "1.5 for the fast form",
    ]
    failed = replace(followed(780).steps[0], code=2)
    assert results_page.minutes({"readme": replace(followed(780), steps=[failed])}) == ""
    assert "<!-- minutes:begin -->" in (ROOT / "README.md").read_text()


def test_the_results_begin_with_a_summary_and_every_section_says_its_age():
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    assert sections[0].startswith("In short\n")
    for section in sections:
        assert re.search(r"made (before dates were kept|\d{4}-\d\d-\d\d)", section), section[:40]


def test_the_pages_stand_in_their_order():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]
    guides = ["data", "sampling", "serve", "evaluation", "scale", "weights", "reasoning"]
    wanted = ["index", "tutorial", "theory", "reading", *guides, "extend", "cli", "api", "results"]
    assert re.findall(r"(\w+)\.md", nav)[: len(wanted)] == wanted
