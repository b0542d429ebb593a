# SPDX-License-Identifier: Apache-2.0
"""The sampler under torch's DataLoader, with and without workers, and on two processes."""
import pathlib
import random
import subprocess
import sys
import unittest

import numpy as np
import torch
from ballast import BalancedBatchSampler
from torch.utils.data import DataLoader

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTHS = np.clip(np.random.default_rng(1).lognormal(5, 1, 300), 1, 2000).astype(np.int64)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, index):
        return index


def sampler_of(rank=0, ranks=2, **options):
    return BalancedBatchSampler(LENGTHS, 64, rank=rank, ranks=ranks, 
                                **{"most_tokens": 4096, **options})


def loader_of(sampler, workers=0):
    return DataLoader(Data(), batch_sampler=sampler, num_workers=workers, collate_fn=list)


class Sampler(unittest.TestCase):
    def test_ranks_agree_and_share_each_step(self):
        cells = []
        for rank in range(2):
            random.seed(rank)
            np.random.seed(rank)
            torch.manual_seed(rank)
            sampler = sampler_of(rank)
            cells.append([sampler.cells(step) for step in range(sampler.steps)])
        self.assertEqual(len(cells[0]), 300 // 64)
        for first, second in zip(*cells):
            self.assertEqual(len(first), len(second))
            seen = [index for cell in first + second for index in cell.indices]
            self.assertEqual(len(set(seen)), 64)
            self.assertAlmostEqual(sum(cell.weight for cell in first + second), 2)
            tokens = LENGTHS[seen].sum()
            for cell in first + second:
                self.assertLessEqual(LENGTHS[cell.indices].sum(), 4096)
                self.assertAlmostEqual(cell.weight, 2 * LENGTHS[cell.indices].sum() / tokens)
            self.assertEqual([cell.is_last for cell in first], [False] * (len(first) - 1) + [True])

    def test_weights_make_the_mean_over_all_tokens_that_have_a_loss(self):
        draw = np.random.default_rng(5)
        counts = np.minimum(draw.integers(0, 60, len(LENGTHS)), LENGTHS)
        counts[:20] = 0
        losses = [draw.uniform(1, 9, count) for count in counts]
        samplers = [sampler_of(rank, loss_tokens=counts) for rank in range(2)]
        for step in range(samplers[0].steps):
            read, by_means, by_sums = [], 0.0, 0.0
            for sampler in samplers:
                for cell in sampler.cells(step):
                    own = np.concatenate([losses[index] for index in cell.indices])
                    read.append(own)
                    by_means += cell.weight * own.mean() / 2 if own.size else 0.0
                    # Three processes share it, one of them has nothing.
                    for part in np.split(own, [0, len(own) // 3]):
                        by_sums += 3 * cell.token_weight * part.sum() / 6
            mean = np.concatenate(read).mean()
            self.assertAlmostEqual(by_means, mean)
            self.assertAlmostEqual(by_sums, mean)
        nothing = sampler_of(loss_tokens=0 * LENGTHS).cells(0)
        self.assertEqual({(cell.weight, cell.token_weight) for cell in nothing}, {(0.0, 0.0)})

    def test_length_is_what_is_delivered(self):
        for workers in (0, 1, 2):
            sampler = sampler_of()
            loader = loader_of(sampler, workers)
            for epoch in range(2):
                sampler.set_epoch(epoch)
                promised = len(loader)
                self.assertEqual(len(list(sampler.over(loader))), promised)

    def test_batches_come_with_their_cells(self):
        for workers in (0, 1, 2):
            sampler = sampler_of()
            for batch, cell in sampler.over(loader_of(sampler, workers)):
                self.assertEqual(batch, cell.indices)

    def test_epochs_differ_and_repeat(self):
        sampler = sampler_of()
        epochs = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            epochs.append(list(sampler))
        self.assertNotEqual(epochs[0], epochs[1])
        self.assertEqual(epochs[0], epochs[2])
        self.assertNotEqual(epochs[0], list(sampler_of(seed=1)))
        in_order = sampler_of(shuffle=False)
        self.assertLess(max(max(cell.indices) for cell in in_order.cells(0)), 64)

    def test_state_counts_what_was_trained(self):
        for workers in (0, 1, 2):
            whole = [batch for batch in sampler_of()]
            sampler = sampler_of()
            seen = []
            for batch, cell in sampler.over(loader_of(sampler, workers)):  # workers fetch ahead
                seen.append(batch)
                if cell.is_last and cell.step == 1:
                    break
            state = sampler.state_dict()
            self.assertEqual((state["epoch"], state["steps"]), (0, 2))
            again = sampler_of()
            again.load_state_dict(state)
            again.set_epoch(again.epoch)
            loader = loader_of(again, workers)
            promised = len(loader)
            rest = [batch for batch, _ in again.over(loader)]
            self.assertEqual(len(rest), promised)
            self.assertEqual(seen + rest, whole)
            self.assertEqual(again.state_dict()["epoch"], 1)
            self.assertEqual(again.state_dict()["steps"], 0)

    def test_a_step_that_is_not_over_is_trained_again(self):
        sampler = sampler_of(most_tokens=2048)
        for _, cell in sampler.over(loader_of(sampler)):
            if cell.step == 1 and not cell.is_last:
                break
        self.assertEqual(sampler.state_dict()["steps"], 1)

    def test_other_ranks_go_on_with_the_same_samples(self):
        first = sampler_of()
        for _, cell in first.over(loader_of(first)):
            if cell.is_last:
                break
        rest = []
        for rank in range(4):
            sampler = sampler_of(rank, 4)
            sampler.load_state_dict(first.state_dict())
            rest += [index for batch in sampler for index in batch]
        trained = [index for rank in range(2) for cell in sampler_of(rank).cells(0)
                   for index in cell.indices]
        self.assertEqual(len(set(rest) | set(trained)), 4 * 64)
        self.assertFalse(set(rest) & set(trained))

    def test_the_last_samples_may_stay(self):
        sampler = sampler_of(drop_last=False)
        self.assertEqual(sampler.steps, 5)
        seen = {index for rank in range(2) for batch in sampler_of(rank, drop_last=False)
                for index in batch}
        self.assertEqual(len(seen), 300)

    def test_refuses_in_sentences(self):
        watched = sampler_of()
        list(watched)
        state = {"epoch": 0, "steps": 99, "seed": 0}
        calls = {
            "fill no step": lambda: BalancedBatchSampler([1, 2], 3),
            "rank 2 of 2": lambda: sampler_of(2),
            "leave it out": lambda: sampler_of(kinds=[1]),
            "loss_tokens has 1": lambda: sampler_of(loss_tokens=[1]),
            "nobody knows": watched.state_dict,
            "has seed 5": lambda: sampler_of().load_state_dict({**state, "seed": 5}),
            "99 steps": lambda: sampler_of().load_state_dict(state),
            "no plan": lambda: list(sampler_of(microbatches=1, most_tokens=2048)),
        }
        for sentence, call in calls.items():
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                call()

    def test_takes_tensors(self):
        sampler = BalancedBatchSampler(torch.from_numpy(LENGTHS), 64, rank=0, ranks=2,
                                       most_tokens=4096)
        self.assertEqual(list(sampler), list(sampler_of()))


class Training(unittest.TestCase):
    def test_two_processes_train_as_one(self):
        done = subprocess.run([sys.executable, ROOT / "examples/python/train.py", "1"],
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the same bits", done.stdout)
        print(done.stdout, end="")


if __name__ == "__main__":
    unittest.main()
