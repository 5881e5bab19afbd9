"""Shared fixtures. Real data lies beside the project; tests that need it skip without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adlm import registry
from adlm.config import (
    Config,
    DataConfig,
    ModelConfig,
    OptimConfig,
    ProcessConfig,
    TrainConfig,
)

SHARED = Path(__file__).parents[2] / "shared" / "data"

# torch takes what it compiled for one instruction set under another one too: then all is NaN
if isa := os.environ.get("ATEN_CPU_CAPABILITY"):
    kept = Path(tempfile.gettempdir(), f"torchinductor-{isa}")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kept))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has an empty token cache and no data folder of the user's."""
    monkeypatch.setenv("ADLM_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("ADLM_DATA", raising=False)


@pytest.fixture(scope="session")
def learnt_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for tests that need the default corpus's vocabulary: to learn it takes seconds."""
    return tmp_path_factory.mktemp("learnt")


@pytest.fixture
def one_cache(_own_cache: None, learnt_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the cache of the tests before."""
    monkeypatch.setenv("ADLM_CACHE", str(learnt_once))


@pytest.fixture(autouse=True)
def _nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test has the code outside the tree that another one allowed."""
    monkeypatch.setattr(registry, "_allowed", set())


@pytest.fixture
def shared() -> Path:
    """The folder of real data sets."""
    if not SHARED.is_dir():
        pytest.skip(f"no real data at {SHARED}")
    return SHARED


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """A small corpus with some structure."""
    path = tmp_path / "corpus.txt"
    words = ["the", "union", "is", "strong", "and", "free", "peace", "war", "law", "states"]
    lines = [" ".join(words[(i * k + k) % 10] for k in range(1, 12)) + "." for i in range(400)]
    path.write_text("\n".join(lines))
    return path


def small_corpus(home: Path) -> Path:
    """Four hundred short lines of two kinds."""
    path = home / "corpus.txt"
    path.write_text("\n".join(f"the law of the {w} is the law" for w in ("union", "sea") * 200))
    return path


def make_config(corpus: Path | str, objective: str = "mdlm", **train: object) -> Config:
    """A run that takes a second."""
    settings: dict = {"steps": 8, "batch": 4, "precision": "fp32", "log_every": 1, "eval_rows": 4}
    settings |= train
    return Config(
        objective=objective,
        data=DataConfig(name=str(corpus), tokenizer="byte", length=16),
        model=ModelConfig(width=16, blocks=2, heads=2, conv=3),
        process=ProcessConfig(),
        optim=OptimConfig(warmup=2, ema=0.9),
        train=TrainConfig(**settings),
    )


@pytest.fixture
def adlm_cli() -> Callable[..., subprocess.CompletedProcess]:
    """Run the real command line in a process of its own."""

    def call(*words: object, **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "adlm", *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, **env},
            timeout=300,
        )

    return call


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """A real browser, where one is installed."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield made
    made.quit()
