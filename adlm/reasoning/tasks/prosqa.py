"""ProsQA: is Tom a lempus or a scrompus? A path through a random directed acyclic graph says.

The graph grows node by node from two roots. A new node's parents are drawn among the nodes that
only one of the roots (or neither) reaches, so that two families form; deeper parents are likelier.
The question is about one root, a leaf that only it reaches, and a leaf that only the other does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import ClassVar

from adlm.config import check
from adlm.errors import UserError
from adlm.reasoning.item import Item, sentences, words
from adlm.reasoning.tasks.base import Task
from adlm.registry import register

NAMES = words(
    "Alex Bob Carol Davis Eva Fae Gabriel Jack Max Oliver Polly Rex Sally Sam Stella Tom Wren"
)
CONCEPTS = [
    stem + "pus"
    for stem in words(
        "bom boom brim chor dum fel fom ger gor grim gwom hil im jel jom ker lem lor num quim rem "
        "rom ror scrom shum ster stor ter tim tum vum wor wum yer yim yum zhor zum"
    )
]
PARENTS = 1.5  # mean of the Poisson draw of a node's parents, which is repeated while it gives none
ORPHANS = 0.06  # share of nodes that are drawn without a parent; some of them stay alone


@register("task", "prosqa")
@dataclass(frozen=True)
class ProsQA(Task):
    """The knobs of the generator.

    Attributes:
        nodes: Mean number of nodes of the graph, names and concepts together.
        spread: Standard deviation of that number.
        least: Fewest steps of a solution.
        most: Most steps of a solution.
    """

    nodes: int = 23
    spread: float = 2.0
    least: int = 3
    most: int = 6
    name: ClassVar[str] = "prosqa"
    files: ClassVar[dict[str, str]] = {
        "train": "prosqa/prosqa_train.json",
        "valid": "prosqa/prosqa_valid.json",
        "test": "prosqa/prosqa_test.json",
    }
    stages: ClassVar[int] = 6
    removes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(6 <= self.nodes <= 40, "nodes", self.nodes, "in [6, 40]")
        check(self.spread >= 0, "spread", self.spread, "0 or more")
        check(1 <= self.least <= self.most, "least", self.least, "at least 1 and at most `most`")

    def anchors(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        edges = facts(" ".join(steps))
        return (edges[0][0], *(b for _, b in edges)) if edges else ()

    def sound(self, question: str, trace: str, answer: str) -> bool:
        asked = query(question)
        steps = facts(trace)
        if asked is None or not steps or len(steps) != len(sentences(trace)):
            return False
        chained = all(a[1] == b[0] for a, b in pairwise(steps))
        known = set(facts(question)).issuperset(steps)
        end = words(answer)[:4] == [asked[0], "is", "a", steps[-1][1]]
        return known and chained and steps[0][0] == asked[0] and end and steps[-1][1] in asked[1:]

    def make(self, random: Random) -> Item:
        for _ in range(2000):
            edges = self.grow(random)
            root = random.randrange(2)
            found = choose(edges, root, self.least, self.most, random)
            if found is not None:
                return self.write(edges, root, *found, random)
        raise UserError(f"2000 graphs of {self} had no question: take more nodes or fewer steps")

    def grow(self, random: Random) -> list[tuple[int, int]]:
        """Return the edges of a graph; nodes 0 and 1 are the roots."""
        count = max(6, min(len(CONCEPTS), round(random.gauss(self.nodes, self.spread))))
        family = [1, 2]  # of each node: bit 1 = reached from node 0, bit 2 = from node 1
        depth = [0, 0]
        edges = []
        for node in range(2, count):
            kind = random.choices((0b10, 0b01, 0), (0.35, 0.35, 0.3))[0]
            able = [n for n in range(node) if not family[n] & kind]
            wanted = 0 if random.random() < ORPHANS else poisson(PARENTS, random)
            parents = draw(able, [1 + 3.0 * depth[n] for n in able], wanted, random)
            edges += [(p, node) for p in parents]
            family.append(_union(family[p] for p in parents))
            depth.append(1 + max((depth[p] for p in parents), default=-1))
        return edges

    def write(
        self,
        edges: list[tuple[int, int]],
        root: int,
        path: list[int],
        other: int,
        random: Random,
    ) -> Item:
        """Return the problem in words; nodes without a parent are people."""
        children = {b for _, b in edges}
        nodes = {n for edge in edges for n in edge} | {0, 1}
        people = sorted(nodes - children)
        symbol = dict(zip(people, random.sample(NAMES, len(people)), strict=True))
        symbol |= dict(zip(sorted(children), random.sample(CONCEPTS, len(children)), strict=True))

        def fact(a: int, b: int) -> str:
            return f"{symbol[a] if a in people else f'Every {symbol[a]}'} is a {symbol[b]}."

        told = [fact(*edge) for edge in edges]
        random.shuffle(told)
        pair = random.sample((symbol[path[-1]], symbol[other]), 2)
        question = f"{' '.join(told)} Is {symbol[root]} a {pair[0]} or {pair[1]}?"
        steps = tuple(fact(a, b) for a, b in pairwise(path))
        return self.item(question, steps, f"{symbol[root]} is a {symbol[path[-1]]}.")


def facts(text: str) -> list[tuple[str, str]]:
    """(subject, object) of every "Every A is a B" and "Tom is a B" of a text, in order."""
    found = []
    for sentence in sentences(text):
        rest = sentence[1:] if sentence[0] == "Every" else sentence
        if len(rest) == 4 and rest[1:3] == ["is", "a"]:
            found.append((rest[0], rest[3]))
    return found


def query(question: str) -> tuple[str, str, str] | None:
    """(who, one, other) of "Is who a one or other?", the last sentence of a question."""
    last = words(question)[-7:]
    if len(last) < 7 or (last[0], last[2], last[4], last[6]) != ("Is", "a", "or", "?"):
        return None
    return last[1], last[3], last[5]


def reach(edges: Iterable[tuple[int, int]], start: int) -> dict[int, list[int]]:
    """Return a shortest path to every node that can be reached."""
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    paths = {start: [start]}
    queue = [start]
    for node in queue:
        for child in after.get(node, []):
            if child not in paths:
                paths[child] = [*paths[node], child]
                queue.append(child)
    return paths


def choose(
    edges: list[tuple[int, int]], root: int, least: int, most: int, random: Random
) -> tuple[list[int], int] | None:
    """(path to the target, the wrong candidate): the farthest leaf that only the root reaches, and
    one that only the other root does; None where there are none."""
    mine, others = reach(edges, root), reach(edges, 1 - root)
    parents = {a for a, _ in edges}
    leaves = [p for n, p in mine.items() if n not in others and n not in parents]
    wrong = [n for n in others if n not in mine and n not in parents and n != 1 - root]
    steps = max((len(p) - 1 for p in leaves), default=0)
    if not wrong or not least <= steps <= most:
        return None
    return random.choice([p for p in leaves if len(p) - 1 == steps]), random.choice(wrong)


def draw(able: list[int], weight: list[float], count: int, random: Random) -> list[int]:
    """Distinct nodes by weight."""
    pool = dict(zip(able, weight, strict=True))
    chosen = []
    for _ in range(min(count, len(able))):
        node = random.choices(list(pool), list(pool.values()))[0]
        chosen.append(node)
        del pool[node]
    return chosen


def poisson(mean: float, random: Random) -> int:
    """A Poisson draw that is not 0: how many exponential waiting times fit into `mean`."""
    count = 0
    while not count:
        waited = random.expovariate(1.0)
        while waited < mean:
            count, waited = count + 1, waited + random.expovariate(1.0)
    return count


def _union(bits: Iterable[int]) -> int:
    total = 0
    for b in bits:
        total |= b
    return total
