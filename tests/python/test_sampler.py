# SPDX-License-Identifier: Apache-2.0
"""The sampler under torch's DataLoader, with and without workers, and on two processes."""
import json
import pathlib
import pickle
import random
import subprocess
import sys
import unittest

import ballast
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
                                **{"most_per_gpu": 4096, "drop_last": True, **options})


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
            self.assertEqual(counts_of(state), (0, 2))
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
        sampler = sampler_of(most_per_gpu=2048)
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

    def test_equal_counts_differ_by_one_where_a_step_has_no_multiple(self):
        for last in (44, 3):  # on 16 microbatches
            samplers = [BalancedBatchSampler(LENGTHS[:64 + last], 64, rank=rank, ranks=8,
                                             microbatches=2, samples=ballast.counts.equal())
                        for rank in range(8)]
            cells = [cell for sampler in samplers for cell in sampler.cells(1)]
            counts = [len(cell.indices) if cell.weight else 0 for cell in cells]
            self.assertEqual(len(counts), 16)
            self.assertEqual(sum(counts), last)
            self.assertEqual({*counts}, {last // 16, last // 16 + 1})

    def test_refuses_in_sentences(self):
        watched = sampler_of()
        list(watched)
        calls = {
            "2 samples fill no step of 3": lambda: BalancedBatchSampler([1, 2], 3, drop_last=True),
            "0 samples fill no step": lambda: BalancedBatchSampler([], 3),
            "step_samples is 0": lambda: BalancedBatchSampler([1, 2], 0),
            "seed is -1": lambda: sampler_of(seed=-1),
            "epoch is -1": lambda: sampler_of().set_epoch(-1),
            "rank 2 of 2": lambda: sampler_of(2),
            "kinds has 1 entries for 300": lambda: sampler_of(kinds=[1]),
            r"fits is of \[1 x 1\]": lambda: sampler_of(fits=[[True]]),
            "cost has 200 entries for 300": lambda: sampler_of(cost=[1] * 200),
            "loss_tokens has 1": lambda: sampler_of(loss_tokens=[1]),
            "sample 1 has -5 in loss_tokens": lambda: BalancedBatchSampler(
                [5, 5], 1, loss_tokens=[5, -5]),
            "sample 13 of weight 50 is above the cap": lambda: list(BalancedBatchSampler(
                [5] * 13 + [50] + [5] * 6, 4, rank=0, ranks=2, most_per_gpu=20)),
            "microbatches is 0": lambda: sampler_of(microbatches=0),
            "nobody knows": watched.state_dict,
            "no plan with 1 microbatch": lambda: list(
                sampler_of(microbatches=1, most_per_gpu=2048)),
            "last step of an epoch has 44 samples, and samples needs a multiple of 8":
                lambda: sampler_of(samples=ballast.counts.multiple_of(8), drop_last=False),
            "step_samples is 64, and samples needs a multiple of 3": lambda: sampler_of(
                samples=ballast.counts.multiple_of(3)),
        }
        for sentence, call in calls.items():
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                call()
        for wrong in ([4], "4", 4.0, True, None):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(TypeError, "step_samples is"):
                BalancedBatchSampler(LENGTHS, wrong)

    def test_takes_tensors(self):
        sampler = BalancedBatchSampler(torch.from_numpy(LENGTHS), 64, rank=0, ranks=2,
                                       most_per_gpu=4096, drop_last=True)
        self.assertEqual(list(sampler), list(sampler_of()))


def batches_of(sampler):
    """The cells of an epoch, step by step."""
    return [sampler.cells(step) for step in range(sampler.steps)]


class OfSamples(unittest.TestCase):
    def test_options_follow_the_samples_of_a_step(self):
        n = len(LENGTHS)
        at = np.arange(n)
        kinds, keys, images = at % 3, at // 2, at % 4
        fits = np.ones((n, 2), bool)
        fits[::5, 1] = False
        for options in ({"kinds": kinds}, {"together": keys}, {"apart": keys}, {"fits": fits},
                        {"also": [{"of": 1 + images, "most_per_gpu": 30}]}, {"cost": LENGTHS ** 2},
                        {"also": [{"of": images, "most_per_gpu": 9}]}):
            with self.subTest(options=list(options)):
                samplers = [BalancedBatchSampler(LENGTHS, 64, rank=rank, ranks=2, **options)
                            for rank in range(2)]
                seen = []
                for step in range(samplers[0].steps):
                    cells = [sampler.cells(step) for sampler in samplers]
                    owner = {}
                    for rank, own in enumerate(cells):
                        for cell in own:
                            for index in cell.indices if cell.weight else ():
                                owner[index] = (rank, cell.slot)
                    seen += owner
                    for slot in range(len(cells[0])):
                        together = [index for own in cells for index in own[slot].indices]
                        if "kinds" in options:  # dummies too
                            self.assertEqual(len({kinds[index] for index in together}), 1)
                    for own in cells:
                        for cell in own:
                            for cap in options.get("also", ()):
                                self.assertLessEqual(cap["of"][cell.indices].sum(),
                                                     cap["most_per_gpu"])
                    for index in owner:
                        pair = owner.get(index ^ 1)
                        if pair and "together" in options:
                            self.assertEqual(pair, owner[index])
                        if pair and "apart" in options:
                            self.assertNotEqual(pair, owner[index])
                        if "fits" in options and index % 5 == 0:
                            self.assertEqual(owner[index][0], 0)
                self.assertEqual(sorted(seen), list(range(n)))

    def test_sixteen_samples_in_five_kinds_are_all_trained_or_refused(self):
        kinds = [at % 5 for at in range(16)]
        for ranks in (1, 2, 4, 64):
            for options in ({}, {"microbatches": 5}, {"multiple_of": 4}, {"samples": None}):
                cells = [cell for rank in range(ranks) for cell in BalancedBatchSampler(
                    [9] * 16, 16, rank=rank, ranks=ranks, kinds=kinds, **options).cells(0)]
                trained = [index for cell in cells if cell.weight for index in cell.indices]
                self.assertEqual(sorted(trained), list(range(16)))
                for slot in {cell.slot for cell in cells}:
                    self.assertEqual(len({kinds[index] for cell in cells if cell.slot == slot
                                          for index in cell.indices}), 1)
            with self.assertRaisesRegex(ValueError, "no plan|microbatches"):
                BalancedBatchSampler([9] * 16, 16, rank=0, ranks=ranks, kinds=kinds,
                                     microbatches=4).cells(0)


class Tail(unittest.TestCase):
    def test_every_sample_is_trained_once(self):
        draw = random.Random(1)
        made = [([1] * 10, 4, 4), ([1] * 26, 8, 8), ([7, 9], 2, 64)]  # lengths, samples, ranks
        made += [([draw.randint(1, 99) for _ in range(draw.randint(1, 40))], draw.randint(1, 16),
                  draw.randint(1, 8)) for _ in range(40)]
        for lengths, step_samples, ranks in made:
            options = draw.choice([{}, {"most_per_gpu": 99}, {"microbatches": 3}, {"multiple_of": 2},
                                   {"samples": None}, {"samples": ballast.counts.at_most(1)}])
            with self.subTest(lengths=lengths, step=step_samples, ranks=ranks, options=options):
                samplers = [BalancedBatchSampler(lengths, step_samples, rank=rank, ranks=ranks,
                                                 **options) for rank in range(ranks)]
                self.assertEqual(len({len(sampler) for sampler in samplers}), 1)
                seen = []
                for cells in zip(*map(batches_of, samplers)):  # of all ranks in a step
                    self.assertEqual(len({tuple(cell.is_last for cell in own) for own in cells}), 1)
                    step = sum((own for own in cells), [])
                    self.assertTrue(all(cell.indices for cell in step))  # collates
                    self.assertAlmostEqual(sum(cell.weight for cell in step), ranks)
                    trained = [index for cell in step for index in cell.indices if cell.weight]
                    tokens = sum(lengths[index] for index in trained)
                    for cell in step:
                        own = sum(lengths[index] for index in cell.indices)
                        weights = round(cell.weight, 9), round(cell.token_weight * own, 9)
                        self.assertIn(weights, ((0, 0), 2 * (round(ranks * own / tokens, 9),)))
                    self.assertLessEqual(len(trained), step_samples)
                    seen += trained
                self.assertEqual(sorted(seen), list(range(len(lengths))))

    def test_a_dummy_collates_and_adds_nothing(self):
        # torch's own collate takes no empty list; the mean of a sample without a loss is nan.
        data = [(torch.tensor([float(at), 1.0]), torch.tensor(float("nan") if at == 3 else at))
                for at in range(10)]
        weight = torch.zeros(2, requires_grad=True)

        def loss_of(batch):
            x, y = batch
            return ((x @ weight - y) ** 2).mean()

        tokens = [1] * 10
        tokens[3] = 0
        for ranks in (1, 4):
            gradient = torch.zeros(2)
            dummies = 0
            for rank in range(ranks):
                sampler = BalancedBatchSampler([5] * 3 + [1] + [5] * 6, 4, rank=rank, ranks=ranks,
                                               loss_tokens=tokens, shuffle=False)
                loader = DataLoader(data, batch_sampler=sampler)
                for batch, cell in sampler.over(loader):
                    if cell.step < 2:
                        continue
                    dummies += cell.weight == 0
                    loss = cell.weight * loss_of(batch) / ranks  # as DistributedDataParallel
                    gradient += torch.autograd.grad(loss, weight)[0]
            self.assertEqual(dummies, 0 if ranks == 1 else 2)
            expected = torch.autograd.grad(
                loss_of([torch.stack(each) for each in zip(*data[8:])]), weight)[0]
            self.assertTrue(torch.allclose(gradient, expected), (gradient, expected))

    def test_nothing_is_left_out_unless_asked(self):
        self.assertEqual(BalancedBatchSampler(LENGTHS, 64).steps, 5)
        self.assertEqual(BalancedBatchSampler(LENGTHS, 64, drop_last=True).steps, 4)


def counts_of(state):
    return state["epoch"], state["steps"]


class State(unittest.TestCase):
    def setUp(self):
        sampler = sampler_of(seed=7)
        sampler.set_epoch(3)
        for _, cell in sampler.over(loader_of(sampler)):
            if cell.is_last and cell.step == 1:
                break
        self.state = sampler.state_dict()

    def test_goes_on_after_json_and_pickle_and_on_other_ranks(self):
        for state in (json.loads(json.dumps(self.state)), pickle.loads(pickle.dumps(self.state))):
            for ranks in (1, 2, 5):
                steps = [set() for _ in range(4)]
                for rank in range(ranks):
                    again = sampler_of(rank, ranks, seed=7, most_per_gpu=8192)
                    again.load_state_dict(state)
                    again.set_epoch(again.epoch)
                    for batch, cell in again.over(again):
                        steps[cell.step].update(batch)
                whole = sampler_of(0, 1, seed=7)
                whole.set_epoch(3)
                self.assertEqual(steps, [set(), set()] + [
                    {index for cell in whole.cells(step) for index in cell.indices}
                    for step in (2, 3)])

    def test_is_taken_by_what_made_it_only(self):
        grown = np.append(LENGTHS, 5)
        others = {
            "step_samples 64, and this sampler has 32": (LENGTHS, 32, {}),
            "drop_last True, and this sampler has False": (LENGTHS, 64, {"drop_last": False}),
            "shuffle True, and this sampler has False": (LENGTHS, 64, {"shuffle": False}),
            "seed 7, and this sampler has 8": (LENGTHS, 64, {"seed": 8}),
            r"cost 'Cost\(1, 0, 0\)', and this sampler has 'Cost": (LENGTHS, 64, {
                "cost": "transformer:d=64,gamma=0.5"}),
            "cost .* 'of a function, with digest": (LENGTHS, 64, {"cost": lambda own: own * own}),
            "lengths '300 with .*', and this sampler has '301 with .*'": (grown, 64, {}),
            "lengths '300 with .*', and this sampler has '300 with .*'": (LENGTHS[::-1], 64, {}),
        }
        for sentence, (lengths, step_samples, options) in others.items():
            sampler = BalancedBatchSampler(lengths, step_samples, rank=0, ranks=2,
                                           **{"drop_last": True, "seed": 7, **options})
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                sampler.load_state_dict(self.state)
            self.assertEqual(counts_of(sampler.state_dict()), (0, 0))
        before = {name: self.state[name] for name in ("epoch", "steps", "seed")}
        with self.assertRaisesRegex(ValueError, "no step_samples, .*, digest: .* version"):
            sampler_of(seed=7).load_state_dict(before)

    def test_what_was_cut_or_changed_trains_nothing_else(self):
        draw = random.Random(1)
        values = ["x", None, 2.5, -1, 0, 1, 2, 3, 7, True, False, 10**30, [], [2], {}, "", "64",
                  float("nan"), np.int64(2), np.arange(3)]
        taken = refused = 0
        for _ in range(400):
            state = dict(self.state)
            for name in draw.sample(sorted(state), draw.randint(1, 3)):
                if draw.random() < 0.1:
                    del state[name]
                elif draw.random() < 0.2 and isinstance(state[name], str):
                    state[name] = state[name][:draw.randrange(len(state[name]) + 1)]
                else:
                    state[name] = draw.choice(values)
            again = sampler_of(seed=7)
            try:
                again.load_state_dict(state)
            except ValueError as why:
                self.assertNotIn("\n", str(why))
                self.assertLess(len(str(why)), 300)
                self.assertEqual(counts_of(again.state_dict()), (0, 0))
                refused += 1
            else:
                self.assertEqual(again.state_dict(), self.state)
                taken += 1
        self.assertGreater(taken, 2)
        self.assertGreater(refused, 300)
        for name in self.state:
            for wrong in ("x", None, 2.5, -1, True, 7.0, [], {}):  # 7.0 == 7
                if (name, wrong) not in (("drop_last", True), ("shuffle", True)):
                    with self.subTest(f"{name}={wrong}"), self.assertRaisesRegex(ValueError, name):
                        sampler_of(seed=7).load_state_dict({**self.state, name: wrong})
        with self.assertRaisesRegex(ValueError, "drop_last 1, and this sampler has True"):
            sampler_of(seed=7).load_state_dict({**self.state, "drop_last": 1})
        for state in (None, [], "x", 3):
            with self.assertRaisesRegex(ValueError, "give what state_dict returned"):
                sampler_of().load_state_dict(state)


class Training(unittest.TestCase):
    def test_two_processes_train_as_one(self):
        done = subprocess.run([sys.executable, ROOT / "examples/python/train.py", "1"],
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the same bits", done.stdout)
        print(done.stdout, end="")


if __name__ == "__main__":
    unittest.main()
