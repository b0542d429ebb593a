# SPDX-License-Identifier: Apache-2.0
"""Long contexts, chains, experts, padded batches and streams of packings keep what they promise."""
import itertools
import pickle
import unittest

import ballast
import numpy as np

HEADS = "transformer:d=3072,layers=28,heads=24"


class LongContexts(unittest.TestCase):
    LENGTHS = [30000, 20000, 9000, 4000, 4000, 3000, 800, 700, 600, 500]

    def test_a_sharding_gives_every_sequence_a_group(self):
        plan = ballast.shard(self.LENGTHS, 8, cost=HEADS, bytes_per_head=1000,
                             most_per_gpu=12000)
        held = np.zeros(8)
        for group, (first, gpus) in enumerate(zip(plan.first_gpu.tolist(), plan.gpus.tolist())):
            for sample in plan[group].tolist():
                self.assertEqual(plan.owner[sample], group)
                held[first:first + gpus] += self.LENGTHS[sample] / gpus
        self.assertEqual(sorted(itertools.chain(*plan)), list(range(10)))
        self.assertTrue(np.all(np.abs(held - plan.held) < 10))
        self.assertLessEqual(max(plan.held), 12000)
        self.assertEqual((len(plan.loads), max(plan.loads)), (8, plan.makespan))
        self.assertTrue(repr(plan).startswith("<ballast.Sharding of 10 samples on 8 GPUs: makes"))
        self.assertGreaterEqual(plan.makespan, plan.lower_bound)

    def test_slots_are_tiled(self):
        plan = ballast.plan_slots(self.LENGTHS, 8, cost=HEADS, most_per_gpu=8000,
                                  powers_of_two=True, aligned=True, multiple_of=2)
        self.assertEqual(plan.slots % 2, 0)
        seen = []
        for slot in range(plan.slots):
            groups = plan.groups(slot)
            self.assertEqual([gpu for gpus, _ in groups for gpu in gpus], list(range(8)))
            for gpus, samples in groups:
                self.assertIn(len(gpus), (1, 2, 4, 8))
                self.assertEqual(gpus[0] % len(gpus), 0)
                self.assertLessEqual(sum(self.LENGTHS[at] for at in samples) / len(gpus), 8001)
                seen += samples
        self.assertEqual(sorted(seen), list(range(10)))
        self.assertAlmostEqual(plan.token_weight * sum(self.LENGTHS), 1)
        alone = ballast.plan_slots([9] * 8, 8, samples=ballast.counts.at_most(1))
        self.assertEqual({len(own) for own in alone}, {1})
        self.assertRegex(repr(alone), r"^<ballast.Slots of 8 samples in \d slots? of 8 GPUs: ma")
        for what, call in {"give a name": lambda: ballast.shard([5], 8, cost=[5]),
                           "counts::at_most": lambda: ballast.plan_slots(
                               [5], 8, samples=ballast.counts.filled()),
                           "samples is 3; give": lambda: ballast.plan_slots([5], 8, samples=3),
                           "meet is": lambda: ballast.plan_slots([5], 8, meet=None),
                           "slot is 9": lambda: plan.groups(9)}.items():
            with self.subTest(what), self.assertRaisesRegex((TypeError, ValueError), what):
                call()

    def test_rows_and_places_are_inverse(self):
        lengths = [700, 300, 24]
        split = ballast.split_rows(lengths, 4, block=16, masks=[{}, {"window": 64, "layers": 3}])
        rows = split.rows.reshape(-1)
        self.assertEqual(split.rows.shape, (4, 256))
        self.assertEqual(sorted(rows), list(range(1024)))
        self.assertTrue(np.array_equal(rows[split.places.reshape(-1)], np.arange(1024)))
        starts = np.repeat(np.cumsum([0, *lengths])[:-1], lengths)
        keys = np.arange(1024) - starts + 1
        self.assertEqual([keys[own].sum() for own in split.rows], split.pairs[0].tolist())
        self.assertEqual([np.minimum(keys, 64)[own].sum() for own in split.rows],
                         split.pairs[1].tolist())
        with self.assertRaisesRegex(ValueError, "prefixes.* has 1 entries for 3 documents"):
            ballast.split_rows(lengths, 4, masks=[{"prefixes": [1]}])


class ChainsAndExperts(unittest.TestCase):
    def test_a_cut_is_the_best(self):
        costs = [3, 9, 2, 7, 1, 1, 8, 4]
        cut = ballast.cut_chain(costs, 3)
        self.assertEqual([layer for stage in cut.stages for layer in stage], list(range(8)))
        self.assertEqual([sum(costs[at] for at in stage) for stage in cut.stages],
                         cut.loads.tolist())
        best = min(max(sum(costs[:a]), sum(costs[a:b]), sum(costs[b:]))
                   for a in range(1, 7) for b in range(a + 1, 8))
        self.assertEqual((cut.makespan, cut.lower_bound), (best, best))
        within = ballast.cut_chain(costs, 3, state_bytes=[10] * 8, most=[20, 30, 30])
        self.assertEqual([len(stage) for stage in within.stages], [2, 3, 3])
        twice = ballast.cut_chain(costs, 2, chunks=2, held=[[1, 1], [1, 1]])
        self.assertEqual(len(twice.stages), 4)
        for what, call in {"held is not": lambda: ballast.cut_chain(costs, 2, held=[1]),
                           "most has 1": lambda: ballast.cut_chain(costs, 2, most=[1]),
                           "costs": lambda: ballast.cut_chain(None, 2)}.items():
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                call()

    def test_experts_have_replicas_and_shares(self):
        loads = [100, 60, 30, 10]
        placed = ballast.place_experts(loads, [3, 3])
        self.assertEqual([sum(loads[each] / len(placed.gpus[each]) for each in own)
                          for own in placed.experts], [100, 100])
        self.assertTrue(all(len(own) <= 3 for own in placed.experts))
        for gpu, own in enumerate(placed.experts):
            self.assertTrue(all(gpu in placed.gpus[each] for each in own))
        shares = ballast.share_experts([90, 50, 0, 10], [[0, 1, 2], [0, 3]])
        self.assertEqual(shares.experts, [[0, 1, 2], [0, 3]])
        self.assertEqual(shares.parts, [[25, 65], [50], [0], [10]])
        self.assertEqual(shares.makespan, 75)
        stays = ballast.place_experts(loads, [3, 3], now=placed.experts)
        self.assertEqual(stays.kept, sum(map(len, placed.experts)))
        with self.assertRaisesRegex(ValueError, "each of 2 GPUs"):
            ballast.place_experts(loads, [3, 3], now=[[0]])
        self.assertEqual(pickle.loads(pickle.dumps(placed)).experts, placed.experts)


class PaddedAndStreams(unittest.TestCase):
    def test_batches_are_padded_to_both_lengths(self):
        draw = np.random.default_rng(1)
        source, target = draw.integers(1, 50, 24), draw.integers(1, 50, 24)
        grid = ballast.pad_grid(source, target, cost={"source": 1, "target": 2}, ranks=3,
                                microbatches=2)
        sums = np.zeros(3)
        for cell, own in enumerate(grid):
            longest = [source[own].max(), target[own].max()] if len(own) else [0, 0]
            self.assertEqual(grid.longest[cell].tolist(), longest)
            sums[cell % 3] += len(own) * (longest[0] + 2 * longest[1])
        self.assertEqual((sorted(itertools.chain(*grid)), sums.max()),
                         (list(range(24)), grid.makespan))
        packing = ballast.pad_to_cap(source, target, of={"source": 1, "target": 1},
                                     most_per_gpu=300)
        for own in packing:
            self.assertLessEqual(len(own) * (source[own].max() + target[own].max()), 300)
        by_cost = ballast.pad_grid(source, cost={"source": 1}, of={"target": 1}, ranks=3,
                                   most_per_gpu=1)
        self.assertEqual(by_cost.filled.sum(), 0)
        with self.assertRaisesRegex(TypeError, "some of source, target"):
            ballast.pad_grid(source, cost={"length": 1}, ranks=3)

    def test_a_stream_leaves_what_fits_badly_and_none_for_ever(self):
        draw = np.random.default_rng(2)
        waiting, packed, ages, next_id = [], [], {}, 0
        lengths = {}
        for turn in range(12):
            for length in draw.integers(1, 60, 10).tolist():
                lengths[next_id], ages[next_id] = length, turn
                waiting.append(next_id)
                next_id += 1
            packing = ballast.pack([lengths[each] for each in waiting], 64, least_load=60,
                                   multiple_of=2)
            self.assertEqual(len(packing) % 2, 0)
            went = [waiting[at] for own in packing for at in own.tolist()]
            left = [waiting[at] for at in packing.left.tolist()]
            self.assertEqual(sorted(went + left), sorted(waiting))
            self.assertNotIn(waiting[0], left)
            packed += went
            waiting = left
        self.assertEqual(len(packed) + len(waiting), next_id)


if __name__ == "__main__":
    unittest.main()
