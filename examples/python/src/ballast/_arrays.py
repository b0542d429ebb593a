# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out, with NumPy where it is installed and without it where it is not, and values of
arguments that are told from wrong ones."""
from __future__ import annotations

import sys
from array import array
from operator import index

from . import _library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, NoReturn, Optional, TypeVar, Union

    _Call = TypeVar("_Call", bound=Callable[..., Any])

MOST = 2**63 - 1
_HOST_DEVICES = (1, 3)  # of DLPack: memory of the host, and such that a GPU sees as well
_KINDS = {"q": "<i8", "I": "<u4", "Q": "<u8", "d": "<f8"}

_numpy: Any = False  # not looked for yet


def numpy() -> Any:
    """NumPy, or None where it is not installed: loaded when it is first needed."""
    global _numpy
    if _numpy is False:
        try:
            import numpy as found
            _numpy = found
        except ImportError:
            _numpy = None
    return _numpy


def _is_numpy(values: Any) -> bool:
    """An array of NumPy, which is loaded then."""
    loaded = sys.modules.get("numpy")
    return loaded is not None and isinstance(values, loaded.ndarray)


# ---- What a sentence shows ------------------------------------------------------------------------

def shown(value: Any) -> str:
    """In a sentence."""
    import reprlib
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return " ".join(short.repr(value).split())


def as_index(value: Any) -> Optional[int]:
    try:
        return index(value)
    except TypeError:
        return None


def whole(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    number = None if isinstance(value, bool) else as_index(value)
    if number is None:
        raise TypeError(f"{name} is {shown(value)}; give a whole number")
    if number < least or number > most:
        until = f"from {least} on" if most == MOST else f"from {least} to {most}"
        raise ValueError(f"{name} is {number}; give a number {until}")
    return number


def flag(value: Any, name: str) -> bool:
    if not hasattr(value, "__bool__"):
        raise TypeError(f"{name} is {shown(value)}; give True or False")
    return bool(value)


def text(value: Any, name: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; give a text")
    if "\0" in value:
        raise ValueError(f"{name} is {shown(value)}; give a text without a character 0")
    return value.encode("utf-8", "surrogateescape")


# ---- In -------------------------------------------------------------------------------------------

def _of_device(values: Any, name: str) -> Any:
    """What lies on the host, of an array that speaks DLPack."""
    if values.__dlpack_device__()[0] in _HOST_DEVICES:
        return values
    try:  # plans are made on the host
        return values.cpu() if hasattr(values, "cpu") else values.get()
    except Exception as why:
        raise ValueError(f"{name} lies on a device that cannot be read here ({why}); give an array "
                         "of the host") from None


def host_array(values: Any, name: str) -> Any:
    """Any array on the host, as it is, of NumPy."""
    np = numpy()
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        try:
            return np.asarray(values)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} is {shown(values)}; give an array of numbers") from None
    values = _of_device(values, name)
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError):  # of bools, which DLPack had not at first
        return np.asarray(values)


def _flat(values: Any, name: str) -> tuple[list[Any], tuple[int, ...]]:
    """The values of nested lists, and their shape, without NumPy."""
    if hasattr(values, "__dlpack__"):
        values = _of_device(values, name)
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} is {shown(values)}; give an array of numbers")
    rows = list(values)
    if not any(isinstance(row, (list, tuple)) or hasattr(row, "tolist") for row in rows):
        return rows, (len(rows),)
    inner = [_flat(row, name) for row in rows]
    if len({shape for _, shape in inner}) > 1:
        raise ValueError(f"{name} is {shown(values)}; give an array of numbers")
    return [each for row, _ in inner for each in row], (len(rows), *inner[0][1])


def _refuse_kind(name: str, kind: Any, wanted: str) -> NoReturn:
    raise ValueError(f"{name} holds values of type {kind}; give {wanted}")


def _listed(values: Any, name: str, code: str) -> tuple[array[Any], tuple[int, ...]]:
    flat, shape = _flat(values, name)
    wanted = "numbers" if code == "d" else "whole numbers"
    for each in flat:
        if isinstance(each, (bool, str)) or not hasattr(each, "__index__") and code != "d":
            _refuse_kind(name, type(each).__name__, wanted)
    try:
        return array(code, flat), shape
    except (TypeError, OverflowError):
        wrong = next((each for each in flat if not isinstance(each, int)
                      or not -2**63 <= each <= MOST), flat[0])
        if isinstance(wrong, int):
            raise ValueError(f"{name} holds {wrong}, which does not fit 63 bits; correct it"
                             ) from None
        _refuse_kind(name, type(wrong).__name__, wanted)


def table(values: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """64-bit integers next to each other, and their shape; no copy where they are already that."""
    if numpy() is None:
        return _listed(values, name, "q")
    np = numpy()
    given = host_array(values, name)
    if given.size == 0:
        return np.zeros(given.shape, np.int64), given.shape
    if given.dtype.kind not in "iu":
        _refuse_kind(name, given.dtype, "whole numbers")
    if given.dtype == np.uint64 and int(given.max()) > MOST:
        raise ValueError(f"{name} holds {given.max()}, which does not fit 63 bits; correct it")
    given = np.ascontiguousarray(given, np.int64)
    return given, given.shape


def integers(values: Any, name: str) -> Any:
    return table(values, name)[0]


def lengths_of(values: Any, name: str = "lengths") -> Any:
    """The same of one dimension."""
    kind = type(values)
    if kind is list or kind is tuple:
        try:
            return array("q", values)
        except (TypeError, OverflowError):
            pass  # a sentence says what is wrong
    elif kind is array and values.typecode == "q":
        return values
    elif _is_numpy(values) and values.dtype == "<i8" and values.ndim == 1 \
            and values.flags.c_contiguous:
        return values  # as nearly always
    given, shape = table(values, name)
    if len(shape) != 1:
        raise ValueError(f"{name} has {len(shape)} dimensions; give one number for each sample")
    return given


def each_of(values: Any, name: str, count: int, what: str = "samples") -> Any:
    """The same, one for each of so many; None stays None."""
    if values is None:
        return None
    given = lengths_of(values, name)
    if len(given) != count:
        raise ValueError(f"{name} has {len(given)} entries for {count} {what}; give one for each")
    return given


def ranks_of(values: Any, name: str, count: int) -> Any:
    """The same of numbers below 2^32."""
    given = each_of(values, name, count)
    if given is None:
        return None
    if count and not 0 <= min_of(given) <= max_of(given) < 2**32:
        wrong = min_of(given) if min_of(given) < 0 else max_of(given)
        raise ValueError(f"{name} is {wrong}; give a number from 0 to {2**32 - 1}")
    return given.astype("<u4") if _is_numpy(given) else array("I", given)


def flags_of(values: Any, name: str, shape: tuple[int, int]) -> Any:
    """Bytes of a table of True and False; no copy where they lie next to each other."""
    if values is None:
        return None
    np = numpy()
    if np is None:
        flat, found = _flat(values, name)
        if not all(each is True or each is False for each in flat):
            wrong = next(each for each in flat if each is not True and each is not False)
            _refuse_kind(name, type(wrong).__name__, "True and False")
        read: Any = bytes(flat)
    else:
        given = host_array(values, name)
        if given.size and given.dtype != np.bool_:
            _refuse_kind(name, given.dtype, "True and False")
        found = given.shape
        read = np.ascontiguousarray(given, np.bool_).view(np.uint8)
    if found != shape and shape[0] > 0:
        raise ValueError(f"{name} is of [{' x '.join(map(str, found))}]; give one True or False for "
                         f"each sample and place, [{shape[0]} x {shape[1]}]")
    return read


def seconds_of(values: Any) -> Any:
    if numpy() is None:
        return _listed(values, "seconds", "d")[0]
    np = numpy()
    given = host_array(values, "seconds")
    if given.dtype.kind not in "iuf":
        _refuse_kind("seconds", given.dtype, "numbers")
    return np.ascontiguousarray(given, np.float64).reshape(-1)


def place(values: Any) -> Optional[int]:
    """Where an array lies; None is nowhere."""
    if values is None:
        return None
    if type(values) is array:
        return values.buffer_info()[0]
    if type(values) is bytes:
        return _library.place_of_bytes(values)
    return int(values.__array_interface__["data"][0])


def doubled(values: Any) -> Any:
    return 2 * values if _is_numpy(values) else array("q", [2 * each for each in values])


def min_of(values: Any) -> int:
    return int(values.min() if _is_numpy(values) else min(values))


def max_of(values: Any) -> int:
    return int(values.max() if _is_numpy(values) else max(values))


def sum_of(values: Any) -> int:
    return int(values.sum() if _is_numpy(values) else sum(values))


def first_below(values: Any, least: int) -> Optional[int]:
    """The place of the first value below that."""
    if _is_numpy(values):
        found = (values < least).nonzero()[0]
        return int(found[0]) if found.size else None
    return next((at for at, each in enumerate(values) if each < least), None)


def taken(values: Any, rows: Any) -> Any:
    """Those of some rows."""
    if _is_numpy(values):
        return values[numpy().asarray(rows, numpy().int64)]
    return array("q", [values[row] for row in rows])


# ---- Out ------------------------------------------------------------------------------------------

class Numbers(tuple):  # type: ignore[type-arg]
    """What is an array where NumPy is installed: as it, it has `tolist()` and `size`."""

    def tolist(self) -> list[Any]:
        return [each.tolist() if isinstance(each, Numbers) else each for each in self]

    @property
    def size(self) -> int:
        return len(self)


def array_of(content: bytes, code: str, width: Optional[int] = None) -> Any:
    """Numbers that look into bytes and cannot be written; with a width, rows of so many."""
    np = numpy()
    if np is not None:
        flat = np.frombuffer(content, _KINDS[code]) if content else np.zeros(0, _KINDS[code])
        return flat if width is None else flat.reshape(-1, width)
    numbers = Numbers(memoryview(content).cast(code))
    if width is None:
        return numbers
    return Numbers(Numbers(numbers[at:at + width]) for at in range(0, len(numbers), width))


# ---- Errors that name the argument -----------------------------------------------------------------

def _fits(value: Any, hint: Any) -> bool:
    import typing
    if typing.get_origin(hint) is typing.Union:
        return any(_fits(value, part) for part in typing.get_args(hint))
    if hint is int:
        number = as_index(value)
        return number is not None and -2**63 <= number < 2**63
    if hint is bool:
        return hasattr(value, "__bool__")
    if hint in (typing.Iterable[int], typing.Iterable[typing.Any]):
        return (isinstance(value, typing.Iterable)
                and all(_fits(each, *typing.get_args(hint)) for each in value))
    return hint not in _known() or isinstance(value, hint)


def _known() -> dict[Any, str]:
    from typing import Any, Iterable
    return {int: "a whole number below 2^63", str: "a text", bool: "True or False",
            Iterable[int]: "whole numbers", Iterable[Any]: "a list", type(None): ""}


def _takes(hint: Any) -> str:
    import typing
    parts = (typing.get_args(hint) if typing.get_origin(hint) is typing.Union else (hint,))
    return " or ".join(filter(None, (_known().get(part, "") for part in parts)))


def _hints(call: Any) -> dict[str, Any]:
    """Of each argument in order, also of those that have none, such as self."""
    import builtins
    import typing

    class Names(dict):  # type: ignore[type-arg]
        """Those that only a checker of types knows are any."""

        def __missing__(self, name: str) -> Any:
            return typing.Any

    known = Names({**vars(builtins), **vars(typing), **call.__globals__})
    hints = typing.get_type_hints(call, None, known)
    code = call.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    return {name: hints.get(name, object) for name in names}


def told(function: str, hints: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any],
         why: TypeError) -> NoReturn:
    """The TypeError of a call, in a sentence that names the argument that is wrong."""
    for argument, value in [*zip(hints, given), *named.items()]:
        hint = hints.get(argument, object)
        if not _fits(value, hint) and _takes(hint):
            raise TypeError(f"{function}: {argument} is {shown(value)}, of type "
                            f"{type(value).__name__}; give {_takes(hint)}") from None
    raise why


def told_of(function: str, kinds: dict[str, tuple[type, ...]], given: tuple[Any, ...]) -> None:
    """A TypeError in such a sentence, if one of these is of another type."""
    for (argument, kind), value in zip(kinds.items(), given):
        is_number = int in kind and _fits(value, int)
        if value is not None and not is_number and not isinstance(value, kind):
            takes = " or ".join(_known()[each] for each in kind)
            raise TypeError(f"{function}: {argument} is {shown(value)}, of type "
                            f"{type(value).__name__}; give {takes}")


def in_a_sentence(call: _Call) -> _Call:
    """The call, whose TypeErrors name the argument that is wrong."""

    def spoken(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except TypeError as why:
            told(call.__name__, _hints(call), given, named, why)

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(spoken, name, getattr(call, name))
    setattr(spoken, "__wrapped__", call)
    return spoken  # type: ignore[return-value]
