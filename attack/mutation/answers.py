"""Mutants that no test can or need notice, and why: (file, text, changed text) to a sentence."""

from __future__ import annotations

ANSWERS: dict[tuple[str, str, str], str] = {
    ("adlm/process/anchors.py", "sample >= 0", "(sample > 0)"): (
        "the made-up row only tries that a user's rule runs; whether its first token is valid "
        "does not matter"
    ),
    ("adlm/samplers/canvas.py", 'home.type == "cuda"', "(home.type != 'cuda')"): (
        "how many logits exist at once never changes what is drawn"
    ),
    ("adlm/samplers/confidence.py", "1e-9", "2e-09"): "both are below any share of a token",
    ("adlm/samplers/trace.py", "0", "1"): "it is set anew when a canvas begins",
    ("adlm/samplers/canvas.py", "False", "True"): (
        "that a field may also be given when a canvas is made changes nothing"
    ),
    ("adlm/train/ema.py", "p.detach()", "(p)"): "the copies are only read and written without grad",
    ("adlm/objectives/tokens.py", "1", "2"): "a second row that is told the same is not looked at",
    ("adlm/samplers/random.py", "0", "1"): "it has no rows, so its seed is that of none",
    (
        "adlm/objectives/order.py",
        "max(1.0, 1 / float(self.exponents.min()))",
        "(min(1.0, 1 / float(self.exponents.min())))",
    ): "any power of the time gives the same bound; this one varies less",
    ("adlm/samplers/order.py", "1 - stay ** k.max()", "(1 + stay ** k.max())"): (
        "more positions are asked about, and none more is written"
    ),
    ("adlm/objectives/interval.py", "False", "True"): "whether a bar of progress is shown",
    ("adlm/samplers/cache.py", "9", "10"): "both are before any step",
    ("adlm/process/kernel.py", "u < at.hidden", "(u <= at.hidden)"): (
        "both sides are real numbers, and equal with probability 0"
    ),
    ("adlm/objectives/udlm.py", "batch.x > self.mask", "(batch.x >= self.mask)"): (
        "a text has no masks"
    ),
    ("adlm/objectives/bd3lm.py", "u < hidden", "(u <= hidden)"): (
        "both sides are real numbers, and equal with probability 0"
    ),
    ("adlm/samplers/confidence.py", "1e-7", "2e-07"): "both are below the digits that are compared",
    ("adlm/objectives/texts.py", "0", "1"): "nobody asks these rows how many bytes they have",
    ("adlm/objectives/d3pm.py", "True", "False"): (
        "a trait of a class is read, not run: tests/objectives/test_anchored.py compares them"
    ),
    ("adlm/samplers/first_hitting.py", "1.0", "2.0"): "minus any number is below every chance",
    ("adlm/objectives/interval.py", "64", "65"): "rows at once never change what is measured",
    (
        "adlm/samplers/order.py",
        "canvas.chance < 1 - stay.to(k.device) ** k[found[0]]",
        "(canvas.chance <= 1 - stay.to(k.device) ** k[found[0]])",
    ): "both sides are real numbers, and equal with probability 0",
}
