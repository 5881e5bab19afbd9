"""Runs that the version before left behind go on to the bits that it would have reached."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from adlm.models import checkpoint
from adlm.train.log import read

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
# no instruction that only some CPUs have: bits are those of any x86 machine
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
}
TIMES = {"seconds", "tokens_per_s"}
GO_ON = """
import sys
from pathlib import Path
from adlm.config import Config
from adlm.reasoning.plan import Plan
from adlm.reasoning.train import train as reason
from adlm.train.run import stored_config, train
run = Path(sys.argv[1])
kind, go = (Config, train) if sys.argv[1] == "lm" else (Plan, reason)
sys.exit(go(stored_config(run, kind), run, resume=True))
"""


def digest(run: Path) -> str:
    """Of the tensors of training, but the corpus's counts and a finished curriculum's moments."""
    tensors = load_file(checkpoint.find(run) / "train.safetensors")
    out = hashlib.sha256()
    kept = ("weights.", "ema.", "optim.") if run.name == "lm" else ("weights.",)
    for name in sorted(n for n in tensors if n.startswith(kept) and ".table_" not in n):
        out.update(name.encode())
        out.update(tensors[name].numpy().tobytes())
    return out.hexdigest()


@pytest.mark.parametrize("name", ["lm", "acot", "coconut"])
def test_an_old_run_goes_on_to_the_same_bits(name, tmp_path):
    home = tmp_path / "old"
    shutil.copytree(FIXTURES, home)
    words = [sys.executable, "-c", GO_ON, name]
    done = subprocess.run(
        words, cwd=home, env={**os.environ, **PLAIN}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected = json.loads((FIXTURES / "expected.json").read_text())[name]
    assert checkpoint.find(home / name).name == f"step-{expected['step']:08d}"
    assert digest(home / name) == expected["sha256"]
    found = [
        {k: v for k, v in r.items() if k not in TIMES} for r in read(home / name / "metrics.jsonl")
    ]
    if name == "coconut":  # a stage that ended where the run was stopped is not solved afterwards
        del expected["metrics"][0]
    assert found == expected["metrics"]
