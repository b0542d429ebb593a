# SPDX-License-Identifier: Apache-2.0
"""Which GPU computes which samples, so that all are equally busy.

    import ballast
    plan = ballast.plan([9000, 300, 400, 2500, 800, 1200], bags=2)
    print(plan[0], plan[1], f"at most {100 * plan.gap:.1f} % above the best plan there is")

Lengths are numbers of tokens. They and all other arrays are NumPy's, of 64-bit integers, which are
read where they lie; lists, other integers and arrays that speak DLPack are converted. What a plan
returns looks into the plan, without copies, and cannot be written. The same arguments give the same
plan in every process. Wrong arguments are a ValueError with one sentence. While it plans, Python's
other threads run: leave the arrays alone meanwhile. Ctrl-C on the main thread stops a planner.
"""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, wraps
from html import escape
from operator import index
from reprlib import Repr
from typing import (Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union, cast,
                    get_args, get_origin, get_type_hints)

import numpy as np
import numpy.typing as npt

from . import _planner
from ._planner import Cost, Grid, Order, Packing, Plan
from .sampler import BalancedBatchSampler, Cell

__all__ = [
    "BalancedBatchSampler", "Cell", "Cost", "Grid", "Order", "Packing", "Plan",
    "fit_cost", "fit_step_cost", "grid", "order", "pack", "plan", "search",
]
__version__ = "{}.{}.{}".format(
    _planner.version // 10000, _planner.version // 100 % 100, _planner.version % 100)

Array = npt.NDArray[Any]

# A name as the program takes it, a fitted model, one cost for each sample, or a function of the
# array of lengths that returns such.
CostLike = Union[str, Cost, Sequence[int], Array, Callable[[Array], Any]]

_HOST_DEVICES = (1, 3)  # of DLPack: memory of the host, and such that a GPU sees as well

_Call = TypeVar("_Call", bound=Callable[..., Any])

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def _shown(value: Any) -> str:
    """In a sentence."""
    return " ".join(_SHORT.repr(value).split())


def _as_index(value: Any) -> Optional[int]:
    try:
        return index(value)
    except TypeError:
        return None


def _whole(value: Any, name: str, least: int) -> int:
    number = None if isinstance(value, bool) else _as_index(value)
    if number is None:
        raise TypeError(f"{name} is {_shown(value)}; give a whole number")
    if number < least:
        raise ValueError(f"{name} is {number}; give a number from {least} on")
    return number


_TAKEN = {int: "a whole number below 2^63", str: "a text", bool: "True or False",
          Iterable[int]: "whole numbers", Iterable[Any]: "a list", type(None): ""}


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Union:
        return any(_fits(value, part) for part in get_args(hint))
    if hint is int:
        number = _as_index(value)
        return number is not None and -2**63 <= number < 2**63
    if hint is bool:
        return hasattr(value, "__bool__")
    if hint in (Iterable[int], Iterable[Any]):
        return isinstance(value, Iterable) and all(_fits(each, *get_args(hint)) for each in value)
    return hint not in _TAKEN or isinstance(value, hint)


def _takes(hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) is Union else (hint,)
    return " or ".join(filter(None, (_TAKEN[part] for part in parts)))


def _in_a_sentence(call: _Call, name: str = "",
                   hints: Optional[Mapping[str, Any]] = None) -> _Call:
    """The call, whose TypeErrors name the argument that is wrong."""

    @wraps(call)
    def told(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except TypeError as why:
            known = hints or get_type_hints(call)
            function = name or call.__name__
            for argument, value in [*zip(known, given), *named.items()]:
                hint = known.get(argument, Any)
                if not _fits(value, hint):
                    raise TypeError(f"{function}: {argument} is {_shown(value)}, of type "
                                    f"{type(value).__name__}; give {_takes(hint)}") from None
            if "argument types are supported" not in str(why):
                raise
            raise TypeError(f"{function} does not take "
                            f"{', '.join(map(_shown, [*given, *named.values()]))}; "
                            "help() says what it takes") from None

    return cast(_Call, told)


def _host_array(values: Any, name: str) -> Array:
    """Any array on the host, as it is."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        try:
            return np.asarray(values)
        except (TypeError, ValueError):
            raise ValueError(f"{name} is {_shown(values)}; give an array of numbers") from None
    if values.__dlpack_device__()[0] not in _HOST_DEVICES:
        try:  # plans are made on the host
            values = values.cpu() if hasattr(values, "cpu") else values.get()
        except Exception as why:
            raise ValueError(
                f"{name} lies on a device that cannot be read here ({why}); give an array of "
                "the host"
            ) from None
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError):  # of bools, which DLPack had not at first
        return np.asarray(values)


def _integers(values: Any, name: str) -> Array:
    """64-bit integers next to each other; no copy where they are already that."""
    array = _host_array(values, name)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} holds values of type {array.dtype}; give whole numbers")
    if array.dtype == np.uint64 and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}, which does not fit 63 bits; correct it")
    return np.ascontiguousarray(array, np.int64)


def _lengths(values: Any, name: str = "lengths") -> Array:
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1 \
            and values.flags.c_contiguous:
        return values  # as nearly always
    array = _integers(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; give one number for each sample")
    return array


def _optional(values: Any, name: str) -> Optional[Array]:
    return None if values is None else _lengths(values, name)


def _flags(values: Any, name: str) -> Optional[Array]:
    """Bytes of an array of bools; no copy where they lie next to each other."""
    if values is None:
        return None
    array = _host_array(values, name)
    if array.size and array.dtype != np.bool_:
        raise ValueError(f"{name} holds values of type {array.dtype}; give True and False")
    return np.ascontiguousarray(array, np.bool_).view(np.uint8)


# What texts say is read once.
_named_cost = lru_cache(64)(Cost)
_named_policy = lru_cache(64)(_planner.Policy)
_bags = lru_cache(64, typed=True)(_planner.Bags)


def _speeds(given: Any) -> tuple[int, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"speeds is {_shown(given)}; give a list of whole numbers")
    speeds = tuple(_whole(speed, "speeds", 1) for speed in given)
    if max(speeds, default=1) >= 2**32:
        raise ValueError(f"speeds has {max(speeds)}; give numbers below 2^32")
    return speeds


def _cost(cost: CostLike, lengths: Array) -> Union[Cost, Array]:
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str):
        return _named_cost(cost)
    return _lengths(cost(lengths) if callable(cost) else cost, "cost")


_CAP = ("of", "most_per_gpu", "most", "rounded_to", "soft")


def _cap(given: Any) -> tuple[Any, Optional[int], Any, int, bool]:
    if not isinstance(given, Mapping):
        raise TypeError(f"also has {_shown(given)}; a cap is a dict with {', '.join(_CAP)}")
    for name in given:
        if name not in _CAP:
            raise ValueError(f"also has a cap with {_shown(name)}; a cap has {', '.join(_CAP)}")
    most = given.get("most_per_gpu")
    return (_optional(given.get("of"), "also[...]['of']"),
            None if most is None else _whole(most, "also[...]['most_per_gpu']", 0),
            _optional(given.get("most"), "also[...]['most']"),
            _whole(given.get("rounded_to", 1), "also[...]['rounded_to']", 1),
            bool(given.get("soft", False)))


def _caps(given: Any) -> list[tuple[Any, Optional[int], Any, int, bool]]:
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"also is {_shown(given)}; give a list of caps, such as "
                        "[{'of': images, 'most_per_gpu': 3}]")
    return [_cap(each) for each in given]


def _counts_and_then(most_samples: Optional[int], equal_counts: Union[bool, int], fill: bool,
                     then: Any, names: tuple[str, ...]) -> tuple[str, int, str, Optional[Array]]:
    if most_samples is not None and (equal_counts or fill) or (equal_counts and fill):
        raise ValueError("most_samples, equal_counts and fill exclude each other; give one")
    if not isinstance(equal_counts, bool):
        equal_counts = _whole(equal_counts, "equal_counts", 1)
        if equal_counts >= 2**31:
            raise ValueError(f"equal_counts is {equal_counts}; give a number below 2^31")
    if isinstance(then, str) and then not in names:
        shown = " or ".join([", ".join(repr(name) for name in names), "a number a sample"])
        raise ValueError(f"then is {then!r}; give {shown}")
    return ("equal" if equal_counts else "filled" if fill else "any", int(equal_counts) or 1,
            then if isinstance(then, str) else "",
            None if isinstance(then, str) else _optional(then, "then"))


@_in_a_sentence
def plan(lengths: Any, bags: Union[int, str], *, cost: CostLike = "tokens",
         policy: str = "refine", gpus: Optional[int] = None, gpus_per_node: int = 8,
         speeds: Sequence[int] = (), together: Any = None, apart: Any = None, fits: Any = None,
         home: Any = None, weights: Any = None,
         starting_loads: Any = None, most_per_gpu: Optional[int] = None,
         most_samples: Optional[int] = None, cap_is_soft: bool = False,
         also: Sequence[Mapping[str, Any]] = (), equal_counts: Union[bool, int] = False,
         fill: bool = False, then: Any = None, within_per_million: int = 0) -> Plan:
    """Which bag (group of GPUs that share their samples) computes which samples.

    lengths         [n] tokens of each sample
    bags            a number of GPUs, each a bag by itself, or as text: "g1n4+g4n1" are four bags of
                    one GPU and one of four, as often as `gpus` says (once)
    speeds          [gpus] whole numbers, in one unit; equal ones where it is left out
    cost            "tokens", "transformer:d=3072,gamma=0.405", a fitted Cost, [n] costs, or a
                    function that returns these for the lengths
    policy          by name, as `ballast plan --policy` takes it: "refine", "lpt",
                    "kk", "refine:nodes=1000"
    together, apart [n] keys: samples with one key share a bag, or never do
    fits            [n x bags] True where a sample may go to a bag
    home            [n] the GPU that holds each sample now, for plan.moved and fewest_moves
    most_per_gpu    what a GPU holds at most, in tokens or in `weights` [n]
    most_samples    of a bag
    starting_loads  [bags] work that each has already, in units of the cost
    cap_is_soft     whether a sample above every cap gets a bag for itself instead of a ValueError
    also            up to four more caps, {"of": [n], "most_per_gpu": 3, "most": [bags],
                    "rounded_to": 1, "soft": False} each, of which all but one number may be left out
    equal_counts    as many samples in each bag; a number: all counts but one are multiples of it
    fill            at least one sample in each bag
    then            what decides among the shortest plans: "level", "fewest_moves", or [n] numbers
                    whose largest sum is to be least
    within_per_million  how much longer than the shortest a plan may be for that
    """
    array = _lengths(lengths)
    return _planner.plan(
        array, _bags(bags, gpus, gpus_per_node, _speeds(speeds)), _cost(cost, array),
        _named_policy(policy),
        _optional(together, "together"), _optional(apart, "apart"), _flags(fits, "fits"),
        _optional(home, "home"), _optional(weights, "weights"),
        _optional(starting_loads, "starting_loads"), most_per_gpu, most_samples, cap_is_soft,
        _caps(also),
        *_counts_and_then(most_samples, equal_counts, fill, then, ("level", "fewest_moves")),
        within_per_million)


@_in_a_sentence
def grid(lengths: Any, ranks: Union[int, str], *, cost: CostLike = "tokens",
         speeds: Sequence[int] = (), microbatches: Optional[int] = None,
         most_tokens: Optional[int] = None,
         weights: Any = None, multiple_of: int = 1, weight_multiple: int = 1,
         most_samples: Optional[int] = None, equal_counts: bool = False,
         samples_multiple_of: Optional[int] = None, meet: str = "step", fill: bool = False,
         also: Sequence[Mapping[str, Any]] = (), together: Any = None, apart: Any = None,
         fits: Any = None, home: Any = None, kinds: Any = None) -> Grid:
    """Which rank computes which samples in which of its microbatches, as many on every rank.

    lengths         [n] tokens of each sample
    ranks           a number of them, or bags of GPUs, each a rank, as plan has them; their `speeds`
    microbatches    of every rank; None: as few as are found, a multiple of `multiple_of`
    most_tokens     of a microbatch, or of its `weights` [n], rounded up to `weight_multiple`
    most_samples, equal_counts, samples_multiple_of, fill
                    how many samples a microbatch may have: at most one of the four; `fill` is at
                    least one
    also            up to three more caps of a microbatch, as plan has them
    meet            "step" or "microbatch": when ranks wait for each other
    together, apart [n] keys: samples of one key share a microbatch, or never do
    fits            [n x ranks] True where a sample may go to a rank
    kinds           [n] keys: the samples of a slot have one
    home            [n] the rank that holds each sample now
    """
    rules = [("equal", 0)] if equal_counts else []
    rules += [("at_most", most_samples)] if most_samples is not None else []
    rules += [("multiple_of", samples_multiple_of)] if samples_multiple_of is not None else []
    rules += [("filled", 0)] if fill else []
    if len(rules) > 1:
        raise ValueError("most_samples, equal_counts, samples_multiple_of and fill exclude each "
                         "other; give one")
    array = _lengths(lengths)
    fast = _speeds(speeds)
    try:
        bags = _bags(ranks, None, 8, fast)
    except ValueError as why:
        raise ValueError(f"ranks and speeds: {why}") from None
    return _planner.grid(
        array, bags, _cost(cost, array), microbatches, most_tokens, _optional(weights, "weights"),
        multiple_of, weight_multiple, _caps(also), *(rules or [("any", 0)])[0], meet,
        _optional(together, "together"), _optional(apart, "apart"), _flags(fits, "fits"),
        _optional(home, "home"), _optional(kinds, "kinds"))


@_in_a_sentence
def pack(lengths: Any, most_per_gpu: Optional[int] = None, *,
         also: Sequence[Mapping[str, Any]] = (),
         weights: Any = None, cap_is_soft: bool = False, together: Any = None, apart: Any = None,
         most_samples: Optional[int] = None, equal_counts: Union[bool, int] = False,
         fill: bool = False, then: Any = None, least_bins: int = 0, multiple_of: int = 1,
         padded: bool = False) -> Packing:
    """As few bins as are found, each within all limits, which are those of `plan`.

    lengths         [n] tokens of each sample
    most_per_gpu    what a bin holds at most, in tokens or in `weights` [n]
    also            up to four more caps, {"of": [n], "most_per_gpu": 3, "rounded_to": 1,
                    "soft": False} each
    then            what decides among packings into as many bins: "level", or [n] numbers whose
                    largest sum is to be least
    least_bins, multiple_of
                    how many bins to make; then the largest is made small
    padded          whether a bin takes count x longest of the cap, not the sum
    """
    array = _lengths(lengths)
    weighed = _optional(weights, "weights")
    if weighed is not None and len(weighed) != len(array):
        raise ValueError(f"weights has {len(weighed)} entries for {len(array)} samples; give one "
                         "for each")
    return _planner.pack(
        array, _optional(together, "together"), _optional(apart, "apart"), weighed, most_per_gpu,
        most_samples, cap_is_soft, _caps(also),
        *_counts_and_then(most_samples, equal_counts, fill, then, ("level",)), least_bins,
        multiple_of, padded)


@_in_a_sentence
def order(forward: Any, backward: Any = None, *, schedule: str = "1f1b", policy: str = "search",
          transfer: int = 0) -> Order:
    """In which order a pipeline computes its microbatches.

    forward, backward  [microbatches x stages] whole units of time; backward None: twice forward
    schedule           "1f1b", "gpipe" or "interleaved:v=2"
    policy             "given", "ascending", "interval", "insertion", "search" or "exact:nodes=1000"
    transfer           from one stage to the next, in the same units
    """
    ahead = _integers(forward, "forward")
    back = 2 * ahead if backward is None else _integers(backward, "backward")
    return _planner.order(ahead, back, schedule, policy, transfer)


_KIND = ("gpus", "memory_bytes", "gpus_per_node", "bytes_per_second", "speed")


def _kind(given: Any, first: tuple[int, ...]) -> tuple[int, int, int, int, int, int]:
    if not isinstance(given, Mapping) or not {"gpus", "memory_bytes"} <= given.keys() <= {*_KIND}:
        raise ValueError(f"more_gpus has {_shown(given)}; give dicts of {', '.join(_KIND)}, of "
                         "which the first two are needed")
    gpus, memory, per_node, bandwidth = (
        _whole(given.get(name, default), f"more_gpus[...]['{name}']", 0)
        for name, default in zip(_KIND, first))
    try:
        speed = Fraction(given.get("speed", 1)).limit_denominator(2**20)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"more_gpus[...]['speed'] is {_shown(given['speed'])}; give a number, "
                         "1 for GPUs as fast as those measured") from None
    return gpus, memory, per_node, bandwidth, speed.numerator, speed.denominator


def _names(given: Any, name: str) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is {_shown(given)}; give a list of modules' names")
    return [str(each) for each in given]


@_in_a_sentence
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
    first = (gpus, memory_bytes, gpus_per_node, bytes_per_second)
    kinds = [(*first, 1, 1), *(_kind(each, first) for each in more_gpus)]
    return _planner.search(profile, _integers(sizes, "sizes"), kinds, _names(frozen, "frozen"),
                           _names(trained_inputs, "trained_inputs"), leave_gpus, share_optimizer,
                           global_batch, best, list(virtual_stages), batches, draws, seed % 2**64,
                           prove)


def _seconds(seconds: Any) -> Array:
    array = _host_array(seconds, "seconds")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"seconds holds values of type {array.dtype}; give numbers")
    return np.ascontiguousarray(array, np.float64).reshape(-1)


@_in_a_sentence
def fit_cost(lengths: Any, seconds: Any, model: str) -> tuple[Cost, Mapping[str, Any]]:
    """The cost model that the times of single samples make, in picoseconds, and how well it fits.

    lengths, seconds  [n] one measured call each; model: "transformer:d=3072,layers=28"
    Fit on one rank and send the Cost to others: it pickles, and `Cost(*cost.coefficients)` is it
    again.
    """
    return _planner.fit_lengths(_lengths(lengths), _seconds(seconds), model)


@_in_a_sentence
def fit_step_cost(steps: Iterable[Any], seconds: Any, model: str, *,
                  gpus: Any = 1) -> tuple[Cost, Mapping[str, Any]]:
    """The same from measured training steps, in nanoseconds.

    steps    for each measurement the [n] lengths of the sequences that a bag computed
    seconds  [steps] what it took; gpus: of the bag, one number or [steps]
    From 20 steps on gamma is fitted too; before, it is the model's.
    """
    arrays = [_lengths(each, "a step") for each in steps]
    sizes = np.broadcast_to(_integers(gpus, "gpus"), len(arrays))
    rows = [(int(each.sum()), int((each * each).sum()), each.size, int(size))
            for each, size in zip(arrays, sizes)]
    return _planner.fit_steps(np.array(rows, np.int64).reshape(-1, 4), _seconds(seconds), model)


def _page(title: str, facts: Mapping[str, object], bars: Sequence[float]) -> str:
    """Facts and bars, for a notebook."""
    shown, top = list(bars)[:256], max([1.0, *bars])
    width = 600 / max(1, len(shown))
    picture = "".join(
        f'<rect x="{at * width:.1f}" y="{80 - 80 * bar / top:.1f}" width="{width * 0.9:.1f}" '
        f'height="{80 * bar / top:.1f}" fill="#3b6ea5"/>' for at, bar in enumerate(shown))
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(fact))}</td></tr>"
                    for name, fact in facts.items())
    return (f'<b>{escape(title)}</b><svg viewBox="0 0 600 80" width="600" height="80" role="img" '
            f'aria-label="{escape(title)}">{picture}</svg><table>{cells}</table>')


def _gap(plan_: Union[Plan, Grid, Order]) -> str:
    return f"{100 * plan_.gap:.3g} % above the best there is, at most"


def _plan_html(self: Plan) -> str:
    per_gpu = self.loads / self.gpus
    mean = max(1e-9, self.loads.sum() / self.gpus.sum())
    return _page(f"{self.owner.size} samples on {len(self)} bags: work per GPU",
                 {"Gap": _gap(self), "Busiest GPU / mean": f"{per_gpu.max() / mean:.4g}"},
                 per_gpu.tolist())


def _grid_html(self: Grid) -> str:
    return _page(f"{self.owner.size} samples on {self.ranks} ranks: work per rank",
                 {"Gap": _gap(self), "Microbatches": self.microbatches, "Empty": self.empty_cells},
                 self.loads.sum(axis=0).tolist())


def _packing_html(self: Packing) -> str:
    return _page(f"{self.owner.size} samples in {len(self)} bins: tokens",
                 {"No packing has fewer bins than": self.fewest_bins, "Largest": self.largest},
                 self.loads.tolist())


def _order_html(self: Order) -> str:
    return _page(f"{self.order.size} microbatches: before and after",
                 {"Takes": f"{self.makespan:g} instead of {self.makespan_given:g}",
                  "Gap": _gap(self),
                  "Order": " ".join(map(str, self.order))},
                 [self.makespan_given, self.makespan])


for _type, _html in ((Plan, _plan_html), (Grid, _grid_html), (Packing, _packing_html),
                     (Order, _order_html)):
    setattr(_type, "_repr_html_", _html)

_priced = Cost.__call__
setattr(Cost, "__call__", lambda self, lengths: _priced(self, _lengths(lengths)))
setattr(Cost, "__init__", _in_a_sentence(
    Cost.__init__, "Cost", {"self": Any, "text_or_linear": Union[int, str], "quadratic": int,
                            "fraction_bits": int}))
setattr(Grid, "microbatch", _in_a_sentence(
    Grid.microbatch, "microbatch", {"self": Any, "rank": int, "slot": int}))
for _rows in (Plan, Grid, Packing):
    setattr(_rows, "__getitem__", _in_a_sentence(
        getattr(_rows, "__getitem__"), _rows.__name__, {"self": Any, "row": int}))
