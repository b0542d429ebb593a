# SPDX-License-Identifier: Apache-2.0
"""What adapters import of their hosts, as far as they use it, so that they run without them."""
from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "hosts"))


def module(name: str, **content: Any) -> ModuleType:
    """A module of that name, with those above it, in sys.modules."""
    above, _, last = name.rpartition(".")
    made = sys.modules.setdefault(name, ModuleType(name))
    vars(made).update(content)
    if above:
        setattr(module(above), last, made)
    return made


def quadratic(lengths: list[int], args: Any) -> int:
    """In place of slime's FLOPs of a forward pass."""
    return sum(24576 * length + length * length for length in lengths)


CALLS: list[Any] = []  # what was handed to the host's own function


def slimes_own(*args: Any, **named: Any) -> str:
    CALLS.append((args, named))
    return "slime's own"


class Tokens(list):
    """Numbers of tokens, as verl asks a tensor for them."""

    def tolist(self) -> list[int]:
        return list(self)


class Mask(list):
    def sum(self, dim: int) -> Tokens:
        return Tokens(sum(row) for row in self)


def select(batch: Any, rows: list[int]) -> list[Any]:
    return [batch["attention_mask"][row] for row in rows]


class OtherRanks:
    """torch.distributed, of ranks one of which needs `most` microbatches."""

    most = 0

    ReduceOp = SimpleNamespace(MAX="max")

    def is_available(self) -> bool:  # which ballast asks; verl does not
        return False

    def is_initialized(self) -> bool:
        return self.most > 0

    def all_reduce(self, value: Any, op: str, group: Any) -> None:
        assert op == "max"
        value.number = max(value.number, self.most)


class BalancedCPScheduler:
    """The attributes that Megatron-LM's scheduler of dynamic context parallelism has."""

    def __init__(self, max_seq_len_per_rank: int, ranks: int) -> None:
        self.max_seq_len_per_rank, self.total_hdp_gpus = max_seq_len_per_rank, ranks

    def get_groups_and_subsamples(self, samples: Any, config: Any) -> str:
        return "Megatron-LM's own"


class Positions(list):
    """A tensor of the positions of tokens, as far as documents are found in it."""

    device = "cpu"

    def flatten(self) -> "Positions":
        return self

    def __eq__(self, other: Any) -> Any:
        return Positions(own == other for own in self)

    def nonzero(self) -> "Positions":
        return Positions(at for at, own in enumerate(self) if own)

    def numel(self) -> int:
        return len(self)

    def tolist(self) -> list[int]:
        return list(self)


def tensor(content: Any, device: Any = None, dtype: Any = None) -> Any:
    return Number(content, device) if isinstance(content[0], int) else content


class Number:
    def __init__(self, numbers: list[int], device: str) -> None:
        self.number, = numbers

    def item(self) -> int:
        return self.number


class DpBalancedScheduler:
    """The attributes that Megatron-LM's schedulers have."""

    def __init__(self, max_seqlen_per_dp_cp_rank: int, cp_size: int, dp_size: int,
                 microbatch_group_size_per_vp_stage: Any) -> None:
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.cp_size, self.dp_size = cp_size, dp_size
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage


class PackedSamplesOutput:
    def __init__(self, packs: list[Any], pushback: list[Any]) -> None:
        self.packs, self.pushback = packs, pushback


class LengthGroupedSampler:
    """The attributes and the state that NeMo Automodel's has."""

    def __init__(self, dataset: list[int], batch_size: int = 1, seed: int = 42,
                 num_replicas: int = 1, rank: int = 0, drop_last: bool = True) -> None:
        self.lengths, self.batch_size, self.seed = dataset, batch_size, seed
        self.num_replicas, self.rank, self.drop_last = num_replicas, rank, drop_last
        self.epoch = self.yielded = 0
        self._next_yielded: Any = None

    def __iter__(self) -> Any:
        yield "Automodel's own"

    def __len__(self) -> int:
        return len(self.lengths[self.rank::self.num_replicas])


DISTRIBUTED = OtherRanks()
module("slime.utils.dp_schedule", build_dp_schedule=slimes_own)
module("slime.utils.flops_utils", calculate_fwd_flops=quadratic)
module("verl.utils.tensordict_utils", index_select_tensor_dict=select)
module("verl.utils.device", get_device_name=lambda: "cpu")
module("torch.distributed.tensor.experimental._context_parallel._load_balancer",
       _LoadBalancer=object)
module("torch", tensor=tensor, int="int", distributed=DISTRIBUTED)
module("torch.utils.data", DataLoader=lambda data, **named: SimpleNamespace(data=data, **named))
module("nemo_automodel.components.datasets.llm.length_grouped_sampler",
       LengthGroupedSampler=LengthGroupedSampler)
module("megatron.core.datasets.data_schedule", DpBalancedScheduler=DpBalancedScheduler,
       BalancedCPScheduler=BalancedCPScheduler, PackingSchedulerEnum=SimpleNamespace(DP_BALANCED="dp_balanced"), scheduler_map={})
module("megatron.energon", PackedSamplesOutput=PackedSamplesOutput)
