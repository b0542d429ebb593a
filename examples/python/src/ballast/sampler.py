# SPDX-License-Identifier: Apache-2.0
"""Balanced microbatches for a torch DataLoader. Nothing here imports torch."""
from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Optional, TypeVar

import numpy as np

import ballast

_Batch = TypeVar("_Batch")


@dataclass(frozen=True)
class Cell:
    """One microbatch of this rank.

    indices       of its samples in the data set
    weight        what to multiply its mean loss by: gradients that are added over microbatches and
                  averaged over ranks, as DistributedDataParallel does, are then those of the mean
                  over the step
    is_last       whether the optimizer steps after it
    token_weight  what to multiply the sum of its losses by, for the same. Each of several processes
                  that share a microbatch multiplies the sum over its own tokens; if the average is
                  over all these processes, times how many share one
    """
    step: int
    slot: int
    indices: list[int]
    weight: float
    is_last: bool
    token_weight: float


def _place() -> tuple[int, int]:
    """This process's rank and how many there are, as torch.distributed has them; else 0 of 1."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return int(distributed.get_rank()), int(distributed.get_world_size())


class BalancedBatchSampler:
    """Says which samples are each microbatch of this rank, for DataLoader(batch_sampler=...).

        sampler = BalancedBatchSampler(lengths, 256, most_tokens=16384)
        loader = DataLoader(data, batch_sampler=sampler, num_workers=2, collate_fn=...)
        for epoch in range(sampler.epoch, epochs):
            sampler.set_epoch(epoch)
            for batch, cell in sampler.over(loader):
                (cell.weight * mean_loss(batch)).backward()
                if cell.is_last:
                    optimizer.step(); optimizer.zero_grad()   # then save sampler.state_dict()

    lengths       [n] tokens of every sample of the data set, the same on every rank
    step_samples  samples of a step, over all ranks and microbatches
    loss_tokens   [n] what the weights count: tokens that have a loss. None: lengths; ones: samples
    seed          of the order of samples. It alone decides: no global seed of any library is read
    drop_last     whether to leave out the samples of an epoch that do not fill a step
    options       those of ballast.grid: cost, most_tokens, microbatches, meet, ... Every microbatch
                  has a sample

    Every rank plans the same steps by itself. len() is how many batches iterating delivers.
    """

    def __init__(self, lengths: Any, step_samples: int, *, rank: Optional[int] = None,
                 ranks: Optional[int] = None, loss_tokens: Any = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = True, **options: Any) -> None:
        own, all_ranks = _place()
        self.rank = own if rank is None else rank
        self.ranks = all_ranks if ranks is None else ranks
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank {self.rank} of {self.ranks} ranks; give one from 0 on")
        for name in ("together", "apart", "home", "kinds", "weights"):
            if name in options:
                raise ValueError(f"{name} is one for each sample of a step, and steps are drawn; "
                                 "leave it out")
        self._lengths = ballast._lengths(lengths)
        self._loss_tokens = (self._lengths if loss_tokens is None
                             else ballast._lengths(loss_tokens, "loss_tokens"))
        if self._loss_tokens.size != self._lengths.size:
            raise ValueError(f"loss_tokens has {self._loss_tokens.size} entries for "
                             f"{self._lengths.size} samples; give one for each")
        if step_samples < 1 or self._lengths.size < (step_samples if drop_last else 1):
            raise ValueError(f"{self._lengths.size} samples fill no step of {step_samples}; "
                             "take fewer a step, or drop_last=False")
        self._step_samples = step_samples
        self._shuffle, self._seed, self._drop_last = shuffle, seed, drop_last
        self._options: dict[str, Any] = {"fill_cells": True, **options}
        self.epoch = 0
        self._begin = 0  # the step that an iteration starts with
        self._trained = 0  # steps of this epoch whose last microbatch the loop has had
        self._resumed = False
        self._given: deque[Cell] = deque()  # to the loader, and not yet to the loop
        self._is_watched = False
        self._order = np.zeros(0, np.int64)
        self._plans: dict[int, list[Cell]] = {}

    @property
    def steps(self) -> int:
        """Of an epoch."""
        whole, more = divmod(self._lengths.size, self._step_samples)
        return whole + (1 if more and not self._drop_last else 0)

    def cells(self, step: int) -> list[Cell]:
        """The microbatches of this rank in a step of the epoch."""
        if step in self._plans:
            return self._plans[step]
        if not self._plans:
            count = self._lengths.size
            self._order = (ballast._planner.shuffled(count, self._seed * 1_000_003 + self.epoch)
                           if self._shuffle else np.arange(count))
        rows = self._order[step * self._step_samples:(step + 1) * self._step_samples]
        grid = ballast.grid(self._lengths[rows], self.ranks, **self._options)
        counted = self._loss_tokens[rows]
        whole = int(counted.sum())
        cells = []
        for slot in range(grid.microbatches):
            samples = grid.microbatch(self.rank, slot)
            share = int(counted[samples].sum()) / whole if whole else 0.0
            cells.append(Cell(step, slot, rows[samples].tolist(), self.ranks * share,
                              slot + 1 == grid.microbatches,
                              self.ranks / whole if whole else 0.0))
        self._plans[step] = cells
        return cells

    def __len__(self) -> int:
        return sum(len(self.cells(step)) for step in range(self._first(), self.steps))

    def _first(self) -> int:
        return self._begin if self._begin < self.steps else 0

    def __iter__(self) -> Iterator[list[int]]:
        self._begin = self._trained = self._first()
        self._resumed = False
        self._given.clear()
        for step in range(self._begin, self.steps):
            for cell in self.cells(step):
                self._given.append(cell)
                yield cell.indices
        if not self._is_watched:
            self._begin = 0

    def over(self, loader: Iterable[_Batch]) -> Iterator[tuple[_Batch, Cell]]:
        """The batches of a loader, each with its cell. A step counts as trained once the loop has
        its last batch; what workers have fetched ahead does not count."""
        self._is_watched = True
        for batch in loader:
            cell = self._given.popleft()
            if cell.is_last:
                self._trained = cell.step + 1
            yield batch, cell
        self._begin = 0

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch: at its first step, or where load_state_dict left off in this one."""
        if epoch != self.epoch or not self._resumed:
            self._begin = self._trained = 0
        if epoch != self.epoch:
            self._plans.clear()
        self.epoch = epoch
        self._resumed = False

    def state_dict(self) -> dict[str, int]:
        """Where to go on: the epoch, and how many of its steps are trained. Save it after
        optimizer.step(); of a step that is not over, all microbatches are trained again."""
        if self._given and not self._is_watched:
            raise ValueError("nobody knows which batches were trained; "
                             "iterate sampler.over(loader)")
        over, steps = divmod(self._trained, self.steps)
        return {"epoch": self.epoch + over, "steps": steps, "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on after the steps that were trained. The number of ranks may be another: steps have
        the same samples."""
        if state["seed"] != self._seed:
            raise ValueError(f"the state has seed {state['seed']}, and this sampler has "
                             f"{self._seed}; give the same")
        if not 0 <= state["steps"] < self.steps:
            raise ValueError(f"the state has {state['steps']} steps trained of {self.steps}; "
                             "give the lengths and step_samples that it was saved with")
        self._plans.clear()
        self.epoch = state["epoch"]
        self._begin = self._trained = state["steps"]
        self._resumed = True
