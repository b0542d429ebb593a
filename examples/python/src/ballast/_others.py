# SPDX-License-Identifier: Apache-2.0
"""Long contexts, chains of layers, experts and padded batches: loaded where one of them is called."""
from __future__ import annotations

from array import array

from . import _arrays, _at_most, _library, _read_grid, _read_packing, _rule, _set_cost
from ._arrays import each_of, flag, in_a_sentence, lengths_of, place, shown, whole
from ._plans import Grid, Packing, _Certified, _Made, _number, _Rows, _shown, counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Optional, Sequence, Union

    from . import CostLike
    from ._plans import Array

_copied = _library.copied


def _certified(found: Any) -> dict[str, Any]:
    return {"makespan": found.makespan, "lower_bound": found.lower_bound, "gap": found.gap,
            "proven_optimal": found.makespan == found.lower_bound,
            "digest": getattr(found, "digest", 0)}


def _called(function: str, step: Any, result: str, read: Any) -> Any:
    found = _library.struct(result)
    with _library.planner() as own:
        seconds = own.call(function, _library.byref(step), _library.byref(found))
        return read(found, seconds)


# ---- Long contexts ----------------------------------------------------------------------------------

class Sharding(_Rows, _Certified):
    """Over how many GPUs each sequence is split: row g are the samples of group g, and owner says it
    of each; GPUs first_gpu[g] to first_gpu[g] + gpus[g] - 1 are its own."""

    first_gpu: Array = _shown("I")  # [groups]
    gpus: Array = _shown("I")  # [groups]
    costs: Array = _shown("q")  # [n] on each GPU of the group
    loads: Array = _shown("q")  # [gpus of the job]
    held: Array = _shown("q")  # [gpus of the job] tokens

    def _of(self) -> str:
        return f"{_number(len(self.owner), 'sample')} on {_number(len(self.loads), 'GPU')}"


class Slots(_Rows, _Certified):
    """Groups of GPUs that tile each slot: row g are the samples of group g, slot after slot."""

    first_group: Array = _shown("Q")  # [slots + 1]
    first_gpu: Array = _shown("I")  # [groups]
    gpus: Array = _shown("I")  # [groups]
    loads: Array = _shown("q")  # [groups] on each GPU
    held: Array = _shown("q")  # [groups] tokens of the GPU that holds most
    above_cap: Array = _shown("I")  # groups of one sample that none can hold
    slots: int
    fewest_slots: int
    token_weight: float  # of a token's loss, where gradients are added up

    def _of(self) -> str:
        gpus = sum(self.gpus.tolist()[:self.first_group.tolist()[1]]) if self.slots else 0
        return (f"{_number(len(self.owner), 'sample')} in {_number(self.slots, 'slot')} of "
                f"{_number(gpus, 'GPU')}")

    def groups(self, slot: int) -> list[tuple[range, list[int]]]:
        """Of a slot: the GPUs and the samples of each group, by its first GPU."""
        at = whole(slot, "slot", 0, self.slots - 1)
        begin, end = self.first_group.tolist()[at:at + 2]
        first, gpus = self.first_gpu.tolist(), self.gpus.tolist()
        return [(range(first[group], first[group] + gpus[group]), self[group].tolist())
                for group in range(begin, end)]


class RowSplit(_Made):
    """Which rows of packed documents each rank of a context-parallel group has."""

    owner: Array = _shown("I")  # [blocks] the rank of each
    rows: Array = _shown("q", "rows_of_rank")  # [ranks x rows_of_rank] the pack's row in each place
    places: Array = _shown("q", "rows_of_rank")  # its inverse, of the pack's rows in order
    pairs: Array = _shown("q", "ranks")  # [masks x ranks] of a query and a key
    moved: Array = _shown("q", "ranks")  # [masks x ranks] keys that a rank gets from others
    bounds: Array = _shown("q", "_two")  # [masks x 2] least pairs of the busiest, and keys moved
    ranks: int
    rows_of_rank: int
    _two = 2


def _machines(lengths: Any, gpus: int, gpus_per_node: int, cost: CostLike,
              numbers: Mapping[str, Any]) -> Any:
    """The job of a sharding and of slots."""
    from . import _Job
    job = _Job("ballast_sharding_options")
    if _set_cost(job, cost, lengths) is not None or not isinstance(cost, str):
        raise ValueError("cost is not of a sequence on one GPU, with heads; give a name, such as "
                         "'transformer:d=3072,heads=24'")
    job.set(gpus=whole(gpus, "gpus", 1, 2**24),
            gpus_per_node=whole(gpus_per_node, "gpus_per_node", 1, 2**24),
            **{name: flag(value, name) if name in ("by_rows", "whole_groups")
               else whole(value, name) for name, value in numbers.items()})
    return job


@in_a_sentence
def shard(lengths: Any, gpus: int, *, gpus_per_node: int = 8, cost: str = "tokens",
          most_per_gpu: Optional[int] = None, largest_degree: int = 0, bytes_per_head: int = 0,
          within_node_bytes_per_second: int = 0, between_nodes_bytes_per_second: int = 0,
          units_per_second: int = 0, latency: int = 0, by_rows: bool = False,
          whole_groups: bool = False) -> Sharding:
    """Over how many GPUs each sequence is split, and which.

    lengths         [n] tokens of each sequence
    cost            of a sequence on one GPU, by name, with heads
    most_per_gpu    tokens that a GPU holds
    largest_degree  most GPUs of a group; 0: all
    bytes_per_head  of a token, all exchanges together; 0: they take no time
    latency         of all exchanges of a sequence, in the unit of the cost, units_per_second of them
    by_rows         attention is split by rows, as in a ring, not by heads
    """
    read = lengths_of(lengths)
    job = _machines(read, gpus, gpus_per_node, cost, dict(
        largest_degree=largest_degree, bytes_per_head=bytes_per_head,
        within_node_bytes_per_second=within_node_bytes_per_second,
        between_nodes_bytes_per_second=between_nodes_bytes_per_second,
        units_per_second=units_per_second, latency=latency, by_rows=by_rows,
        whole_groups=whole_groups))
    step = _library.struct("ballast_sharding_step", samples=len(read), lengths=place(read),
                           most_per_gpu=_at_most(most_per_gpu, "most_per_gpu"))
    found = _library.struct("ballast_sharding")
    with _library.planner() as own:
        own.prepare("ballast_set_up_sharding", job.key, job.options)
        seconds = own.call("ballast_shard", _library.byref(step), _library.byref(found))
        content = {**_library.rows_of(found, found.groups),
                   "first_gpu": _copied(found.group_first_gpu, found.groups, 4),
                   "gpus": _copied(found.group_gpus, found.groups, 4),
                   "costs": _copied(found.costs, found.samples, 8),
                   "loads": _copied(found.loads, found.gpus, 8),
                   "held": _copied(found.held, found.gpus, 8)}
    return Sharding(content, seconds=seconds, **_certified(found))


@in_a_sentence
def plan_slots(lengths: Any, gpus: int, *, gpus_per_node: int = 8, cost: str = "tokens",
               most_per_gpu: Optional[int] = None, is_soft: bool = False,
               samples: Optional[counts] = None, sizes: Sequence[int] = (),
               powers_of_two: bool = False, aligned: bool = False, slots: Optional[int] = None,
               multiple_of: int = 1, meet: str = "microbatch", work: int = 0,
               largest_degree: int = 0, bytes_per_head: int = 0,
               within_node_bytes_per_second: int = 0, between_nodes_bytes_per_second: int = 0,
               units_per_second: int = 0, latency: int = 0, by_rows: bool = False,
               whole_groups: bool = False) -> Slots:
    """Which groups of GPUs tile each slot, and which samples each splits over its GPUs.

    most_per_gpu    tokens that a GPU holds in a slot; is_soft: a sample that no group can hold gets
                    one
    samples         how many a group packs: counts.at_most(3)
    sizes           that groups may have; none: any; powers_of_two: of these only 1, 2, 4, ...
    aligned         a group's first GPU is a multiple of its size
    slots           None: the number with the shortest plan found, a multiple of multiple_of
    meet            "step" or "microbatch": when ranks wait for each other
    work            of the search, in visits of samples; 0: 80,000
    The others are those of shard.
    """
    read = lengths_of(lengths)
    if meet not in ("step", "microbatch"):
        raise ValueError(f"meet is {shown(meet)}; give 'step' or 'microbatch'")
    job = _machines(read, gpus, gpus_per_node, cost, dict(
        largest_degree=largest_degree, bytes_per_head=bytes_per_head,
        within_node_bytes_per_second=within_node_bytes_per_second,
        between_nodes_bytes_per_second=between_nodes_bytes_per_second,
        units_per_second=units_per_second, latency=latency, by_rows=by_rows,
        whole_groups=whole_groups))
    allowed = array("I", [whole(each, "sizes", 1, 2**24) for each in sizes])
    step = _library.struct(
        "ballast_slots_step", samples=len(read), lengths=place(read),
        most_per_gpu=_at_most(most_per_gpu, "most_per_gpu"),
        is_soft=flag(is_soft, "is_soft"),
        counts=_rule(samples), sizes=len(allowed),
        size=place(allowed), powers_of_two=flag(powers_of_two, "powers_of_two"),
        aligned=flag(aligned, "aligned"), slots=_at_most(slots, "slots"),
        multiple_of=whole(multiple_of, "multiple_of", 1), meets_step=meet == "step",
        work=whole(work, "work"))
    found = _library.struct("ballast_slots")
    with _library.planner() as own:
        own.prepare("ballast_set_up_sharding", job.key, job.options)
        seconds = own.call("ballast_plan_slots", _library.byref(step), _library.byref(found))
        content = {**_library.rows_of(found, found.groups),
                   "first_group": _copied(found.first_group, found.slots + 1, 8),
                   "first_gpu": _copied(found.group_first_gpu, found.groups, 4),
                   "gpus": _copied(found.group_gpus, found.groups, 4),
                   "loads": _copied(found.loads, found.groups, 8),
                   "held": _copied(found.held, found.groups, 8),
                   "above_cap": _copied(found.above_cap, found.groups_above_cap, 4)}
    return Slots(content, slots=found.slots, fewest_slots=found.fewest_slots,
                 token_weight=found.loss_weight, seconds=seconds, **_certified(found))


@in_a_sentence
def split_rows(lengths: Any, ranks: int, *, block: int = 128, uneven_per_mille: int = 5,
               masks: Sequence[Mapping[str, Any]] = ()) -> RowSplit:
    """Which rows of packed documents each rank of a context-parallel group has.

    lengths  [documents]; queries see the keys of their document up to their own
    block    rows that stay together; uneven_per_mille: above the mean work, that counts as even
    masks    {"window": 0, "prefixes": [documents], "layers": 1} each: only the last keys, keys that
             all queries see too, and how many layers have it; none: causal
    """
    read = lengths_of(lengths)
    kept, given = [], []
    for each in masks:
        if not isinstance(each, dict) or not each.keys() <= {"window", "prefixes", "layers"}:
            raise ValueError(f"masks has {shown(each)}; give dicts with window, prefixes, layers")
        kept.append(each_of(each.get("prefixes"), "masks[...]['prefixes']", len(read), "documents"))
        given.append({"window": whole(each.get("window", 0), "masks[...]['window']"),
                      "prefixes": place(kept[-1]),
                      "layers": whole(each.get("layers", 1), "masks[...]['layers']", 1)})
    table = _library.structs("ballast_row_mask", given)
    step = _library.struct("ballast_rows_step", documents=len(read), lengths=place(read),
                           ranks=whole(ranks, "ranks", 1, 2**24), block=whole(block, "block", 1),
                           uneven_per_mille=whole(uneven_per_mille, "uneven_per_mille", 1, 10**6),
                           masks=len(given), mask=_library.address(table))

    def made(found: Any, seconds: float) -> RowSplit:
        cells = found.masks * found.ranks
        rows = found.ranks * found.rows_of_rank
        return RowSplit({"owner": _copied(found.owner, found.blocks, 4),
                         "rows": _copied(found.rows, rows, 8),
                         "places": _copied(found.places, rows, 8),
                         "pairs": _copied(found.pairs, cells, 8),
                         "moved": _copied(found.moved, cells, 8),
                         "bounds": _copied(found.bounds, 2 * found.masks, 8)},
                        ranks=found.ranks, rows_of_rank=max(1, found.rows_of_rank),
                        digest=found.digest, seconds=seconds)

    result: RowSplit = _called("ballast_split_rows", step, "ballast_row_split", made)
    return result


# ---- Chains of layers and experts --------------------------------------------------------------------

class Cut(_Made, _Certified):
    """The layers of each stage of a pipeline; stage s lies on rank s % ranks."""

    stages: list[range]
    loads: Array = _shown("q")  # [ranks]

    def _of(self) -> str:
        return (f"{_number(self.stages[-1].stop, 'layer')} in {_number(len(self.stages), 'stage')} "
                f"on {_number(len(self.loads), 'rank')}")


@in_a_sentence
def cut_chain(costs: Any, ranks: int, *, chunks: int = 1, state_bytes: Any = None,
              activation_bytes: Any = None, most: Any = None, held: Any = None) -> Cut:
    """Which layers of a model each stage of a pipeline has.

    costs             [layers] in any unit, with the embedding, the head and the loss
    chunks            stages of each rank
    state_bytes, activation_bytes  [layers] activations of one microbatch
    most              [ranks] bytes of each
    held              [ranks x chunks] microbatches that a stage keeps; None: one each
    """
    read = lengths_of(costs, "costs")
    count, own = len(read), whole(ranks, "ranks", 1, 2**16)
    parts = whole(chunks, "chunks", 1, 2**16)
    arrays = {"state_bytes": each_of(state_bytes, "state_bytes", count, "layers"),
              "activation_bytes": each_of(activation_bytes, "activation_bytes", count, "layers"),
              "most": each_of(most, "most", own, "ranks"),
              "held": None}
    if held is not None:
        arrays["held"], shape = _arrays.table(held, "held")
        if len(arrays["held"].tolist() if len(shape) == 1 else range(shape[0] * shape[1])) \
                != own * parts:
            raise ValueError(f"held is not of [{own} x {parts}]; give one for each rank and chunk")
    step = _library.struct("ballast_chain_step", layers=count, costs=place(read), ranks=own,
                           chunks=parts, **{name: place(each) for name, each in arrays.items()})

    def made(found: Any, seconds: float) -> Cut:
        first = memoryview(_copied(found.first, found.stages + 1, 8)).cast("Q").tolist()
        return Cut({"loads": _copied(found.loads, found.ranks, 8)}, seconds=seconds,
                   stages=[range(*each) for each in zip(first, first[1:])], **_certified(found))

    result: Cut = _called("ballast_cut_chain", step, "ballast_chain", made)
    return result


class Experts(_Made, _Certified):
    """On which GPUs the experts of a mixture lie."""

    experts: list[list[int]]  # of each GPU
    gpus: list[list[int]]  # of each expert
    parts: Optional[list[list[float]]]  # as gpus, what of its load each takes; None: equal ones
    kept: int  # replicas that were on their GPU before
    most_kept: int  # no placement as short keeps more

    def _of(self) -> str:
        return f"{_number(len(self.gpus), 'expert')} on {_number(len(self.experts), 'GPU')}"


def _experts(loads: Any, count: int, now: Any, **members: Any) -> Experts:
    read = lengths_of(loads, "loads")
    if now is not None:
        if isinstance(now, str) or not hasattr(now, "__iter__") or len(list(now)) != count:
            raise ValueError(f"now is {shown(now)}; give the experts of each of {count} GPUs")
        rows = [[whole(each, "now", 0, 2**32 - 1) for each in row] for row in now]
        first, values = array("Q", [0]), array("I")
        for row in rows:
            values.extend(row)
            first.append(len(values))
        members.update(first_now=place(first), now=place(values))
    step = _library.struct("ballast_experts_step", experts=len(read), loads=place(read), gpus=count,
                           **members)

    def made(found: Any, seconds: float) -> Experts:
        def rows_of(offsets: int, values: int, count: int, code: str) -> list[list[Any]]:
            first = memoryview(_copied(offsets, count + 1, 8)).cast("Q").tolist()
            size = 4 if code == "I" else 8
            every = memoryview(_copied(values, first[-1], size)).cast(code).tolist()
            return [every[begin:end] for begin, end in zip(first, first[1:])]

        parts = None if not found.parts else [
            [each / found.unit for each in row]
            for row in rows_of(found.first_gpu, found.parts, found.experts, "q")]
        return Experts({}, experts=rows_of(found.first_expert, found.expert, found.gpus, "I"),
                       gpus=rows_of(found.first_gpu, found.gpu, found.experts, "I"), parts=parts,
                       kept=found.kept, most_kept=found.most_kept, seconds=seconds,
                       **_certified(found))

    result: Experts = _called("ballast_place_experts", step, "ballast_experts", made)
    return result


@in_a_sentence
def place_experts(loads: Any, slots: Sequence[int], *, now: Any = None, within_per_million: int = 0,
                  uneven: bool = False, shared: int = 0, replicas: Any = None,
                  node_gpus: Sequence[int] = (), most_nodes: int = 0, work: int = 0) -> Experts:
    """On which GPUs the experts of a mixture lie, and how many replicas each has.

    loads     [experts] tokens of a batch or of the last steps
    slots     [gpus] replicas that fit each
    now       the experts of each GPU, where they lie; with `uneven` they stay, and copies are added
    within_per_million  above the least load, that a placement may be to move fewer
    uneven    shares of an expert's replicas may differ
    shared    work that any GPU takes, as of experts of all tokens
    replicas  [experts] how many of each; None: what is best
    node_gpus GPUs of each node; most_nodes: for the replicas of an expert, 0: no limit
    """
    room = array("I", [whole(each, "slots", 0, 2**32 - 1) for each in slots])
    wanted = _arrays.ranks_of(replicas, "replicas", len(lengths_of(loads, "loads")))
    nodes = array("I", [whole(each, "node_gpus", 1, 2**24) for each in node_gpus])
    return _experts(loads, len(room), now, slots=place(room), replicas=place(wanted),
                    nodes=len(nodes), node_gpus=place(nodes),
                    most_nodes=whole(most_nodes, "most_nodes"),
                    within_per_million=whole(within_per_million, "within_per_million", 0, 10**9),
                    is_uneven=flag(uneven, "uneven"), shared=whole(shared, "shared"),
                    work=whole(work, "work"))


@in_a_sentence
def share_experts(loads: Any, now: Any) -> Experts:
    """How many of each expert's tokens each of its replicas takes, where they lie: `parts`.

    loads  [experts] tokens of a batch; now: the experts of each GPU
    """
    if isinstance(now, str) or not hasattr(now, "__len__"):
        raise TypeError(f"now is {shown(now)}; give a list of the experts of each GPU")
    return _experts(loads, len(now), now, only_shares=True)


# ---- Padded batches ----------------------------------------------------------------------------------

_COEFFICIENTS = ("source", "target", "source_squared", "product", "target_squared")


def _polynomial(given: Any, name: str) -> Any:
    if not isinstance(given, dict) or not given.keys() <= {*_COEFFICIENTS}:
        raise TypeError(f"{name} is {shown(given)}; give a dict of some of "
                        f"{', '.join(_COEFFICIENTS)}")
    return _library.struct("ballast_padded_cost",
                           **{key: whole(value, f"{name}[{key!r}]") for key, value in given.items()})


def _pad_step(source: Any, target: Any, work: int, of: Mapping[str, int],
              most_per_gpu: Optional[int], **members: Any) -> tuple[Any, Any]:
    read = lengths_of(source, "source")
    other = each_of(target, "target", len(read))
    return _library.struct("ballast_pad_step", samples=len(read), source=place(read),
                           target=place(other), work=whole(work, "work"),
                           of=_polynomial(of, "of"),
                           most_per_gpu=_at_most(most_per_gpu, "most_per_gpu"),
                           **members), (read, other)


@in_a_sentence
def pad_grid(source: Any, target: Any = None, *, ranks: int, microbatches: int = 1,
             cost: Mapping[str, int], of: Optional[Mapping[str, int]] = None,
             most_per_gpu: Optional[int] = None, work: int = 0) -> Grid:
    """One batch for each rank and microbatch, padded to its longest source and its longest target, so
    that the busiest rank has least.

    source, target  [n] lengths of each sample; target None: 0
    cost, of        of a padded sample: {"source": 1, "target": 1, "source_squared": 0, "product": 0,
                    "target_squared": 0}, and a batch's is its samples times that; `of` is what
                    most_per_gpu counts: the cost where it is left out
    most_per_gpu    of a batch
    """
    step, kept = _pad_step(source, target, work, {} if of is None else of, most_per_gpu,
                           cost=_polynomial(cost, "cost"), ranks=whole(ranks, "ranks", 1, 2**24),
                           microbatches=whole(microbatches, "microbatches", 1, 2**31))
    result: Grid = _called("ballast_pad_grid", step, "ballast_grid", lambda found, seconds:
                           _read_grid(found, seconds, "the number was given"))
    del kept
    return result


@in_a_sentence
def pad_to_cap(source: Any, target: Any = None, *, of: Mapping[str, int], most_per_gpu: int,
               work: int = 0) -> Packing:
    """As few padded batches as are found, none above most_per_gpu: see pad_grid."""
    step, kept = _pad_step(source, target, work, of, most_per_gpu)
    result: Packing = _called("ballast_pad_to_cap", step, "ballast_packing", _read_packing)
    del kept
    return result
