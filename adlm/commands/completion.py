"""`adlm completion`."""

from __future__ import annotations

from typing import Literal

from adlm.cli import COMMANDS, options_of
from adlm.registry import names

BASH = """\
_adlm() {
  local cur=${COMP_WORDS[COMP_CWORD]} one=${COMP_WORDS[1]} two=${COMP_WORDS[2]} words=""
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
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [[ ${#COMPREPLY[@]} -eq 0 && $cur != -* ]] && COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _adlm adlm
"""


def start(shell: Literal["bash", "zsh", "fish"] = "bash") -> None:
    """Print a script that completes commands, options, recipes, tasks and methods.

    bash: `adlm completion > ~/.adlm-complete.bash`, then `source ~/.adlm-complete.bash` in
    ~/.bashrc; zsh likewise; fish: `adlm completion fish > ~/.config/fish/completions/adlm.fish`.

    Args:
        shell: Which shell.
    """
    made = {name: [option.name for option in options_of(name)] for name in COMMANDS}
    if shell == "fish":
        print(fish(made))
        return
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(bash(made))


def seconds() -> dict[str, list[str]]:
    """What may follow each first word: the rest of a command, or a recipe."""
    after: dict[str, list[str]] = {}
    for name in COMMANDS:
        first, _, rest = name.partition(" ")
        after.setdefault(first, []).extend([rest] if rest else [])
    for name in ("train", "plan", "doctor"):
        after[name] = names("recipe")
    return {first: words for first, words in after.items() if words}


def bash(options: dict[str, list[str]]) -> str:
    """The script for bash."""
    further = {"reason train": [*names("task"), *names("method")]}

    def case(name: str) -> str:
        return f'  "{name}") words="{" ".join([*options[name], *further.get(name, [])])}" ;;'

    firsts = list(dict.fromkeys(name.split()[0] for name in options))
    return BASH % {
        "pairs": "\n".join(case(n) for n in options if " " in n),
        "singles": "\n".join("  " + case(n) for n in options if " " not in n),
        "first": " ".join(firsts),
        "second": "\n".join(f'    {f}) words="{" ".join(w)}" ;;' for f, w in seconds().items()),
    }


def fish(options: dict[str, list[str]]) -> str:
    """The script for fish."""
    lines = [
        f"complete -c adlm -n __fish_use_subcommand -a {first}"
        for first in dict.fromkeys(name.split()[0] for name in options)
    ]
    for first, words in seconds().items():
        lines.append(
            f"complete -c adlm -n '__fish_seen_subcommand_from {first}' -a '{' '.join(words)}'"
        )
    for name, found in options.items():
        seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        lines += [
            f"complete -c adlm -n '{seen.replace(' and ', '; and ')}' -l {o[2:]}" for o in found
        ]
    return "\n".join(lines)
