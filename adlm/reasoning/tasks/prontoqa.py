"""ProntoQA: a chain of "every A is a B" ends in a property. True or false: Max is not wooden?

Every concept of the chain has a further parent and a property that lead nowhere; a second thing is
said of the name; and an unrelated concept has the opposite of the property that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import ClassVar, NamedTuple

from adlm.config import check
from adlm.reasoning.item import Item, sentences, words
from adlm.reasoning.tasks.base import Task
from adlm.registry import register

NAMES = words("Alex Fae Max Polly Rex Sally Sam Stella Wren")
CONCEPTS = [
    stem + "pus"
    for stem in words("brim dum gor grim im jom lem lor num rom shum ster tum vum wum yum zum")
]
MORE = [a + b + "pus" for a in "bcdfklprt" for b in ("il", "on", "ar")]  # for many hops
PROPERTIES = words(
    "aggressive amenable angry bitter blue bright brown cold discordant dull earthy fast feisty "
    "floral fruity happy hot kind large liquid loud luminous mean melodic metallic moderate "
    "muffled nervous opaque orange overcast rainy red shy slow small snowy sour spicy sunny sweet "
    "temperate transparent windy wooden"
)
NEGATED = 0.33  # share of "not" among the properties


class Fact(NamedTuple):
    """subject is (not) object, all in the singular."""

    subject: str
    positive: bool
    object: str


@register("task", "prontoqa")
@dataclass(frozen=True)
class ProntoQA(Task):
    """The knobs of the generator.

    Attributes:
        hops: Rules that a solution applies; the last one gives the property.
    """

    hops: int = 5
    name: ClassVar[str] = "prontoqa"
    files: ClassVar[dict[str, str]] = {
        split: f"prontoqa/prontoqa_{split}.json" for split in ("train", "valid", "test")
    }
    stages: ClassVar[int] = 6
    removes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(1 <= self.hops <= 15, "hops", self.hops, "in [1, 15]")

    def anchors(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        """The name, the concepts that are reached, and the property."""
        trace = [f for f in map(fact, sentences(" ".join(steps))) if f]
        states = [f for f in trace if f.subject == trace[0].subject]
        return (trace[0].subject, *(f.object for f in states)) if trace else ()

    def sound(self, question: str, trace: str, answer: str) -> bool:
        told, asked = read(question)
        found = [fact(s) for s in sentences(trace)]
        steps = [f for f in found if f]
        if asked is None or len(steps) != len(found) or len(steps) % 2 == 0:
            return False
        states, rules = steps[::2], steps[1::2]  # a state, the rule for it, the next state, ...
        if states[0] not in told:
            return False
        for before, rule, after in zip(states, rules, states[1:], strict=False):
            applied = Fact(asked.subject, rule.positive, rule.object)
            if rule not in told or rule.subject != before.object or after != applied:
                return False
        end = states[-1]
        decided = end.subject == asked.subject and end.object == asked.object
        return decided and answer == str(end.positive == asked.positive)

    def make(self, random: Random) -> Item:
        hops = self.hops
        pool = CONCEPTS if 2 * hops + 4 <= len(CONCEPTS) else CONCEPTS + MORE
        concepts = random.sample(pool, 2 * hops + 4)
        chain, leaves, others = concepts[:hops], concepts[hops : 2 * hops + 1], concepts[-3:]
        properties = iter(random.sample(PROPERTIES, 2 * hops + 1))

        def has(concept: str) -> Fact:
            return Fact(concept, random.random() >= NEGATED, next(properties))

        wanted = has(chain[-1])
        told = [wanted, Fact(others[0], not wanted.positive, wanted.object)]
        told += [Fact(a, True, b) for a, b in pairwise(chain)]
        told += [Fact(a, True, b) for a, b in zip([*chain, chain[-1]], leaves, strict=True)]
        told += [has(c) for c in (*chain[:-1], *leaves[:-1], others[1])]
        told.append(Fact(others[1], True, others[2]))
        random.shuffle(told)
        who = random.choice(NAMES)
        own = [Fact(who, True, chain[0]), Fact(who, True, others[1])]
        random.shuffle(own)
        asked = Fact(who, random.random() < 0.5, wanted.object)
        said = {f: say(f, random) for f in told}
        body = " ".join([*said.values(), *(say(f, random) for f in own)])
        rules = [next(f for f in told if f == Fact(a, True, b)) for a, b in pairwise(chain)]
        steps = [
            f"{say(Fact(who, True, c), random)} {said[rule]}"
            for c, rule in zip(chain, [*rules, wanted], strict=True)
        ]
        steps.append(say(Fact(who, wanted.positive, wanted.object), random))
        question = f"{body} True or false: {say(asked, random)}"
        return self.item(question, tuple(steps), str(asked.positive == wanted.positive))


def say(f: Fact, random: Random) -> str:
    """Return a fact as a sentence; a concept's in the plural half of the time."""
    noun = f.object.endswith("pus")
    no = "" if f.positive else "not "
    if f.subject in NAMES:
        return f"{f.subject} is {no}{_article(f.object)}{f.object}."
    if random.random() < 0.5:
        return f"{f.subject.capitalize()}es are {no}{f.object}{'es' if noun else ''}."
    every = random.choice(("Each", "Every"))
    return f"{every} {f.subject} is {no}{_article(f.object)}{f.object}."


def fact(sentence: list[str]) -> Fact | None:
    """Return a sentence's words as a fact.

    Example:
        >>> fact("Brimpuses are not zumpuses".split())
        Fact(subject='brimpus', positive=False, object='zumpus')
    """
    rest = sentence[1:] if sentence[0] in ("Each", "Every") else sentence
    rest = [w for w in rest if w not in ("a", "an")]
    if len(rest) not in (3, 4) or rest[1] not in ("is", "are"):
        return None
    if len(rest) == 4 and rest[2] != "not":
        return None
    subject = rest[0] if rest[0] in NAMES else _singular(rest[0].lower())
    return Fact(subject, len(rest) == 3, _singular(rest[-1]))


def read(question: str) -> tuple[set[Fact], Fact | None]:
    """Return what a question tells, and what it asks."""
    body, _, asked = question.partition("True or false:")
    told = {f for f in map(fact, sentences(body)) if f}
    queries = sentences(asked)
    return told, fact(queries[0]) if len(queries) == 1 else None


def _article(word: str) -> str:
    if not word.endswith("pus"):
        return ""
    return "an " if word[0] in "aeiou" else "a "


def _singular(word: str) -> str:
    return word[:-2] if word.endswith("puses") else word
