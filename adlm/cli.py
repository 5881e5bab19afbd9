"""The command line: a dictionary of sub-commands, each a plain typed function.

A function's parameters and docstring become its options and help. A parameter `config: Config`
becomes the fields of a configuration (`--model.width 256`) on top of the recipe's own, and one
`settings: ...` the fields of its dataclass (`--steps 64`).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from adlm import __version__, memory
from adlm.errors import UserError, nearest

# name -> (where its function is, what it does)
COMMANDS = {
    "quickstart": ("quickstart:start", "train small models on the default corpus and compare them"),
    "train": ("train:start", "train a recipe into a folder; resumable"),
    "eval likelihood": ("likelihood:start", "perplexity of text, with its standard error"),
    "eval zeroshot": ("zeroshot:start", "perplexity on the zero-shot sets"),
    "eval anchors": ("lens:start", "how good anchors are, and what poor ones do"),
    "eval samples": ("quality:start", "generative perplexity, entropy, repetition and MAUVE"),
    "eval efficiency": ("efficiency:start", "what generation costs, and the quality it buys"),
    "eval harness": ("harness:start", "tasks of the lm-evaluation-harness"),
    "eval humaneval": ("humaneval:start", "write and infill HumanEval programs, run their tests"),
    "eval suite": ("suite:start", "all of these on several runs, and one report"),
    "report": ("report:start", "one page of runs and result files"),
    "sample": ("sample:start", "generate texts from a checkpoint"),
    "infill": ("sample:infill", "fill the holes of a text"),
    "watch": ("sample:watch", "see a text appear in the terminal, anchors coloured"),
    "anchors": ("anchors:start", "show a text with its anchors"),
    "study anchoring": ("study:anchoring", "ADLM and A2R against their baselines, over seeds"),
    "study ablate": ("study:ablate", "change one setting of anchoring at a time"),
    "study times": ("study:times", "how MDLM learns best: times, weights, rates and batch"),
    "study reasoning": ("reason:study", "reasoning methods on one task, over seeds"),
    "reason train": ("reason:train", "train a model to reason: task x method"),
    "reason eval": ("reason:evaluate", "accuracy, sound traces and cost of a reasoning model"),
    "reason show": ("reason:show", "problems with anchors, trace and answer in colour"),
    "theory": ("theory:start", "the paper's theory, computed exactly"),
    "plan": ("plan:start", "what a recipe needs: parameters, FLOPs, memory, hours"),
    "doctor": ("doctor:start", "what this machine has"),
    "completion": ("completion:start", "tab completion for bash, zsh or fish"),
    "recipes": ("recipes:start", "list the recipes"),
}

# options whose values are names of an axis: a registered one, or code outside the tree
AXES = {
    "--objective": "objective",
    "--data.name": "dataset",
    "--process.schedule": "schedule",
    "--process.masking": "masking",
    "--process.times": "times",
    "--anchor.rule": "anchors",
    "--sampler": "sampler",
    "--policy.inner": "sampler",
}
OWN = ("--use", "--logger")  # options whose values are code outside the tree
# parameters of commands that read what a file names
READERS = ("config", "checkpoint", "checkpoint_or_run", "checkpoint_or_samples", "runs")

SHORT = {
    "--data": "--data.name",
    "--compile": "--train.compile",
    "--json": "--json_out",
    "--nucleus": "--draw.nucleus",
    "--top_p": "--draw.nucleus",
    "--num_samples": "--n",
    "--temperature": "--draw.temperature",
    "--top_k": "--draw.top_k",
    "--compat": "--draw.compat",
    "--eta": "--policy.eta",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; bad input is one sentence and exit code 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    memory.keep()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8
    try:
        if len(words) == 2 and words[1] in ("-h", "--help") and of_group(words[0]):
            print("\n".join(of_group(words[0])))
            return 0
        if words and words[0] in ("-V", "--version"):
            print(f"adlm {__version__}")
            return 0
        name = find(words)
        if name is None:
            print(overview())
            return 0
        return run(load(name), name, words[len(name.split()) :])
    except UserError as error:
        print(f"adlm: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        print(f"adlm: {where}{reason}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        short = str(error).splitlines()[0] if str(error) else "MemoryError"
        if not isinstance(error, MemoryError) and "memory" not in short:
            raise
        print(f"adlm: there is not enough memory: {short}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        said = f"; {error}" if str(error) else ""  # what a command has to say of it
        print(f"adlm: interrupted{said}", file=sys.stderr)
        return 130


def find(words: list[str]) -> str | None:
    """The command that the words begin with; None where help is asked for."""
    if not words or words[0] in ("-h", "--help", "help"):
        return None
    for count in (2, 1):
        if " ".join(words[:count]) in COMMANDS:
            return " ".join(words[:count])
    groups = [c.split()[1] for c in COMMANDS if c.startswith(words[0] + " ")]
    if groups:
        given = words[1] if len(words) > 1 else ""
        raise UserError(f"'adlm {words[0]}' needs a second word{nearest(given, groups)}")
    raise UserError(f"there is no command '{words[0]}'{nearest(words[0], COMMANDS)}")


def of_group(first: str) -> list[str]:
    """A line for each command of two words that begins with this one."""
    found = {n: what for n, (_, what) in COMMANDS.items() if n.startswith(first + " ")}
    return [f"  adlm {name:<18}{what}" for name, what in found.items()]


def load(name: str) -> Callable[..., Any]:
    module, function = COMMANDS[name][0].split(":")
    return getattr(importlib.import_module(f"adlm.commands.{module}"), function)


def overview() -> str:
    """What `adlm` alone prints."""
    lines = ["adlm: anchored language models. Train, evaluate and study them."]
    lines += [
        "New here? `adlm quickstart` trains five small models and shows them on one page.",
        "",
    ]
    lines += [f"  adlm {name:<18}{summary}" for name, (_, summary) in COMMANDS.items()]
    last = "adlm COMMAND --help tells the options of each, adlm --version which version this is."
    return "\n".join([*lines, "", last])


FLAT = ("config", "settings")  # parameters whose fields are options


def run(function: Callable[..., Any], name: str, words: list[str]) -> int:
    """Parse the words by the function's signature and call it."""
    signature = inspect.signature(function).parameters
    own = [p for p in signature if p not in FLAT]
    needed = [p for p in own if signature[p].default is inspect.Parameter.empty]
    parser = parser_of(function, name, words)
    first = unnamed(function)
    if first and words and not words[0].startswith("-"):
        words = [f"--{first}", *words]
    if needed and get_type_hints(function)[needed[0]] == list[str]:
        words = gathered(words)
    words = ["--n" if w == "-n" else w for w in words]
    short = short_forms(parser)
    words = [re.sub(r"^--[\w.-]+(?=$|=)", lambda m: full(m[0], short), w) for w in words]
    allow_given(words)
    words = spell_out(words, parser)
    try:
        made = parser.instantiate(parser.parse_args(words))
    except argparse.ArgumentError as error:
        raise UserError(sentence(str(error), parser, words)) from None
    arguments = {key: made[key] for key in own}
    if "config" in signature:
        from adlm.config import Config

        sections = {f.name for f in fields(Config)}
        arguments["config"] = Config(**{k: v for k, v in vars(made).items() if k in sections})
    if "settings" in signature:
        kind = get_type_hints(function)["settings"]
        arguments["settings"] = kind(**{f.name: made[f.name] for f in fields(kind)})
    return function(**arguments) or 0


def allow_given(words: list[str]) -> None:
    """Let code outside the tree be imported whose name stands on the command line."""
    from adlm.registry import OUTSIDE, allow

    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if option in OWN or (option in AXES and OUTSIDE.fullmatch(value)):
            allow(value)


def unnamed(function: Callable[..., Any]) -> str | None:
    """The option whose name may be left out: the first, where a command needs no argument."""
    own = [p for n, p in inspect.signature(function).parameters.items() if n not in FLAT]
    needed = any(p.default is inspect.Parameter.empty for p in own)
    return None if needed or not own or own[0].name == "out" else own[0].name


def short_forms(parser: Any) -> dict[str, str]:
    """The short forms of a command's options."""
    known = {o for a in parser._actions if a.metavar != "CONFIG" for o in a.option_strings}
    known |= {"--policy.eta"} if "--policy" in known else set()  # a sampler's own options
    return {k: v for k, v in SHORT.items() if v in known and k not in known}


def parser_of(function: Callable[..., Any], name: str, words: list[str]) -> Any:
    """The parser of a command; the words may name the recipe whose values are the defaults."""
    from jsonargparse import ArgumentParser

    signature = inspect.signature(function).parameters
    empty = inspect.Parameter.empty
    needed = [p.upper() for p in signature if p not in FLAT and signature[p].default is empty]
    needed += [f"[{first.upper()}]" for first in [unnamed(function)] if first]
    parser = ArgumentParser(
        prog=f"adlm {name}",
        usage=" ".join(["adlm", name, *needed, "[--option value ...]"]),
        description=(inspect.getdoc(function) or "").split("\n\n")[0],
        exit_on_error=False,
    )
    parser.add_function_arguments(
        function, skip=set(FLAT), as_positional=True, fail_untyped=False, sub_configs=False
    )
    if "settings" in signature:
        kind = get_type_hints(function)["settings"]
        parser.add_class_arguments(kind, sub_configs=False)
        given = signature["settings"].default  # a command may have defaults of its own
        simple = [f.name for f in fields(kind) if not is_dataclass(getattr(given, f.name))]
        parser.set_defaults({name: getattr(given, name) for name in simple})
    if "config" in signature:
        add_config(parser, words)
    if set(READERS) & set(signature):
        parser.add_argument(
            "--use",
            metavar="MODULE:NAME",
            help="Code of yours that a run may name: what a file names is imported only if it "
            "stands here. May be given several times.",
        )
    for action in parser._actions:
        if action.metavar == "CONFIG":  # a whole section from a file: not offered
            action.help = argparse.SUPPRESS
    if short := short_forms(parser):
        said = "Short forms: " + ", ".join(f"{k} = {v}" for k, v in short.items())
        parser.epilog = " ".join(filter(None, [said, parser.epilog]))
    return parser


class Option(NamedTuple):
    """An option of a command."""

    name: str
    meaning: str
    default: Any
    kind: Any = None  # its type


def options_of(name: str) -> list[Option]:
    """All options of a command, without --help.

    Example:
        >>> [(o.name, o.default) for o in options_of("report")]
        [('--out', 'report.html'), ('--title', 'adlm report')]
    """
    parser = parser_of(load(name), name, [])
    found = []
    for action in parser._actions:
        longs = [o for o in action.option_strings if o.startswith("--") and not o.endswith("+")]
        if longs and "--help" not in longs and action.help != argparse.SUPPRESS:
            meaning = " ".join(str(action.help or "").split())
            kind = getattr(action, "_typehint", None)
            found.append(Option(longs[-1], meaning, action.default, kind))
    return found


def arguments_of(name: str) -> list[Option]:
    """What a command is given without a name, in order.

    Example:
        >>> [a.name for a in arguments_of("reason eval")]
        ['CHECKPOINT', 'TASK']
    """
    return [
        Option(action.dest.upper(), " ".join(str(action.help or "").split()), None)
        for action in parser_of(load(name), name, [])._actions
        if not action.option_strings and action.help != argparse.SUPPRESS
    ]


def gathered(words: list[str]) -> list[str]:
    """The words before the first option as one list: a command that takes several."""
    count = next((i for i, w in enumerate(words) if w.startswith("-")), len(words))
    return ([json.dumps(words[:count])] if count else []) + words[count:]


def full(option: str, short: dict[str, str]) -> str:
    """An option as the parser knows it: underscores for dashes, the whole name for a short one.

    Example:
        >>> full("--top-k", SHORT)
        '--draw.top_k'
    """
    name = "--" + option[2:].replace("-", "_")
    return short.get(name, name)


def spell_out(words: list[str], parser: Any) -> list[str]:
    """A bare switch such as --resume becomes --resume=true."""
    switches = {
        option
        for action in parser._actions
        for option in action.option_strings
        if action.metavar == "{true,false}" or getattr(action, "_typehint", None) is bool
    }
    out = []
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        bare = word in switches and following.lower() not in ("true", "false")
        out.append(f"{word}=true" if bare else word)
    return out


def add_config(parser: Any, words: list[str]) -> None:
    """The fields of a configuration, with the recipe's or the run's values as defaults."""
    from adlm.config import Config, to_dict
    from adlm.models.size import resize

    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--size")
    size = sizes.parse_known_args([w for w in words if w not in ("-h", "--help")])[0].size
    chosen, base = base_config(words)
    base = resize(base, size) if size else base
    parser.epilog = f"The defaults are those of {chosen}{f' at size {size}' if size else ''}."
    parser.add_class_arguments(Config, sub_configs=False)
    values = to_dict(base)
    values["optim"]["betas"] = base.optim.betas
    parser.set_defaults(values)


def base_config(words: list[str]) -> tuple[str, Any]:
    """The recipe or run that the words name, and its configuration; options may stand before it."""
    from adlm.recipes import recipe
    from adlm.registry import names
    from adlm.train.run import stored_config

    plain = [w for w in words if not w.startswith("-")]
    recipes = [w for w in plain if w in names("recipe")]
    runs = [w for w in plain if Path(w).expanduser().joinpath("config.json").is_file()]
    chosen = (recipes or runs or plain[:1] or ["laptop-mdlm"])[0]
    if not recipes and runs:
        return chosen, stored_config(Path(chosen).expanduser())
    if not recipes and (os.sep in chosen or Path(chosen).is_dir()):
        raise UserError(f"{chosen} is no recipe, and no run either: it has no config.json")
    return chosen, recipe(chosen)


PLAIN = {"int": "a whole number", "float": "a finite number", "bool": "true or false"}


def sentence(message: str, parser: Any, words: list[str]) -> str:
    """One sentence out of the parser's message, with the nearest option where one is unknown."""
    unknown = re.search(r"unrecognized arguments: (\S+)", message)
    if unknown:
        option = unknown.group(1).split("=")[0]
        if not option.startswith("-"):
            return f"'{option}' is one argument too many"
        options = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
        alike = [o for o in options if o.split(".")[-1] == option.lstrip("-")]  # --lr: --optim.lr
        if alike:
            return f"there is no option {option}; did you mean {' or '.join(alike)}?"
        return f"there is no option {option}{nearest(option, options)}"
    missing = re.search(r"arguments are required: (.*)$", message)
    if missing:
        return f"{missing.group(1)} is missing: {parser.usage}"
    key = re.search(r'[Kk]ey "([^"]+)"', message)
    flat = " ".join(message.split())
    wrong = re.search(r"Expected an? (.+?)\. Got value: (.*)$", flat)
    if key and wrong:
        kind = re.sub(r"<class '(.+?)'>|typing\.", r"\1", wrong.group(1))
        kind = re.sub(r"^Literal\[(.*)\]$", r"one of \1", kind)
        kind = PLAIN.get(kind, kind)
        return f"{key.group(1)} must be {kind}, found {wrong.group(2)!r}"
    return flat


if __name__ == "__main__":
    sys.exit(main())
