# SPDX-License-Identifier: Apache-2.0
"""--pipeline-model-parallel-layout of Megatron-LM, from what layers cost:

    python3 megatron_layout.py 4 2 --embedding 90 --layers 80x1000 --loss 2600
"""
from __future__ import annotations

import argparse
from typing import Any, Sequence

import ballast


def pipeline_layout(layers: Sequence[int], ranks: int, chunks: int = 1, *, embedding: int = 0,
                    loss: int = 0, mtp: Sequence[int] = (), **options: Any) -> str:
    """Stages between `|`, stage s on rank s % ranks: E, a t for every one of `layers`, an m for every
    one of `mtp`, L. Layers of mtp stay with the loss, as Megatron-LM wants them in one stage, the last
    chunk of its rank. Costs are whole numbers in any unit; options: those of ballast.cut_chain."""
    costs = [embedding, *layers, sum(mtp) + loss]
    letters = ["E", *["t"] * len(layers), "m" * len(mtp) + "L"]
    cut = ballast.cut_chain(costs, ranks, chunks=chunks, **options)
    return "|".join("".join(letters[layer] for layer in stage) for stage in cut.stages)


def _costs(text: str) -> list[int]:
    """12x100,12x200"""
    return [int(cost) for part in text.split(",")
            for count, _, cost in [part.rpartition("x")] for _ in range(int(count or 1))]


if __name__ == "__main__":
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("ranks", type=int)
    read.add_argument("chunks", type=int, nargs="?", default=1)
    read.add_argument("--layers", type=_costs, required=True, help="such as 12x100,12x200")
    read.add_argument("--mtp", type=_costs, default=[])
    read.add_argument("--embedding", type=int, default=0)
    read.add_argument("--loss", type=int, default=0)
    print(pipeline_layout(**vars(read.parse_args())))
