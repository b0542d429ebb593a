# SPDX-License-Identifier: Apache-2.0
"""Balanced batches for Hugging Face Trainer, Accelerate and Lightning: each takes a loader as it is.

    class Balanced(transformers.Trainer):  # microbatches=args.gradient_accumulation_steps
        def get_train_dataloader(self): return loader_of(self.train_dataset, lengths, ...)

    model, optimizer = accelerator.prepare(model, optimizer)  # and not the loader
    lightning.Trainer(use_distributed_sampler=False).fit(model, loader_of(data, lengths, ...))
"""
from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import ballast


class EpochBatches:
    """batch_sampler of a DataLoader: lists of samples of this rank. The epoch is set on it, or on its
    `sampler`, which is where Lightning looks."""

    batch_size = None
    drop_last = False

    def __init__(self, lengths: Sequence[int], step_samples: int, **options: Any) -> None:
        self.sampler = ballast.BalancedBatchSampler(lengths, step_samples, **options)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> Mapping[str, Any]:
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sampler.load_state_dict(state)


def loader_of(dataset: Any, lengths: Sequence[int], step_samples: int, *, workers: int = 0,
              collate_fn: Any = None, **options: Any) -> Any:
    """A DataLoader whose batches are the microbatches of this rank. options: those of
    ballast.BalancedBatchSampler, such as most_per_gpu, or microbatches where their number is fixed.
    `for batch, cell in loader.batch_sampler.sampler.over(loader)` has the weight of each loss."""
    from torch.utils.data import DataLoader

    batches = EpochBatches(lengths, step_samples, **options)
    loader = DataLoader(dataset, batch_sampler=batches, num_workers=workers, collate_fn=collate_fn)
    loader.set_epoch = batches.set_epoch  # which Trainer calls
    return loader
