# SPDX-License-Identifier: Apache-2.0
"""Adapters of examples/hosts have the signatures of their hosts and the properties that the hosts'
own tests assert. run_host_tests.py runs these where a host is at hand."""
from __future__ import annotations

import inspect
import pathlib
import random
import re
import tempfile
import unittest
from types import SimpleNamespace
from typing import Any

import stand_ins  # before the adapters, which import from their hosts

import automodel_sampler
import batch_sampler
import document_rows
import energon_packing
import megatron_layout
import megatron_packing
import nanovlm_packing
import pipeline_csv
import slime_schedule
import verl_batches


def drawn(seed: int, count: int, most: int) -> list[int]:
    """Few long samples among many short ones."""
    numbers = random.Random(seed)
    return [min(most, int(numbers.lognormvariate(5.5, 1.1)) + 1) for _ in range(count)]


def each_once(rows: Any, samples: Any) -> bool:
    return sorted(sample for row in rows for sample in row) == sorted(samples)


class Files(unittest.TestCase):
    def test_each_has_at_most_80_lines(self) -> None:
        folder = pathlib.Path(slime_schedule.__file__).parent
        for file in folder.glob("*.py"):
            if file.name != "run_host_tests.py":
                lines = file.read_text(encoding="utf-8").splitlines()
                self.assertLessEqual(len(lines), 80, file.name)

    def test_have_the_parameters_of_their_hosts(self) -> None:
        calls = {
            slime_schedule.build_dp_schedule: "args train_parallel_config total_lengths "
            "global_batch_size rollout_indices",
            verl_batches.get_seqlen_balanced_partitions: "seqlen_list k_partitions equal_size",
            verl_batches.rearrange_micro_batches: "batch max_token_len dp_group "
            "num_batches_divided_by same_micro_num_in_dp min_num_micro_batch "
            "use_dynamic_bsz_balance force_group_size strict",
            megatron_packing.BallastScheduler.get_groups_and_subsamples: "self sample_id_seqlens",
            energon_packing.PackedByBallast.select_samples_to_pack: "self samples",
            nanovlm_packing.balanced_greedy_knapsack: "self buffer L delta max_images_per_knapsack",
        }
        for call, names in calls.items():
            self.assertEqual(list(inspect.signature(call).parameters), names.split())


class Slime(unittest.TestCase):
    def schedule(self, lengths: list[int], ranks: int, rollouts: Any = None, batch: Any = None,
                 cp: int = 1, vpp: int = 1, group: int = 1, **named: Any) -> Any:
        args = SimpleNamespace(**{"micro_batch_size": 1, "use_dynamic_batch_size": False,
                                  "max_tokens_per_gpu": None, "balance_data": False,
                                  "balance_by_flops": False, **named})
        config = {"dp_size": ranks, "cp_size": cp, "vpp_size": vpp,
                  "microbatch_group_size_per_vp_stage": group}
        rollouts = list(range(len(lengths))) if rollouts is None else rollouts
        return slime_schedule.build_dp_schedule(
            args, config, lengths, global_batch_size=batch or len(set(rollouts)),
            rollout_indices=rollouts)

    def check(self, found: Any, lengths: list[int], kept: Any, cap: Any = None) -> None:
        partitions, micro_batches, counts, _ = found
        self.assertTrue(each_once(partitions, kept))
        for own, rows in zip(partitions, micro_batches):
            self.assertEqual(len(rows), sum(counts))
            self.assertEqual([at for row in rows for at in row], list(range(len(own))))
            for row in rows:
                tokens = sum(lengths[own[at]] for at in row)
                self.assertTrue(cap is None or tokens <= cap or len(row) == 1, tokens)

    def test_microbatches_are_within_the_cap_and_as_many_on_every_rank(self) -> None:
        for seed in range(4):
            lengths = drawn(seed, 96, 3000)  # some longer than the cap of two GPUs
            found = self.schedule(lengths, 4, use_dynamic_batch_size=True, max_tokens_per_gpu=1024,
                                  cp=2, vpp=2, group=2)
            self.check(found, lengths, range(96), 2048)
            self.assertEqual(found[2][0] % 2, 0)

    def test_a_longer_sample_is_alone_also_beside_one_without_tokens(self) -> None:
        lengths = [15, 0, 3, 3, 3, 3, 3, 3, 3]
        found = self.schedule(lengths, 1, use_dynamic_batch_size=True, max_tokens_per_gpu=10)
        self.check(found, lengths, range(9), 10)
        self.assertIn([0], [[found[0][0][at] for at in row] for row in found[1][0]])

    def test_rollouts_stay_in_their_step_and_those_left_over_are_dropped(self) -> None:
        rollouts = [0, 0, 1, 2, 2, 3, 4, 4]
        lengths = [3] * 8
        found = self.schedule(lengths, 1, rollouts, 2, use_dynamic_batch_size=True,
                              max_tokens_per_gpu=6)
        self.check(found, lengths, range(6), 6)
        self.assertEqual(found[3], [2, 2])
        first = [found[0][0][at] for row in found[1][0][:found[2][0]] for at in row]
        self.assertEqual(sorted(first), [0, 1, 2])

    def test_too_few_rollouts_are_refused(self) -> None:
        with self.assertRaisesRegex(AssertionError, "num_rollouts"):
            self.schedule([3] * 6, 1, [0, 0, 1, 1, 2, 2], 4)

    def test_fixed_batches_are_level(self) -> None:
        lengths = drawn(1, 64, 4000)
        found = self.schedule(lengths, 4, micro_batch_size=2, balance_data=True)
        self.check(found, lengths, range(64))
        self.assertEqual(found[2], [8])
        self.assertTrue(all(len(row) == 2 for rows in found[1] for row in rows))
        work = [stand_ins.quadratic([lengths[at] for at in own], None) for own in found[0]]
        self.assertLess(max(work), 1.01 * sum(work) / 4)

    def test_what_is_not_known_is_slimes_own(self) -> None:
        self.assertEqual(self.schedule([10] * 16, 4, micro_batch_size=2), "slime's own")
        args, named = stand_ins.CALLS.pop()
        self.assertEqual(args[2], [10] * 16)
        self.assertEqual(named["global_batch_size"], 16)


class Verl(unittest.TestCase):
    def test_sets_are_sorted_level_and_none_is_empty(self) -> None:
        lengths = drawn(2, 64, 4000)
        for equal in (False, True):
            sets = verl_batches.get_seqlen_balanced_partitions(lengths, 8, equal)
            self.assertTrue(each_once(sets, range(64)))
            self.assertTrue(all(own == sorted(own) and own for own in sets))
            self.assertEqual({len(own) for own in sets} == {8}, equal)
            sums = [sum(lengths[at] for at in own) for own in sets]
            self.assertLess(max(sums), 1.01 * sum(sums) / 8)
        self.assertEqual(len(verl_batches.get_seqlen_balanced_partitions([0] * 4, 4, False)), 4)
        work = stand_ins.Tokens([5 * 10**9, 10**9, 4 * 10**9])  # of long sequences, as a tensor
        self.assertEqual(sorted(verl_batches.get_seqlen_balanced_partitions(work, 2, False)),
                         [[0], [1, 2]])
        for count, equal in ((3, False), (6, True)):
            with self.assertRaises(ValueError):
                verl_batches.get_seqlen_balanced_partitions([5] * count, 4, equal)

    def rearrange(self, lengths: list[int], cap: int, **named: Any) -> Any:
        mask = stand_ins.Mask([1] * length for length in lengths)
        batch = {"input_ids": SimpleNamespace(is_nested=False), "attention_mask": mask}
        found, sets = verl_batches.rearrange_micro_batches(batch, cap, **named)
        self.assertTrue(each_once(sets, range(len(lengths))))
        self.assertEqual([sum(map(sum, rows)) for rows in found],
                         [sum(lengths[at] for at in own) for own in sets])
        return sets

    def test_as_many_microbatches_as_verl_makes(self) -> None:
        lengths = drawn(3, 32, 300)
        natural = -(-sum(lengths) // 1000)
        self.assertEqual(len(self.rearrange(lengths, 1000)), natural)
        self.assertEqual(len(self.rearrange(lengths, 1000, min_num_micro_batch=natural + 2)),
                         natural + 2)
        self.assertEqual(len(self.rearrange(lengths, 1000, num_batches_divided_by=5)) % 5, 0)
        stand_ins.DISTRIBUTED.most = natural + 3
        self.addCleanup(setattr, stand_ins.DISTRIBUTED, "most", 0)
        self.assertEqual(len(self.rearrange(lengths, 1000, dp_group="all")), natural + 3)
        self.assertEqual(len(self.rearrange(lengths, 1000, dp_group="all",
                                            same_micro_num_in_dp=False)), natural)

    def test_groups_stay_together_and_the_least_work_is_at_both_ends(self) -> None:
        lengths = drawn(4, 24, 500)
        sets = self.rearrange(lengths, 2000, force_group_size=3)
        self.assertTrue(all(len({own.index(at) // 3 for at in range(first, first + 3)
                                 if at in own}) <= 1 for own in sets for first in range(0, 24, 3)))
        self.assertTrue(all({at // 3 for at in own} == {at // 3 for at in own if at % 3 == rest}
                            for own in sets for rest in range(3)))
        work = [sum(24576 * lengths[at] + lengths[at]**2 for at in own) for own in sets]
        top = work.index(max(work))
        self.assertEqual(work, sorted(work[:top]) + sorted(work[top:], reverse=True))

    def test_the_cap_holds_where_it_is_strict(self) -> None:
        for seed in range(4):
            lengths = drawn(seed, 40, 900)
            sets = self.rearrange(lengths, 1000, strict=True)
            self.assertLessEqual(max(sum(lengths[at] for at in own) for own in sets), 1000)
            self.assertGreaterEqual(len(sets), len(self.rearrange(lengths, 1000)))


class Megatron(unittest.TestCase):
    def test_every_sample_is_on_one_context_parallel_group(self) -> None:
        megatron_packing.install()
        data_schedule = megatron_packing.data_schedule
        scheduler = data_schedule.scheduler_map["dp_balanced"](1024, 2, 4, 2)
        lengths = drawn(5, 100, 2048)
        slots = scheduler.get_groups_and_subsamples([(7 * at, own) for at, own in
                                                     enumerate(lengths)])
        self.assertEqual(len(slots) % 2, 0)
        for ranks in slots:
            self.assertEqual(len(ranks), 8)
            for rank in range(0, 8, 2):
                self.assertEqual(ranks[rank], ranks[rank + 1])
                self.assertLessEqual(sum(lengths[own // 7] for own in ranks[rank]), 2048)
                self.assertTrue(ranks[rank])
        self.assertTrue(each_once([own for ranks in slots for own in ranks[::2]],
                                  [7 * at for at in range(100)]))


    def test_slots_have_aligned_groups_and_no_rank_without_a_sample(self) -> None:
        lengths = drawn(11, 40, 8192)
        samples = [(3 * at, own) for at, own in enumerate([8192, 5000, *lengths])]
        scheduler = megatron_packing.BallastSlots(1024, 8)
        groups, slots = scheduler.get_groups_and_subsamples(samples, None)
        own_lengths = dict(samples)
        self.assertEqual(groups, [[[own_lengths[at] for at in own] for own in slot]
                                  for slot in slots])
        ranks_of: dict[int, list[tuple[int, int]]] = {}
        for slot, ranks in enumerate(slots):
            self.assertEqual(len(ranks), 8)
            self.assertTrue(all(ranks))
            for rank, own in enumerate(ranks):
                for sample in own:
                    ranks_of.setdefault(sample, []).append((slot, rank))
            for own in ranks:
                held = sum(-(-own_lengths[at] // ranks.count(own)) for at in own)
                self.assertLessEqual(held, 1024)
        self.assertEqual(sorted(ranks_of), sorted(own_lengths))
        for places in ranks_of.values():
            (slot, first), size = places[0], len(places)
            self.assertEqual(places, [(slot, first + at) for at in range(size)])
            self.assertIn(size, (1, 2, 4, 8))
            self.assertEqual(first % size, 0)
        odd = megatron_packing.BallastSlots(1024, 6)
        self.assertEqual(odd.get_groups_and_subsamples([(0, 100)], None), "Megatron-LM's own")

    def test_sequences_are_packed_to_two_limits(self) -> None:
        lengths = drawn(10, 100, 1000)
        bins = megatron_packing.pack_sequences(lengths, 1024, 4, 64)
        self.assertTrue(each_once(bins, range(100)))
        for own in bins:
            self.assertLessEqual(sum(-(-lengths[at] // 64) * 64 for at in own), 1024)
            self.assertLessEqual(len(own), 4)


class Packs(unittest.TestCase):
    def test_energon_gets_full_packs_and_the_rest_back(self) -> None:
        lengths = drawn(6, 200, 2000)
        samples = [SimpleNamespace(tokens=[0] * length, at=at) for at, length in enumerate(lengths)]
        encoder = energon_packing.PackedByBallast()
        encoder.most_per_gpu = 1500
        found = encoder.select_samples_to_pack(samples)
        rows = [[sample.at for sample in pack] for pack in found.packs]
        rest = [sample.at for sample in found.pushback]
        self.assertTrue(each_once([*rows, rest], range(200)))
        for row in rows:
            self.assertTrue(len(row) == 1 or sum(lengths[at] for at in row) == 1500)
        encoder.pushback = False
        packs = encoder.select_samples_to_pack(samples)
        self.assertTrue(each_once([[sample.at for sample in pack] for pack in packs], range(200)))
        encoder.pushback = True
        few = encoder.select_samples_to_pack(samples[:2])  # not full, and yet it goes on
        self.assertGreaterEqual(len(few.packs), 1)
        self.assertEqual(encoder.select_samples_to_pack([]).packs, [])

    def test_nanovlm_has_two_limits(self) -> None:
        lengths = drawn(7, 120, 1000)
        buffer = [{"input_ids": [0] * length, "images": [0] * (at % 5)}
                  for at, length in enumerate(lengths)]
        for most in (None, 6):
            groups = nanovlm_packing.balanced_greedy_knapsack(None, buffer, 2048, 5, most)
            self.assertTrue(each_once(groups, range(120)))
            self.assertTrue(all(groups))
            for own in groups:
                self.assertLessEqual(sum(lengths[at] for at in own), 2048)
                self.assertTrue(most is None or sum(at % 5 for at in own) <= most)


class Rows(unittest.TestCase):
    def test_ranks_have_as_many_rows_and_their_attention_is_even(self) -> None:
        documents = [300, 40, 700, 8, 1000]
        balancer = document_rows.DocumentRows([documents, [2048]], 4, block=16)
        rows, back = (balancer._generate_indices(restore) for restore in (False, True))
        for own, inverse, pack in zip(rows, back, ([*documents], [2048])):
            self.assertEqual(sorted(own), list(range(2048)))
            self.assertEqual([own[at] for at in inverse], list(range(2048)))
            keys = [at + 1 for length in pack for at in range(length)]
            pairs = [sum(keys[row] for row in own[first:first + 512])
                     for first in range(0, 2048, 512)]
            self.assertLess(max(pairs), 1.02 * sum(pairs) / 4)
        with self.assertRaisesRegex(ValueError, "2048 rows .* pad it to 2560"):
            document_rows.DocumentRows([documents], 5, block=128)

    def test_documents_begin_at_position_0(self) -> None:
        documents = [100, 28, 384]
        positions = stand_ins.Positions(at for length in documents for at in range(length))
        of_positions = document_rows.DocumentRows.of_positions(positions, 2)
        of_lengths = document_rows.DocumentRows([documents], 2)
        self.assertEqual(of_positions._generate_indices(), of_lengths._generate_indices())


class Pipelines(unittest.TestCase):
    def test_layouts_have_all_layers_and_a_short_longest_stage(self) -> None:
        layers = [310] * 24 + [1000] * 80
        layout = megatron_layout.pipeline_layout(layers, 4, 2, embedding=90, loss=2600,
                                                 mtp=[900])
        stages = layout.split("|")
        self.assertEqual(len(stages), 8)
        self.assertEqual("".join(stages), "E" + "t" * 104 + "mL")
        loads, at = [0] * 4, 0
        for stage, text in enumerate(stages):
            count = text.count("t")
            loads[stage % 4] += sum(layers[at:at + count]) + 90 * ("E" in text) + 3500 * ("L" in text)
            at += count
        self.assertLess(max(loads), 1.05 * sum(loads) / 4)
        self.assertEqual(megatron_layout._costs("2x5,7"), [5, 5, 7])

    def test_cells_are_those_that_pytorch_loads_and_can_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "schedule.csv")
            pipeline_csv.write_schedule(str(path), [3, 2, 2, 4], microbatches=6)
            lines = path.read_text(encoding="utf-8").splitlines()
        cells = [[cell.strip() for cell in line.split(",") if cell.strip()] for line in lines]
        left = [[re.fullmatch(r"([0-9]+)(F|I|W)([0-9]+)", cell).groups() for cell in row]
                for row in cells]
        self.assertEqual([len(row) for row in left], [3 * 6] * 4)
        done: set[tuple[int, str, int]] = set()
        while any(left):  # each rank runs its next cell once what it needs is there
            before = len(done)
            for rank, row in enumerate(left):
                if row:
                    stage, kind, microbatch = int(row[0][0]), row[0][1], int(row[0][2])
                    self.assertEqual(stage, rank)
                    needs = {"F": (stage - 1, "F"), "W": (stage, "I"),
                             "I": (stage + 1, "I") if stage < 3 else (3, "F")}[kind]
                    if needs[0] < 0 or (*needs, microbatch) in done:
                        done.add((stage, kind, microbatch))
                        row.pop(0)
            self.assertGreater(len(done), before)
        self.assertEqual(len(done), 3 * 4 * 6)


class Samplers(unittest.TestCase):
    def test_automodels_ranks_are_level_in_every_batch_and_go_on(self) -> None:
        lengths = drawn(8, 300, 4000)
        made = [automodel_sampler.LevelSampler(lengths, 4, 1, 8, rank) for rank in range(8)]
        orders = [list(sampler) for sampler in made]
        self.assertEqual({len(own) for own in orders}, {len(made[0])})
        self.assertEqual(len(made[0]), 36)
        whole = [sample for own in orders for sample in own]
        self.assertEqual(len(set(whole)), 288)
        for first in range(0, 32, 4):
            sums = [sum(lengths[at] for at in own[first:first + 4]) for own in orders]
            longest = max(lengths[at] for own in orders for at in own[first:first + 4])
            self.assertLess(max(sums), max(longest + 1000, 1.5 * sum(sums) / 8))
        self.assertEqual(made[3].yielded, 36)
        again = automodel_sampler.LevelSampler(lengths, 4, 1, 8, 3)
        again._next_yielded = 10
        self.assertEqual(list(again), orders[3][10:])
        self.assertEqual(list(again), orders[3])
        again.epoch = 1
        self.assertNotEqual(list(again), orders[3])
        odd = automodel_sampler.LevelSampler(lengths, 4, 1, 8, 3, drop_last=False)
        self.assertEqual((list(odd), len(odd)), (["Automodel's own"], 38))

    def test_loaders_get_the_microbatches_of_their_rank(self) -> None:
        lengths = drawn(9, 64, 2000)
        batches = []
        for rank in range(4):
            loader = batch_sampler.loader_of("data", lengths, 32, rank=rank, ranks=4,
                                             most_per_gpu=4000, collate_fn=list)
            loader.set_epoch(1)
            sampler = loader.batch_sampler.sampler
            rows = [row for row, _ in sampler.over(loader.batch_sampler)]
            self.assertEqual(len(loader.batch_sampler), len(rows))
            self.assertEqual((loader.data, loader.num_workers), ("data", 0))
            self.assertTrue(all(sum(lengths[at] for at in row) <= 4000 for row in rows))
            batches.append(rows)
        self.assertEqual(len({len(rows) for rows in batches}), 1)
        self.assertTrue(each_once([row for rows in batches for row in rows], range(64)))
        state = loader.batch_sampler.state_dict()
        other = batch_sampler.EpochBatches(lengths, 32, rank=0, ranks=2, most_per_gpu=4000)
        other.load_state_dict(state)
        self.assertEqual(other.sampler.epoch, state["epoch"])


if __name__ == "__main__":
    unittest.main()
