"""What comes from outside is converted to its type, or refused in a sentence that names it."""

from pathlib import Path

import pytest

from adlm import values
from adlm.config import Config, DataConfig, from_dict, to_dict
from adlm.data.corpus import open_vocab
from adlm.errors import UserError
from adlm.process.schedule import make_schedule
from adlm.values import from_words, guess, read_object

STORED = [
    (b'{"objective": 5}', "objective must be a text, found 5"),
    (b'{"model": {"width": 16.0}}', "model.width must be a whole number, found 16.0"),
    (b'{"model": {"blocks": 1.5}}', "model.blocks must be a whole number, found 1.5"),
    (b'{"model": {"blocks": true}}', "model.blocks must be a whole number, found True"),
    (b'{"model": {"blocks": 1000000000}}', "model.blocks must be at most 1,000"),
    (b'{"model": {"anchor_blocks": 1000000}}', "model.anchor_blocks must be at most 1,000"),
    (b'{"model": {"bridge": "xyz"}}', "model.bridge must be one of 'linear'"),
    (b'{"model": 4}', "model must be an object, found 4"),
    (b'{"model": {"wdith": 4}}', "a field 'model.wdith' that this version does not know"),
    (b'{"process": {"schedule": 7}}', "process.schedule must be a text, found 7"),
    (b'{"data": {"length": 1000000000000000000}}', "data.length must be at most 16,777,216"),
    (b'{"optim": {"lr": NaN}}', "is damaged"),
    (b'{"optim": {"clip": Infinity}}', "is damaged"),
    (b'{"optim": {"betas": [0.9]}}', "optim.betas must be a list of 2, each a finite number"),
    (b'{"train": {"steps": ' + b"9" * 5000 + b"}}", "is damaged"),
    (b'{"train": {"steps": ' + b"9" * 20 + b"}}", "train.steps must be at most"),
    (b"[" * 100_000, "is damaged"),
    (b"\xff{}", "is damaged"),
    (b'{"model": {"width":', "is damaged"),
    (b"[]", "must be an object"),
]


@pytest.mark.parametrize(("text", "says"), STORED)
def test_a_stored_configuration_is_read_with_its_types_or_refused(text, says, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(UserError) as refused:
        read_object(path, Config)
    said = str(refused.value)
    assert said.startswith(str(path))
    assert says in said
    assert "\n" not in said
    assert len(said) < 300


def test_what_an_older_version_did_not_store_has_its_default(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"objective": "ar", "optim": {"lr": 1, "betas": [0.9, 0.99]}}')
    read = read_object(path, Config)
    assert read.optim.betas == (0.9, 0.99)
    assert read == from_dict(to_dict(read))
    assert read.model == Config().model


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        ("5", int, 5),
        ("1e3", int, 1000),
        ("null", int | None, None),
        ("[2, 4]", list[int] | None, [2, 4]),
        ('["a", "b"]', list[str], ["a", "b"]),
        (["a,b", "c"], list[str], ["a,b", "c"]),
        ("only", list[str], ["only"]),
        ("(0.9, 0.99)", tuple[float, float], (0.9, 0.99)),
        ("{nodes: 10, hop: true}", dict[str, int | bool], {"nodes": 10, "hop": True}),
        ('{"by": "margin"}', dict[str, str], {"by": "margin"}),
        ("{}", dict[str, str], {}),
    ],
)
def test_words_become_values(words, kind, value):
    assert from_words(words, kind, "x") == value


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ("²", int, "x must be a whole number, found '²'"),
        ("9" * 5000, int, "x must be a whole number, found '999"),
        ("1.5", int, "a whole number"),
        ("inf", float, "a finite number, found 'inf'"),
        ("[1, nan]", list[float], "a list, each item a finite number"),
        ("yes", bool, "true or false"),
        ("eta", dict[str, int], "names with values"),
    ],
)
def test_words_that_stand_for_nothing_of_the_kind_are_refused(words, kind, says):
    with pytest.raises(UserError) as refused:
        from_words(words, kind, "x")
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_value_without_a_type_is_guessed():
    assert [guess(t) for t in ("3", "0.04", "false", "margin", "inf")] == [
        3,
        0.04,
        False,
        "margin",
        "inf",
    ]


@pytest.mark.parametrize("size", ["", "²", "x", "-5", "9" * 5000])
def test_a_tokenizer_size_is_a_plain_number(size):
    with pytest.raises(UserError, match="must give a size, such as bpe:1024"):
        open_vocab(DataConfig(tokenizer=f"bpe:{size}"))


@pytest.mark.parametrize("power", ["nan", "inf", "9" * 5000, "x", "1:2"])
def test_a_number_in_a_name_is_finite(power):
    with pytest.raises(UserError, match="must be a name, or polynomial:POWER"):
        make_schedule(f"polynomial:{power}")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no endless file")
def test_an_endless_file_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(values, "LARGEST", 1000)
    with pytest.raises(UserError, match="more than 1,000 bytes"):
        values.read_plain(Path("/dev/zero"))


def test_a_name_has_no_nul_and_a_written_text_may():
    with pytest.raises(UserError, match="name must be a text"):
        values.typed("a\0b", str, "name")
    assert values.typed({"way": ["a\0b"]}, dict[str, list[str]], "samples") == {"way": ["a\0b"]}
