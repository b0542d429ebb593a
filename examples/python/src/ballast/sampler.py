# SPDX-License-Identifier: Apache-2.0
"""Balanced microbatches for a torch DataLoader. Nothing here imports torch."""
from __future__ import annotations

import json
import re
import sys
from array import array
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Iterable, Iterator, Mapping, Optional, TypeVar

import ballast

from . import _arrays, _library
from ._plans import counts

_Batch = TypeVar("_Batch")


@dataclass(frozen=True)
class Cell:
    """One microbatch of this rank.

    indices       of its samples in the data set; where it has none, of a dummy
    weight        what to multiply its mean loss by: gradients that are added over microbatches and
                  averaged over ranks, as DistributedDataParallel does, are then those of the mean
                  over the step; 0 for a dummy
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


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


class BalancedBatchSampler:
    """Says which samples are each microbatch of this rank, for DataLoader(batch_sampler=...).

        sampler = BalancedBatchSampler(lengths, 256, most_per_gpu=16384)
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
    options       those of ballast.grid: cost, most_per_gpu, microbatches, meet, ... What has one
                  value for each sample (together, apart, kinds, home, fits, cost, also's "of") has it
                  for each of the data set, and binds those that are drawn for one step. samples is
                  counts.filled() where there is such a plan, unless it is given

    Every rank has as many microbatches. Where a step, as the last of an epoch, has too few samples,
    some get a dummy: the shortest sample that has a loss, of the slot's kind, with a weight of 0.

    Every rank plans the same steps by itself. len() is how many batches iterating delivers.
    """

    def __init__(self, lengths: Any, step_samples: int, *, rank: Optional[int] = None,
                 ranks: Optional[int] = None, loss_tokens: Any = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False, **options: Any) -> None:
        own, all_ranks = _place()
        self.rank = own if rank is None else _arrays.whole(rank, "rank", 0)
        self.ranks = all_ranks if ranks is None else _arrays.whole(ranks, "ranks", 1)
        if self.rank >= self.ranks:
            raise ValueError(f"rank {self.rank} of {self.ranks} ranks; give one from 0 on")
        self._lengths = _arrays.lengths_of(lengths)
        self._count = len(self._lengths)
        self._loss_tokens = (self._lengths if loss_tokens is None else
                             _arrays.each_of(loss_tokens, "loss_tokens", self._count))
        for name, numbers in (("lengths", self._lengths), ("loss_tokens", self._loss_tokens)):
            at = _arrays.first_below(numbers, 0)
            if at is not None:
                raise ValueError(f"sample {at} has {numbers[at]} in {name}; give a number from 0 on")
        self._step_samples = _arrays.whole(step_samples, "step_samples", 1)
        self._shuffle = _arrays.flag(shuffle, "shuffle")
        self._drop_last = _arrays.flag(drop_last, "drop_last")
        self._seed = _arrays.whole(seed, "seed", 0)
        if not self.steps:
            raise ValueError(f"{self._count} samples fill no step of {self._step_samples}; "
                             "give more samples, a smaller step_samples, or drop_last=False")
        self._options: dict[str, Any] = {"samples": counts.filled(), **options}
        self._read_samples()
        self._check_counts()
        self._dummies = self._find_dummies()
        self._made_by: dict[str, Any] = {
            "step_samples": self._step_samples, "drop_last": self._drop_last,
            "shuffle": self._shuffle, "seed": self._seed, "cost": self._cost_word(),
            "lengths": f"{self._count} with digest {_digest(self._lengths.tobytes())}"}
        self.epoch = 0
        self._begin = 0  # the step that an iteration starts with
        self._trained = 0  # steps of this epoch whose last microbatch the loop has had
        self._resumed = False
        self._given: deque[Cell] = deque()  # to the loader, and not yet to the loop
        self._is_watched = False
        self._order: Any = array("q")
        self._plans: dict[int, list[Cell]] = {}

    @property
    def steps(self) -> int:
        """Of an epoch."""
        whole, more = divmod(self._count, self._step_samples)
        return whole + (1 if more and not self._drop_last else 0)

    def _read_samples(self) -> None:
        """The options that have one value for each sample of the data set."""
        self._of_samples: dict[str, Any] = {}
        for name in ("together", "apart", "home", "kinds"):
            if self._options.get(name) is not None:
                self._of_samples[name] = _arrays.each_of(self._options[name], name, self._count)
        fits = self._options.get("fits")
        if fits is not None:
            _arrays.flags_of(fits, "fits", (self._count, self.ranks))
            self._of_samples["fits"] = fits if _arrays.numpy() is None else \
                _arrays.host_array(fits, "fits")
        cost = self._options.get("cost", "tokens")
        if not callable(cost) and not isinstance(cost, str):
            self._of_samples["cost"] = _arrays.each_of(cost, "cost", self._count)
        self._caps = [(dict(cap), _arrays.each_of(cap.get("of"), "also[...]['of']", self._count))
                      if isinstance(cap, dict) else (cap, None)
                      for cap in self._options.get("also", ())]

    def _options_of(self, rows: Any) -> dict[str, Any]:
        """Those of a step."""
        own = {name: [values[row] for row in rows] if name == "fits" and _arrays.numpy() is None
               else _arrays.taken(values, rows) for name, values in self._of_samples.items()}
        caps = [cap if of is None else {**cap, "of": _arrays.taken(of, rows)}
                for cap, of in self._caps]
        return {**self._options, **own, **({"also": caps} if caps else {})}

    def _find_dummies(self) -> dict[Any, int]:
        """Of each kind, and of none, the shortest sample that has a loss, if any has one."""
        kinds, np = self._of_samples.get("kinds"), _arrays.numpy()
        lengths, losses = self._lengths, self._loss_tokens
        if np is not None:
            ranked = np.lexsort((lengths, np.asarray(losses) <= 0)).tolist()
        else:
            ranked = sorted(range(self._count), key=lambda at: (losses[at] <= 0, lengths[at]))
        if kinds is None:
            return {None: ranked[0]}
        return {kinds[at]: at for at in reversed(ranked)}

    def _check_counts(self) -> None:
        """Refuses wrong numbers, and a multiple that a step, maybe the last, does not have."""
        if self._options.get("microbatches") is not None:
            _arrays.whole(self._options["microbatches"], "microbatches", 1)
        rule = self._options["samples"]
        is_multiple = isinstance(rule, counts) and rule.kind == "multiple_of"
        number = max(rule.number, 1) if is_multiple else 1
        whole, more = divmod(self._count, self._step_samples)
        if whole and self._step_samples % number:
            raise ValueError(f"step_samples is {self._step_samples}, and samples needs a multiple of "
                             f"{number}; give one")
        if more % number and not self._drop_last:
            raise ValueError(f"the last step of an epoch has {more} samples, and samples needs a "
                             f"multiple of {number}; give drop_last=True")

    def _cost_word(self) -> str:
        """What samples cost, as a state says it."""
        cost = self._options.get("cost", "tokens")
        if "cost" in self._of_samples:
            return f"one by one, with digest {_digest(self._of_samples['cost'].tobytes())}"
        known: Any = ballast._costs(cost, self._lengths)
        if isinstance(cost, str):
            known = ballast.Cost(cost)
        if isinstance(known, ballast.Cost):
            return repr(known)
        return f"of a function, with digest {_digest(known.tobytes())}"

    def _grid(self, rows: Any) -> ballast.Grid:
        """With a sample in every cell, where there is such a plan and no other rule for counts."""
        lengths = _arrays.taken(self._lengths, rows)
        options = self._options_of(rows)
        with suppress(ValueError):
            return ballast.grid(lengths, self.ranks, **options)
        looser: dict[str, Any] = {**options}
        if options["samples"] == counts.filled():
            looser["samples"] = None
        try:
            return ballast.grid(lengths, self.ranks, **looser)
        except ValueError as why:  # of a sample it says the place in the step
            raise ValueError(re.sub(r"\bsample (\d+)",
                                    lambda found: f"sample {rows[int(found[1])]}",
                                    str(why))) from None

    def _dummy(self, kinds: list[int], slot: int) -> int:
        """Of the kind that the slot has on all ranks."""
        return self._dummies[kinds[slot] if kinds else None]

    def cells(self, step: int) -> list[Cell]:
        """The microbatches of this rank in a step of the epoch."""
        if step in self._plans:
            return self._plans[step]
        if not self._plans:
            self._order = array("q", range(0 if self._shuffle else self._count))
            if self._shuffle:
                self._order.frombytes(bytes(8 * self._count))
                seed = (self._seed * 1_000_003 + self.epoch) % 2**64
                with _library.planner() as own:
                    own.call("ballast_shuffle", seed, self._count, _arrays.place(self._order))
        rows = self._order[step * self._step_samples:(step + 1) * self._step_samples]
        grid = self._grid(rows)
        counted = _arrays.taken(self._loss_tokens, rows).tolist()
        whole = sum(counted)
        kinds = grid.kinds.tolist()
        cells = []
        for slot in range(grid.microbatches):
            samples = grid.microbatch(self.rank, slot).tolist()
            share = sum(counted[at] for at in samples) / whole if whole else 0.0
            of_token = self.ranks / whole if whole and samples else 0.0
            cells.append(Cell(step, slot, [rows[at] for at in samples] or [self._dummy(kinds, slot)],
                              self.ranks * share, slot + 1 == grid.microbatches, of_token))
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
        self._is_watched = False

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch: at its first step, or where load_state_dict left off in this one."""
        epoch = _arrays.whole(epoch, "epoch", 0)
        if epoch != self.epoch or not self._resumed:
            self._begin = self._trained = 0
        if epoch != self.epoch:
            self._plans.clear()
        self.epoch = epoch
        self._resumed = False

    def _state(self, epoch: int, steps: int) -> dict[str, Any]:
        state = {"epoch": epoch, "steps": steps, **self._made_by}
        return {**state, "digest": _digest(json.dumps(state, sort_keys=True).encode())}

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: the epoch, and how many of its steps are trained. Save it after
        optimizer.step(); of a step that is not over, all microbatches are trained again."""
        if self._given and not self._is_watched:
            raise ValueError("nobody knows which batches were trained; "
                             "iterate sampler.over(loader)")
        over, steps = divmod(self._trained, self.steps)
        return self._state(self.epoch + over, steps)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on after the steps that were trained by a sampler with the same lengths,
        step_samples, drop_last, shuffle, seed and cost. The number of ranks and the other options
        may be others: steps have the same samples."""
        if not isinstance(state, Mapping):
            raise ValueError(f"the state is {_arrays.shown(state)}; give what state_dict returned")
        missing = [name for name in self._state(0, 0) if name not in state]
        if missing:
            raise ValueError(f"the state has no {', '.join(missing)}: it was cut, or saved by a "
                             "version that did not write this; begin an epoch with set_epoch")
        for name, own in self._made_by.items():
            if type(state[name]) is not type(own) or state[name] != own:
                raise ValueError(f"the state has {name} {_arrays.shown(state[name])}, and this "
                                 f"sampler has {own!r}; give the same")
        try:
            epoch, steps = (_arrays.whole(state[name], f"the state's {name}", 0)
                            for name in ("epoch", "steps"))
        except TypeError as why:
            raise ValueError(str(why)) from None
        digest = self._state(epoch, steps)["digest"]
        if state["digest"] != digest:
            raise ValueError(f"the state has digest {_arrays.shown(state['digest'])}, and its "
                             f"values {digest!r}: it was changed; give what state_dict returned")
        self._plans.clear()
        self.epoch = epoch
        self._begin = self._trained = steps
        self._resumed = True
