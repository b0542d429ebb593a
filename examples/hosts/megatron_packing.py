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
            lengths, self.dp_size, cost=self.cost, fill=True,
            most_tokens=self.max_seqlen_per_dp_cp_rank * self.cp_size,
            multiple_of=self.microbatch_group_size_per_vp_stage or 1)
        return [[[ids[at] for at in grid.microbatch(rank, slot).tolist()]
                 for rank in range(self.dp_size) for _ in range(self.cp_size)]
                for slot in range(grid.microbatches)]


def pack_sequences(seq_lengths: Sequence[int], bin_size: int, max_sequences_per_bin: int = 16,
                   seq_length_multiple: int = 1) -> list[list[int]]:
    """Of megatron/rl/sequence_packing_utils.py the part that finds bin_seq_indices."""
    lengths = [-(-length // seq_length_multiple) * seq_length_multiple for length in seq_lengths]
    packing = ballast.pack(lengths, bin_size, most_samples=max_sequences_per_bin)
    return [own.tolist() for own in packing]


def install() -> None:
    """Takes the place of the scheduler that "dp_balanced" names."""
    name = data_schedule.PackingSchedulerEnum.DP_BALANCED
    data_schedule.scheduler_map[name] = BallastScheduler
