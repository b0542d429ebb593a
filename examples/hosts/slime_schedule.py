# SPDX-License-Identifier: Apache-2.0
"""slime's build_dp_schedule over ballast. In slime/ray/rollout.py, import it from here instead of
from slime.utils.dp_schedule; docs/in_my_trainer.md says what changes."""
from __future__ import annotations

from typing import Any, Sequence

import ballast
from slime.utils.dp_schedule import build_dp_schedule as slimes_own
from slime.utils.flops_utils import calculate_fwd_flops

_MOST = 2**32  # the cost of the longest sample: FLOPs of a whole step may not fit 63 bits


def _costs(lengths: Sequence[int], args: Any) -> list[int]:
    flops = [int(calculate_fwd_flops([length], args)) for length in lengths]
    longest = max(flops, default=0) or 1
    return [each * _MOST // longest for each in flops]


def _steps(rollouts: Sequence[int], size: int) -> list[list[int]]:
    """The samples of every step: all of `size` rollouts, in the order in which these begin."""
    samples: dict[int, list[int]] = {}
    for sample, rollout in enumerate(rollouts):
        samples.setdefault(rollout, []).append(sample)
    own = list(samples.values())
    assert len(own) >= size, f"num_rollouts ({len(own)}) < global_batch_size ({size}); give more"
    return [sum(own[first:first + size], []) for first in range(0, len(own) - size + 1, size)]


def _grid(lengths: Sequence[int], args: Any, config: dict[str, Any]) -> ballast.Grid:
    ranks = config["dp_size"]
    group = config["microbatch_group_size_per_vp_stage"] if config["vpp_size"] > 1 else 1
    costs = _costs(lengths, args)
    if not args.use_dynamic_batch_size:
        count = len(lengths) // args.micro_batch_size // ranks
        return ballast.grid(lengths, ranks, cost=costs, microbatches=count,
                            samples=ballast.counts.equal())
    cap = args.max_tokens_per_gpu * config["cp_size"]
    # A longer sample fills a microbatch, so it is alone in its own.
    held = [max(1, min(length, cap)) for length in lengths]
    return ballast.grid(lengths, ranks, cost=costs, also=[{"of": held, "most_per_gpu": cap}],
                        multiple_of=group, samples=ballast.counts.filled())


def build_dp_schedule(
        args: Any, train_parallel_config: dict[str, Any], total_lengths: list[int], *,
        global_batch_size: int, rollout_indices: list[int]
) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]:
    """Fixed batches that are not to be balanced, or of which one is smaller, are slime's own."""
    ranks = train_parallel_config["dp_size"]
    steps = _steps(rollout_indices, global_batch_size)
    if not args.use_dynamic_batch_size:
        group = train_parallel_config["microbatch_group_size_per_vp_stage"]
        multiple = ranks * args.micro_batch_size * (
            group if train_parallel_config["vpp_size"] > 1 else 1)
        if not args.balance_data or any(len(step) % multiple for step in steps):
            return slimes_own(args, train_parallel_config, total_lengths,
                              global_batch_size=global_batch_size,
                              rollout_indices=rollout_indices)
    partitions: list[list[int]] = [[] for _ in range(ranks)]
    micro_batches: list[list[list[int]]] = [[] for _ in range(ranks)]
    counts = []
    for step in steps:
        grid = _grid([total_lengths[sample] for sample in step], args, train_parallel_config)
        counts.append(grid.microbatches)
        for rank, own in enumerate(partitions):
            for slot in range(grid.microbatches):
                samples = [step[at] for at in grid.microbatch(rank, slot).tolist()]
                micro_batches[rank].append(list(range(len(own), len(own) + len(samples))))
                own += samples
    return partitions, micro_batches, counts, [global_batch_size] * len(steps)
