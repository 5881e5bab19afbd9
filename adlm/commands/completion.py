"""`adlm completion`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from adlm.budget import GPUS
from adlm.cli import COMMANDS, options_of, short_forms
from adlm.models.size import SIZES
from adlm.options import AXES, Option, choices
from adlm.registry import names

BASH = """\
_adlm() {
  local cur=${COMP_WORDS[COMP_CWORD]} one=${COMP_WORDS[1]} two=${COMP_WORDS[2]} words="" files=""
  local before=${COMP_WORDS[COMP_CWORD-1]}
  [[ $cur == "=" ]] && cur=""
  [[ $before == "=" ]] && before=${COMP_WORDS[COMP_CWORD-2]}
  case "$before" in
%(values)s
  %(switches)s|[!-]*) ;;
  --*) files=yes ;;
  esac
  if [[ -z $words && -z $files ]]; then
    case "$one $two" in
%(pairs)s
    *) case "$one" in
%(singles)s
      esac ;;
    esac
    if [[ $COMP_CWORD -eq 1 ]]; then
      words="%(first)s"
    elif [[ $COMP_CWORD -eq 2 && $cur != -* ]]; then
      case "$one" in
%(second)s
      esac
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [[ ${#COMPREPLY[@]} -eq 0 && $cur != -* ]] && COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _adlm adlm
"""


def completion(shell: Literal["bash", "zsh", "fish"] = "bash") -> None:
    """Print a script that completes commands, options and their values, recipes, tasks and methods.

    bash: `adlm completion > ~/.adlm-complete.bash`, then `source ~/.adlm-complete.bash` in
    ~/.bashrc; zsh likewise; fish: `adlm completion fish > ~/.config/fish/completions/adlm.fish`.

    Args:
        shell: Which shell.
    """
    made = {name: all_options(name) for name in COMMANDS}
    if shell == "fish":
        print(fish(made))
        return
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(bash(made))


def all_options(name: str) -> list[Option]:
    """List the options of a command and their short forms."""
    own = {option.name: option for option in options_of(name)}
    known = {k: replace(own[v], name=k) for k, v in short_forms(name).items() if v in own}
    return [*own.values(), *known.values()]


def values_of(option: Option) -> list[str]:
    """List the values that an option may have, where they can be listed."""
    name = option.name.rpartition(".")[2].lstrip("-")
    axis = AXES.get({"--data": "--data.name"}.get(option.name, option.name))
    if axis:
        return [*names(axis), *(["causal"] if axis == "sampler" else [])]
    listed = {
        "size": list(SIZES),
        "gpu": list(GPUS),
        "recipe": names("recipe"),
        "tokenizer": ["byte", "bpe:2048", "gpt2", "bert"],
        "device": ["auto", "cpu", "cuda", "mps"],
        "precision": ["auto", "bf16", "fp32"],
    }
    return choices(option.kind) or listed.get(name, [])


def seconds() -> dict[str, list[str]]:
    """Return what may follow each first word: the rest of a command, or a recipe."""
    after: dict[str, list[str]] = {}
    for name in COMMANDS:
        first, _, rest = name.partition(" ")
        after.setdefault(first, []).extend([rest] if rest else [])
    for name in ("train", "plan", "doctor"):
        after[name] = names("recipe")
    return {first: words for first, words in after.items() if words}


def bash(options: dict[str, list[Option]]) -> str:
    """Write the script for bash."""
    further = {"reason train": [*names("task"), *names("method")]}
    values: dict[str, list[str]] = {}  # of an option, over all commands
    for option in (o for found in options.values() for o in found):
        have = values.setdefault(option.name, [])
        have += [v for v in values_of(option) if v not in have]
    switches = {o.name for found in options.values() for o in found if o.is_switch}

    def case(name: str) -> str:
        own = [option.name for option in options[name]]
        return f'    "{name}") words="{" ".join([*own, *further.get(name, [])])}" ;;'

    firsts = list(dict.fromkeys(name.split()[0] for name in options))
    return BASH % {
        "values": "\n".join(f'  {o}) words="{" ".join(v)}" ;;' for o, v in values.items() if v),
        "switches": "|".join(sorted(switches)),
        "pairs": "\n".join(case(n) for n in options if " " in n),
        "singles": "\n".join("  " + case(n) for n in options if " " not in n),
        "first": " ".join(firsts),
        "second": "\n".join(f'      {f}) words="{" ".join(w)}" ;;' for f, w in seconds().items()),
    }


def fish(options: dict[str, list[Option]]) -> str:
    """Write the script for fish."""
    lines = [
        f"complete -c adlm -n __fish_use_subcommand -a {first}"
        for first in dict.fromkeys(name.split()[0] for name in options)
    ]
    for first, words in seconds().items():
        lines.append(
            f"complete -c adlm -n '__fish_seen_subcommand_from {first}' -a '{' '.join(words)}'"
        )
    for name, found in options.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        for option in found:
            values = values_of(option)
            offer = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"complete -c adlm -n '{seen}' -l {option.name[2:]}{offer}")
    return "\n".join(lines)
