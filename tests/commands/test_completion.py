"""Tab completion in a real shell."""

import shutil
import subprocess

import pytest

from adlm.cli import COMMANDS, main


def completed(script: str, *words: str) -> set[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{w}'" for w in words)
    ask = (
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _adlm; printf '%s\\n' ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["completion", "bash"]) == 0
    return out.getvalue()


def test_bash_completes_commands_options_and_names(script):
    assert completed(script, "adlm", "") == {name.split()[0] for name in COMMANDS}
    assert completed(script, "adlm", "tr") == {"train"}
    assert "likelihood" in completed(script, "adlm", "eval", "")
    assert completed(script, "adlm", "train", "laptop-a") == {
        "laptop-ar",
        "laptop-a2r",
        "laptop-adlm",
    }
    assert completed(script, "adlm", "train", "laptop-ar", "--model.wid") == {"--model.width"}
    assert completed(script, "adlm", "eval", "zeroshot", "runs", "--dr") == {"--draws"}
    assert completed(script, "adlm", "reason", "train", "pro") == {"prosqa", "prontoqa"}


def test_bash_completes_values_and_short_forms(script):
    assert "anchor-first" in completed(script, "adlm", "sample", "run", "--sampler", "")
    assert completed(script, "adlm", "sample", "run", "--sampler", "first") == {"first-hitting"}
    assert completed(script, "adlm", "sample", "run", "--sampler", "=", "dfm") == {"dfm"}
    assert completed(script, "adlm", "train", "laptop-ar", "--size", "m") == {"micro", "medium"}
    assert completed(script, "adlm", "train", "laptop-ar", "--optim.name", "") == {"adamw", "muon"}
    assert completed(script, "adlm", "train", "x", "--anchor.rule", "tf") == {"tfidf"}
    assert completed(script, "adlm", "train", "x", "--process.weight", "f") == {"flat"}
    assert "mixture" in completed(script, "adlm", "train", "x", "--process.kernel", "")
    assert "wikitext-2" in completed(script, "adlm", "train", "x", "--data", "")
    assert completed(script, "adlm", "plan", "owt-ar", "--gpu", "h") == {"h100"}
    assert completed(script, "adlm", "sample", "run", "--top") == {"--top_k", "--top_p"}
    assert completed(script, "adlm", "sample", "run", "--num") == {"--num_samples"}
    assert "--train.steps" in completed(script, "adlm", "train", "x", "--resume", "--tr")


def test_an_option_that_takes_anything_is_offered_files(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-run").mkdir()
    assert completed(script, "adlm", "train", "laptop-ar", "--out", "") == {"my-run"}


def test_files_are_offered_where_no_word_fits(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-run").mkdir()
    assert completed(script, "adlm", "sample", "my-") == {"my-run"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(shell, capsys, tmp_path):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    option = {"zsh": "--model.width", "fish": "-l model.width"}[shell]
    assert all(word in text for word in ("quickstart", "laptop-adlm", "likelihood", option))
    assert all(word in text for word in ("first-hitting", "top_p"))
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(text)
        assert subprocess.run([shell, "-n", str(path)]).returncode == 0
