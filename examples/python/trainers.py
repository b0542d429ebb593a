# SPDX-License-Identifier: Apache-2.0
"""What verl and Megatron-LM call to balance and to pack, over ballast: the same arguments, the same
kind of answer. docs/python.md compares both."""
from __future__ import annotations

from typing import Any, Callable, Iterable

import ballast


def get_seqlen_balanced_partitions(seqlen_list: list[int], k_partitions: int,
                                   equal_size: bool) -> list[list[int]]:
    """verl: k sets of indices with nearly equal sums, none empty; if equal_size, as many in each.
    What verl asserts is refused."""
    count = len(seqlen_list)
    if count < k_partitions:
        raise ValueError(f"{count} sequences are too few for {k_partitions} sets; give one for "
                         "each")
    sets: Iterable[Any] = ballast.plan(seqlen_list, k_partitions,
                                       equal_counts=equal_size)
    if equal_size and count % k_partitions:
        raise ValueError(f"{count} sequences are no {k_partitions} sets of equal size; give a "
                         f"multiple of {k_partitions}")
    if not all(own.size for own in sets):  # sequences of no token weigh nothing in any set
        sets = ballast.grid(seqlen_list, k_partitions, microbatches=1, fill=True)
    return [own.tolist() for own in sets]


def micro_batch_indices(seqlen_list: list[int], max_token_len: int,
                        most_of_ranks: Callable[[int], int] = int) -> list[list[int]]:
    """verl's rearrange_micro_batches, the part that finds indices. most_of_ranks: an all-reduce."""
    count = most_of_ranks(len(ballast.pack(seqlen_list, max_token_len)))
    if count > len(seqlen_list):
        raise ValueError(f"another rank needs {count} microbatches, and {len(seqlen_list)} "
                         "sequences are too few for them; give every rank as many sequences")
    return [row.tolist() for row in ballast.pack(seqlen_list, max_token_len, least_bins=count)]


def pack_sequences(seq_lengths: list[int], bin_size: int,
                   max_sequences_per_bin: int = 16) -> list[list[int]]:
    """Megatron-LM's SequencePacker.pack_sequences, the part that finds bin_seq_indices."""
    packing = ballast.pack(seq_lengths, bin_size, most_samples=max_sequences_per_bin)
    return [row.tolist() for row in packing]
