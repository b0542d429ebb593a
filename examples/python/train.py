# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on two processes with balanced microbatches, then with microbatches that
both share, and compares every loss, and the model that comes of all gradients, with one process
that takes each step as one batch; then stops, goes on from the state, compares bits. The last step
of an epoch has one sample.

    python3 train.py [WORKERS]    # of each DataLoader
"""
from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext
from typing import Any, Callable, Optional

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch reads it

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ballast import BalancedBatchSampler, Cell

EPOCHS, SAMPLES, STEP = 2, 145, 48
LENGTHS = np.clip(np.random.default_rng(1).lognormal(4, 1, SAMPLES), 1, 600).astype(np.int64)


class Data(torch.utils.data.Dataset):  # type: ignore[misc]
    """Sample i: LENGTHS[i] vectors, and what the model is to say of each."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = np.random.default_rng(index)
        x = draw.normal(size=(LENGTHS[index], 8))
        return torch.from_numpy(x), torch.from_numpy(np.sin(x.sum(axis=1, keepdims=True)))


def collate(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat([x for x, _ in samples]), torch.cat([y for _, y in samples])


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    layers = torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    return torch.nn.Sequential(*layers).double()


def mean_loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, cell: Cell) -> Any:
    return cell.weight * torch.nn.functional.mse_loss(model(x), y)


def loss_of_part(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, cell: Cell) -> Any:
    """Process 0 has a third of the tokens, process 1 the others."""
    cut = len(x) // 3
    own = slice(cut) if dist.get_rank() == 0 else slice(cut, None)
    loss = torch.nn.functional.mse_loss(model(x[own]), y[own], reduction="sum")
    return dist.get_world_size() * cell.token_weight * loss


# [loop]
def train(model: torch.nn.Module, sampler: BalancedBatchSampler, workers: int,
          stop_after: Optional[int] = None,
          loss_of: Callable[..., torch.Tensor] = mean_loss) -> list[float]:
    """The loss of every step on this rank's share, up to the end or to a step."""
    loader = DataLoader(Data(), batch_sampler=sampler, num_workers=workers, collate_fn=collate,
                        multiprocessing_context="fork" if workers else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, loss_of_step = [], 0.0
    for epoch in range(sampler.epoch, EPOCHS):
        sampler.set_epoch(epoch)
        for (x, y), cell in sampler.over(loader):
            waits = isinstance(model, DistributedDataParallel) and not cell.is_last
            with model.no_sync() if waits else nullcontext():  # ranks meet once a step
                loss = loss_of(model, x, y, cell)
                loss.backward()
            loss_of_step += loss.item()
            if cell.is_last:
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss_of_step)
                loss_of_step = 0.0
                if len(losses) == stop_after:
                    return losses
    return losses
# [loop]


def mean_over_ranks(losses: list[float]) -> torch.Tensor:
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def run(rank: int, store: str, workers: int) -> None:
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)

    def sampler() -> BalancedBatchSampler:
        return BalancedBatchSampler(LENGTHS, STEP, most_per_gpu=2048, seed=3)

    torch.manual_seed(1000 + rank)  # ranks draw differently, and plan the same
    np.random.seed(rank)
    model = DistributedDataParallel(make_model())
    losses = mean_over_ranks(train(model, sampler(), workers))

    groups = BalancedBatchSampler(LENGTHS, STEP, rank=0, ranks=1, most_per_gpu=2048, seed=3)
    parts = DistributedDataParallel(make_model())
    shared = mean_over_ranks(train(parts, groups, workers, loss_of=loss_of_part))

    # Half of it, then a new model, a new sampler and the state.
    first = sampler()
    half = DistributedDataParallel(make_model())
    before = mean_over_ranks(train(half, first, workers, stop_after=5))
    second = sampler()
    second.load_state_dict(first.state_dict())
    rest = DistributedDataParallel(make_model())
    rest.load_state_dict(half.state_dict())
    after = mean_over_ranks(train(rest, second, workers))
    if not torch.equal(torch.cat([before, after]), losses):
        raise SystemExit("the losses of the interrupted training differ")

    if rank == 0:
        whole = BalancedBatchSampler(LENGTHS, STEP, rank=0, ranks=1, microbatches=1, seed=3)
        alone = make_model()
        single = torch.tensor(train(alone, whole, 0), dtype=torch.float64)
        worst = float(((torch.stack([losses, shared]) - single) / single).abs().max())
        apart = max(float((own - other).abs().max()) for made in (model, parts)
                    for own, other in zip(made.parameters(), alone.parameters()))
        cells = len(sampler())
        print(f"{len(losses)} steps, {cells} microbatches of each rank in an epoch, "
              f"{workers} workers: losses {losses[0]:.6f} to {losses[-1]:.6f} differ by "
              f"{worst:.1e} from one big batch, the model by {apart:.1e}; interrupted, they have "
              "the same bits")
        if max(worst, apart) > 1e-10 or len(single) != len(losses):
            raise SystemExit("the losses or the models differ")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        given = int(sys.argv[1]) if len(sys.argv) > 1 else 0
        processes.spawn(run, (os.path.join(folder, "store"), given), nprocs=2)
