"""Where variables lie: the addresses that a kernel knows them by.

Shared variables of fixed size come first, then what the launch makes as large as it likes. Between two of them is room
that belongs to nobody, so that an access that leaves one does not look like one of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.emulator.types import Kernel, Module, Variable

BASE = 1024  # shared address of a block's first byte: below lies what the system keeps for itself
WINDOW = 1 << 60  # generic address of the first byte of shared memory
_VARIABLES = 1 << 58  # address of the first variable in global and constant memory
_ROOM = 1 << 40  # bytes from one of those to the next
_APART = 4096  # bytes at least between two shared variables


@dataclass(frozen=True)
class Place:
    """A variable and the address of its first byte, in its state space."""

    variable: Variable
    address: int


@dataclass(frozen=True)
class Placement:
    """`places` by name. `static` is what the shared variables of fixed size need in a block's memory, one after the
    other, in bytes; `dynamic` is the offset of what the launch adds, in the memory as it is emulated."""

    places: Mapping[str, Place]
    static: int
    dynamic: int

    def shared(self, extra: int) -> list[tuple[str, int, int]]:
        """Name, offset of the first byte and of the end of each shared variable, in order, for `extra` bytes of dynamic
        shared memory."""
        found = []
        for name, place in self.places.items():
            if place.variable.space == "shared":
                start = place.address - BASE
                found.append((name, start, start + (extra if place.variable.dynamic else place.variable.size)))
        return found


def place_variables(module: Module, kernel: Kernel) -> Placement:
    """The variables of a module and of one of its kernels."""
    variables = {v.name: v for v in (*module.variables, *kernel.variables)}
    places: dict[str, Place] = {}
    static = end = 0
    for number, variable in enumerate(variables.values()):
        if variable.space != "shared":
            places[variable.name] = Place(variable, _VARIABLES + number * _ROOM)
        elif not variable.dynamic:
            start = _aligned(end + _APART if end else 0, variable.align)
            places[variable.name] = Place(variable, BASE + start)
            end = start + variable.size
            static = _aligned(static, variable.align) + variable.size
    dynamic = [v for v in variables.values() if v.space == "shared" and v.dynamic]
    widest = max((v.align for v in dynamic), default=1)
    start = _aligned(end + _APART if end and dynamic else end, widest)
    places |= {v.name: Place(v, BASE + start) for v in dynamic}
    return Placement(places, _aligned(static, widest), start)


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align
