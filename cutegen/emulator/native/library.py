"""The compiled core, loaded: its operations by name, and how it is called.

The core reads arrays where CPython and numpy keep them, without their headers. So it is only taken where a few arrays,
looked at when it is loaded, are found there as they are.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cutegen.cache_folder import FOLDER_VARIABLE
from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.native.building import (
    COMPILER_VARIABLE,
    NotBuiltError,
    built,
    compile_beside,
    core_folder,
    is_off,
    is_there,
)

FILL, REPEAT, TILE = -1, -2, -3
"""The operations that spread a value over more lanes: one for all, one for each row, one for each column."""

INPUT, OUTPUT, PART, WHOLE, CONSTANT = range(5)
"""Where a value of a plan is kept: an array given or asked for, memory for some lanes or for all, or the plan."""

LANES = 512
"""So many lanes run at a time."""


@dataclass(frozen=True)
class Operation:
    """An operation of the core: its number, and the bytes of its result and of each operand."""

    number: int
    size: int
    sizes: tuple[int, ...]


class AccessResult(IntEnum):
    """The outcome of an access to memory: it is noted, it may not be in order, a warp has not read before, or two lanes
    write one unit.
    """

    FINE, WRONG, NEW, TWICE = range(4)


Noted = Literal[
    "note_reads",
    "are_writable",
    "note_writes",
    "note_first_writes",
    "are_readable",
    "are_fenced",
    "note_agents",
    "note_arrivals",
    "load_global",
    "store_global",
    "begin_product",
    "end_product",
    "multiply_warpgroups",
    "find_operands",
    "gather_registers",
    "land_accumulators",
    "land_box",
    "shuffle",
    "multiply_warps",
    "spread_matrices",
    "store_shared",
    "store_matrices",
    "find_races",
    "learn_rows",
    "tell_rows",
    "meet_at_barrier",
    "find_mbarriers",
]
_ACCESSES: tuple[Noted, ...] = get_args(Noted)


@dataclass(frozen=True)
class Core:
    """The loaded core. `run` runs a plan: its address, tuples of arrays given and asked for, threads, and blocks.

    `accesses` make or note accesses to memory, from a tuple of arrays and the address of an array of numbers.
    `load_shared` loads from shared memory, from the same, and notes the reads, from another tuple and address; so do
    `load_several`, which returns the number of the first that it has not made, and `load_boxes` with boxes of a tensor
    that arrive there; it returns their number, as `store_boxes` does. `start_products` starts products of warps, from
    what they read, and from what that is added to.
    """

    path: Path
    operations: dict[str, Operation]
    run: Callable[[int, tuple[Any, ...], tuple[Any, ...], int, int], int]
    accesses: dict[Noted, Callable[[tuple[Any, ...], int], int]]
    load_shared: Callable[[tuple[Any, ...], int, tuple[Any, ...], int | None], int]
    load_several: Callable[[tuple[Any, ...], int, tuple[Any, ...], int | None], int]
    load_boxes: Callable[[tuple[Any, ...], int, tuple[Any, ...], int], int]
    store_boxes: Callable[[tuple[Any, ...], int, tuple[Any, ...], int], int]
    start_products: Callable[[tuple[Any, ...], int, tuple[Any, ...], int], int]


_cores: dict[tuple[object, ...], Core] = {}  # by what decides where it lies: those that were found


def core() -> Core | None:
    """The compiled core, or None where it is turned off, or not there yet."""
    if is_off():
        return None
    wanted = os.environ.get(COMPILER_VARIABLE), os.environ.get(FOLDER_VARIABLE), sys.dont_write_bytecode
    if wanted in _cores:
        return _cores[wanted]
    folder = core_folder()
    if not is_there(folder):
        compile_beside()
        return None
    found = load(folder)
    if not isinstance(found, Core):
        return None
    _cores[wanted] = found
    return found


@functools.cache
def load(folder: Path) -> Core | NotBuiltError:
    """The core, compiled into a folder if it is not there, or why there is none."""
    try:
        _check_python()
        path = built(folder)
        return _loaded(path)
    except NotBuiltError as problem:
        return problem
    except OSError as problem:
        return NotBuiltError(f"the library cannot be loaded: {problem}")


def _check_python() -> None:
    """Raises NotBuiltError where arrays cannot be as the core reads them."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16 or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise NotBuiltError("it is for CPython of 64 bits only, not for one without its lock")
    if sys.byteorder != "little" or platform.system() == "Windows":
        raise NotBuiltError(f"it is not for {platform.system()} on {platform.machine()}")


def _loaded(path: Path) -> Core:
    """The core at a path. Raises NotBuiltError if it does not find arrays as they are."""
    library = ctypes.PyDLL(str(path))  # the lock stays held: the core reads objects
    library.name_of.restype = ctypes.c_char_p
    library.set_layout.argtypes = [ctypes.c_int64, ctypes.c_int64]
    library.probe.argtypes = [ctypes.py_object, ctypes.c_int64, ctypes.c_void_p]
    library.run.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_int64, ctypes.c_int64]
    library.set_layout(object.__basicsize__, tuple.__basicsize__)
    _check_layout(library)
    operations = {}
    for number in range(library.count_operations()):
        size, *sizes = (library.size_of(number, part) for part in range(5))
        operations[library.name_of(number).decode()] = Operation(number, size, tuple(s for s in sizes if s))
    accesses: dict[Noted, Callable[[tuple[Any, ...], int], int]] = {name: getattr(library, name) for name in _ACCESSES}
    for name in _ACCESSES:
        getattr(library, name).argtypes = [ctypes.py_object, ctypes.c_void_p]
    double = (
        *(library.load_shared, library.load_several, library.load_boxes),
        *(library.store_boxes, library.start_products),
    )
    for both in double:
        both.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return Core(path, operations, library.run, accesses, *double)


def _check_layout(library: ctypes.PyDLL) -> None:
    whole = np.arange(24, dtype=np.uint32).reshape(4, 6)
    arrays: tuple[Array, ...] = (whole, whole[1:, ::2], whole.view(np.uint16), np.zeros((), np.uint64))
    arrays += (np.broadcast_to(whole[:1], (4, 6)), whole > 7)
    for index, array in enumerate(arrays):
        found = np.zeros(2 + 2 * 32, np.int64)
        library.probe(arrays, index, found.ctypes.data)
        expected = [array.ctypes.data, array.ndim, *np.stack([array.shape, array.strides], 1).ravel()]
        if found[: len(expected)].tolist() != expected:
            raise NotBuiltError("this Python or numpy keeps arrays otherwise than the core reads them")
