"""Each method's inputs and labels on one hand-written example, token by token, stage by stage.

A line is `input -> label`; the label is predicted from the position before. `-` has no loss.
"""

from dataclasses import replace
from textwrap import dedent

import pytest
from tokenizers import Tokenizer, models

from adlm.data.vocab import Vocab
from adlm.errors import UserError
from adlm.reasoning.item import Item
from adlm.reasoning.methods.base import ALL, Curriculum, Stage, make_method
from adlm.reasoning.sequence import IGNORE, Row, collate
from adlm.reasoning.vocab import open_tokenizer, pieces, with_special, word_vocab
from tests.conftest import SHARED

ITEM = Item("3 and 4 twice?", ("<<3+4=7>>", "<<7*2=14>>"), "14", ("3", "4", "7"))
VOCAB = with_special(word_vocab([ITEM.question, ITEM.trace, ITEM.answer]))
QUESTION = "3 -> -\nand -> -\n4 -> -\ntwice -> -\n? -> -\n"


def readable(row: Row, vocab: Vocab) -> str:
    """One line a position: token, label, and whether the input is a thought."""
    lines = []
    for token, label, thought in zip(row.ids, row.labels, row.thoughts, strict=True):
        said = "-" if label == IGNORE else vocab.tokenizer.id_to_token(label)
        mark = " (hidden state)" if thought else ""
        lines.append(f"{vocab.tokenizer.id_to_token(token)} -> {said}{mark}")
    return "\n".join(lines)


def step(text: str) -> str:
    signs = [*"<<", *text, *">>"]
    return "".join(f"{s} -> {s}\n" for s in signs)


FIRST = step("3+4=7")
SECOND = "< -> <\n< -> <\n7 -> 7\n* -> *\n2 -> 2\n= -> =\n14 -> 14\n> -> >\n> -> >\n"
ANSWER = "### -> ###\n14 -> 14\n<|eos|> -> <|eos|>"


def shown(method: str, stage: Stage, **options: object) -> str:
    made = make_method(method, options).row(pieces(ITEM, VOCAB), stage, VOCAB)
    return readable(made, VOCAB)


def lines(text: str) -> str:
    return dedent(text).strip() + "\n"


def test_no_cot_learns_the_answer_alone():
    assert shown("no-cot", Stage(1, removed=ALL)) == QUESTION + ANSWER


def test_cot_learns_all_steps_and_the_answer():
    assert shown("cot", Stage(1)) == QUESTION + FIRST + SECOND + ANSWER


def test_pauses_stand_before_the_answer_without_a_loss():
    pauses = "[PAUSE] -> -\n[PAUSE] -> -\n"
    assert shown("pause", Stage(1, slots=2, removed=ALL)) == QUESTION + pauses + ANSWER


@pytest.mark.parametrize(("removed", "kept"), [(0, FIRST + SECOND), (1, SECOND), (2, "")])
def test_icot_loses_its_first_steps(removed, kept):
    assert shown("icot", Stage(1, removed=removed)) == QUESTION + kept + ANSWER


def test_coconut_feeds_hidden_states_back_in_the_place_of_steps():
    assert shown("coconut", Stage(1)) == QUESTION + FIRST + SECOND + ANSWER
    one = lines("""
        [BOT] -> -
        [THOUGHT] -> - (hidden state)
        [EOT] -> -
    """)
    assert shown("coconut", Stage(1, slots=1, removed=1)) == QUESTION + one + SECOND + ANSWER
    two = lines("""
        [BOT] -> -
        [THOUGHT] -> - (hidden state)
        [THOUGHT] -> - (hidden state)
        [EOT] -> -
    """)
    assert shown("coconut", Stage(1, slots=2, removed=2)) == QUESTION + two + ANSWER
    plain = two.replace(" (hidden state)", "")
    assert shown("coconut", Stage(1, 2, 2), feedback=False) == QUESTION + plain + ANSWER


def test_acot_predicts_anchors_in_its_slots():
    assert shown("acot", Stage(1)) == QUESTION + FIRST + SECOND + ANSWER
    two = lines("""
        [BOA] -> -
        [ANT] -> 3
        [ANT] -> 4
        [EOA] -> -
    """)
    kept = shown("acot", Stage(1, slots=2), remove=False)
    assert kept == QUESTION + two + FIRST + SECOND + ANSWER
    assert shown("acot", Stage(1, slots=2, removed=2)) == QUESTION + two + ANSWER
    fed = "[BOA] -> -\n[ANT] -> 3 (hidden state)\n[EOA] -> -\n"
    one = shown("acot", Stage(1, slots=1, removed=1), feedback=True)
    assert one == QUESTION + fed + SECOND + ANSWER


def test_a_slot_beyond_the_last_anchor_has_no_loss():
    four = lines("""
        [BOA] -> -
        [ANT] -> 3
        [ANT] -> 4
        [ANT] -> 7
        [ANT] -> -
        [EOA] -> -
    """)
    assert shown("acot", Stage(1, slots=4, removed=ALL)) == QUESTION + four + ANSWER


def test_plans():
    curriculum = Curriculum(stages=2, per_stage=3, epochs=10)

    def plan(method: str, **options: object) -> list[tuple[int, int, int]]:
        stages = make_method(method, options).stages(curriculum)
        return [(s.epochs, s.slots, s.removed) for s in stages]

    assert plan("no-cot") == [(10, 0, ALL)]
    assert plan("cot") == [(10, 0, 0)]
    assert plan("pause", tokens=4) == [(10, 4, ALL)]
    assert plan("icot") == [(3, 0, 0), (3, 0, 1), (4, 0, ALL)]
    assert plan("coconut", per_step=2) == [(3, 0, 0), (3, 2, 1), (4, 4, ALL)]
    assert plan("acot") == [(3, 0, 0), (3, 1, 1), (4, 2, 2)]
    assert plan("acot", remove=False) == [(3, 0, 0), (3, 1, 0), (4, 2, 0)]
    curriculum = replace(curriculum, first=6)
    assert plan("coconut") == [(6, 0, 0), (3, 1, 1), (1, 2, ALL)]
    assert plan("cot") == [(10, 0, 0)]


def test_a_plan_that_leaves_no_epoch_is_refused():
    with pytest.raises(UserError, match="leave none of 6 epochs"):
        make_method("acot").stages(Curriculum(2, 3, 6))
    with pytest.raises(UserError, match="2 stages of 5 and 1 epochs leave none of 6 epochs"):
        make_method("acot").stages(Curriculum(2, 1, 6, first=5))
    with pytest.raises(UserError, match="has no option 'fedback'; did you mean 'feedback'"):
        make_method("acot", {"fedback": True})
    with pytest.raises(UserError, match="per_step must be a int, found 'two'"):
        make_method("coconut", {"per_step": "two"})


def test_a_missing_special_token_is_named():
    bare = word_vocab([ITEM.question, ITEM.trace, ITEM.answer])
    with pytest.raises(UserError, match=r"lacks the special token \[ANT\]"):
        make_method("acot").row(pieces(ITEM, bare), Stage(1, slots=1), bare)


@pytest.mark.parametrize("name", ["byte", "gpt2"])
def test_anchors_are_tokens_of_the_trace_with_any_tokenizer(name):
    vocab = open_tokenizer(name, str(SHARED) if SHARED.is_dir() else None)
    found = pieces(ITEM, vocab)
    assert [vocab.decode([a]) for a in found.anchors] == ["3", "4", "7"]
    assert set(found.anchors) <= {t for step in found.steps for t in step}
    text = vocab.decode([t for step in found.steps for t in step] + found.answer[:-1])
    assert text.split() == ["<<3+4=7>>", "<<7*2=14>>", "###", "14"]


def test_a_tokenizer_that_loses_the_answer_is_refused(tmp_path):
    lower = Tokenizer(models.WordLevel({"[UNK]": 0, "tom": 1}, unk_token="[UNK]"))
    lower.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="cannot give '### Tom"):
        open_tokenizer(str(tmp_path / "tokenizer.json"), None)


def test_thoughts_of_rows_of_different_length_are_aligned():
    long = Item("3 and 4 and 3 twice?", ITEM.steps, ITEM.answer, ITEM.anchors)
    stage, method = Stage(1, slots=2, removed=1), make_method("coconut")
    rows = collate([method.row(pieces(i, VOCAB), stage, VOCAB) for i in (ITEM, long)], 0)
    thought = VOCAB.tokenizer.token_to_id("[THOUGHT]")
    assert (rows.ids[:, list(rows.columns)] == thought).all()
    assert rows.segment is not None
    assert rows.segment[0].tolist() == [-1, -1] + [0] * (rows.ids.shape[1] - 2)
    plain = make_method("cot").row(pieces(ITEM, VOCAB), Stage(1), VOCAB)
    thinking = method.row(pieces(long, VOCAB), stage, VOCAB)
    with pytest.raises(ValueError, match="equally many thoughts"):
        collate([plain, thinking], 0)
