# SPDX-License-Identifier: Apache-2.0
"""What planners return, and what samples cost."""
from __future__ import annotations

from array import array

from . import _arrays, _library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Cost:
    """What a sample costs by its length, in integers that are the same on every machine.

        Cost("transformer:d=3072,gamma=0.405"), or Cost(*cost.coefficients)
    """

    def __init__(self, text_or_linear: Union[str, int], quadratic: Optional[int] = None,
                 fraction_bits: Optional[int] = None) -> None:
        given = (text_or_linear, quadratic, fraction_bits)
        if isinstance(text_or_linear, str) and quadratic is None and fraction_bits is None:
            read = _library.struct("ballast_cost")
            with _library.planner() as own:
                own.call("ballast_read_cost", _arrays.text(text_or_linear, "cost"),
                         _library.byref(read))
            self._numbers = (read.linear, read.quadratic, read.fraction_bits)
            return
        _arrays.told_of("Cost", {"text_or_linear": (int, str), "quadratic": (int,),
                                 "fraction_bits": (int,)}, given)
        numbers = [_arrays.as_index(each) for each in given]
        if not all(each is not None and 0 <= each < 2**64 for each in numbers):
            raise TypeError(f"Cost does not take {', '.join(map(_arrays.shown, given))}; help() "
                            "says what it takes")
        linear, quadratic_, bits = (each or 0 for each in numbers)
        self._numbers = (linear, quadratic_, _arrays.whole(bits, "fraction_bits", 0, 127))

    @property
    def coefficients(self) -> tuple[int, int, int]:
        """Of a token, of a pair of tokens, and how many bits of both are behind the point."""
        return self._numbers

    def struct(self) -> Any:
        linear, quadratic, bits = self._numbers
        return _library.struct("ballast_cost", linear=linear, quadratic=quadratic,
                               fraction_bits=bits)

    def __call__(self, lengths: Any) -> Array:
        """[n] what each of the lengths costs."""
        given = _arrays.lengths_of(lengths)
        costs: Any = array("q", bytes(8 * len(given)))
        with _library.planner() as own:
            own.call("ballast_price", _library.byref(self.struct()), len(given),
                     _arrays.place(given), _arrays.place(costs))
        np = _arrays.numpy()
        found: Array = np.asarray(costs) if np is not None else _arrays.Numbers(costs)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        return "Cost({}, {}, {})".format(*self._numbers)


class counts:
    """How many samples each bag, microbatch or bin gets: counts.at_most(3), counts.filled(), ..."""

    __slots__ = ("kind", "number")
    _kinds = ("any", "at_most", "equal", "multiple_of", "filled")

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, _arrays.whole(number, f"counts.{kind}", 0)

    @staticmethod
    def at_most(samples: int) -> counts:
        return counts("at_most", samples)

    @staticmethod
    def equal(multiple: int = 1) -> counts:
        """Counts differ by at most `multiple`, and all but one are multiples of it."""
        return counts("equal", multiple)

    @staticmethod
    def multiple_of(samples: int) -> counts:
        """0 is one."""
        return counts("multiple_of", samples)

    @staticmethod
    def filled() -> counts:
        """At least one."""
        return counts("filled", 1)

    def members(self) -> dict[str, int]:
        return {"kind": self._kinds.index(self.kind), "number": self.number}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, counts) and self.members() == other.members()

    def __hash__(self) -> int:
        return hash((self.kind, self.number))

    def __repr__(self) -> str:
        number = self.number if self.kind != "filled" else ""
        return f"ballast.counts.{self.kind}({number})"


class _Shown:
    """An array of a plan, made of its bytes when it is first asked for."""

    def __init__(self, code: str, width: Optional[str] = None) -> None:
        self._code, self._width = code, width

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, plan: Any, owner: Optional[type] = None) -> Any:
        if plan is None:
            return self
        width = None if self._width is None else getattr(plan, self._width)
        made = _arrays.array_of(plan._bytes[self._name], self._code, width)
        plan.__dict__[self._name] = made
        return made


def _shown(code: str, width: Optional[str] = None) -> Any:
    return _Shown(code, width)


class _Made:
    """Numbers as attributes, and arrays as bytes: it pickles."""

    digest: int  # one word that differs where the plan does: ranks compare it
    seconds: float  # that C++ took

    def __init__(self, content: Mapping[str, bytes], **numbers: Any) -> None:
        self._bytes = dict(content)
        self.__dict__.update(numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._bytes}


class _Rows(_Made):
    samples: Array = _shown("I")  # [n] those of row 0, then of row 1, ...
    offsets: Array = _shown("Q")  # [rows + 1] where each row begins in it
    owner: Array = _shown("I")  # [n] the row of each sample
    loads: Array = _shown("q")  # [rows]

    def __len__(self) -> int:
        return len(self._bytes["offsets"]) // 8 - 1

    def __getitem__(self, row: int) -> Array:
        """The samples of a row."""
        rows, at = len(self), _arrays.as_index(row)
        if at is None:
            _arrays.told_of(type(self).__name__, {"row": (int,)}, (row,))
            raise TypeError
        if not -rows <= at < rows:
            raise IndexError(f"row {at} of {rows}")
        at += rows if at < 0 else 0
        begin, end = memoryview(self._bytes["offsets"])[8 * at:8 * at + 16].cast("Q")
        found: Any = self.samples[begin:end]
        return found if _arrays.numpy() is not None else _arrays.Numbers(found)  # type: ignore

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))


class _Certified:
    makespan: float
    lower_bound: float  # no plan has less
    gap: float  # makespan over lower_bound, less 1: at most so far above the best plan
    proven_optimal: bool

    def _of(self) -> str:
        """What it is a plan of, in a few words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return (f"<ballast.{type(self).__name__} of {self._of()}: makespan {self.makespan:.12g}, "
                f"{100 * self.gap:.1f} % above the bound>")


class Plan(_Rows, _Certified):
    """Which bag computes which samples: plan[b], and plan.owner of each sample."""

    lengths: Array = _shown("q")  # [n]
    costs: Array = _shown("q")  # [n]
    gpus: Array = _shown("I")  # [bags]
    above_cap: Array = _shown("I")  # bags of one sample that is above a soft cap
    moved: float  # share of all tokens that leave the bag of their home
    short_samples: int

    def loss_weights(self, loss_tokens: Any) -> list[float]:
        """[bags] what the mean loss of a bag's tokens is multiplied by, where gradients are averaged
        over bags. loss_tokens: [n] those of each sample that have a loss."""
        counts = _labels(self, loss_tokens)
        return [weight for weight, in loss_weights([[count] for count in counts])]

    def _of(self) -> str:
        gpus = sum(self.gpus.tolist())
        bags = "" if len(self) == gpus else f"{_number(len(self), 'bag')} of "
        return f"{_number(len(self.owner), 'sample')} on {bags}{_number(gpus, 'GPU')}"

    def _repr_html_(self) -> str:
        per_gpu = [load / gpus for load, gpus in zip(self.loads.tolist(), self.gpus.tolist())]
        mean = max(1e-9, sum(self.loads.tolist()) / max(1, sum(self.gpus.tolist())))
        return _page(f"{len(self.owner)} samples on {len(self)} bags: work per GPU",
                     {"Gap": _gap(self), "Busiest GPU / mean": f"{max(per_gpu) / mean:.4g}"},
                     per_gpu)


class Grid(_Rows, _Certified):
    """Which rank computes which samples in which microbatch; row slot * ranks + rank is a cell."""

    costs: Array = _shown("q")  # [n]
    loads: Array = _shown("q", "ranks")  # [microbatches x ranks] costs
    filled: Array = _shown("q", "ranks")  # [microbatches x ranks] of the first cap, or tokens
    longest: Array = _shown("q", "_two")  # [cells x 2] source and target, of pad_grid
    kinds: Array = _shown("q")  # [microbatches]
    above_cap: Array = _shown("I")  # cells that hold more than a soft cap
    _two = 2
    ranks: int
    microbatches: int  # of every rank
    fewest_microbatches: int  # no plan has fewer
    why: str  # there are so many
    used_microbatches: int  # those after them are empty on all ranks
    empty_cells: int
    moved: float

    @_arrays.in_a_sentence
    def microbatch(self, rank: int, slot: int) -> Array:
        """The samples that a rank computes in a slot."""
        column = _arrays.whole(rank, "rank", 0, self.ranks - 1)
        return self[_arrays.whole(slot, "slot", 0, self.microbatches - 1) * self.ranks + column]

    def loss_weights(self, loss_tokens: Any) -> list[list[float]]:
        """[microbatches x ranks] what the mean loss of a cell's tokens is multiplied by, where
        gradients are added over microbatches and averaged over ranks. loss_tokens: [n] those of each
        sample that have a loss."""
        counts = _labels(self, loss_tokens)
        of_ranks = loss_weights([counts[rank::self.ranks] for rank in range(self.ranks)])
        return [list(slot) for slot in zip(*of_ranks)]

    def _of(self) -> str:
        return (f"{_number(len(self.owner), 'sample')} in {_number(self.microbatches, 'microbatch')} "
                f"of {_number(self.ranks, 'rank')}")

    def _repr_html_(self) -> str:
        sums = [sum(column) for column in zip(*self.loads.tolist())]
        return _page(f"{len(self.owner)} samples on {self.ranks} ranks: work per rank",
                     {"Gap": _gap(self), "Microbatches": self.microbatches,
                      "Empty": self.empty_cells}, sums)


class Packing(_Rows):
    """Which bin holds which samples."""

    left: Array = _shown("I")  # samples that a stream leaves for its next call, ascending
    empty: Array = _shown("I")  # bins, where more were asked for than there are samples
    above_cap: Array = _shown("I")
    fewest_bins: int  # no packing has fewer
    largest: int
    largest_bound: int  # no packing into as many bins has a smaller largest one
    most_per_gpu: int  # the first cap
    proven_optimal: bool  # no packing has fewer bins

    def __repr__(self) -> str:
        than = "" if self.proven_optimal else f" than {self.fewest_bins}"
        return (f"<ballast.Packing of {_number(len(self.owner), 'sample')} in "
                f"{_number(len(self), 'bin')}: no packing has fewer{than}>")

    def _repr_html_(self) -> str:
        return _page(f"{len(self.owner)} samples in {len(self)} bins: tokens",
                     {"No packing has fewer bins than": self.fewest_bins, "Largest": self.largest},
                     self.loads.tolist())


class Order(_Made, _Certified):
    """In which order a pipeline computes its microbatches."""

    order: Array = _shown("I")  # [microbatches] the microbatch at each position
    makespan_given: int  # in the order in which they are numbered; "planned": by 1F1B
    csv: str  # the tasks as torchtitan and NeMo Automodel load them: a line for each rank

    @property
    def tasks(self) -> list[list[tuple[int, str, int]]]:
        """Of each rank, as (stage, "F", "B" or "W" for weights, microbatch), one after another."""
        order = self.order.tolist()
        first = memoryview(self._bytes["first_task"]).cast("Q").tolist()
        numbers = memoryview(self._bytes["tasks"]).cast("I").tolist()
        every = [(stage, "FBW"[passes], order[position]) for position, stage, passes in
                 zip(numbers[::3], numbers[1::3], numbers[2::3])]
        return [every[begin:end] for begin, end in zip(first, first[1:])]

    def _of(self) -> str:
        return _number(len(self.order), "microbatch")

    def _repr_html_(self) -> str:
        return _page(f"{len(self.order)} microbatches: before and after",
                     {"Takes": f"{self.makespan:g} instead of {self.makespan_given:g}",
                      "Gap": _gap(self), "Order": " ".join(map(str, self.order.tolist()))},
                     [self.makespan_given, self.makespan])


def _labels(rows: _Rows, loss_tokens: Any) -> list[int]:
    """Of each row."""
    counts = _arrays.each_of(loss_tokens, "loss_tokens", len(rows.owner)).tolist()
    return [sum(counts[at] for at in row.tolist()) for row in rows]


def loss_weights(labels: Sequence[Sequence[int]]) -> list[list[float]]:
    """What each microbatch's mean loss is multiplied by, so that gradients that are added over
    microbatches and averaged over ranks are those of the mean over all tokens that have a loss; 0
    for a microbatch without any.

    labels  [ranks][microbatches] how many tokens of each have a loss
    """
    counts = [[_arrays.whole(each, "labels") for each in rank] for rank in labels]
    every = sum(each for rank in counts for each in rank)
    return [[len(counts) * each / every if every else 0.0 for each in rank] for rank in counts]


def _page(title: str, facts: Mapping[str, object], bars: Iterable[float]) -> str:
    """Facts and bars, for a notebook."""
    from html import escape
    every = list(bars)
    shown, top = every[:256], max([1.0, *every])
    width = 600 / max(1, len(shown))
    picture = "".join(
        f'<rect x="{at * width:.1f}" y="{80 - 80 * bar / top:.1f}" width="{width * 0.9:.1f}" '
        f'height="{80 * bar / top:.1f}" fill="#3b6ea5"/>' for at, bar in enumerate(shown))
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(fact))}</td></tr>"
                    for name, fact in facts.items())
    return (f'<b>{escape(title)}</b><svg viewBox="0 0 600 80" width="600" height="80" role="img" '
            f'aria-label="{escape(title)}">{picture}</svg><table>{cells}</table>')


def _gap(plan: _Certified) -> str:
    return f"at most {100 * plan.gap:.1f} % above the best"


def _number(count: int, what: str) -> str:
    plural = "" if count == 1 else "es" if what.endswith("h") else "s"
    return f"{count} {what}{plural}"
