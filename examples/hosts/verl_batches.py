# SPDX-License-Identifier: Apache-2.0
"""verl's balanced sets and microbatches over ballast: import get_seqlen_balanced_partitions from
here in verl's trainers, and rearrange_micro_batches in verl/workers/engine/utils.py, whose
prepare_micro_batches all its engines call. docs/in_my_trainer.md says what changes."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import ballast


def get_seqlen_balanced_partitions(seqlen_list: Any, k_partitions: int,
                                   equal_size: bool) -> list[list[int]]:
    """k sets of indices with nearly equal sums, none empty; if equal_size, as many in each."""
    count = len(seqlen_list)
    if count < k_partitions or (equal_size and count % k_partitions):
        raise ValueError(f"{count} sequences are no {k_partitions} sets"
                         f"{' of equal size' if equal_size else ''}; give a multiple")
    cost = getattr(seqlen_list, "tolist", lambda: seqlen_list)()  # verl gives work, or a tensor
    sets = ballast.plan([1] * count, k_partitions, cost=cost, samples=(
        ballast.counts.equal() if equal_size else ballast.counts.filled()))
    return [own.tolist() for own in sets]


def _work(lengths: Sequence[int]) -> list[int]:
    return [24576 * length + length * length for length in lengths]  # as verl counts it


def micro_batch_count(lengths: Sequence[int], most_per_gpu: int, group: int = 1,
                      least: Optional[int] = None, strict: bool = False) -> int:
    """Of this rank: by verl's rule, or with `strict` as many as hold no more than most_per_gpu."""
    if strict:
        keys = [at // group for at in range(len(lengths))]
        return max(least or 0, len(ballast.pack(lengths, most_per_gpu, together=keys)))
    return max(least or 0, min(len(lengths) // group, -(-sum(lengths) // most_per_gpu)))


def micro_batch_indices(lengths: Sequence[int], count: int, most_per_gpu: int, group: int = 1,
                        strict: bool = False) -> list[list[int]]:
    """Microbatches of equal work; among such, of few tokens in the largest. `group` samples, one
    after the other, stay together."""
    keys = [at // group for at in range(len(lengths))] if group > 1 else None
    limit: dict[str, Any] = {"then": lengths, "within_per_million": 1000}
    if strict:
        limit = {"most_per_gpu": most_per_gpu}
    try:
        sets: Any = ballast.plan(lengths, count, cost=_work(lengths), together=keys,
                                 samples=ballast.counts.filled(), **limit)
    except ValueError:
        if not strict:
            raise
        sets = ballast.pack(lengths, most_per_gpu, together=keys, least_bins=count)  # less level
    return [own.tolist() for own in sets]


def rearrange_micro_batches(
        batch: Any, max_token_len: int, dp_group: Any = None,
        num_batches_divided_by: Optional[int] = None, same_micro_num_in_dp: bool = True,
        min_num_micro_batch: Optional[int] = None, use_dynamic_bsz_balance: bool = True,
        force_group_size: int = 1, *, strict: bool = False) -> tuple[list[Any], list[list[int]]]:
    """Microbatches and their indices, as many on every rank; `strict`: none is above the cap."""
    import torch
    from torch import distributed as dist
    from verl.utils import device, tensordict_utils

    ids = batch["input_ids"]
    tokens = ids.offsets().diff() if ids.is_nested else batch["attention_mask"].sum(dim=1)
    lengths = tokens.tolist()
    count = micro_batch_count(lengths, max_token_len, force_group_size, min_num_micro_batch, strict)
    if dist.is_initialized() and same_micro_num_in_dp and dp_group is not None:
        most = torch.tensor([count], device=device.get_device_name())
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=dp_group)
        count = int(most.item())
    count += -count % (num_batches_divided_by or 1)
    sets = micro_batch_indices(lengths, count, max_token_len, force_group_size, strict)
    if use_dynamic_bsz_balance:  # the least work at both ends, as verl orders them
        work = _work(lengths)
        sets.sort(key=lambda own: (sum(work[at] for at in own), own[0]), reverse=True)
        sets = sets[::2][::-1] + sets[1::2]
    return [tensordict_utils.index_select_tensor_dict(batch, own) for own in sets], sets
