"""Commands one after the other, by however many processes torchrun has started.

torchrun --nproc-per-node 2 -m tests.many '[["train", "laptop-mdlm"], ["recipes"]]'
"""

from __future__ import annotations

import json
import sys

import torch

from adlm.cli import main
from adlm.world import finish, start

if __name__ == "__main__":
    torch.set_num_threads(1)
    world = start("cpu")  # once for all: a group is not made twice
    for words in json.loads(sys.argv[1]):
        assert main(words) == 0, words
    finish(world)
