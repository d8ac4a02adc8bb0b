"""Kernels of PTX that do the same, independent of names and positions: most of the code for several targets.

A module with schedules of its own for one target compiles to other PTX for that, and the kernels that both have differ
only by numbers in their names and labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from cutegen.atoms.mma import ADA
from cutegen.emulator.host.capture import Launch
from cutegen.emulator.host.launching import module_of
from cutegen.emulator.ptx.model import Address, Kernel, Label, Operand, Symbol, TensorAddress

Work = tuple[tuple[str, Launch], ...]
"""The work of a call: for each launch, the digest of its code, and the launch without its kernel's name."""


@lru_cache(maxsize=256)
def code_of(ptx: str, kernel: str) -> str:
    """A digest of all in a kernel's PTX that decides what it does, where it is launched alike.

    Raises as `module_of` does, and KeyError if there is no such kernel.
    """
    module = module_of(ptx)
    found = module.kernel(kernel)
    variables = {variable.name: variable for variable in (*module.variables, *found.variables)}
    names = {parameter.name: number for number, parameter in enumerate(found.parameters)}
    for name in _symbols(found):  # the variables that it uses, of those that the module has for all
        names.setdefault(name, len(names))
    parts = (
        [(i.name, i.guard, [_told(o, found, names) for o in i.operands]) for i in found.instructions],
        sorted(set(found.labels.values())),
        [(parameter.offset, parameter.size, parameter.align) for parameter in found.parameters],
        sorted(found.registers.items()),
        [replace(variables[name], name="") for name in names if name in variables],
        (found.required_threads, found.max_threads),
        ADA if module.target == ADA and any(_sums_in_fewer_bits(i.name) for i in found.instructions) else "",
    )
    return sha256(repr(parts).encode()).hexdigest()


def _symbols(kernel: Kernel) -> Iterator[str]:
    """The names of variables and parameters in a kernel's instructions, in order."""
    for operand in (operand for instruction in kernel.instructions for operand in instruction.operands):
        while isinstance(operand, Address | TensorAddress):
            operand = operand.base if isinstance(operand, Address) else operand.map
        if isinstance(operand, Symbol):
            yield operand.name


def _told(operand: Operand, kernel: Kernel, names: Mapping[str, int]) -> object:
    """An operand without names that are made from those of kernels, or count them; `names` numbers the others."""
    match operand:
        case Label(name):
            return "label", kernel.labels[name]
        case Symbol(name, offset):
            return "symbol", names[name], offset
        case Address(base, offset):
            return "address", _told(base, kernel, names), offset
        case TensorAddress(place, coordinates):
            return "tensor", _told(place, kernel, names), coordinates
        case _:
            return operand


def _sums_in_fewer_bits(name: str) -> bool:
    """Whether that is a product that gives something else on Ada: of operands of 8 bits, by mma.sync."""
    return name.startswith("mma.") and ("e4m3" in name or "e5m2" in name)
