"""Tasks: the public files, the generators against them, and bad records."""

import json
from collections import Counter
from random import Random
from statistics import mean

import pytest

from adlm.errors import UserError
from adlm.reasoning.data import belongs, from_files, generated, read_file
from adlm.reasoning.item import words
from adlm.reasoning.plan import ReasoningSettings, load
from adlm.reasoning.tasks import prontoqa, prosqa
from adlm.reasoning.tasks.base import make_task
from tests.conftest import SHARED

real = pytest.mark.skipif(not SHARED.is_dir(), reason="the public files are not here")


@real
@pytest.mark.parametrize(
    ("name", "split", "count"),
    [
        ("prosqa", "valid", 300),
        ("prosqa", "test", 500),
        ("prontoqa", "train", 9000),
        ("prontoqa", "test", 800),
        ("gsm8k", "train", 7473),
        ("gsm8k", "valid", 500),
        ("gsm8k", "test", 1319),
    ],
)
def test_the_public_files_are_read_whole(name, split, count):
    task = make_task(name)
    found = from_files(task, split, str(SHARED))
    assert len(found.items) == count
    assert found.skipped == 0
    assert all(i.anchors for i in found.items if i.steps)
    sound = mean(task.sound(i.question, i.trace, i.answer) for i in found.items)
    assert sound == 1 if name != "gsm8k" else sound > 0.9


def test_anchors_are_those_of_the_paper():
    steps = ("Tom is a terpus.", "Every terpus is a brimpus.", "Every brimpus is a lempus.")
    assert make_task("prosqa").anchors(steps) == ("Tom", "terpus", "brimpus", "lempus")
    steps = ("<<16-3-4=9>>", "<<9*2=18>>")
    assert make_task("gsm8k").anchors(steps) == ("16", "3", "4", "9", "2", "18")
    steps = ("Alex is a tumpus. Tumpuses are gorpuses.", "Alex is a gorpus. Each gorpus is happy.")
    found = make_task("prontoqa").anchors((*steps, "Alex is happy."))
    assert found == ("Alex", "tumpus", "gorpus", "happy")


def statistics(items) -> dict[str, float]:
    """What the generator has to have in common with the public file."""
    graphs = [prosqa.facts(i.question) for i in items]
    first = [prosqa.query(i.question)[1] == i.anchors[-1] for i in items]
    return {
        "edges": mean(len(g) for g in graphs),
        "nodes": mean(len({n for e in g for n in e}) for g in graphs),
        "people": mean(len({a for a, _ in g} - {b for _, b in g}) for g in graphs),
        "steps": mean(len(i.steps) for i in items),
        "answer words": mean(len(words(i.answer)) for i in items),
        "question words": mean(len(words(i.question)) for i in items),
        "first candidate right": mean(first),
    }


@real
def test_generated_prosqa_is_like_the_real_one():
    task = make_task("prosqa")
    ours = generated(task, 800, 0, "train").items
    theirs = from_files(task, "test", str(SHARED)).items
    a, b = statistics(ours), statistics(theirs)
    for name, value in b.items():
        assert a[name] == pytest.approx(value, rel=0.12), name
    parents = [
        Counter(n for i in items for n in Counter(b for _, b in prosqa.facts(i.question)).values())
        for items in (ours, theirs)
    ]
    for count in (1, 2, 3):  # how many parents a concept has
        one, other = (p[count] / p.total() for p in parents)
        assert one == pytest.approx(other, abs=0.03)
    lexicon = [{w for i in items for w in words(i.question)} for items in (ours, theirs)]
    assert lexicon[0] == lexicon[1]


@real
def test_generated_prontoqa_is_like_the_real_one():
    task = make_task("prontoqa")
    ours = generated(task, 800, 0, "train").items
    theirs = from_files(task, "test", str(SHARED)).items
    for items in (ours, theirs):
        told = [prontoqa.read(i.question)[0] for i in items]
        assert {len(t) for t in told} == {25}
        assert {len(i.steps) for i in items} == {6}
    lexicon = [{w.lower() for i in items for w in words(i.question)} for items in (ours, theirs)]
    assert lexicon[0] == lexicon[1]
    figures = [
        {
            "true": mean(i.answer == "True" for i in items),
            "negated": mean(
                mean(not f.positive for f in prontoqa.read(i.question)[0]) for i in items
            ),
            "question words": mean(len(words(i.question)) for i in items),
            "plural": mean(i.question.count(" are ") for i in items),
        }
        for items in (ours, theirs)
    ]
    for name, value in figures[1].items():
        assert figures[0][name] == pytest.approx(value, rel=0.12), name


def reachable(question: str, start: str) -> set[str]:
    """An independent search: close the set of what somebody is under the question's facts."""
    edges = prosqa.facts(question)
    found = {start}
    while True:
        more = {b for a, b in edges if a in found} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize("knobs", [{}, {"nodes": 9, "spread": 1.0, "least": 2, "most": 3}])
def test_a_prosqa_question_has_one_right_answer(knobs):
    task, random = make_task("prosqa", knobs), Random(1)
    for _ in range(200):
        item = task.make(random)
        who, one, other = prosqa.query(item.question)
        held = reachable(item.question, who)
        assert (one in held) != (other in held)
        assert item.answer == f"{who} is a {one if one in held else other}."
        assert task.least <= len(item.steps) <= task.most


@pytest.mark.parametrize("hops", [1, 3, 5, 9])
def test_a_prontoqa_question_has_one_right_answer(hops):
    task, random = make_task("prontoqa", {"hops": hops}), Random(1)
    for _ in range(100):
        item = task.make(random)
        told, asked = prontoqa.read(item.question)
        held = {asked.subject}
        known: dict[str, bool] = {}
        for _ in range(hops + 2):
            for f in told:
                if f.subject in held and f.object.endswith("pus"):
                    held.add(f.object)
                elif f.subject in held:
                    assert known.get(f.object, f.positive) == f.positive  # never both
                    known[f.object] = f.positive
        assert item.answer == str(known[asked.object] == asked.positive)
        assert len(item.steps) == hops + 1


def test_arithmetic_is_right_and_stays_small():
    task, random = make_task("arithmetic", {"limit": 20}), Random(1)
    for _ in range(200):
        item = task.make(random)
        assert 3 <= len(item.steps) <= 5
        for step in item.steps:
            left, right = step.strip("<>").split("=")
            assert eval(left) == int(right)
            assert 1 <= int(right) <= 20
        assert item.steps[-1].endswith(f"={item.answer}>>")


def test_soundness_sees_what_is_wrong():
    task = make_task("prosqa")
    question = (
        "Tom is a terpus. Every terpus is a brimpus. Tom is a yumpus. Every brimpus is a lempus. "
        "Is Tom a lempus or rompus?"
    )
    good = "Tom is a terpus. Every terpus is a brimpus. Every brimpus is a lempus."
    assert task.sound(question, good, "Tom is a lempus.")
    assert not task.sound(question, good, "Tom is a rompus.")
    assert not task.sound(question, good.replace("Tom is a terpus. ", ""), "Tom is a lempus.")
    assert not task.sound(question, good.replace("brimpus.", "yumpus."), "Tom is a lempus.")
    sums = make_task("arithmetic")
    story = "Ann has 3 pens. Ann finds 4 more. Then there are 2 times as many. How many pens?"
    assert sums.sound(story, "<<3+4=7>> <<7*2=14>>", "14")
    assert not sums.sound(story, "<<3+4=8>> <<8*2=16>>", "16")
    assert not sums.sound(story, "<<3+4=7>> <<9*2=18>>", "18")
    assert not sums.sound(story, "<<6+1=7>> <<7*2=14>>", "14")
    assert not sums.sound(story, "<<3+4=7>>", "7")


@real
@pytest.mark.parametrize("name", ["gsm8k", "prontoqa"])
def test_training_items_of_the_public_files_are_in_no_other_split(name):
    settings = ReasoningSettings(data="files", data_dir=str(SHARED))
    found = {s: load(make_task(name), settings, s, 0).items for s in ("train", "valid", "test")}
    asked = {s: {i.question for i in items} for s, items in found.items()}
    assert not asked["train"] & (asked["valid"] | asked["test"])
    assert len(found["train"]) >= 6900


def test_words_of_other_languages_are_words():
    assert words("José isst drei Äpfel_2") == ["José", "isst", "drei", "Äpfel", "_", "2"]
    assert not make_task("prosqa").same("да", "нет")


def test_splits_share_no_question_and_seeds_differ():
    task = make_task("arithmetic")
    found = {s: generated(task, 60, 0, s).items for s in ("train", "valid", "test")}
    for split, items in found.items():
        assert len({i.question for i in items}) == 60
        assert {belongs(i.question) for i in items} == {split}
    assert generated(task, 60, 1, "train").items != found["train"]
    assert generated(task, 60, 0, "train").hash == generated(task, 60, 0, "train").hash


def test_too_many_items_for_the_knobs_is_one_sentence():
    with pytest.raises(UserError, match="fewer than 100000 different items for valid"):
        generated(make_task("arithmetic", {"least": 1, "most": 1, "limit": 4}), 100_000, 0, "valid")
    with pytest.raises(UserError, match="no knob 'node'; did you mean 'nodes'"):
        make_task("prosqa", {"node": 3})
    with pytest.raises(UserError, match="take more nodes or fewer steps"):
        make_task("prosqa", {"nodes": 6, "spread": 0.0, "least": 5}).make(Random(0))
    with pytest.raises(UserError, match="nodes must be in"):
        make_task("prosqa", {"nodes": 2})


GOOD = {"question": "Tom is a terpus. Is Tom a terpus or wumpus?", "steps": ["Tom is a terpus."]}
GOOD["answer"] = "Tom is a terpus."


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({**GOOD, "answer": "Tom is a wumpus."}, "does not follow from the steps"),
        ({**GOOD, "steps": "Tom"}, "must be a list of texts"),
        ({"question": "x"}, "'answer' is missing"),
        (["x"], "must be an object, found a list"),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_bad_record_is_named_with_its_place_or_left_out(tmp_path, bad, sentence, suffix):
    path = tmp_path / f"items{suffix}"
    records = [GOOD, bad, GOOD]
    path.write_text(
        json.dumps(records) if suffix == ".json" else "\n".join(map(json.dumps, records))
    )
    place = "record 2" if suffix == ".json" else "line 2"
    with pytest.raises(UserError, match=rf"{place}: .*{sentence}.*--skip-bad"):
        read_file(make_task("prosqa"), path)
    found = read_file(make_task("prosqa"), path, skip_bad=True)
    assert (len(found.items), found.skipped) == (2, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("How many?<<1+1=2>> #### 2", r"line 1: it has no \|\|"),
        ("How many?||<<1+1=2>> 2", "line 1: it has no ####"),
        ("How many?||<<1+1=2>> #### two", "the answer must be a number, found 'two'"),
        ("||<<1+1=2>> #### 2", "or no question"),
        ("", "has no good record"),
    ],
)
def test_bad_lines_of_the_equation_form(tmp_path, text, sentence):
    path = tmp_path / "test.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_file(make_task("gsm8k"), path)


@pytest.mark.parametrize(
    ("written", "answer", "right"),
    [
        ("12", "12", True),
        ("1 2", "12", False),
        ("1\n\n2", "12", False),
        ("1,2", "12", False),
        ("1$2", "12", False),
        ("$ 1 , 200 .", "1200", True),
        ("- 5", "-5", True),
        ("-$5", "-5", True),
        ("--5", "-5", False),
        ("50 %", "50", True),
    ],
)
def test_digits_apart_are_no_number(written, answer, right):
    assert make_task("gsm8k").same(written, answer) == right


def test_an_equation_with_digits_apart_is_not_sound():
    task = make_task("gsm8k")
    assert task.sound("", "< < 10 + 2 = 12 > >", "12")
    assert not task.sound("", "<<10+2=1 2>>", "12")
    assert not task.sound("", "<<1 0+2=12>>", "12")
