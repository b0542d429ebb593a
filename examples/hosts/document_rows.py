# SPDX-License-Identifier: Apache-2.0
"""Rows of packed documents to the ranks of a context parallel group, as PyTorch's _LoadBalancer says
it. In cp_shard of torchtitan/distributed/context_parallel/api.py, with the balancer "ptrr", this line

    load_balancer = DocumentRows.of_positions(inputs[2], cp_world_size)

in the place of load_balancer = _PTRRLoadBalancer(ptrr_mask, cp_world_size)."""
from __future__ import annotations

from typing import Any, Sequence

import ballast
import torch
from torch.distributed.tensor.experimental._context_parallel._load_balancer import _LoadBalancer


class DocumentRows(_LoadBalancer):
    """As many rows on each rank, attention as even as it gets, and few keys from other ranks.

    packs  [1 or the batch's size] the lengths of the documents of each pack; all of one sum, which
           blocks times ranks divide
    """

    def __init__(self, packs: Sequence[Sequence[int]], ranks: int, device: Any = None,
                 block: int = 128, **options: Any) -> None:
        self.device = device
        self.splits = [ballast.split_rows(pack, ranks, block=block, **options) for pack in packs]
        for pack, split in zip(packs, self.splits):
            padded = split.ranks * split.rows_of_rank
            if padded != sum(pack):
                raise ValueError(f"a pack of {sum(pack)} rows is not whole blocks of {block} for "
                                 f"each of {ranks} ranks; pad it to {padded}")

    @classmethod
    def of_positions(cls, positions: Any, ranks: int, **options: Any) -> "DocumentRows":
        """Of the positions of one pack's tokens: a document begins where they are 0."""
        flat = positions.flatten()
        begins = (flat == 0).nonzero().flatten().tolist()
        ends = [*begins[1:], flat.numel()]
        lengths = [end - begin for begin, end in zip(begins, ends)]
        return cls([lengths], ranks, positions.device, **options)

    def _generate_indices(self, restore: bool = False) -> Any:
        rows = [[row for own in (split.places if restore else split.rows).tolist() for row in own]
                for split in self.splits]
        return torch.tensor(rows, dtype=torch.int, device=self.device)
