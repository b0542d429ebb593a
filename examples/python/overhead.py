# SPDX-License-Identifier: Apache-2.0
"""Prints how long a call takes until owners are read, and how long C++ does in it: medians."""
from __future__ import annotations

import time
from statistics import median
from typing import Callable, Union

import ballast
import numpy as np


def show(name: str, call: Callable[[], Union[ballast.Plan, ballast.Grid]], runs: int,
         lists: bool = False) -> None:
    inside, more = [], []
    for _ in range(runs):
        begin = time.perf_counter()
        made = call()
        _ = made.owner.tolist() if lists else made.owner
        inside.append(made.seconds)
        more.append(time.perf_counter() - begin - made.seconds)
    planned, added = 1e6 * median(inside), 1e6 * median(more)
    print(f"{name:<34}{planned:>11.0f} us{added:>13.0f} us{1 + added / planned:>9.3f}")


def main() -> None:
    cost = "transformer:d=3072,gamma=0.405"
    print(f"{'':<34}{'C++':>14}{'Python adds':>16}{'ratio':>9}")
    plain = [(at * 7919) % 4000 + 1 for at in range(1024)]
    show("grid, lists of 1024 in and out", lambda: ballast.grid(plain, 64, cost=cost,
                                                                most_per_gpu=16384), 200, True)
    for samples, ranks, runs in ((1024, 64, 200), (32768, 1024, 9)):
        drawn = np.random.default_rng(1).lognormal(np.log(1024), 1.0, samples)
        lengths = np.clip(drawn, 1, 16384).astype(np.int64)
        show(f"plan, {samples} samples on {ranks} GPUs",
             lambda: ballast.plan(lengths, ranks, cost=cost), runs)
        show(f"grid, {samples} samples on {ranks} ranks",
             lambda: ballast.grid(lengths, ranks, cost=cost, most_per_gpu=16384), runs)


if __name__ == "__main__":
    main()
