# SPDX-License-Identifier: Apache-2.0
"""nanoVLM's knapsacks over ballast: at most L tokens and a number of images in each.

    from nanovlm_packing import balanced_greedy_knapsack
    ConstantLengthDataset._balanced_greedy_knapsack = balanced_greedy_knapsack
"""
from __future__ import annotations

import random
from typing import Any, Optional, Sequence

import ballast


def balanced_greedy_knapsack(self: Any, buffer: Sequence[Any], L: int, delta: int = 0,
                             max_images_per_knapsack: Optional[int] = None) -> list[list[int]]:
    """The samples of every knapsack, as few as are found; delta, for room to spare, is not used."""
    tokens = [len(sample["input_ids"]) for sample in buffer]
    caps = []
    if max_images_per_knapsack is not None:
        images = [len(sample["images"]) for sample in buffer]
        caps = [{"of": images, "most_per_gpu": max_images_per_knapsack}]
    groups = [own.tolist() for own in ballast.pack(tokens, L, also=caps)]
    random.shuffle(groups)  # as nanoVLM does, so that long samples do not come first
    return groups
