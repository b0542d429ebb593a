# SPDX-License-Identifier: Apache-2.0
"""In the place of NeMo Automodel's LengthGroupedSampler: in nemo_automodel/components/datasets/
loader.py, import LevelSampler from here where it imports that one. For batches that are not padded:
those of one number take all ranks equally long, and are of mixed lengths."""
from __future__ import annotations

import random
from itertools import islice
from typing import Iterator

import ballast
from nemo_automodel.components.datasets.llm.length_grouped_sampler import LengthGroupedSampler


class LevelSampler(LengthGroupedSampler):
    """Batches of batch_size samples, drawn anew in every epoch. `slots` batches of every rank are
    planned at once. Its arguments, its state and drop_last=False are those of Automodel."""

    cost = "tokens"  # or the model's, such as "transformer:d=4096,gamma=1"
    slots = 8

    def _order(self) -> list[int]:
        """The samples of this rank, batch by batch."""
        drawn = list(range(len(self.lengths)))
        random.Random(self.seed * 1_000_003 + self.epoch).shuffle(drawn)
        row = self.batch_size * self.num_replicas
        own = []
        for first in range(0, len(drawn) // row * row, row * self.slots):
            window = drawn[first:min(first + row * self.slots, len(drawn) // row * row)]
            grid = ballast.grid([self.lengths[at] for at in window], self.num_replicas,
                                cost=self.cost, microbatches=len(window) // row,
                                samples=ballast.counts.equal(), meet="microbatch")
            for slot in range(grid.microbatches):
                own += [window[at] for at in grid.microbatch(self.rank, slot).tolist()]
        return own

    def __iter__(self) -> Iterator[int]:
        if not self.drop_last:
            yield from super().__iter__()
            return
        self.yielded, self._next_yielded = self._next_yielded or 0, None
        for sample in islice(self._order(), self.yielded, None):
            self.yielded += 1
            yield sample

    def __len__(self) -> int:
        if not self.drop_last:
            return super().__len__()
        return len(self.lengths) // (self.batch_size * self.num_replicas) * self.batch_size
