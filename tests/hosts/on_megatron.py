# SPDX-License-Identifier: Apache-2.0
"""Adapters on the classes of a Megatron-LM checkout. run_host_tests.py runs it, by pytest."""
from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import megatron_layout
import megatron_packing
from megatron.core.datasets import data_schedule
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout


def drawn(seed: int, most: int) -> list[tuple[int, int]]:
    numbers = random.Random(seed)
    return [(at, min(most, int(numbers.lognormvariate(5.5, 1.1)) + 1)) for at in range(120)]


def within(slots: Any, lengths: dict[int, int], cp: int, most: int) -> bool:
    """What the scheduler's run() and Megatron-LM's groups ask for."""
    placed = [sample for ranks in slots for own in ranks[::cp] for sample in own]
    return sorted(placed) == sorted(lengths) and all(
        ranks[rank] == ranks[rank // cp * cp] and own
        and sum(lengths[sample] for sample in own) <= most
        for ranks in slots for rank, own in enumerate(ranks))


def test_packing_has_no_more_microbatches() -> None:
    megatron_packing.install()
    name = data_schedule.PackingSchedulerEnum["DP_BALANCED"]
    for cp, dp, group in ((1, 8, None), (2, 4, 2), (4, 1, None)):
        samples = drawn(cp, 1024 * cp)
        both = [kind(1024, cp, dp, group).get_groups_and_subsamples(samples)
                for kind in (data_schedule.scheduler_map[name], data_schedule.DpBalancedScheduler)]
        assert all(within(slots, dict(samples), cp, 1024 * cp) for slots in both)
        assert len(both[0]) <= len(both[1])
        assert len(both[0]) % (group or 1) == 0


def test_keys_and_run_are_megatrons() -> None:
    kind = megatron_packing.BallastScheduler
    assert issubclass(kind, data_schedule.BasePackingScheduler)
    assert "padded_seq_len" in kind(1024, 1, 1, None).get_required_sample_keys()
    assert kind.run is data_schedule.DpBalancedScheduler.run


def test_slots_are_no_longer_than_megatrons() -> None:
    group = SimpleNamespace(size=lambda: 16)
    samples = [(0, 16000), (1, 9000), *[(at + 2, own) for at, own in drawn(5, 16384)]]
    lengths, totals = dict(samples), []
    own_kind = megatron_packing.BallastSlots.__mro__[1]
    for kind in (megatron_packing.BallastSlots, own_kind):
        scheduler = kind(1024, group)
        groups, slots = scheduler.get_groups_and_subsamples(samples, None)
        assert groups == [[[lengths[at] for at in own] for own in slot] for slot in slots]
        assert all(len(slot) == 16 and all(slot) for slot in slots)
        assert {at for slot in slots for own in slot for at in own} == set(lengths)
        totals.append(sum(max(sum(lengths[at] ** 2 / slot.count(own) for at in own)
                              for own in slot) for slot in slots))
    print(f"@ slots: squares of tokens, longest ranks: ballast {totals[0]:.4g}, "
          f"Megatron-LM {totals[1]:.4g}")


def test_layouts_are_valid() -> None:
    for ranks, chunks, mtp in ((4, 1, 0), (4, 2, 1), (8, 3, 2)):
        text = megatron_layout.pipeline_layout([310] * 24 + [1000] * 80, ranks, chunks,
                                               embedding=90, loss=2600, mtp=[900] * mtp)
        layout = PipelineParallelLayerLayout(text, ranks)
        layout.validate_layer_layout(num_layers=104, mtp_num_layers=mtp)
        assert layout.virtual_pipeline_model_parallel_size == chunks
