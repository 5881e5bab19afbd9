"""docs/api.md: what a notebook uses, from signatures, docstrings and the comments of fields."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adlm import api, registry
from adlm.config import Config, from_dict, to_dict
from adlm.data.corpus import open_rows, open_vocab
from adlm.models.adapt import based, open_base
from adlm.models.cost import parameters
from adlm.models.size import resize
from adlm.objectives.likelihood import Likelihood, evaluator, score, spread
from adlm.objectives.texts import Nats
from adlm.recipes import recipe
from adlm.recipes.anchoring import anchored
from adlm.samplers.base import Canvas, Policy, clock
from adlm.samplers.categorical import Draw
from adlm.samplers.choice import samplers_for
from adlm.samplers.generate import Samples
from adlm.samplers.settings import SamplingSettings
from adlm.samplers.template import after, holes
from adlm.samplers.trace import Event, Trace
from adlm.train.run import train
from adlm.viz.html import write_replay

WIDTH = 88  # of a signature on one line
# what the loop, the pages and the commands use, not a notebook
INNER = {
    "Canvas": {"next_step", "focus", "look", "random", "precision", "heads", "block", "window"},
    "Draw": {"probabilities"},
    "Trace": {"mark_anchors", "letters"},
}


@dataclass(frozen=True)
class Part:
    """A section of the page: what it is about, an example, and the objects that it describes."""

    title: str
    about: str
    example: str
    things: tuple[Any, ...]


PARTS = (
    Part(
        "Load and use a model",
        "A run is the folder that `adlm train --out` made. `adlm.load` gives a `Model`: network, "
        "vocabulary and settings together. Its methods take and give plain texts; `forward` and "
        "`logits` take token ids. What cannot be done is a `UserError` of one sentence.",
        """\
        import adlm

        model = adlm.load("runs/anchored")
        model.generate("The", n=2, top_p=0.9)
        model.generate(["The", "We are a"], max_new_tokens=6)  # each as it is alone
        model.infill("The [MASK] of the union is [MASK:4] .")
        found = model.nll(["The union is strong."])  # nats, an upper bound for diffusion
        print(found, "±", found.se)
        model.token_logprobs("The union is strong.")  # [("The", -3.1), ...]
        model.hidden("The union is strong.")  # (L, D)
        ids = model.tokenizer.encode("The union").ids
        model.logits([ids])  # (B, L, V)
        """,
        (api.load, api.Model, Nats),
    ),
    Part(
        "How texts are written",
        "`generate`, `infill` and `trace` take the fields of `SamplingSettings` and `Draw`.",
        """\
        from adlm.api import settings
        from adlm.samplers.template import after

        how = settings(n=4, sampler="remdm-cap", policy={"eta": 0.04}, steps=32)
        made = model.write(after("The", 16, model.vocab), how)  # 16 tokens in all
        print(made.cost())
        """,
        (api.settings, after, holes, SamplingSettings, Draw, Samples),
    ),
    Part(
        "Records and replays",
        "A trace records every token that was written or taken back.",
        """\
        from adlm.viz.html import write_replay

        trace = model.trace(prompt="The", sampler="anchor-first")
        trace.tokens(row=0, step=3)  # the first text after three steps
        write_replay(trace, "replay.html")
        """,
        (Trace, Event, write_replay),
    ),
    Part(
        "Recipes and settings",
        "A recipe's name gives a `Config`: frozen dataclasses, changed by `dataclasses.replace` "
        "and checked when made. [Commands](cli.md) lists every field, as options of `adlm train`.",
        """\
        from dataclasses import replace

        from adlm.recipes import recipe

        config = recipe("laptop-adlm", size="pico")
        config = replace(config, train=replace(config.train, steps=2, batch=4, eval_rows=4))
        config = replace(config, data=replace(config.data, name="my-texts/", tokenizer="byte"))
        """,
        (recipe, resize, anchored, Config, parameters, to_dict, from_dict),
    ),
    Part(
        "Training",
        "What `adlm train` does. Ctrl-C saves a checkpoint and returns 130. `based` is what "
        "`--base` does: the recipe with the network and the tokenizer of a checkpoint, from whose "
        "weights the run starts ([Weights](weights.md)).",
        """\
        from pathlib import Path

        from adlm.models.adapt import based, open_base
        from adlm.train.run import train

        train(config, Path("runs/from-python"))
        train(based(config, open_base("runs/from-python")), Path("runs/went-on"))
        """,
        (train, open_base, based),
    ),
    Part(
        "Scoring",
        "What `adlm eval likelihood` does. `evaluator` makes the objective that scores: for "
        "diffusion the bound, whatever was minimised in training.",
        """\
        from adlm.data.corpus import open_rows
        from adlm.objectives.likelihood import evaluator, score, spread

        rows = open_rows(model.config.data, "test", model.vocab)
        some = spread(len(rows), 64)  # 64 rows, evenly spread
        found = score(model.network, evaluator(model.config, model.vocab), rows, some, draws=4)
        print(found.ppl, found.se)
        """,
        (open_vocab, open_rows, evaluator, score, Likelihood, spread),
    ),
    Part(
        "Samplers",
        "A sampler is a `Policy`. At each step it says which positions of the `Canvas` are written "
        "or taken back. The [tutorial](tutorial.md) writes one.",
        """\
        from adlm.samplers.choice import samplers_for

        print(samplers_for(model.config))
        """,
        (samplers_for, Policy, Canvas, clock),
    ),
    Part(
        "The registry",
        "Whatever can be named is registered under its axis. [Extend](extend.md) has an example of "
        "each axis.",
        """\
        from adlm import registry

        print(registry.names("sampler"))
        cosine = registry.lookup("schedule", "cosine")()
        """,
        (registry.register, registry.names, registry.lookup),
    ),
)


def page() -> str:
    """The whole page."""
    parts = [
        "# Python API",
        "What a notebook uses. Generated by `docs/build.py` from signatures and docstrings; the "
        "examples are executed by a test. Shapes: B rows, L positions of a row, V tokens of the "
        "vocabulary, D width of the network.",
    ]
    for part in PARTS:
        parts += [f"## {part.title}", part.about]
        parts.append(fenced(textwrap.dedent(part.example)))
        for thing in part.things:
            parts += described(thing)
    rows = [[f"`{axis}`", ", ".join(registry.names(axis))] for axis in registry.HOMES]
    parts += ["What is registered:", table(["axis", "names"], rows)]
    return "\n\n".join(parts) + "\n"


def described(thing: Any) -> list[str]:
    """An object's heading, signature and docstring; of a class its fields and methods too."""
    name = thing.__name__
    home = "adlm" if thing in (api.load, api.Model) else thing.__module__
    code = f"from {home} import {name}"
    if not inspect.isclass(thing):
        code += f"\n\n{signature(name, thing)}"
    out = [f"### {name}", fenced(code), documented(thing)]
    if not inspect.isclass(thing):
        return out
    if "Attributes:" not in (inspect.getdoc(thing) or "") and (rows := fields(thing)):
        out.append(table(["field", "type", ""], rows))
    if rows := properties(thing):
        out.append(table(["property", ""], rows))
    for member, value in vars(thing).items():
        if inspect.isfunction(value) and public(thing, member):
            out += [f"#### {name}.{member}", fenced(signature(member, value))]
            out.append(documented(value))
    return out


def public(kind: type, member: str) -> bool:
    return not member.startswith("_") and member not in INNER.get(kind.__name__, ())


def properties(kind: type) -> list[list[str]]:
    """(name, meaning) of a class's properties."""
    found = [(n, v) for n, v in vars(kind).items() if isinstance(v, property) and public(kind, n)]
    return [[f"`{n}`", " ".join((inspect.getdoc(v) or "").split())] for n, v in found]


def fields(kind: type) -> list[list[str]]:
    """(name, type, comment) of a class's public fields, from its source."""
    line = r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]+)?(?:  # (.+))?$"
    found = re.findall(line, inspect.getsource(kind), re.M)
    return [
        [f"`{name}`", f"`{escaped(hint)}`", escaped(said)]
        for name, hint, said in found
        if public(kind, name)
    ]


def signature(name: str, function: Callable[..., Any]) -> str:
    """name(parameters) -> type, on one line or one line a parameter."""
    found = inspect.signature(function)
    given = [shown(p) for p in found.parameters.values() if p.name != "self"]
    result = found.return_annotation
    gives = "" if result is inspect.Signature.empty else f" -> {result}"
    line = f"{name}({', '.join(given)}){gives}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {p}," for p in given), f"){gives}"])


def shown(parameter: inspect.Parameter) -> str:
    """One parameter; a dataclass as default is shown without its fields."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {parameter.annotation}"
    default = parameter.default
    return text if default is inspect.Parameter.empty else f"{text} = {plain(default)}"


def plain(default: Any) -> str:
    """A default value as it is written; a dataclass without its fields."""
    if isinstance(default, type):
        return default.__name__
    return f"{type(default).__name__}()" if dataclasses.is_dataclass(default) else repr(default)


HEADS = re.compile(r"^(Attributes|Args|Example):\n", re.M)


def documented(thing: Any) -> str:
    """A docstring as Markdown: attributes and arguments as a table, examples as code.

    Lines of an example that only tidy up, `_ = ...`, are left out.
    """
    text, *rest = HEADS.split(inspect.getdoc(thing) or "")
    out = [text.strip()]
    for head, body in zip(rest[::2], rest[1::2], strict=True):
        inner = re.sub(r"^>>> _ = .*\n?", "", textwrap.dedent(body), flags=re.M).strip()
        out.append(fenced(inner, "pycon") if head == "Example" else listed(inner, thing))
    return "\n\n".join(filter(None, out))


def listed(text: str, thing: Any) -> str:
    """`name: meaning` lines, with further lines indented, as a table with the defaults."""
    found = re.findall(r"^(\w+): (.*(?:\n +.*)*)", text, re.M)
    rows = [[f"`{n}`", default_of(thing, n), escaped(" ".join(s.split()))] for n, s in found]
    return table(["name", "default", "meaning"], rows)


def default_of(thing: Any, name: str) -> str:
    """The default of a field or parameter, nothing where there is none."""
    for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
        if field.name == name and field.default_factory is not dataclasses.MISSING:
            return f"`{plain(field.default_factory())}`"
    default = inspect.signature(thing).parameters[name].default
    return "" if default is inspect.Parameter.empty else f"`{plain(default)}`"


def fenced(code: str, language: str = "python") -> str:
    return f"```{language}\n{code.strip()}\n```"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def escaped(text: str) -> str:
    return text.replace("|", "\\|")
