"""Where the variables of a kernel lie: the addresses that the kernel knows them by.

In shared memory the variables of fixed size come first, then the dynamic ones, which are as large as the launch says.
Between two variables is room that belongs to nobody, so that an access that leaves one does not look like one of the
next. In local memory, private to each thread, they lie one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.emulator.ptx.model import Kernel, Module, Variable

_IN_PAIRS = "cta_group::2"
"""The modifier of instructions that work in pairs of blocks."""

BASE = 1024
"""The shared address of a block's first byte; the system keeps the addresses below for itself."""

ODD = 1 << 24
"""A bit that is set in all shared addresses of kernels that work in pairs of blocks: those of the block's own, and of
mapa. Such kernels clear it to name the even block of a pair. No section of the PTX ISA says so, but all code that
CuTeDSL compiles for pairs of blocks relies on it; other kernels have no such bit.
"""

WINDOW = 1 << 60
"""The offset from a shared address to the generic address of the same byte."""

PEER_BITS = 25
"""In shared addresses of the cluster's window, the bits from this one on are the rank of a block plus one; in those of
the block's own window, which lies in it, they are 0."""

LOCAL_BASE = 1024
"""The local address of a thread's first byte."""

PARAMETERS = 1 << 57
"""The generic address of the first byte of the kernel's parameters."""

VARIABLES = 1 << 58
"""The address of the first variable in global and constant memory; tensors lie before it."""

_ROOM = 1 << 40  # bytes from one of those to the next
_APART = 4096  # bytes at least between two shared variables


@dataclass(frozen=True)
class Place:
    """A variable and the address of its first byte, in its state space."""

    variable: Variable
    address: int


@dataclass(frozen=True)
class Placement:
    """Where all variables of a kernel lie; `places` has them by name.

    `static` is how many bytes of a block's shared memory the variables of fixed size take on a device, one after the
    other. `dynamic` is the offset in bytes, in shared memory as it is emulated, of what the launch adds. `local` is how
    many bytes of local memory a thread has. `base` is the shared address of a block's first byte.
    """

    places: Mapping[str, Place]
    static: int
    dynamic: int
    local: int
    base: int = BASE

    def shared(self, extra: int) -> list[tuple[str, int, int]]:
        """The shared variables in order: the name of each, the offset of its first byte, and that after its last byte.

        `extra` is how many bytes of dynamic shared memory the launch adds.
        """
        found = []
        for name, place in self.places.items():
            if place.variable.space == "shared":
                start = place.address - self.base
                found.append((name, start, start + (extra if place.variable.dynamic else place.variable.size)))
        return found


def place_variables(module: Module, kernel: Kernel) -> Placement:
    """Places the variables of a module and of one of its kernels, and the kernel's parameters."""
    variables = {v.name: v for v in (*module.variables, *kernel.variables)}
    places: dict[str, Place] = {}
    base = BASE + ODD * any(_IN_PAIRS in instruction.modifiers for instruction in kernel.instructions)
    static = end = local = 0
    for number, variable in enumerate(variables.values()):
        if variable.space == "local":
            local = _aligned(local, variable.align)
            places[variable.name] = Place(variable, LOCAL_BASE + local)
            local += variable.size
        elif variable.space != "shared":
            places[variable.name] = Place(variable, VARIABLES + number * _ROOM)
        elif not variable.dynamic:
            start = _aligned(end + _APART if end else 0, variable.align)
            places[variable.name] = Place(variable, base + start)
            end = start + variable.size
            static = _aligned(static, variable.align) + variable.size
    for parameter in kernel.parameters:
        held = Variable(parameter.name, "param", parameter.size, parameter.align, False, None)
        places[parameter.name] = Place(held, PARAMETERS + parameter.offset)
    dynamic = [v for v in variables.values() if v.space == "shared" and v.dynamic]
    widest = max((v.align for v in dynamic), default=1)
    start = _aligned(end + _APART if end and dynamic else end, widest)
    places |= {v.name: Place(v, base + start) for v in dynamic}
    return Placement(places, _aligned(static, widest), start, local, base)


def _aligned(offset: int, align: int) -> int:
    """The first multiple of `align` that is not below `offset`."""
    return -(-offset // align) * align
