"""The site's own parts: formulas, the Python API, the summary of the results."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from adlm.config import to_dict
from adlm.recipes import recipe
from adlm.studies.anchoring import LONGER
from adlm.train.run import train
from tests.conftest import make_config, small_corpus

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import api_page  # noqa: E402
import formulas  # noqa: E402
import summary  # noqa: E402

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
    assert "from adlm import load\n\nload(path: str | Path" in page
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


def row(name: str, made_by: str, ppl: float, **changes: object) -> dict:
    config = to_dict(recipe(made_by)) | changes
    figures = {"test_ppl": [ppl], "test_ppl_mean": ppl, "test_ppl_sd": None, "exact": False}
    return {"row": name, "seeds": [0], "config": config, **figures}


def told(files: dict, reasoning: tuple[str, ...] = ()) -> str:
    text = "\n\n".join(summary.summary(files.get, list(reasoning)))
    return text.replace("\u00a0", " ")


def test_without_results_there_is_no_summary():
    assert told({}) == ""


def test_the_summary_shows_what_is_there():
    study = {"rows": [row("MDLM", "laptop-mdlm", 60.0), row("deep", "laptop-deep", 55.0)]}
    study["pairs"] = [{"row": "deep", "against": "MDLM", "test_ppl": [-5.0], "ci95": None}]
    text = told({"study-anchoring": study | {"date": "2031-05-07", "commit": "0123456789abcdef"}})
    assert "| MDLM | masked diffusion | ≤ 60.00 | 1 |  |" in text
    assert "no anchors | ≤ 55.00" in text
    assert "- deep against MDLM: -5.00 PPL" in text
    assert "| ADLM |" not in text
    assert "study-anchoring: made 2031-05-07, commit 012345678." in text


def test_a_row_of_other_settings_is_not_called_what_the_recipe_is_today():
    old = row("ADLM", "laptop-adlm", 60.0, model=to_dict(recipe("laptop-deep").model))
    gone = row("MDLM", "laptop-mdlm", 70.0, no_such_field=1)
    text = told({"study-anchoring": {"rows": [old, gone], "pairs": []}})
    assert text.count(summary.OLDER) == 2
    assert "paper's system" not in text


def test_a_longer_training_is_no_other_setting():
    config = to_dict(recipe("laptop-mdlm"))
    longer = row(LONGER["deep"], "laptop-mdlm", 58.0, train=config["train"] | {"steps": 7})
    text = told({"study-anchoring": {"rows": [longer], "pairs": []}})
    assert "as many FLOPs as deep | ≤ 58.00" in text


def test_acot_stands_beside_cot():
    one = {"mean": 0.9, "sd": 0.01, "tokens": 30.0, "slots": 5.0}
    rows = [{"method": m, **one} for m in ("cot", "acot")]
    text = told({"sums": {"task": "sums", "rows": rows}}, ("sums", "missing"))
    assert "| sums |  | 90.0 ± 1.0 %, 35 tokens | 90.0 ± 1.0 %, 35 tokens |" in text


def test_the_results_begin_with_a_summary_and_every_section_says_its_age():
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.M)[1:]
    assert sections[0].startswith("In short\n")
    for section in sections:
        assert re.search(r"made (before dates were kept|\d{4}-\d\d-\d\d)", section), section[:40]


def test_the_pages_stand_in_their_order():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]
    guides = ["data", "sampling", "evaluation", "weights", "reasoning", "extend"]
    wanted = ["index", "tutorial", "theory", "reading", *guides, "cli", "api", "results"]
    assert re.findall(r"(\w+)\.md", nav)[: len(wanted)] == wanted
