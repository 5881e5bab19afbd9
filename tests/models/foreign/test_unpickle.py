"""A training checkpoint is read as data: whatever it names, nothing of it is called."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from adlm.cli import main
from adlm.errors import UserError
from adlm.models.foreign.source import open_source
from adlm.models.foreign.unpickle import Archive, Placeholder, Reader
from tests.models.foreign.golden import GOLDEN, here


class Code:
    """Runs a command when it is unpickled as usual."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def read(data: bytes) -> object:
    return Reader(io.BytesIO(data)).load()


def test_code_in_a_checkpoint_is_inert(tmp_path):
    trap = tmp_path / "ran"
    torch.save({"a": torch.ones(2), "b": Code(trap)}, tmp_path / "x.ckpt")
    found = Archive(tmp_path / "x.ckpt")
    assert isinstance(found.content["b"], Placeholder)
    assert torch.equal(found.tensor(found.content["a"], "a"), torch.ones(2))
    assert not trap.exists()
    torch.load(tmp_path / "x.ckpt", weights_only=False)
    assert trap.exists()  # it would have run


OPCODES = {
    "reduce": b"cos\nsystem\n(S'touch {0}'\ntR.",
    "inst": b"(S'touch {0}'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'touch {0}'\no.",
    "newobj": b"\x80\x02cbuiltins\neval\n(S'touch'\nt\x81.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93(S'touch {0}'\ntR.",
    "build a class": b"\x80\x02ccollections\nOrderedDict\n(NS'x'\ncos\nsystem\nu}tb.",
    "a class changed": b"ctorch._utils\n_rebuild_parameter\n(N(S'__new__'\ncos\nsystem\ndtb.",
    "a module's attribute": b"cadlm.models.foreign.unpickle\nos.system\n(S'touch {0}'\ntR.",
    "extension": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("name", OPCODES)
def test_no_opcode_reaches_a_function(name, tmp_path):
    trap = tmp_path / "ran"
    before = dict(vars(Placeholder))
    try:
        found = read(OPCODES[name].replace(b"{0}", str(trap).encode()))
        assert found is Placeholder or isinstance(found, Placeholder | dict | type)
    except Exception:  # refused: as good
        pass
    assert not trap.exists()
    assert dict(vars(Placeholder)) == before
    assert read(pickle.dumps(OrderedDict(a=1))) == {"a": 1}


@here
@pytest.mark.parametrize("raw", [False, True])
def test_the_published_checkpoint_gives_its_tensors_and_settings(raw):
    source = open_source(str(GOLDEN / "adlm" / "adlm.ckpt"), raw)
    assert source.setting("model.n_heads") == 2
    assert source.setting("parameterization") == "subs"
    assert all(isinstance(t, torch.Tensor) for t in source.tensors.values())
    assert any("rotary" in name for name in source.tensors)  # buffers have no average


@here
def test_a_checkpoint_that_holds_code_is_imported_without_running_it(tmp_path, capsys):
    trap = tmp_path / "ran"
    whole = torch.load(GOLDEN / "adlm" / "adlm.ckpt", weights_only=False, pickle_module=Shim)
    torch.save({**whole, "hyper_parameters": {"config": Code(trap)}}, tmp_path / "x.ckpt")
    assert main(["import", str(tmp_path / "x.ckpt"), "--out", str(tmp_path / "out")]) == 2
    assert "attention heads" in capsys.readouterr().err  # its settings were behind the code
    assert not trap.exists()
    assert not (tmp_path / "out").exists()


class Shim:
    """pickle, with something in place of classes that are not installed here."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            if module.split(".")[0] in ("torch", "collections"):
                return super().find_class(module, name)
            return Placeholder

    load = pickle.load


@here
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d[:-200], "truncated"),
        (lambda d: b"not a zip", "not a file of torch.save"),
        (lambda d: cut_member(d, "data/0"), "the tensor .* is damaged"),
        (lambda d: cut_member(d, "data.pkl"), "cannot be read as data"),
    ],
)
def test_a_damaged_checkpoint_is_one_sentence(change, says, tmp_path):
    path = tmp_path / "x.ckpt"
    path.write_bytes(change((GOLDEN / "adlm" / "adlm.ckpt").read_bytes()))
    with pytest.raises(UserError, match=says):
        open_source(str(path), raw=True)


def cut_member(data: bytes, ending: str) -> bytes:
    """The archive with one file shortened."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            whole = old.read(name)
            new.writestr(name, whole[:-8] if name.endswith(ending) else whole)
    return out.getvalue()


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        ([1], "no state_dict"),
        ({"state_dict": {"a": 1}}, "no state_dict"),
        ({"state_dict": {"a": torch.ones(1)}}, "no averaged weights"),
        ({"state_dict": {"a": torch.ones(1)}, "ema": {"shadow_params": []}}, "0 averaged tensors"),
        (
            {"state_dict": {"a": torch.ones(1)}, "ema": {"shadow_params": [torch.ones(2)]}},
            "the average of a has shape",
        ),
    ],
)
def test_what_is_no_training_checkpoint_is_one_sentence(saved, says, tmp_path):
    torch.save(saved, tmp_path / "x.ckpt")
    with pytest.raises(UserError, match=says):
        open_source(str(tmp_path / "x.ckpt"))
