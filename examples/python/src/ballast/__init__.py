# SPDX-License-Identifier: Apache-2.0
"""Which GPU computes which samples, so that all are equally busy.

    import ballast
    plan = ballast.plan([9000, 300, 400, 2500, 800, 1200], bags=2)
    print(plan[0], plan[1], f"at most {100 * plan.gap:.1f} % above the best plan there is")

Lengths are numbers of tokens. They and all other arrays are lists, or NumPy's of 64-bit integers,
which are read where they lie; other integers and arrays that speak DLPack are converted. What a plan
returns are arrays of NumPy where it is installed, and tuples with `tolist()` where it is not; they
cannot be written. The same arguments give the same plan in every process. Wrong arguments are a
ValueError with one sentence. While it plans, Python's other threads run: leave the arrays alone
meanwhile. Ctrl-C on the main thread stops a planner.
"""
from __future__ import annotations

from array import array

from . import _arrays, _library
from ._arrays import MOST, in_a_sentence, shown, whole
from ._plans import Cost, Grid, Order, Packing, Plan, counts, loss_weights
from ._version import VERSION as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

    from ._others import (Cut, Experts, RowSplit, Sharding, Slots, cut_chain, pad_grid, pad_to_cap,
                          place_experts, plan_slots, shard, share_experts, split_rows)
    from ._plans import Array
    from .sampler import BalancedBatchSampler, Cell

    # A name as the program takes it, a fitted model, one cost for each sample, or a function of the
    # array of lengths that returns such.
    CostLike = Union[str, Cost, Sequence[int], Array, Callable[[Array], Any]]

__all__ = [
    "BalancedBatchSampler", "Cell", "Cost", "Cut", "Experts", "Grid", "Order", "Packing", "Plan",
    "RowSplit", "Sharding", "Slots", "counts", "cut_chain", "fit_cost", "fit_step_cost", "grid",
    "loss_weights", "order", "pack", "pad_grid", "pad_to_cap", "place_experts", "plan", "plan_slots",
    "search", "shard", "share_experts", "split_rows",
]

_OTHERS = ("Cut", "Experts", "RowSplit", "Sharding", "Slots", "cut_chain", "pad_grid", "pad_to_cap",
           "place_experts", "plan_slots", "shard", "share_experts", "split_rows")
_integers = _arrays.integers
_MOST_GPUS = 2**24


def __getattr__(name: str) -> Any:  # the sampler is loaded where it is used
    if name in ("BalancedBatchSampler", "Cell"):
        from . import sampler
        globals().update(BalancedBatchSampler=sampler.BalancedBatchSampler, Cell=sampler.Cell)
        return globals()[name]
    if name in _OTHERS:
        from . import _others
        return getattr(_others, name)
    raise AttributeError(f"module 'ballast' has no attribute {name!r}")


# ---- Bags, costs and limits, as several calls take them ---------------------------------------------

class _Job:
    """What a planner is set up for: members of its options, and what they point to."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.key: list[Any] = []
        self._members: dict[str, Any] = {}
        self._kept: list[Any] = []
        self.bags = 0

    def set(self, **members: Any) -> None:
        self.key.extend(members.items())
        self._members.update(members)

    def point(self, member: str, key: Any, to: Any, lies: Optional[int]) -> None:
        self.key.append((member, key))
        self._members[member] = lies
        self._kept.append(to)

    def options(self) -> Any:
        return _library.struct(self._kind, **self._members)


_bags_of_texts: dict[bytes, tuple[int, int]] = {}


def _read_bags(text: bytes) -> tuple[int, int]:
    """How many GPUs and bags a text says, laid once."""
    if text not in _bags_of_texts:
        read = _library.struct("ballast_bags")
        with _library.planner() as own:
            own.call("ballast_read_bags", text, _library.byref(read))
        if len(_bags_of_texts) > 64:
            _bags_of_texts.clear()
        _bags_of_texts[text] = read.gpus, read.bags
    return _bags_of_texts[text]


def _set_bags(job: _Job, bags: Any, gpus: Optional[int], gpus_per_node: int,
              speeds: Any) -> None:
    """Bags of one GPU where `bags` is a number, otherwise those that the text writes, over all GPUs.
    """
    if isinstance(bags, str):
        text = _arrays.text(bags, "bags")
        once, groups = _read_bags(text)
        count = once if gpus is None else whole(gpus, "gpus", 1, _MOST_GPUS)
        job.set(bags=text)
        job.bags = groups * count // once
    else:
        count = job.bags = whole(bags, "bags", 1, _MOST_GPUS)
    fast = _speeds(speeds)
    per_node = whole(gpus_per_node, "gpus_per_node", 1, _MOST_GPUS)
    if isinstance(bags, str):
        job.set(gpus_per_node=per_node)
    job.set(gpus=count)
    if fast:
        if len(fast) != count:
            raise ValueError(f"speeds has {len(fast)} entries for {count} GPUs; give one for each")
        numbers = array("I", fast)
        job.point("gpu_speeds", fast, numbers, _arrays.place(numbers))


def _speeds(given: Any) -> tuple[int, ...]:
    if isinstance(given, (str, bytes, dict)) or not hasattr(given, "__iter__"):
        raise TypeError(f"speeds is {shown(given)}; give a list of whole numbers")
    return tuple(whole(speed, "speeds", 1, 2**32 - 1) for speed in given)


def _costs(cost: CostLike, lengths: Any) -> Union[bytes, Cost, Any]:
    """A text, a model, or one for each sample."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str):
        return _arrays.text(cost, "cost")
    if callable(cost):
        np = _arrays.numpy()
        answered: Any = cost(lengths if np is None else np.asarray(lengths))
        return answered if isinstance(answered, Cost) else \
            _arrays.each_of(answered, "cost", len(lengths))
    return _arrays.each_of(cost, "cost", len(lengths))


def _set_cost(job: _Job, cost: CostLike, lengths: Any) -> Any:
    """Costs of the samples, where the options do not say them."""
    found = _costs(cost, lengths)
    if isinstance(found, bytes):
        job.set(cost=found)
    elif isinstance(found, Cost):
        model = found.struct()
        job.point("model", found.coefficients, model, _library.address(model))
    else:
        return found
    return None


_CAP = ("of", "most_per_gpu", "most", "rounded_to", "is_soft")


class _Step:
    """Members of the struct of a step, and the arrays that they point to."""

    def __init__(self, kind: str, lengths: Any) -> None:
        self._kind = kind
        self.count = len(lengths)
        self._kept: list[Any] = [lengths]
        self._members: dict[str, Any] = {"samples": self.count, "lengths": _arrays.place(lengths)}

    def set(self, **members: Any) -> None:
        self._members.update(members)

    def lies(self, values: Any) -> Optional[int]:
        """Where an array lies, which is kept as long as the step."""
        self._kept.append(values)
        return _arrays.place(values)

    def keys(self, values: Any, name: str) -> Optional[int]:
        """The same of one for each sample."""
        return self.lies(_arrays.each_of(values, name, self.count))

    def _cap(self, given: Any, bags: int) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise TypeError(f"also has {shown(given)}; a cap is a dict with {', '.join(_CAP)}")
        for name in given:
            if name not in _CAP:
                raise ValueError(f"also has a cap with {shown(name)}; a cap has {', '.join(_CAP)}")
        per_gpu, most = given.get("most_per_gpu"), given.get("most")
        if most is not None:
            most = (_arrays.each_of(most, "also[...]['most']", bags, "bags") if bags
                    else _arrays.lengths_of(most, "also[...]['most']"))
        return {"of": self.keys(given.get("of"), "also[...]['of']"), "most": self.lies(most),
                "most_per_gpu": _at_most(per_gpu, "also[...]['most_per_gpu']"),
                "rounded_to": whole(given.get("rounded_to", 1), "also[...]['rounded_to']", 1),
                "is_soft": _arrays.flag(given.get("is_soft", False), "also[...]['is_soft']")}

    def limits(self, bags: int, *, most_per_gpu: Optional[int], also: Any,
               samples: Optional[counts], together: Any, apart: Any, then: Any, home: Any = None,
               fits: Any = None, starting_loads: Any = None, within_per_million: int = 0) -> None:
        """Those of plans, grids and packings; a packing has no bags yet."""
        if isinstance(also, (str, dict)) or not hasattr(also, "__iter__"):
            raise TypeError(f"also is {shown(also)}; give a list of caps, such as "
                            "[{'of': images, 'most_per_gpu': 3}]")
        if isinstance(then, str) and then not in ("level", "fewest_moves"):
            raise ValueError(f"then is {then!r}; give 'level', 'fewest_moves' or a number a sample")
        caps = _library.structs("ballast_cap", [self._cap(each, bags) for each in also])
        decides = 3 if then is not None and not isinstance(then, str) else \
            (None, "level", "fewest_moves").index(then)
        made = _library.struct(
            "ballast_limits", most_per_gpu=_at_most(most_per_gpu, "most_per_gpu"),
            samples=_rule(samples), caps=len(caps or ()), also=_library.address(caps),
            together=self.keys(together, "together"), apart=self.keys(apart, "apart"),
            home=self.lies(_arrays.ranks_of(home, "home", self.count)),
            fits=self.lies(_arrays.flags_of(fits, "fits", (self.count, bags))),
            starting_loads=self.lies(_arrays.each_of(starting_loads, "starting_loads", bags,
                                                     "bags")),
            then=decides, least=self.keys(then, "then") if decides == 3 else None,
            within_per_million=whole(within_per_million, "within_per_million", 0, 10**9))
        self._kept += [caps, made]
        self.set(limits=_library.address(made))

    def made(self) -> Any:
        return _library.struct(self._kind, **self._members)


def _rule(samples: Optional[counts]) -> Any:
    if samples is not None and not isinstance(samples, counts):
        raise TypeError(f"samples is {shown(samples)}; give ballast.counts.at_most(3), equal(), "
                        "multiple_of(2) or filled()")
    return _library.struct("ballast_counts", **(samples.members() if samples else {}))


def _at_most(most: Optional[int], name: str) -> int:
    return 0 if most is None else whole(most, name, 1)


# ---- Plans ------------------------------------------------------------------------------------------

_copied = _library.copied


@in_a_sentence
def plan(lengths: Any, bags: Union[int, str], *, cost: CostLike = "tokens",
         most_per_gpu: Optional[int] = None, also: Sequence[Mapping[str, Any]] = (),
         samples: Optional[counts] = None, together: Any = None, apart: Any = None,
         home: Any = None, fits: Any = None, starting_loads: Any = None, then: Any = None,
         within_per_million: int = 0, policy: str = "refine", gpus: Optional[int] = None,
         gpus_per_node: int = 8, speeds: Sequence[int] = ()) -> Plan:
    """Which bag (group of GPUs that share their samples) computes which samples.

    lengths         [n] tokens of each sample
    bags            a number of GPUs, each a bag by itself, or as text: "g1n4+g4n1" are four bags of
                    one GPU and one of four, as often as `gpus` says (once)
    cost            "tokens", "transformer:d=3072,gamma=0.405", a fitted Cost, [n] costs, or a
                    function that returns these for the lengths
    most_per_gpu    tokens that a GPU holds at most
    also            up to four more caps, {"of": [n], "most_per_gpu": 3, "most": [bags],
                    "rounded_to": 1, "is_soft": False} each, of which all but one number may be left
                    out; without "of" it counts tokens; where it is soft, a sample above every bag's
                    cap gets a bag for itself instead of a ValueError
    samples         how many a bag gets: counts.at_most(3), counts.equal(), counts.multiple_of(2),
                    counts.filled()
    together, apart [n] keys: samples with one key share a bag, or never do
    home            [n] the GPU that holds each sample now, for plan.moved and fewest_moves
    fits            [n x bags] True where a sample may go to a bag
    starting_loads  [bags] work that each has already, in units of the cost
    then            what decides among the shortest plans: "level", "fewest_moves", or [n] numbers
                    whose largest sum is to be least
    within_per_million  how much longer than the shortest a plan may be for that
    policy          by name, as `ballast plan --policy` takes it: "refine", "lpt",
                    "kk", "refine:nodes=1000"
    speeds          [gpus] whole numbers, in one unit; equal ones where it is left out
    """
    read = _arrays.lengths_of(lengths)
    job, step = _Job("ballast_plan_options"), _Step("ballast_plan_step", read)
    _set_bags(job, bags, gpus, gpus_per_node, speeds)
    job.set(policy=_arrays.text(policy, "policy"))
    step.set(costs=step.lies(_set_cost(job, cost, read)))
    step.limits(job.bags, most_per_gpu=most_per_gpu, also=also, samples=samples, together=together,
                apart=apart, then=then, home=home, fits=fits, starting_loads=starting_loads,
                within_per_million=within_per_million)
    asked, found = step.made(), _library.struct("ballast_plan")
    with _library.planner() as own:
        own.prepare("ballast_set_up_plan", job.key, job.options)
        seconds = own.call("ballast_partition", _library.byref(asked), _library.byref(found))
        content = {**_library.rows_of(found, found.bags),
                   "costs": _copied(found.costs, found.samples, 8),
                   "loads": _copied(found.loads, found.bags, 8),
                   "gpus": _copied(found.bag_gpus, found.bags, 4),
                   "above_cap": _copied(found.above_cap, found.bags_above_cap, 4),
                   "lengths": read.tobytes()}
    return Plan(content, makespan=found.makespan, lower_bound=found.lower_bound, gap=found.gap,
                proven_optimal=bool(found.is_proven), moved=found.moved,
                short_samples=found.short_samples, digest=found.digest, seconds=seconds)


def _least(number: int, given: Optional[int]) -> int:
    least = whole(number, "least_microbatches", 1, 2**31)
    if least > 1 and given is not None:
        raise ValueError("microbatches and least_microbatches exclude each other; give one")
    return least if least > 1 else 0


@in_a_sentence
def grid(lengths: Any, bags: Union[int, str], *, cost: CostLike = "tokens",
         most_per_gpu: Optional[int] = None, also: Sequence[Mapping[str, Any]] = (),
         samples: Optional[counts] = None, together: Any = None, apart: Any = None,
         home: Any = None, fits: Any = None, starting_loads: Any = None, then: Any = None,
         within_per_million: int = 0, microbatches: Optional[int] = None,
         least_microbatches: int = 1, multiple_of: int = 1, meet: str = "step", kinds: Any = None,
         speeds: Sequence[int] = ()) -> Grid:
    """Which bag computes which samples in which of its microbatches, as many on every bag.

    Each microbatch keeps the limits, which are those of plan.

    lengths         [n] tokens of each sample
    bags            a number of GPUs, each a rank of the grid, or bags as plan has them
    microbatches    of every bag; None: as few as are found, at least `least_microbatches`, and a
                    multiple of `multiple_of`
    meet            "step" or "microbatch": when bags wait for each other
    kinds           [n] keys: the samples of a slot have one
    """
    read = _arrays.lengths_of(lengths)
    job, step = _Job("ballast_grid_options"), _Step("ballast_grid_step", read)
    _set_bags(job, bags, None, 8, speeds)
    if not isinstance(meet, str):
        raise TypeError(f"meet is {shown(meet)}; give a text")
    if meet not in ("step", "microbatch"):
        raise ValueError("ranks meet at the end of a 'step' or of each 'microbatch'; meet is "
                         f"{meet!r}")
    job.set(meets_microbatch=meet == "microbatch",
            microbatches=_at_most(microbatches, "microbatches"),
            least_microbatches=_least(least_microbatches, microbatches),
            multiple_of=whole(multiple_of, "multiple_of", 1))
    step.set(costs=step.lies(_set_cost(job, cost, read)), kinds=step.keys(kinds, "kinds"))
    step.limits(job.bags, most_per_gpu=most_per_gpu, also=also, samples=samples, together=together,
                apart=apart, then=then, home=home, fits=fits, starting_loads=starting_loads,
                within_per_million=within_per_million)
    asked, found = step.made(), _library.struct("ballast_grid")
    with _library.planner() as own:
        own.prepare("ballast_set_up_grid", job.key, job.options)
        seconds = own.call("ballast_partition_grid", _library.byref(asked), _library.byref(found))
        return _read_grid(found, seconds, _library.why_microbatches(own))


def _read_grid(found: Any, seconds: float, why: str) -> Grid:
    cells = found.microbatches * found.ranks
    content = {**_library.rows_of(found, cells),
               "costs": _copied(found.costs, found.samples, 8),
               "loads": _copied(found.loads, cells, 8),
               "filled": _copied(found.filled, cells, 8),
               "longest": _copied(found.longest, 2 * cells, 8),
               "kinds": _copied(found.kinds, found.microbatches, 8),
               "above_cap": _copied(found.above_cap, found.cells_above_cap, 4)}
    return Grid(content, ranks=found.ranks, microbatches=found.microbatches,
                fewest_microbatches=found.fewest_microbatches, why=why,
                used_microbatches=found.used_microbatches, empty_cells=found.empty_cells,
                makespan=found.makespan, lower_bound=found.lower_bound, gap=found.gap,
                proven_optimal=bool(found.is_proven), moved=found.moved, digest=found.digest,
                seconds=seconds)


@in_a_sentence
def pack(lengths: Any, most_per_gpu: Optional[int] = None, *,
         also: Sequence[Mapping[str, Any]] = (), samples: Optional[counts] = None,
         together: Any = None, apart: Any = None, then: Any = None, least_bins: int = 0,
         multiple_of: int = 1, is_padded: bool = False, least_load: int = 0,
         most_bins: Optional[int] = None) -> Packing:
    """As few bins as are found, each within all limits, which are those of plan.

    lengths         [n] tokens of each sample
    most_per_gpu    tokens that a bin holds at most
    then            what decides among packings into as many bins: "level", or [n] numbers whose
                    largest sum is to be least
    least_bins, multiple_of
                    how many bins to make; then the largest is made small
    is_padded       whether a bin takes count x longest of the cap, not the sum
    least_load, most_bins
                    a stream: samples of bins that hold less, and of all but so many of the fullest,
                    are packing.left; put them first in the next call, so that none waits for ever
    """
    read = _arrays.lengths_of(lengths)
    step = _Step("ballast_pack_step", read)
    step.limits(0, most_per_gpu=most_per_gpu, also=also, samples=samples, together=together,
                apart=apart, then=then)
    step.set(least_bins=whole(least_bins, "least_bins"),
             multiple_of=whole(multiple_of, "multiple_of", 1),
             is_padded=_arrays.flag(is_padded, "is_padded"),
             least_load=whole(least_load, "least_load"), most_bins=_at_most(most_bins, "most_bins"))
    asked, found = step.made(), _library.struct("ballast_packing")
    with _library.planner() as own:
        seconds = own.call("ballast_pack", _library.byref(asked), _library.byref(found))
        return _read_packing(found, seconds)


def _read_packing(found: Any, seconds: float) -> Packing:
    content = {**_library.rows_of(found, found.bins, found.samples - found.samples_left),
               "loads": _copied(found.loads, found.bins, 8),
               "left": _copied(found.left, found.samples_left, 4),
               "empty": _copied(found.empty, found.empty_bins, 4),
               "above_cap": _copied(found.above_cap, found.bins_above_cap, 4)}
    largest = max(memoryview(content["loads"]).cast("q"), default=0)
    return Packing(content, fewest_bins=found.fewest_bins, largest=largest,
                   largest_bound=found.largest_bound, most_per_gpu=found.most_per_gpu,
                   proven_optimal=found.bins == found.fewest_bins, digest=found.digest,
                   seconds=seconds)


def _like(values: Any, name: str, shape: tuple[int, ...]) -> Any:
    """A table of the shape that forward has; None stays None."""
    if values is None:
        return None
    table, own = _arrays.table(values, name)
    if own != shape or len(shape) != 2:
        raise ValueError(f"forward and {name} are two arrays of [microbatches x stages]; give both "
                         "in one shape")
    return table


def _bytes_of(values: Any, name: str) -> Any:
    if values is not None and len(values) and _arrays.min_of(values) < 0:
        raise ValueError(f"{name} has {_arrays.min_of(values)}; give numbers from 0 on")
    return values


@in_a_sentence
def order(forward: Any, backward: Any = None, *, schedule: str = "1f1b", policy: str = "search",
          transfer: int = 0, weights: Any = None, ranks: Optional[int] = None, split: Any = None,
          held: Any = None, held_for_weights: Any = None, most: Any = None,
          in_v: bool = False, text: Optional[str] = None) -> Order:
    """In which order a pipeline computes its microbatches, and with "planned" also its tasks.

    forward, backward  [microbatches x stages] whole units of time; backward None: twice forward
    weights            the same, of weights passes, where a stage's backward is in two parts; `split`
                       says of which: [stages] True, or all
    schedule           "1f1b", "gpipe", "interleaved:v=2", or "planned"; or `text`, that of a file of
                       tasks or of cells
    ranks              stage s is on rank s % ranks; None: one for each stage, or for v of them
    in_v               stages go up the ranks and down again; schedules may then be "zero_bubble_v" or
                       "dual_pipe_v", and without it "zero_bubble"
    policy             "given", "ascending", "interval", "insertion", "search" or "exact:nodes=1000"
    transfer           from one stage to the next, in the same units
    held, held_for_weights  [microbatches x stages] bytes until the last pass, and how many of them
                       from backward on; most: [ranks] what each may keep
    """
    ahead, shape = _arrays.table(forward, "forward")
    back = _arrays.doubled(ahead) if backward is None else _like(backward, "backward", shape)
    if len(shape) != 2:
        raise ValueError("forward and backward are two arrays of [microbatches x stages]; give both "
                         "in one shape")
    if not isinstance(in_v, bool):
        raise TypeError(f"in_v is {shown(in_v)}; give True or False")
    after = _like(weights, "weights", shape)
    keeps = _bytes_of(_like(held, "held", shape), "held")
    keeps_after = _bytes_of(_like(held_for_weights, "held_for_weights", shape), "held_for_weights")
    count = 0 if ranks is None else whole(ranks, "ranks", 1, 2**16)
    job = _Job("ballast_order_options")
    if most is not None:
        room = _bytes_of(_arrays.lengths_of(most, "most"), "most")
        if count not in (0, len(room)):
            raise ValueError(f"most has {len(room)} entries for {count} ranks; give one for "
                             "each")
        count = len(room)
        job.point("most", tuple(room.tolist()), room, _arrays.place(room))
    if after is not None or split is not None:
        if isinstance(split, (str, dict)) or not hasattr([] if split is None else split, "__iter__"):
            raise TypeError(f"split is {shown(split)}; give True or False for each stage")
        parts = [True] * shape[1] if split is None else list(split)
        if len(parts) != shape[1]:
            raise ValueError(f"split has {len(parts)} entries for {shape[1]} stages; give one for "
                             "each")
        halves = bytes(_arrays.flag(each, "split") for each in parts)
        job.point("split", halves, halves, _arrays.place(halves))
    job.set(microbatches=shape[0], stages=shape[1], ranks=count, writes_cells=True,
            in_v=in_v,
            schedule=_arrays.text(schedule, "schedule"), policy=_arrays.text(policy, "policy"),
            transfer=whole(transfer, "transfer", 0, 2**53),
            text=None if text is None else _arrays.text(text, "text"))
    asked = _library.struct(
        "ballast_order_step", forward=_arrays.place(ahead), backward=_arrays.place(back),
        weights=_arrays.place(after), held=_arrays.place(keeps),
        held_for_weights=_arrays.place(keeps_after))
    found = _library.struct("ballast_order")
    with _library.planner() as own:
        try:
            own.prepare("ballast_set_up_order", job.key, job.options)
        except ValueError as why:
            of_ranks = f"; most has {count} ranks" if most is not None else ""
            raise ValueError(f"{'' if text is None else 'text: '}{why}{of_ranks}") from None
        try:
            seconds = own.call("ballast_order_microbatches", _library.byref(asked),
                               _library.byref(found))
        except ValueError as why:
            raise ValueError(f"{why} (most)" if count and most is not None else str(why)
                             ) from None
        first_task = _copied(found.first_task, found.ranks + 1, 8)
        tasks = memoryview(first_task).cast("Q")[-1]
        content = {"order": _copied(found.order, found.microbatches, 4), "first_task": first_task,
                   "tasks": _copied(found.tasks, tasks, 12)}
        csv = (found.cells or b"").decode()
    return Order(content, csv=csv, makespan=float(found.makespan), makespan_given=found.makespan_given,
                 lower_bound=float(found.lower_bound), gap=found.gap,
                 proven_optimal=found.makespan == found.lower_bound, digest=found.digest,
                 seconds=seconds)


# ---- Layouts ----------------------------------------------------------------------------------------

_KIND = ("gpus", "memory_bytes", "gpus_per_node", "bytes_per_second", "speed")


def _kind(given: Any, first: tuple[int, ...]) -> dict[str, int]:
    if not isinstance(given, dict) or not {"gpus", "memory_bytes"} <= given.keys() <= {*_KIND}:
        raise ValueError(f"more_gpus has {shown(given)}; give dicts of {', '.join(_KIND)}, of "
                         "which the first two are needed")
    from fractions import Fraction
    numbers = {name: whole(given.get(name, default), f"more_gpus[...]['{name}']")
               for name, default in zip(_KIND, first)}
    try:
        speed = Fraction(given.get("speed", 1)).limit_denominator(2**20)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"more_gpus[...]['speed'] is {shown(given['speed'])}; give a number, "
                         "1 for GPUs as fast as those measured") from None
    if not 0 <= speed < 2**32:
        raise ValueError(f"more_gpus[...]['speed'] is {shown(given['speed'])}; give a number below "
                         "2^32")
    return {**numbers, "speed": speed.numerator, "measured_speed": speed.denominator}


def _named(given: Any, name: str, modules: Sequence[str]) -> bytes:
    """A byte for each module, 1 where the list has its name."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"{name} is {shown(given)}; give a list of modules' names")
    wanted = [str(each) for each in given]
    for each in wanted:
        if each not in modules:
            raise ValueError(f"{name} has '{each}', which is no module of the profile; choose among "
                             f"{', '.join(modules)}")
    return bytes(each in wanted for each in modules)


def _read_profile(path: str) -> tuple[bytes, list[str]]:
    """The text of a profile and its modules. Of what may be mistyped it warns."""
    if not isinstance(path, str) and not hasattr(path, "__fspath__"):
        raise TypeError(f"profile is {shown(path)}; give the path of a file")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as why:
        raise ValueError(f"profile {path} cannot be read: {why}") from None
    read = _library.struct("ballast_profile")
    with _library.planner() as own:
        try:
            own.call("ballast_read_profile", content, _library.byref(read))
        except ValueError as why:
            raise ValueError(f"{path}: {why}") from None
        modules = _library.texts(read.name, read.modules)
        notes = _library.texts(read.note, read.notes)
    if notes:
        import warnings
        for note in notes:
            warnings.warn(f"{path}: {note}", UserWarning, stacklevel=4)
    return content, modules


@in_a_sentence
def search(profile: str, sizes: Any, *, gpus: int, memory_bytes: int, global_batch: int,
           gpus_per_node: int = 8, bytes_per_second: int = 0,
           more_gpus: Iterable[Any] = (), frozen: Iterable[Any] = (),
           trained_inputs: Iterable[Any] = (), leave_gpus: bool = False,
           share_optimizer: bool = False, best: int = 5,
           virtual_stages: Iterable[int] = (), batches: int = 4, draws: int = 1024,
           seed: int = 1, prove: bool = False) -> Mapping[str, Any]:
    """The layouts (tp, pp, dp of every module) with the shortest simulated steps.

    profile          path of a CSV file of module profiles, as `ballast profile` writes it
    sizes            [samples x modules] the size of each sample in each module of the profile
    memory_bytes     of a GPU; bytes_per_second: of a GPU to other nodes, 0: transfers take no time
    more_gpus        of other kinds: {"gpus": 8, "memory_bytes": 40 * 10**9, "speed": 0.5}, with
                     gpus_per_node and bytes_per_second where they are not those above
    frozen, trained_inputs  names of modules that are not trained, and that a trained projector feeds
    leave_gpus, share_optimizer  GPUs may stay unused; replicas share the optimiser's state
    batches, draws   how many steps are simulated, and how many samples priced
    prove            goes on until `proven`, however long that takes; else it ends after some seconds
    Returns layouts (best first; step_seconds, memory_bytes, microbatches, modules), gap, proven and
    lower_bound_seconds: no layout that fits has a shorter step. The kind of a module's GPUs is 0 for
    `gpus`, then counted through more_gpus.
    """
    most_simulated, most_batch, most_gpus = 2**21, 2**20, 2**20
    first = {"gpus": whole(gpus, "gpus", 1, most_gpus),
             "memory_bytes": whole(memory_bytes, "memory_bytes"),
             "gpus_per_node": whole(gpus_per_node, "gpus_per_node", 1, 2**32 - 1),
             "bytes_per_second": whole(bytes_per_second, "bytes_per_second")}
    if isinstance(more_gpus, (str, dict)):
        raise TypeError(f"more_gpus is {shown(more_gpus)}; give a list of dicts")
    kinds = _library.structs("ballast_gpu_kind",
                             [_kind(each, tuple(first.values())) for each in more_gpus])
    batch = whole(global_batch, "global_batch", 1, most_batch)
    content, modules = _read_profile(profile)
    table, shape = _arrays.table(sizes, "sizes")
    if len(shape) != 2 or shape[1] != len(modules):
        raise ValueError(f"sizes is an array of [samples x modules]; {profile} has {len(modules)} "
                         "modules, so give one column for each")
    if shape[0] == 0:
        raise ValueError("sizes has no sample; give at least one")
    untrained = _named(frozen, "frozen", modules)
    projected = _named(trained_inputs, "trained_inputs", modules)
    if isinstance(virtual_stages, (str, dict)) or not hasattr(virtual_stages, "__iter__"):
        raise TypeError(f"virtual_stages is {shown(virtual_stages)}; give whole numbers")
    stages = array("I", [whole(each, "virtual_stages", 0, 2**32 - 1) for each in virtual_stages])
    problem = _library.struct(
        "ballast_layout_problem", **first, profile_csv=content, samples=shape[0],
        sizes=_arrays.place(table), global_batch=batch,
        batches=whole(batches, "batches", 1, most_simulated // batch),
        draws=whole(draws, "draws", 1, most_simulated),
        seed=whole(seed, "seed", -MOST) % 2**64,
        best=whole(best, "best", 1, 10**6), more_kinds=len(kinds or ()),
        more_gpus=_library.address(kinds), frozen=_arrays.place(untrained),
        trained_inputs=_arrays.place(projected),
        leave_gpus=_arrays.flag(leave_gpus, "leave_gpus"),
        share_optimizer=_arrays.flag(share_optimizer, "share_optimizer"),
        more_virtual_stages=len(stages), virtual_stages=_arrays.place(stages),
        most_work=2**64 - 1 if _arrays.flag(prove, "prove") else 0)
    found = _library.struct("ballast_layouts")
    with _library.planner() as own:
        own.call("ballast_search_layouts", _library.byref(problem), _library.byref(found))
        cells = found.layouts * found.modules
        degrees = memoryview(_copied(found.module, cells, 20)).cast("I")
        kind = memoryview(_copied(found.kind, cells, 4)).cast("I")
        per_layout = {name: memoryview(_copied(getattr(found, name), found.layouts, size)).cast(code)
                      for name, size, code in (("microbatches", 4, "I"), ("virtual_stages", 4, "I"),
                                               ("simulated", 8, "q"), ("memory_bytes", 8, "Q"))}
    layouts = []
    for at in range(found.layouts):
        own_modules = {}
        for place, module in enumerate(modules, at * len(modules)):
            tp, pp, dp, sp, ep = degrees[5 * place:5 * place + 5]
            own_modules[module] = {"tp": tp, "sp": sp, "ep": ep, "pp": pp, "dp": dp,
                                   "kind": kind[place]}
        layouts.append({"modules": own_modules, "microbatches": per_layout["microbatches"][at],
                        "virtual_stages": per_layout["virtual_stages"][at],
                        "step_seconds": per_layout["simulated"][at] * 1e-12,
                        "memory_bytes": per_layout["memory_bytes"][at]})
    return {"layouts": layouts, "lower_bound_seconds": found.lower_bound * 1e-12,
            "gap": found.gap, "proven": bool(found.is_proven)}


# ---- Costs from measured times ----------------------------------------------------------------------

def _fit(seconds: Any, model: str, more: Sequence[str], **arrays: Any
         ) -> tuple[Cost, Mapping[str, Any]]:
    step = _library.struct("ballast_fit_step", model=_arrays.text(model, "model"),
                           measurements=len(seconds), seconds=_arrays.place(seconds),
                           **{name: _arrays.place(values) for name, values in arrays.items()})
    found = _library.struct("ballast_fit")
    with _library.planner() as own:
        own.call("ballast_fit_cost", _library.byref(step), _library.byref(found))
        misfits = memoryview(_copied(found.misfit, found.misfits, 8)).cast("Q").tolist()
    names = ("seconds_per_flop", "gamma", "seconds_per_call", "median_relative_error", "r_squared")
    report = {name: getattr(found, name) for name in (*names, *more)}
    return (Cost(found.linear, found.quadratic, found.fraction_bits),
            {**report, "misfits": misfits})


@in_a_sentence
def fit_cost(lengths: Any, seconds: Any, model: str) -> tuple[Cost, Mapping[str, Any]]:
    """The cost model that the times of single samples make, in picoseconds, and how well it fits.

    lengths, seconds  [n] one measured call each; model: "transformer:d=3072,layers=28"
    Fit on one rank and send the Cost to others: it pickles, and `Cost(*cost.coefficients)` is it
    again.
    """
    read, times = _arrays.lengths_of(lengths), _arrays.seconds_of(seconds)
    if len(times) != len(read):
        raise ValueError(f"seconds has {len(times)} entries for {len(read)} lengths; give one for "
                         "each")
    return _fit(times, model, (), lengths=read)


@in_a_sentence
def fit_step_cost(steps: Iterable[Any], seconds: Any, model: str, *,
                  gpus: Any = 1) -> tuple[Cost, Mapping[str, Any]]:
    """The same from measured training steps, in nanoseconds.

    steps    for each measurement the [n] lengths of the sequences that a bag computed
    seconds  [steps] what it took; gpus: of the bag, one number or [steps]
    From 20 steps on gamma is fitted too; before, it is the model's.
    """
    if isinstance(steps, (str, dict)):
        raise TypeError(f"steps is {shown(steps)}; give a list of lists of lengths")
    given = [_arrays.lengths_of(each, "a step").tolist() for each in steps]
    if _arrays.as_index(gpus) is not None:
        sizes = [whole(gpus, "gpus", 1, 2**32 - 1)] * len(given)
    else:
        sizes = _arrays.each_of(gpus, "gpus", len(given), "steps").tolist()
    rows = [number for each, size in zip(given, sizes)
            for number in (sum(each), sum(length * length for length in each), len(each), size)]
    times = _arrays.seconds_of(seconds)
    if len(times) != len(given):
        raise ValueError(f"seconds has {len(times)} entries for {len(given)} steps; give one for "
                         "each")
    try:
        table = array("q", rows)
    except OverflowError:
        raise ValueError("steps have lengths whose squares do not fit 63 bits; correct them"
                         ) from None
    return _fit(times, model, ("seconds_per_exchanged_token", "seconds_per_sequence"), steps=table)
