"""A layer imports only from the layers below it; read from the source, imports in functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "adlm"
# From the bottom up. A name covers what lies in it, unless a longer name has a place of its own:
# the value objects of nn are named by the configuration and by what stages hand each other.
LAYERS: list[str] = [
    "__version__ visible errors values registry locks memory system progress device config types "
    "results remote viz "
    "nn.config nn.context nn.layout nn.cache process.config",
    "data",
    "process",
    "nn",
    "models",
    "objectives recipes",
    "samplers train theory",
    "api measure reasoning viz.html viz.terminal",
    "eval",
    "studies hub",
    "commands serve cli options budget doctor viz.texts __main__",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
FREE = (0, len(LAYERS) - 1)  # the parts of the lowest and of the topmost layer may use each other


def place(module: str) -> str:
    """The longest name in LAYERS that covers a module: `nn.block` is in `nn`."""
    while module not in RANK:
        module, dot, _ = module.rpartition(".")
        assert dot, f"{module} has no layer"
    return module


def upward(module: str, imported: str) -> bool:
    """Does a module import from above, or from another part of its own layer?"""
    home, from_ = place(module), place(imported)
    one = RANK[home] in FREE or home.split(".")[0] == from_.split(".")[0]
    return RANK[from_] > RANK[home] or (RANK[from_] == RANK[home] and not one)


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots"
            parent = node.module or ""
            inside = [f"{parent}.{alias.name}" for alias in node.names]
            found = [name if is_module(name) or parent == "adlm" else parent for name in inside]
        else:
            continue
        yield from (n.removeprefix("adlm.") for n in found if n.startswith("adlm."))


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_no_layer_imports_from_above():
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module = module.removesuffix(".__init__")
        # the package's own face: what a notebook sees; and what is written into exported folders
        if module == "__init__" or module.startswith("hub.plain."):
            continue
        found |= {(module, name) for name in imports(path) if upward(module, name)}
    assert not found


@pytest.mark.parametrize(
    ("module", "imported", "wrong"),
    [
        ("data.pack", "nn.block", True),
        ("data.pack", "nn.layout", False),
        ("nn.linear_ce", "process.mask", False),
        ("process.mask", "nn.block", True),
        ("objectives.base", "models.denoiser", False),
        ("models.build", "objectives.base", True),
        ("samplers.base", "train.loop", True),
        ("samplers.base", "samplers.random", False),
        ("eval.lens", "commands.lens", True),
        ("studies.pool", "eval.report", False),
        ("registry", "errors", False),
        ("viz.page", "viz.html", True),
    ],
)
def test_what_counts_as_upward(module, imported, wrong):
    assert upward(module, imported) == wrong


def test_models_know_nothing_of_anchor_rules():
    for path in (PACKAGE / "models").glob("*.py"):
        assert "process.anchors" not in set(imports(path)), path
