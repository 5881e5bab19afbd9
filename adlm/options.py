"""From a function's signature to the options of a command, and from words to its arguments.

A parameter is an option; one without a default is given without a name. The fields of a parameter
that is a dataclass are options of their own, `--data.name`; those of FLAT parameters stand without
the parameter's name, `--steps`. Docstrings tell what they mean.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, make_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse as parse_docstring

from adlm.errors import UserError, nearest
from adlm.registry import OUTSIDE, allow
from adlm.values import bare, from_words, guess

FLAT = ("config", "settings", "outputs")
NEEDED = inspect.Parameter.empty
# options whose values are names of an axis: a registered one, or code outside the tree
AXES = {
    "--objective": "objective",
    "--data.name": "dataset",
    "--process.schedule": "schedule",
    "--process.masking": "masking",
    "--process.times": "times",
    "--process.weight": "weight",
    "--process.kernel": "kernel",
    "--anchor.rule": "anchors",
    "--sampler": "sampler",
    "--policy.inner": "sampler",
}
OWN = ("--use", "--logger")  # options whose values are code outside the tree
# parameters of commands that read what a file names
READERS = ("config", "checkpoint", "checkpoint_or_run", "checkpoint_or_samples", "runs")
SHORT = {
    "--data": "--data.name",
    "--base": "--base.name",
    "--cache": "--cache.kind",
    "--compile": "--train.compile",
    "--json": "--json_out",
    "--nucleus": "--draw.nucleus",
    "--top_p": "--draw.nucleus",
    "--num_samples": "--n",
    "--learning_rate": "--optim.lr",
    "--batch_size": "--train.batch",
    "--temperature": "--draw.temperature",
    "--top_k": "--draw.top_k",
    "--compat": "--draw.compat",
    "--eta": "--policy.eta",
}


@dataclass(frozen=True)
class Option:
    """An option of a command, or an argument without a name."""

    name: str  # --model.width, or RECIPE
    meaning: str
    default: Any  # NEEDED: an argument without a name
    kind: Any = str  # its type
    group: str = "Code"  # its heading in --help

    @property
    def form(self) -> Any:
        """list, dict, Literal, or None for a plain type."""
        return get_origin(bare(self.kind))

    @property
    def is_switch(self) -> bool:
        """Whether its name alone means true."""
        return bare(self.kind) is bool

    @property
    def shown(self) -> str:
        """What --help shows in place of a value."""
        listed = ["true", "false"] if self.is_switch else choices(self.kind)
        name = "MODULE:NAME" if self.name == "--use" else self.name.split(".")[-1].lstrip("-")
        return f"{{{','.join(listed)}}}" if listed else name.upper()

    @property
    def help(self) -> str:
        """What --help says of it."""
        kind = self.kind.__name__ if isinstance(self.kind, type) else str(self.kind)
        kind = kind.replace("typing.", "").replace("None", "null")
        default = "null" if self.default is None else self.default
        said = "required" if self.default is NEEDED else f"default: {default}"
        return f"{self.meaning} (type: {kind}, {said})".replace("%", "%%")

    def value(self, words: str | list[str], name: str) -> Any:
        """Return the value that words stand for, or raise UserError; `name` may be an entry's."""
        if name != self.name and isinstance(words, str):
            return guess(words)
        return from_words(words, self.kind, name.lstrip("-"))


USE = Option(
    "--use",
    "Code of yours that a run may name: what a file names is imported only if it stands here. "
    "May be given several times.",
    None,
)


class Command:
    """A function as a command: its options, and its arguments from the words of a user.

    `base` are values for some of its parameters that come before the function's own defaults.

    Example:
        >>> def greet(name: str, times: int = 1) -> None: ...
        >>> command = Command("greet", greet)
        >>> command.usage
        'adlm greet NAME [--option value ...]'
        >>> command.arguments(command.read(["you", "--times", "3"]))
        {'name': 'you', 'times': 3}
    """

    def __init__(self, name: str, function: Callable[..., Any], **base: Any):
        self.name, self.function = name, function
        self.defaults = replace(defaults(function), **base)
        every = list(leaves(self.defaults))
        self.needed = [o for o in every if o.default is NEEDED]
        own = [key for key, value in vars(self.defaults).items() if not is_dataclass(value)]
        first = every[:1] if own and own[0] != "out" else []
        # where words without an option's name go; the first may be left out
        self.places = self.needed if first and first[0] in self.needed else [*first, *self.needed]
        self.options = [o for o in every if o not in self.needed]
        self.options += [USE] if set(READERS) & set(vars(self.defaults)) else []
        self.short = short_forms({o.name for o in self.options})

    @property
    def usage(self) -> str:
        """How the command is written."""
        places = [o.name if o in self.needed else f"[{o.name[2:].upper()}]" for o in self.places]
        return " ".join(["adlm", self.name, *places, "[--option value ...]"])

    def read(self, words: Iterable[str]) -> dict[str, Any]:
        """Return the value of each option and argument that is given, by its name.

        Code outside the tree that is named here may be imported from here on.
        """
        known = {o.name: o for o in self.options}
        given: dict[str, Any] = {}
        loose: list[Any] = []
        rest = ["--help" if word == "-h" else word for word in words]
        while rest:
            word = rest.pop(0)
            if word == "--":  # only arguments follow
                loose += rest
                break
            if not re.match(r"--?[a-zA-Z][\w.-]*(=|$)", word):
                loose.append(word)
                continue
            shown, equals, value = word.partition("=")
            name = f"--{shown.lstrip('-').replace('-', '_')}"
            name = self.short.get(name, name)
            table = known.get(name.partition(".")[0])  # --policy, of --policy.eta
            option = table if table and table.form is dict else known.get(name)
            if name == "--help":
                given[name] = True
                continue
            if option is None:
                raise UserError(f"there is no option {shown}{alike(shown, known)}")
            value = value if equals else taken(option, rest)
            if name in OWN or (name in AXES and OUTSIDE.fullmatch(value)):
                allow(value)
            given[name] = option.value(value, name)
        given = {**dict(self._placed(loose)), **given}
        missing = [o.name.lower() for o in self.needed if o.name not in given]
        if missing and "--help" not in given:
            raise UserError(f"{', '.join(missing)} is missing: {self.usage}")
        return given

    def _placed(self, loose: list[Any]) -> list[tuple[str, object]]:
        """Place the words without an option's name; a list in the last place takes all the rest."""
        few = len(loose) <= len(self.needed)
        places = self.needed if self.needed and few else self.places
        last = len(places) - 1
        if places and places[last].form is list and loose[last:]:
            loose = [*loose[:last], loose[last:]]
        if loose[last + 1 :]:
            raise UserError(f"'{loose[last + 1]}' is one argument too many")
        return [(o.name, o.value(w, o.name)) for o, w in zip(places, loose, strict=False)]

    def arguments(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the function's arguments: what was given, on top of the defaults."""
        return vars(filled(self.defaults, given))

    def help(self, said: str = "") -> str:
        """Return the text of --help; `said` comes last."""
        short = ", ".join(f"{k} = {v}" for k, v in self.short.items())
        parser = argparse.ArgumentParser(
            usage=self.usage,
            description=(inspect.getdoc(self.function) or "").split("\n\n")[0],
            epilog=" ".join(filter(None, [short and f"Short forms: {short}.", said])),
        )
        groups: dict[str, Any] = {}
        for option in [*self.needed, *self.options]:
            if option.group not in groups:
                groups[option.group] = parser.add_argument_group(option.group)
            groups[option.group].add_argument(option.name, metavar=option.shown, help=option.help)
        return parser.format_help()


def taken(option: Option, rest: list[str]) -> str:
    """Take an option's value from the words that follow; a switch needs none."""
    if option.is_switch and not (rest and rest[0].lower() in ("true", "false", "null")):
        return "true"
    if not rest or rest[0].startswith("--"):
        raise UserError(f"{option.name} needs a value")
    return rest.pop(0)


def alike(shown: str, known: Iterable[str]) -> str:
    """Suggest an option: one whose last part is meant (--lr: --optim.lr), or the nearest.

    Example:
        >>> alike("--lr", ["--optim.lr", "--out"])
        '; did you mean --optim.lr?'
    """
    same = [name for name in known if name.split(".")[-1] == shown.lstrip("-")]
    return f"; did you mean {' or '.join(same)}?" if same else nearest(shown, known, "--help")


def short_forms(known: set[str]) -> dict[str, str]:
    """Return the short forms of some options, and what each stands for."""
    known = known | ({"--policy.eta"} if "--policy" in known else set())  # a sampler's own
    return {k: v for k, v in SHORT.items() if v in known and k not in known}


def defaults(function: Callable[..., Any]) -> Any:
    """Return an object whose fields are a function's parameters, with their defaults."""
    hints = get_type_hints(function)
    given = {key: p.default for key, p in inspect.signature(function).parameters.items()}
    made = {
        key: (hints[key]() if is_dataclass(hints[key]) else NEEDED) if value is NEEDED else value
        for key, value in given.items()
    }
    kinds = [(key, hints[key]) for key in given]
    return make_dataclass("Call", kinds, namespace={"__doc__": function.__doc__})(**made)


def leaves(base: Any, prefix: str = "--") -> Iterator[Option]:
    """Yield the options that the fields of a dataclass object are, then those of its parts."""
    kind = type(base)
    hints, told, title = get_type_hints(kind), meanings(kind), headline(kind)
    for name, value in vars(base).items():
        if not is_dataclass(value):
            shown = name.upper() if value is NEEDED else prefix + name
            yield Option(shown, told.get(name, ""), value, hints[name], title)
    for name, value in vars(base).items():
        if is_dataclass(value):
            yield from leaves(value, prefix if name in FLAT else f"{prefix}{name}.")


def filled(base: Any, given: Mapping[str, object], prefix: str = "--") -> Any:
    """Return the dataclass object with what was given for its fields."""
    made = {}
    for name, value in vars(base).items():
        option = name.upper() if value is NEEDED else prefix + name
        if is_dataclass(value):
            made[name] = filled(value, given, prefix if name in FLAT else f"{option}.")
        else:
            made[name] = given.get(option, value)
        if isinstance(value, dict):
            own = {k: v for k, v in given.items() if k.startswith(f"{option}.")}
            made[name] = made[name] | {k.removeprefix(f"{option}."): v for k, v in own.items()}
    return replace(base, **made)


def meanings(thing: Any) -> dict[str, str]:
    """Return what a docstring says of each parameter or field, inherited ones too."""
    told = {}
    for part in reversed(inspect.getmro(thing) if inspect.isclass(thing) else [thing]):
        for param in parse_docstring(part.__doc__ or "").params:
            told[param.arg_name] = " ".join((param.description or "").split())
    return told


def headline(thing: Any) -> str:
    """Return the first line of a docstring without its full stop."""
    return (inspect.getdoc(thing) or "").split("\n")[0].rstrip(".")


def choices(kind: Any) -> list[str]:
    """List the values of a Literal, alone, in a union or in a list.

    Example:
        >>> choices(Literal["row", "document"] | None)
        ['row', 'document']
    """
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [value for part in get_args(kind) for value in choices(part)]
