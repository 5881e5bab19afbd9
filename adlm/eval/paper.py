"""Figures of the paper (arXiv 2505.18456) and its baselines, to be shown beside measured ones."""

from __future__ import annotations

# zero-shot validation perplexity of models trained on OpenWebText (table 2)
ZERO_SHOT = {
    "lambada": {"AR": 51.28, "MDLM": 47.52, "ADLM 262B": 44.93, "ADLM 524B": 44.32},
    "ptb": {"AR": 82.05, "MDLM": 95.26, "ADLM 262B": 98.16, "ADLM 524B": 95.37},
    "wikitext-103": {"AR": 25.75, "MDLM": 32.83, "ADLM 262B": 32.45, "ADLM 524B": 31.94},
    "lm1b": {"AR": 51.25, "MDLM": 67.01, "ADLM 262B": 65.59, "ADLM 524B": 64.43},
    "ag_news": {"AR": 52.09, "MDLM": 61.15, "ADLM 262B": 57.10, "ADLM 524B": 55.72},
    "pubmed": {"AR": 49.01, "MDLM": 41.89, "ADLM 262B": 38.29, "ADLM 524B": 37.56},
    "arxiv": {"AR": 41.73, "MDLM": 37.37, "ADLM 262B": 35.08, "ADLM 524B": 33.69},
}
# share of right answers of GPT-2, by Coconut's table and the paper's
REASONING = {
    "prosqa": {
        "CoT": 0.775,
        "No-CoT": 0.767,
        "iCoT": 0.982,
        "Pause": 0.759,
        "Coconut": 0.970,
        "ACoT": 0.973,
    },
}
