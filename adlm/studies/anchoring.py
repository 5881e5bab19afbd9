"""Does anchoring help, at equal tokens, against models of equal size?"""

from __future__ import annotations

from dataclasses import replace

from adlm.config import Config
from adlm.data.corpus import open_vocab
from adlm.models.sizes import match
from adlm.recipes import recipe


def budget(config: Config, tokens: int) -> Config:
    """The recipe at a number of training tokens, evaluated at twenty points on the way."""
    a_step = config.train.batch * config.data.length
    steps = max(1, -(-tokens // a_step))
    every = max(1, steps // 20)
    train = replace(
        config.train, steps=steps, eval_every=every, eval_rows=512, save_every=every, keep=1
    )
    return replace(config, train=train)


def rows(tokens: int) -> dict[str, Config]:
    """The rows of the study."""
    adlm, a2r = recipe("laptop-adlm"), recipe("laptop-a2r")
    vocab = open_vocab(adlm.data)

    def lean(config: Config) -> Config:
        """The anchor head is the input embedding: as many parameters as the plain model."""
        model = replace(config.model, shared=True)
        return replace(config, model=model, anchor=replace(config.anchor, fade=True))

    made = {
        "AR": recipe("laptop-ar"),
        "AR, parameters matched": match(a2r, vocab.size, by="params"),
        "A2R": a2r,
        "A2R, shared head, gamma fading": lean(a2r),
        "MDLM": recipe("laptop-mdlm"),
        "MDLM, parameters matched": match(adlm, vocab.size, by="params"),
        "ADLM, gamma 0": replace(adlm, anchor=replace(adlm.anchor, gamma=0.0)),
        "ADLM": adlm,
        "ADLM, shared head, gamma fading": lean(adlm),
    }
    return {name: budget(config, tokens) for name, config in made.items()}


def seeds(names: list[str], most: int) -> dict[str, int]:
    """Masked diffusion and its anchored form get all seeds, the other rows one fewer."""
    fewer = {name: int(not name.startswith(("ADLM", "MDLM"))) for name in names}
    fewer["ADLM, gamma 0"] = 1
    return {name: max(1, most - fewer[name]) for name in names}
