"""`adlm reason show`."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from adlm.config import check
from adlm.progress import Screen
from adlm.reasoning.evaluate import Problems
from adlm.reasoning.score import Attempt
from adlm.reasoning.train import load_trained


def reason_show(
    checkpoint: str,
    task: str,
    settings: Problems = Problems(),
    n: int = 3,
    device: str = "auto",
) -> None:
    """Problems with what the model made of them: anchors, trace and answer in colour.

    Args:
        checkpoint: A run of `adlm reason train`, or its checkpoint.
        task: The task; with the knobs of the training where it is the one trained on.
        settings: Which items.
        n: How many problems.
        device: auto, cpu, mps, cuda or cuda:N.
    """
    check(n >= 1, "--n", n, "at least 1")
    console = Screen(highlight=False)
    trained = load_trained(checkpoint, device)
    kind, found = settings.read(task, trained.plan, n)
    for attempt in replace(trained.solver, task=kind).solve(found.items):
        console.print(coloured(attempt))


def coloured(attempt: Attempt) -> Text:
    """One problem for the terminal."""
    text = Text()
    text.append("question  ", "bold").append(attempt.item.question + "\n")
    if attempt.slots:
        text.append("slots     ", "bold").append(" ".join(attempt.slots) + "\n", "black on yellow")
    if attempt.trace:
        sound = "green" if attempt.sound else "red"
        text.append("trace     ", "bold").append(attempt.trace + "\n", sound)
    colour = "bold green" if attempt.right else "bold red"
    text.append("answer    ", "bold").append(attempt.answer or "(none)", colour)
    text.append("" if attempt.right else f"   (right: {attempt.item.answer})").append("\n")
    return text
