"""What a PTX module is made of once parsed, shared by the parser, the semantics and the machine.

A register always holds raw bits: one unsigned array entry a lane (``np.bool_`` for predicates). Signed integers and
floats are views of those bits, chosen by the instruction, as on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[Any]
"""Raw register bits of the lanes: bool_, uint16, uint32 or uint64 (uint8 where an instruction names .b8)."""

STORAGE: Mapping[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
"""Register width in bits -> numpy dtype that holds it."""


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; ``width`` is 1 for a predicate, else 16, 32, 64 or 128. ``_`` (an unwanted result) has 0."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant as raw bits, not negative: integers in two's complement of ``width``, ``0f3F800000`` as 0x3F800000.

    ``width`` is None where the PTX text alone does not say (integers); then ``bits`` are those of the 64-bit value,
    to be cut to the width of the context.
    """

    bits: int
    width: int | None


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, with its percent sign: ``%tid.x``, ``%laneid``."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable or kernel parameter; ``offset`` bytes are added to its address (``mov.u32 %r1, smem+16``)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``, the offset in bytes and possibly negative."""

    base: Register | Symbol | Immediate
    offset: int


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction; as an operand, a predicate source written ``!p`` (or plainly ``p``)."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``: the lowest bits (or lowest address) first."""

    items: tuple[Register | Immediate, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """The target of a branch; a key of ``Kernel.labels``."""

    name: str


Operand: TypeAlias = Register | Immediate | Special | Symbol | Address | Vector | Label | Guard


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction.

    ``operands`` are in the order of the PTX text: the destination first, and both registers of ``setp p|q``.
    ``line`` counts from 1 in the PTX; ``source_line`` is the line of the generated module, where ``.loc`` gave it.
    """

    opcode: str
    modifiers: tuple[str, ...]
    guard: Guard | None
    operands: tuple[Operand, ...]
    line: int
    source_line: int | None
    text: str

    @property
    def name(self) -> str:
        """The opcode with its modifiers: ``ld.global.v4.b32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: ``size`` bytes at ``offset`` in the launch's parameter buffer."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space; ``dynamic`` is an ``.extern`` array without size, placed by the launch."""

    name: str
    space: Literal["shared", "global", "const"]
    size: int
    align: int
    dynamic: bool
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """An ``.entry``. ``registers`` gives each one's width; ``labels`` the index of the instruction that follows.

    ``variables`` are those declared inside the kernel. A label at the very end has the index ``len(instructions)``.
    ``required_threads`` is ``.reqntid`` as three numbers, ``max_threads`` is ``.maxntid``.
    """

    name: str
    parameters: tuple[Parameter, ...]
    registers: Mapping[str, int]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    required_threads: tuple[int, int, int] | None = None
    max_threads: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed PTX file: ``target`` as in ``sm_80``, ``version`` as in ``8.7``.

    ``source`` is the file that the source lines of instructions are of, where the PTX names one.
    """

    target: str
    version: str
    kernels: tuple[Kernel, ...]
    variables: tuple[Variable, ...]
    source: str | None = None

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name, or the only one. Raises KeyError."""
        if name is None and len(self.kernels) == 1:
            return self.kernels[0]
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(f"no kernel {name!r}; there are {', '.join(k.name for k in self.kernels) or 'none'}")


class UnsupportedInstruction(Exception):
    """An opcode, modifier, operand or directive that is not emulated. ``line`` counts from 1 in the PTX."""

    def __init__(self, name: str, line: int, text: str, why: str = "") -> None:
        """``name`` is the instruction with its modifiers, or the directive; ``why`` says what about it."""
        super().__init__(f"PTX line {line}: {name} is not emulated{': ' + why if why else ''}: {text}")
        self.name = name
        self.line = line
        self.text = text


class PtxSyntaxError(Exception):
    """Text that is not PTX as this parser knows it. ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"PTX line {line}: {message}")
        self.line = line


Source: TypeAlias = Register | Immediate | Special | Symbol


@dataclass(frozen=True, slots=True)
class PureOp:
    """The semantics of one register-only instruction, for all lanes at once.

    Call it with one array of raw bits a source, in the order of ``sources``; shapes broadcast against each other.
    It returns one array of raw bits a destination, in the order of ``destinations`` (skip those named ``_``).
    Vectors are flattened. Every Immediate in ``sources`` has its width; ``constant`` makes the array.
    A predicate source that the PTX writes as ``!p`` is passed as it is: the operation inverts it.
    An argument's dtype must be that of the source's width (``STORAGE``); Special and Symbol sources take the width in
    ``widths``. Guards are the caller's: the operation computes every lane. Results may share memory with sources.
    ``parts`` is of how many equal parts its sources and results consist, each computed by itself (2 for f16x2).
    ``approximate`` is True where PTX documents a bound rather than a value (``ex2.approx``). ``contractible`` is the
    type of a float sum or product without rounding modifier: PTX lets the assembler fuse such a pair and round once.
    ``undefined`` gives, from the sources, the lanes whose results PTX leaves open (a division by zero).
    """

    destinations: tuple[Register, ...]
    sources: tuple[Source, ...]
    widths: tuple[int, ...]
    function: Callable[[Sequence[Bits]], list[Bits]] = field(repr=False)
    parts: int = 1
    approximate: bool = False
    contractible: str = ""
    undefined: Callable[[Sequence[Bits]], Bits] | None = field(default=None, repr=False)

    def __call__(self, sources: Sequence[Bits]) -> list[Bits]:
        """Raw bits in, raw bits out."""
        return self.function(sources)


def constant(bits: int, width: int) -> Bits:
    """An immediate as a zero-dimensional array of raw bits."""
    return np.asarray(bits & ((1 << width) - 1), dtype=STORAGE[width])
