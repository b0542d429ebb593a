# SPDX-License-Identifier: Apache-2.0
"""The shared library: its structs, its planners, and calls of it."""
from __future__ import annotations

import ctypes
import os
from threading import get_ident, main_thread
from time import perf_counter

from ._header import FUNCTIONS, STRUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator, Optional

_TYPES = {"N": ctypes.c_size_t, "Q": ctypes.c_uint64, "q": ctypes.c_int64, "I": ctypes.c_uint32,
          "d": ctypes.c_double, "i": ctypes.c_int, "s": ctypes.c_char_p, "P": ctypes.c_void_p}
_NO_MEMORY = 15
_PAUSE = 20_000  # microseconds between two looks for signals
_IS_CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libballast_c.so"))
for _name, _codes in FUNCTIONS.items():
    _returned, _taken = _codes.split(":")
    _function = getattr(_library, _name)
    _function.restype = _TYPES[_returned] if _returned else None
    _function.argtypes = [_TYPES[each] for each in _taken]

byref = ctypes.byref
_structs: dict[str, type[ctypes.Structure]] = {}


def _struct_type(name: str) -> Any:
    made = _structs.get(name)
    if made is None:
        fields = [each.split(":") for each in STRUCTS[name].split()]
        made = type(name, (ctypes.Structure,),  # slots: a member that it lacks is an error
                    {"__slots__": (), "_fields_": [(member, _TYPES.get(code) or _struct_type(code))
                                  for member, code in fields]})
        _structs[name] = made
    return made


def struct(name: str, **members: Any) -> Any:
    """One of ballast.h, with these members and the others 0."""
    made = _struct_type(name)
    if "struct_size" in STRUCTS[name]:
        members["struct_size"] = ctypes.sizeof(made)
    return made(**members)


def structs(name: str, all_members: list[dict[str, Any]]) -> Any:
    """An array of them."""
    made = [struct(name, **members) for members in all_members]
    return (type(made[0]) * len(made))(*made) if made else None


def address(of: Any) -> Optional[int]:
    """Where a struct or an array of structs lies; None lies nowhere."""
    return None if of is None else ctypes.addressof(of)


def copied(pointer: Optional[int], count: int, size: int) -> bytes:
    """So many numbers of so many bytes, out of the library's memory."""
    return ctypes.string_at(pointer, count * size) if pointer and count else b""


def rows_of(found: Any, bins: int, placed: Optional[int] = None) -> dict[str, bytes]:
    """The bin of each sample, and the samples of each bin, of which so many are placed."""
    return {"owner": copied(found.owner, found.samples, 4),
            "offsets": copied(found.first, bins + 1, 8),
            "samples": copied(found.sample, found.samples if placed is None else placed, 4)}


def place_of_bytes(content: bytes) -> Optional[int]:
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value


def texts(pointer: Optional[int], count: int) -> list[str]:
    if not pointer or not count:
        return []
    pointers: Any = (ctypes.c_char_p * count).from_address(pointer)
    return [(each or b"").decode() for each in pointers]


def _looking(raised: list[BaseException]) -> Generator[int, Any, None]:
    """Handlers of signals run where this goes on; what they raise is kept, and 1 stops a planner."""
    while True:
        try:
            while True:
                yield len(raised)
        except GeneratorExit:
            return
        except BaseException as why:  # of a handler; who clears its frames does not end this one
            raised.append(why.with_traceback(why.__traceback__ and why.__traceback__.tb_next))


class _Planner:
    """One of the library, and what it was set up for."""

    def __init__(self) -> None:
        self.pointer = _library.ballast_create()
        if not self.pointer:
            raise MemoryError("there is not enough memory for a planner")
        self.set_up: dict[str, Any] = {}
        self._raised: list[BaseException] = []
        self._looks: Any = None
        self._is_watched = False

    def _watch(self) -> None:
        """On Python's main thread it looks for signals now and then, as Python does there only."""
        is_main = get_ident() == main_thread().ident
        if is_main and self._looks is None:
            looking = _looking(self._raised)
            next(looking)
            self._looks = _IS_CANCELLED(looking.send)
        if is_main != self._is_watched:
            _library.ballast_cancel_every(self.pointer, _PAUSE, self._looks if is_main else None,
                                          None)
            self._is_watched = is_main

    def prepare(self, function: str, key: Any, options: Any) -> None:
        """Sets a job up, unless the planner has it; `options()` makes the struct."""
        if self.set_up.get(function) != key:
            self.set_up.pop(function, None)
            self.call(function, byref(options()))
            self.set_up[function] = key

    def call(self, function: str, *arguments: Any) -> float:
        """The seconds that it took."""
        self._watch()
        begin = perf_counter()
        status = getattr(_library, function)(self.pointer, *arguments)
        seconds = perf_counter() - begin
        if self._raised:
            first = self._raised[0]
            self._raised.clear()
            raise first
        if status:
            why = _library.ballast_error(self.pointer).decode()
            raise MemoryError(why) if status == _NO_MEMORY else ValueError(why)
        return seconds


_free: list[_Planner] = []  # a list's append and pop are safe on threads


class planner:
    """A planner for a `with`, which no other thread or handler of a signal has meanwhile."""

    def __enter__(self) -> _Planner:
        try:
            self._own = _free.pop()
        except IndexError:
            self._own = _Planner()
        return self._own

    def __exit__(self, *_: Any) -> None:
        _free.append(self._own)


def why_microbatches(own: Any) -> str:
    return str((_library.ballast_why_microbatches(own.pointer) or b"").decode())


def version() -> int:
    return int(_library.ballast_version())
