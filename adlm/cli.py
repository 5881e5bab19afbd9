"""The command line: a table of commands, each a plain typed function of the same name.

`adlm eval anchors` is the function `eval_anchors` in `adlm/commands/eval_anchors.py`. Its
parameters and docstring become its options and help, see `adlm/options.py`.
"""

from __future__ import annotations

import errno
import importlib
import io
import keyword
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from adlm import __version__, memory
from adlm.errors import UserError, nearest
from adlm.options import Command, Option
from adlm.visible import visible, visible_prints

# name -> what it does
COMMANDS = {
    "quickstart": "train small models on the default corpus and compare them",
    "train": "train a recipe into a folder; resumable",
    "eval likelihood": "perplexity of text, with its standard error",
    "eval zeroshot": "perplexity on the zero-shot sets",
    "eval anchors": "how good anchors are, and what poor ones do",
    "eval samples": "generative perplexity, entropy, repetition and MAUVE",
    "eval efficiency": "what generation costs, and the quality it buys",
    "eval harness": "tasks of the lm-evaluation-harness",
    "eval humaneval": "write and infill HumanEval programs, run their tests",
    "eval interval": "the times on which block diffusion learns with least noise",
    "eval suite": "all of these on several runs, and one report",
    "report": "one page of runs and result files",
    "sample": "generate texts from a checkpoint",
    "infill": "fill the holes of a text",
    "serve": "a playground in the browser, and an API",
    "watch": "see a text appear in the terminal, anchors or rare words coloured",
    "anchors": "show a text with its anchors",
    "study anchoring": "ADLM and A2R against their baselines, over seeds",
    "study baselines": "every baseline of the paper's tables, and anchoring over them",
    "study ablate": "change one setting of anchoring at a time",
    "study times": "how MDLM learns best: times, weights, rates and batch",
    "study tuning": "how each baseline learns best",
    "study lasting": "whether what helps MDLM, or beats it, goes on doing so",
    "study finetune": "starting from a base against from scratch",
    "study reasoning": "reasoning methods on one task, over seeds",
    "reason train": "train a model to reason: task x method",
    "reason eval": "accuracy, sound traces and cost of a reasoning model",
    "reason show": "problems with anchors, trace and answer in colour",
    "import": "another project's weights as a checkpoint",
    "export": "a folder for the hub that plain transformers loads",
    "push": "upload a model to the hub",
    "theory": "the paper's theory, computed exactly",
    "plan": "what a recipe needs: parameters, FLOPs, memory, hours",
    "cache": "what was tokenised and is kept; remove what is old",
    "doctor": "what this machine has",
    "completion": "tab completion for bash, zsh or fish",
    "recipes": "list the recipes",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; on bad input, print one sentence and return 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    memory.keep()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8
    try:
        with visible_prints():
            return obey(words)
    except UserError as error:
        complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        if error.errno == errno.ENOSPC and not where:
            where = "the output cannot be written: "
            drop_output()
        complain(f"{where}{reason}")
        return 2
    except (MemoryError, RuntimeError) as error:
        short = str(error).splitlines()[0] if str(error) else "MemoryError"
        lacking = "memory" in short or "can't start new thread" in short
        if not isinstance(error, MemoryError) and not lacking:
            raise
        complain(f"there is not enough memory: {short}")
        return 2
    except KeyboardInterrupt as error:
        said = f"; {error}" if str(error) else ""  # what a command has to say of it
        complain(f"interrupted{said}")
        return 130
    except BaseException as error:
        return of_library(error)


def of_library(error: BaseException) -> int:
    """Say that the tokenizers' library gave up, by an error that is no Exception; raise others."""
    if type(error).__name__ != "PanicException":  # pyo3's, which cannot be imported
        raise error
    complain(f"the tokenizer cannot go on: {str(error).splitlines()[0]}")
    return 2


def drop_output() -> None:
    """Let what is still to be printed go nowhere."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(said: str) -> None:
    """Say in one line, on stderr, why a command ends."""
    print(visible(f"adlm: {' '.join(said.splitlines())}"), file=sys.stderr)


def obey(words: list[str]) -> int:
    """Do what the words say."""
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
    return run(Command(name, load(name)), words[len(name.split()) :])


def find(words: list[str]) -> str | None:
    """Return the command that the words begin with, or None where help is asked for."""
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
    """Return a line for each command of two words that begins with this one."""
    found = {n: what for n, what in COMMANDS.items() if n.startswith(first + " ")}
    return [f"  adlm {name:<18}{what}" for name, what in found.items()]


def load(name: str) -> Callable[..., Any]:
    """Import a command's function: `eval anchors` is eval_anchors in commands/eval_anchors.py.

    The name of a Python keyword has an underscore behind it: import_ in commands/import_.py.
    """
    own = name.replace(" ", "_") + "_" * keyword.iskeyword(name)
    return getattr(importlib.import_module(f"adlm.commands.{own}"), own)


def overview() -> str:
    """Return what `adlm` alone prints."""
    lines = ["adlm: anchored language models. Train, evaluate and study them."]
    lines += [
        "New here? `adlm quickstart` trains five small models and shows them on one page.",
        "",
    ]
    lines += [f"  adlm {name:<18}{summary}" for name, summary in COMMANDS.items()]
    last = "adlm COMMAND --help tells the options of each, adlm --version which version this is."
    return "\n".join([*lines, "", last])


def run(command: Command, words: list[str]) -> int:
    """Call a command with what the words say, or show its help."""
    given, said = command.read(words), ""
    if hasattr(command.defaults, "config"):
        chosen = given.get("RECIPE", "laptop-mdlm")
        config, said = base_config(chosen, given.get("--size"), given.get("--base.name"))
        command = Command(command.name, command.function, config=config)
    if getattr(command.defaults, "checkpoint_or_run", "") is None and not (
        given.get("--checkpoint_or_run")
    ):
        command, said = without_checkpoint(command, given)
    if "--help" in given:
        print(command.help(said), end="")
        raise SystemExit(0)
    return command.function(**command.arguments(given)) or 0


def without_checkpoint(command: Command, given: Mapping[str, Any]) -> tuple[Command, str]:
    """Return a command whose settings are those that a shipped model writes best with.

    What chooses a sampler (--goal, --sampler, --policy) leaves only its nucleus. Also returns a
    sentence on them.
    """
    from adlm.samplers.keywords import settings
    from adlm.samplers.shipped import manner

    how = manner(given.get("TEXT") or given.get("--text") or "")
    said = (
        f"Without a checkpoint the nucleus is {how['nucleus']} and the sampler {how['sampler']}, "
        "unless --goal, --sampler or --policy choose it."
    )
    if {name.split(".")[0] for name in given} & {"--goal", "--sampler", "--policy"}:
        del how["sampler"]
    return Command(command.name, command.function, settings=settings(**how)), said


def base_config(chosen: str, size: str | None = None, base: str | None = None) -> tuple[Any, str]:
    """Return the configuration that a recipe or a run has, and a sentence that says so.

    With the name of a `base` its network and tokenizer stand in place of the recipe's.
    """
    from adlm.models import history
    from adlm.models.adapt import based, open_base
    from adlm.models.size import resize
    from adlm.recipes import recipe
    from adlm.registry import names
    from adlm.train.run import stored_config

    home = Path(chosen).expanduser()
    home = history.run_of(home.absolute()) if history.in_run(home) else home
    if chosen in names("recipe"):
        config = recipe(chosen)
    elif home.joinpath("config.json").is_file():
        config = stored_config(home)
    elif os.sep in chosen or home.is_dir():
        raise UserError(f"{chosen} is no recipe, and no run either: it has no config.json")
    else:
        config = recipe(chosen)  # says what there is
    sized = f" at size {size}" if size else ""
    if base and size:
        raise UserError(f"the network is that of the base {base}: leave out --size")
    if base:
        config, sized = based(config, open_base(base)), f" on {base}"
    return resize(config, size) if size else config, f"The defaults are those of {chosen}{sized}."


def options_of(name: str) -> list[Option]:
    """List the options of a command, without --help.

    Example:
        >>> [(o.name, o.default) for o in options_of("report")]
        [('--out', 'report.html'), ('--title', 'adlm report')]
    """
    command = Command(name, load(name))
    if hasattr(command.defaults, "config"):
        command = Command(name, load(name), config=base_config("laptop-mdlm")[0])
    return command.options


def arguments_of(name: str) -> list[Option]:
    """List what a command is given without a name, in order.

    Example:
        >>> [a.name for a in arguments_of("reason eval")]
        ['CHECKPOINT', 'TASK']
    """
    return [replace(o, default=None) for o in Command(name, load(name)).needed]


def short_forms(name: str) -> dict[str, str]:
    """Return the short forms of a command's options.

    Example:
        >>> short_forms("plan")["--data"]
        '--data.name'
    """
    return Command(name, load(name)).short


if __name__ == "__main__":
    sys.exit(main())
