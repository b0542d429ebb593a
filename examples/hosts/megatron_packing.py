# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's packing schedulers over ballast. In the script that starts training:

    import megatron_packing
    megatron_packing.install()  # with --sequence-packing-scheduler dp_balanced
"""
from __future__ import annotations

from typing import Any, Sequence

import ballast
from megatron.core.datasets import data_schedule


class BallastScheduler(data_schedule.DpBalancedScheduler):
    """Microbatches of one (data x context parallel) grid: level within the cap, as few as found."""

    cost = "tokens"  # or the model's, such as "transformer:d=4096,gamma=1"

    def get_groups_and_subsamples(
            self, sample_id_seqlens: Sequence[tuple[int, int]]) -> list[list[list[int]]]:
        """For every microbatch the samples of every rank. The ranks of one context parallel group
        have the same."""
        ids = [sample for sample, _ in sample_id_seqlens]
        lengths = [length for _, length in sample_id_seqlens]
        grid = ballast.grid(
            lengths, self.dp_size, cost=self.cost, samples=ballast.counts.filled(),
            most_per_gpu=self.max_seqlen_per_dp_cp_rank * self.cp_size,
            multiple_of=self.microbatch_group_size_per_vp_stage or 1)
        return [[[ids[at] for at in grid.microbatch(rank, slot).tolist()]
                 for rank in range(self.dp_size) for _ in range(self.cp_size)]
                for slot in range(grid.microbatches)]


class BallastSlots(data_schedule.BalancedCPScheduler):
    """Dynamic context parallelism: every slot tiled by groups of 2^k ranks, aligned to their size."""

    options: Any = {"cost": "transformer:d=4096,heads=32", "by_rows": True}  # of ballast.plan_slots

    def get_groups_and_subsamples(self, sample_id_seqlens: Sequence[tuple[int, int]],
                                  config: Any = None) -> tuple[Any, Any]:
        """The lengths and the samples of every rank, slot by slot; no rank is without one."""
        ranks = self.total_hdp_gpus
        plan = ballast.plan_slots(
            [length for _, length in sample_id_seqlens], ranks, powers_of_two=True, aligned=True,
            most_per_gpu=self.max_seq_len_per_rank, **self.options)
        slots = [_filled(plan.groups(slot), ranks) for slot in range(plan.slots)]
        if any(len(slot) != ranks for slot in slots):  # ranks are no power of two
            return super().get_groups_and_subsamples(sample_id_seqlens, config)
        return tuple([[[sample_id_seqlens[at][what] for at in own] for own in slot]
                      for slot in slots] for what in (1, 0))


def _filled(groups: Any, ranks: int) -> list[list[int]]:
    """The samples of every rank; the smallest groups are doubled until no rank is left over."""
    sizes = [[len(gpus), samples] for gpus, samples in groups if samples]
    while sum(size for size, _ in sizes) + min(sizes)[0] <= ranks:
        min(sizes)[0] *= 2
    sizes.sort(key=lambda own: -own[0])
    return [samples for size, samples in sizes for _ in range(size)]


def pack_sequences(seq_lengths: Sequence[int], bin_size: int, max_sequences_per_bin: int = 16,
                   seq_length_multiple: int = 1) -> list[list[int]]:
    """Of megatron/rl/sequence_packing_utils.py the part that finds bin_seq_indices."""
    lengths = [-(-length // seq_length_multiple) * seq_length_multiple for length in seq_lengths]
    packing = ballast.pack(lengths, bin_size, samples=ballast.counts.at_most(max_sequences_per_bin))
    return [own.tolist() for own in packing]


def install() -> None:
    """Takes the places of the scheduler that "dp_balanced" names and of dynamic groups' own."""
    name = data_schedule.PackingSchedulerEnum.DP_BALANCED
    data_schedule.scheduler_map[name] = BallastScheduler
    data_schedule.BalancedCPScheduler = BallastSlots
