# SPDX-License-Identifier: Apache-2.0
"""Prints what trainers.py finds beside what the trainers themselves do, on length traces.

    python3 compare_trainers.py FOLDER    # of the traces; each is shuffled and cut to its cap
"""
from __future__ import annotations

import csv
import heapq
import os
import random
import sys
from typing import Sequence

import ballast
import trainers

# File, columns that make a length, tokens that a microbatch holds.
TRACES = [("rl_groups", ("prompt_tokens", "response_tokens"), 2048),
          ("interleaved_docs", ("text_tokens", "visual_tokens_qwen2vl"), 4096),
          ("servegen_reason_sampled", ("prompt_tokens", "response_tokens"), 16384),
          ("mooncake_conversation", ("prompt_tokens", "response_tokens"), 32768)]
STEPS, SAMPLES, RANKS = 16, 128, 8


def largest_differencing(lengths: Sequence[int], k: int, equal_size: bool) -> list[list[int]]:
    """What verl does: Karmarkar and Karp's method for k sets; k samples at once if equal_size."""
    order = sorted(range(len(lengths)), key=lambda at: (lengths[at], at))
    width = k if equal_size else 1
    heap = []
    for number, first in enumerate(range(0, len(order), width)):
        sets = [(lengths[at], 1, [at]) for at in order[first:first + width]]
        sets = sorted(sets + [(0, 0, [])] * (k - width), reverse=True)
        heap.append((sets[-1][0] - sets[0][0], -sets[0][0], number, sets))
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, _, number, a), (_, _, _, b) = heapq.heappop(heap), heapq.heappop(heap)
        sets = sorted(((x + y, n + m, own + other)
                       for (x, n, own), (y, m, other) in zip(a, reversed(b))), reverse=True)
        heapq.heappush(heap, (sets[-1][0] - sets[0][0], -sets[0][0], number, sets))
    return [members for _, _, members in heap[0][3]]


def next_fit_decreasing(lengths: Sequence[int], capacity: int, most: int) -> list[list[int]]:
    """What Megatron-LM does: longest first into the last bin, or a new one."""
    bins: list[list[int]] = []
    room = -1
    for at in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if lengths[at] > room or len(bins[-1]) == most:
            bins.append([])
            room = capacity
        bins[-1].append(at)
        room -= lengths[at]
    return bins


def sums(lengths: Sequence[int], sets: list[list[int]]) -> list[int]:
    return [sum(lengths[at] for at in members) for members in sets]


def above_mean(loads: Sequence[int]) -> float:
    return 100 * (max(loads) * len(loads) / sum(loads) - 1)


def steps_of(folder: str, name: str, columns: tuple[str, ...], cap: int) -> list[list[int]]:
    with open(os.path.join(folder, name + ".csv"), encoding="utf-8", newline="") as file:
        lengths = [min(cap, max(1, sum(int(row[column]) for column in columns)))
                   for row in csv.DictReader(file)]
    random.Random(1).shuffle(lengths)
    return [lengths[step * SAMPLES:(step + 1) * SAMPLES] for step in range(STEPS)]


def micro_batches(step: Sequence[int], dealt: list[list[int]], cap: int,
                  ours: bool) -> tuple[int, int, int]:
    """Microbatches of each rank, those of all above the cap, and the most tokens above it."""
    ranks = [[step[at] for at in own] for own in dealt]
    if ours:
        count = max(len(trainers.micro_batch_indices(own, cap)) for own in ranks)
        loads = [load for own in ranks
                 for load in sums(own, trainers.micro_batch_indices(own, cap, lambda _: count))]
    else:
        count = max(-(-sum(own) // cap) for own in ranks)
        loads = [load for own in ranks
                 for load in sums(own, largest_differencing(own, count, False))]
    over = [load - cap for load in loads if load > cap]
    return count, len(over), max(over, default=0)


def main(folder: str) -> None:
    print(f"{STEPS} steps of {SAMPLES} samples on {RANKS} ranks; "
          "largest rank above the mean, worst step")
    print(f"{'trace':<26}{'verl':>10}{'ballast':>10}{'verl, equal':>14}{'ballast':>10}")
    all_steps = {name: steps_of(folder, name, columns, cap) for name, columns, cap in TRACES}
    for name, steps in all_steps.items():
        row = []
        for equal in (False, True):
            for split in (largest_differencing, trainers.get_seqlen_balanced_partitions):
                row.append(max(above_mean(sums(step, split(step, RANKS, equal))) for step in steps))
        print(f"{name:<26}{row[0]:>8.3f} %{row[1]:>8.3f} %{row[2]:>12.3f} %{row[3]:>8.3f} %")

    print("\nmicrobatches of a rank (mean), those above the cap, most tokens above it")
    print(f"{'trace':<26}{'cap':>8}{'verl':>8}{'above':>7}{'tokens':>8}"
          f"{'ballast':>10}{'above':>7}{'tokens':>8}")
    for name, _, cap in TRACES:
        row = []
        for ours in (False, True):
            split = trainers.get_seqlen_balanced_partitions if ours else largest_differencing
            found = [micro_batches(step, split(step, RANKS, True), cap, ours)
                     for step in all_steps[name]]
            row += [sum(each[0] for each in found) / STEPS, sum(each[1] for each in found),
                    max(each[2] for each in found)]
        print(f"{name:<26}{cap:>8}{row[0]:>8.2f}{row[1]:>7}{row[2]:>8}"
              f"{row[3]:>10.2f}{row[4]:>7}{row[5]:>8}")

    print("\nbins of at most 16 sequences within the cap; no packing has fewer than the last")
    print(f"{'trace':<26}{'Megatron-LM':>12}{'ballast':>10}{'at least':>10}")
    for name, _, cap in TRACES:
        theirs = sum(len(next_fit_decreasing(step, cap, 16)) for step in all_steps[name])
        packed = sum(len(trainers.pack_sequences(step, cap)) for step in all_steps[name])
        least = sum(ballast.pack(step, cap, most_samples=16).fewest_bins
                    for step in all_steps[name])
        print(f"{name:<26}{theirs:>12}{packed:>10}{least:>10}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("give the folder of the traces")
    main(sys.argv[1])
