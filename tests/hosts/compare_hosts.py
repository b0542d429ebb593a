# SPDX-License-Identifier: Apache-2.0
"""Prints what adapters find beside what their hosts do by themselves, on length traces.

    python3 compare_hosts.py FOLDER    # of the traces; each is shuffled and cut to its cap

The hosts' rules are written here in our words. docs/in_my_trainer.md has the tables.
"""
from __future__ import annotations

import csv
import heapq
import os
import random
import sys
from types import SimpleNamespace
from typing import Any, Callable, Sequence

import stand_ins  # before the adapters, which import from their hosts

import automodel_sampler
import ballast
import document_rows
import megatron_layout
import megatron_packing
import nanovlm_packing
import slime_schedule
import verl_batches

# File, columns that make a length, tokens that a microbatch holds.
TRACES = [("rl_groups", ("prompt_tokens", "response_tokens"), 2048),
          ("interleaved_docs", ("text_tokens", "visual_tokens_qwen2vl"), 4096),
          ("servegen_reason_sampled", ("prompt_tokens", "response_tokens"), 16384),
          ("mooncake_conversation", ("prompt_tokens", "response_tokens"), 32768)]
STEPS, SAMPLES, RANKS = 16, 128, 8
Sets = list[list[int]]


def work_of(length: int) -> int:
    return 24576 * length + length * length


def largest_differencing(lengths: Sequence[int], k: int, equal_size: bool) -> Sets:
    """Karmarkar and Karp's method for k sets; k samples at once if equal_size."""
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


def first_fit(lengths: Sequence[int], cap: int) -> Sets:
    """Samples in their order, each into the first bin with room."""
    bins: Sets = []
    rooms: list[int] = []
    for at, length in enumerate(lengths):
        place = next((own for own, room in enumerate(rooms) if length <= room), None)
        if place is None:
            bins.append([])
            rooms.append(cap)
            place = len(bins) - 1
        bins[place].append(at)
        rooms[place] -= length
    return bins


def slimes_rule(lengths: Sequence[int], cap: int) -> list[Sets]:
    """First fit; the largest bin is halved until ranks divide them; work is dealt to ranks."""
    bins = first_fit(lengths, cap)
    while len(bins) % RANKS:
        largest = max((own for own in bins if len(own) > 1), key=lambda own: sum(
            lengths[at] for at in own))
        bins.remove(largest)
        halves: Sets = [[], []]
        for at in sorted(largest, key=lambda at: -lengths[at]):
            min(halves, key=lambda own: sum(lengths[each] for each in own)).append(at)
        bins += halves
    work = [sum(work_of(lengths[at]) for at in own) for own in bins]
    return [[bins[at] for at in own] for own in largest_differencing(work, RANKS, True)]


def slime_here(lengths: Sequence[int], cap: int) -> list[Sets]:
    args = SimpleNamespace(use_dynamic_batch_size=True, max_tokens_per_gpu=cap, balance_data=True)
    config = {"dp_size": RANKS, "cp_size": 1, "vpp_size": 1,
              "microbatch_group_size_per_vp_stage": 1}
    partitions, rows, _, _ = slime_schedule.build_dp_schedule(
        args, config, list(lengths), global_batch_size=SAMPLES,
        rollout_indices=list(range(SAMPLES)))
    return [[[own[at] for at in row] for row in mine] for own, mine in zip(partitions, rows)]


def megatrons_rule(lengths: Sequence[int], cap: int) -> list[Sets]:
    """Samples in their order into the last bin or a new one; single ones of the last bins make the
    number a multiple of ranks; bins are dealt in turn."""
    bins: Sets = []
    room = -1
    for at, length in enumerate(lengths):
        if length > room:
            bins.append([])
            room = cap
        bins[-1].append(at)
        room -= length
    last = len(bins) - 1
    while len(bins) % RANKS:
        if len(bins[last]) > 1:
            bins.append([bins[last].pop()])
        else:
            last -= 1
    return [bins[rank::RANKS] for rank in range(RANKS)]


def megatron_here(lengths: Sequence[int], cap: int) -> list[Sets]:
    scheduler = megatron_packing.BallastScheduler(cap, 1, RANKS, None)
    scheduler.cost = lambda given: [work_of(int(length)) for length in given]
    slots = scheduler.get_groups_and_subsamples(list(enumerate(lengths)))
    return [[slot[rank] for slot in slots] for rank in range(RANKS)]


def next_fit_decreasing(lengths: Sequence[int], cap: int, most: int) -> Sets:
    """Megatron-LM's RL: longest first into the last bin, or a new one."""
    bins: Sets = []
    room = -1
    for at in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if lengths[at] > room or len(bins[-1]) == most:
            bins.append([])
            room = cap
        bins[-1].append(at)
        room -= lengths[at]
    return bins


def longest_to_emptiest(buffer: Sequence[Any], cap: int, most: int) -> Sets:
    """nanoVLM: the longest first to the emptiest knapsack with room for its tokens and images; five
    more knapsacks than the tokens need."""
    bins: Sets = [[] for _ in range(5 - -sum(len(own["input_ids"]) for own in buffer) // cap)]
    loads, images = [0] * len(bins), [0] * len(bins)
    for at in sorted(range(len(buffer)), key=lambda at: -len(buffer[at]["input_ids"])):
        length, shown = len(buffer[at]["input_ids"]), len(buffer[at]["images"])
        place = next((own for own in sorted(range(len(bins)), key=lambda own: loads[own])
                      if loads[own] + length <= cap and images[own] + shown <= most), len(bins))
        if place == len(bins):
            bins.append([])
            loads.append(0)
            images.append(0)
        bins[place].append(at)
        loads[place] += length
        images[place] += shown
    return [own for own in bins if own]


def heads_and_tails(rows: int, ranks: int) -> Sets:
    """PyTorch: rank r has parts r and 2 * ranks - 1 - r of the pack."""
    part = rows // (2 * ranks)
    return [[*range(rank * part, (rank + 1) * part),
             *range((2 * ranks - 1 - rank) * part, (2 * ranks - rank) * part)]
            for rank in range(ranks)]


def longest_first(keys: Sequence[int], ranks: int, block: int) -> Sets:
    """PyTorch's "ptrr": blocks by work, dealt forth and back."""
    blocks = [range(first, first + block) for first in range(0, len(keys), block)]
    blocks.sort(key=lambda own: -sum(keys[row] for row in own))
    dealt: Sets = [[] for _ in range(ranks)]
    for at, own in enumerate(blocks):
        turn, place = divmod(at, ranks)
        dealt[place if turn % 2 == 0 else ranks - 1 - place] += own
    return dealt


def keys_moved(ranks: Sets, keys: Sequence[int]) -> int:
    """Keys that ranks need, up to their last query of each document, and do not have."""
    needed = 0
    for own in ranks:
        last = {row - keys[row]: keys[row] for row in sorted(own)}  # by where documents begin
        needed += sum(last.values()) - len(own)
    return needed


def packs_of(lengths: Sequence[int], rows: int) -> Sets:
    """Documents in their order, cut where a pack is full."""
    packs: Sets = [[]]
    for length in lengths:
        while length:
            taken = min(length, rows - sum(packs[-1]))
            packs[-1].append(taken)
            length -= taken
            if sum(packs[-1]) == rows:
                packs.append([])
    return packs[:-1]


def sums(values: Sequence[int], sets: Sets) -> list[int]:
    return [sum(values[at] for at in members) for members in sets]


def above_mean(loads: Sequence[int]) -> float:
    return 100 * (max(loads) * len(loads) / sum(loads) - 1)


def read(folder: str, name: str) -> list[dict[str, str]]:
    with open(os.path.join(folder, name + ".csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    random.Random(1).shuffle(rows)
    return rows


def steps_of(folder: str, name: str, columns: tuple[str, ...], cap: int) -> list[list[int]]:
    lengths = [min(cap, max(1, sum(int(row[column]) for column in columns)))
               for row in read(folder, name)[:STEPS * SAMPLES]]
    return [lengths[step * SAMPLES:(step + 1) * SAMPLES] for step in range(STEPS)]


def slots_of(ranks: list[Sets], values: Sequence[int]) -> int:
    """The sum over slots of the largest, where ranks meet at every microbatch."""
    return sum(max(sum(values[at] for at in rank[slot]) for rank in ranks)
               for slot in range(len(ranks[0])))


def main(folder: str) -> None:
    steps = {name: steps_of(folder, name, columns, cap) for name, columns, cap in TRACES}
    caps = {name: cap for name, _, cap in TRACES}
    print(f"{STEPS} steps of {SAMPLES} samples on {RANKS} ranks")

    print("\nverl, samples to ranks: the largest above the mean, worst step (as many to each: eq)")
    for name, drawn in steps.items():
        row = [max(above_mean(sums(step, split(step, RANKS, equal))) for step in drawn)
               for equal in (False, True)
               for split in (largest_differencing, verl_batches.get_seqlen_balanced_partitions)]
        print(f"{name:<26}verl {row[0]:.3f} %, here {row[1]:.3f} %, "
              f"eq: verl {row[2]:.3g} %, here {row[3]:.3f} %")

    print("\nverl, microbatches of a rank: tokens above the cap, at most, and microbatches above it")
    for name, drawn in steps.items():
        counts, over = [0, 0, 0], [[], [], []]  # type: ignore[var-annotated]
        for step in drawn:
            dealt = verl_batches.get_seqlen_balanced_partitions([*map(work_of, step)], RANKS, True)
            ranks = [[step[at] for at in own] for own in dealt]
            for rule, strict in ((0, False), (1, False), (2, True)):
                count = max(verl_batches.micro_batch_count(own, caps[name], strict=strict)
                            for own in ranks)
                counts[rule] += count
                for own in ranks:
                    sets = (largest_differencing([*map(work_of, own)], count, False)
                            if rule == 0 else verl_batches.micro_batch_indices(
                                own, count, caps[name], strict=strict))
                    over[rule] += [load - caps[name] for load in sums(own, sets)]
        told = [f"{each} {counts[rule] / STEPS:.2f} a step, {max(0, *over[rule])} tokens above, "
                f"{sum(more > 0 for more in over[rule])} times"
                for rule, each in enumerate(("verl", "here", "strict"))]
        print(f"{name:<26}{'; '.join(told)}")

    for host, rule, here in (("slime", slimes_rule, slime_here),
                             ("Megatron-LM", megatrons_rule, megatron_here)):
        print(f"\n{host}: microbatches of a rank, largest rank's work above the mean, mean of steps,"
              " and the time of a step where ranks meet at each microbatch, in even steps")
        for name, drawn in steps.items():
            told = []
            for ranks_of in (rule, here):
                found = [ranks_of(step, caps[name]) for step in drawn]
                works = [[work_of(length) for length in step] for step in drawn]
                even = [sum(work) / RANKS for work in works]
                level = sum(above_mean([sum(sum(sums(work, [own])) for own in rank)
                                        for rank in ranks])
                            for work, ranks in zip(works, found)) / STEPS
                meet = sum(slots_of(ranks, work) / one
                           for work, ranks, one in zip(works, found, even)) / STEPS
                told.append(f"{sum(len(ranks[0]) for ranks in found) / STEPS:.2f}, "
                            f"{level:.2f} %, {meet:.2f}")
            print(f"{name:<26}{host} {told[0]}; here {told[1]}")

    print("\nMegatron-LM's RL: bins of at most 16 sequences within the cap; at least")
    for name, drawn in steps.items():
        theirs = sum(len(next_fit_decreasing(step, caps[name], 16)) for step in drawn)
        packed = sum(len(megatron_packing.pack_sequences(step, caps[name])) for step in drawn)
        few = ballast.counts.at_most(16)
        least = sum(ballast.pack(step, caps[name], samples=few).fewest_bins for step in drawn)
        print(f"{name:<26}Megatron-LM {theirs}, here {packed}, no packing below {least}")

    print("\nNeMo Automodel, batches of 4: the sum of the largest ranks' tokens by the mean")
    for name, drawn in steps.items():
        lengths = [length for step in drawn for length in step]
        order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
        told = []
        for orders in ([order[rank::RANKS] for rank in range(RANKS)],
                       [list(automodel_sampler.LevelSampler(lengths, 4, 1, RANKS, rank))
                        for rank in range(RANKS)]):
            rows = [[own[first:first + 4] for first in range(0, len(own), 4)] for own in orders]
            told.append(slots_of(rows, lengths) * RANKS / sum(lengths))
        print(f"{name:<26}Automodel {told[0]:.4f}, here {told[1]:.4f}")

    print("\nPyTorch, 4 packs of 16,384 rows on 8 ranks, blocks of 128: the busiest rank's pairs of "
          "a query and a key above the mean, mean; keys that a rank gets from others")
    for name, columns, _ in TRACES:
        lengths = [sum(int(row[column]) for column in columns) for row in read(folder, name)]
        packs = packs_of(lengths[:1000], 16384)[:4]
        told = []
        for rule in ("heads and tails", "ptrr", "here"):
            level, moved = 0.0, 0
            for pack in packs:
                keys = [at + 1 for length in pack for at in range(length)]
                if rule == "here":
                    flat = document_rows.DocumentRows([pack], RANKS)._generate_indices()[0]
                    dealt = [flat[first:first + 2048] for first in range(0, 16384, 2048)]
                else:
                    dealt = (heads_and_tails(16384, RANKS) if rule == "heads and tails"
                             else longest_first(keys, RANKS, 128))
                level += above_mean(sums(keys, dealt)) / len(packs)
                moved += keys_moved(dealt, keys)
            told.append(f"{rule} {level:.2f} %, {moved // len(packs) // RANKS}")
        print(f"{name:<26}{'; '.join(told)}")

    print("\nPipelines: a vision tower and an LLM on 4 ranks, 16 microbatches")
    layers = [310] * 24 + [1000] * 80
    layout = megatron_layout.pipeline_layout(layers, 4, embedding=90, loss=2600)
    counts, loads = [text.count("t") for text in layout.split("|")], []
    for cut in ([26] * 4, counts):
        first = [sum(cut[:stage]) for stage in range(5)]
        loads.append([sum(layers[begin:end]) + (90 if begin == 0 else 0)
                      + (2600 if end == 104 else 0) for begin, end in zip(first, first[1:])])
    times = []
    for own in loads:
        rows = [own] * 16
        both = [[2 * each for each in own]] * 16
        times.append(ballast.order(rows, both, schedule="1f1b", policy="given").makespan)
        times.append(ballast.order(rows, rows, weights=rows, schedule="planned",
                                   policy="given").makespan)
    print(f"equal counts {loads[0]}, cut {counts} {loads[1]}; steps: 1F1B {times[0]:.0f}, "
          f"planned {times[1]:.0f}; cut, 1F1B {times[2]:.0f}, planned {times[3]:.0f}")

    print("\nnanoVLM, at most 4,096 tokens and 18 images: knapsacks of 16 buffers; at least")
    rows = [{"input_ids": range(min(4096, int(row["text_tokens"]) + 64 * int(row["num_images"]))),
             "images": range(int(row["num_images"]))} for row in read(folder, "interleaved_docs")
            if int(row["num_images"]) <= 18][:STEPS * SAMPLES]
    buffers = [rows[first:first + SAMPLES] for first in range(0, len(rows), SAMPLES)]
    least = sum(ballast.pack([len(own["input_ids"]) for own in buffer], 4096, also=[
        {"of": [len(own["images"]) for own in buffer], "most_per_gpu": 18}]).fewest_bins
        for buffer in buffers)
    theirs = sum(len(longest_to_emptiest(buffer, 4096, 18)) for buffer in buffers)
    ours = sum(len(nanovlm_packing.balanced_greedy_knapsack(None, buffer, 4096, 5, 18))
               for buffer in buffers)
    print(f"interleaved_docs          nanoVLM {theirs}, here {ours}, no packing below {least}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("give the folder of the traces")
    main(sys.argv[1])
