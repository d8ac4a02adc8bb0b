"""The contents of a PTX file as data: modules, kernels, instructions and operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register.

    `width` is 1 for a predicate, else 16, 32, 64 or 128 bits. The register `_`, which takes a result that is not
    wanted, has the width 0.
    """

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant as raw bits, which are not negative: `0f3F800000` is 0x3F800000.

    `width` is in bits. It is None for a whole number, whose width the PTX text alone does not say; then `bits` are
    those of the 64-bit value in two's complement, to be cut to the width that the context asks for.
    """

    bits: int
    width: int | None


@dataclass(frozen=True, slots=True)
class Special:
    """A special register; the name has its percent sign: `%tid.x`, `%laneid`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable or a kernel's parameter; `offset` bytes are added to its address (`mov.u32 %r1, smem+16`)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """An address `[base+offset]`; the offset is in bytes and may be negative."""

    base: Register | Symbol | Immediate
    offset: int


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """A place in the tensor that a tensor map describes, `[map, {c0, c1}]`: the coordinate along the innermost mode
    comes first.
    """

    map: Address
    coordinates: tuple[Register | Immediate, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard `@p` or `@!p` before an instruction, or a predicate `p` or `!p` that is an operand."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector operand `{a, b}`; the element with the lowest bits, or at the lowest address, comes first."""

    items: tuple[Register | Immediate, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """The target of a branch, which is a key of `Kernel.labels`."""

    name: str


Operand: TypeAlias = Register | Immediate | Special | Symbol | Address | TensorAddress | Vector | Label | Guard
"""Any operand of an instruction."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction.

    `operands` are in the order of the PTX text: the destination first, and both registers of `setp p|q`. `line` counts
    from 1 in the PTX, and `text` is that line. `source_line` is the line of the file that was compiled, where .loc
    gives it, and `elsewhere` the file and line, where .loc names another file only.
    """

    opcode: str
    modifiers: tuple[str, ...]
    guard: Guard | None
    operands: tuple[Operand, ...]
    line: int
    source_line: int | None
    text: str
    elsewhere: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """The opcode with its modifiers: `ld.global.v4.b32`."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel's parameter: `size` bytes from `offset` on in the parameter space, at multiples of `align` bytes."""

    name: str
    offset: int
    size: int
    align: int


Space: TypeAlias = Literal["shared", "global", "const", "local", "param"]
"""A state space that variables may be in; those in param are the parameters whose addresses a kernel takes."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space, with `size` bytes at a multiple of `align` bytes.

    `dynamic` says that it is an .extern array without a size, which the launch decides. `data` are the initial bytes,
    or None where there are none.
    """

    name: str
    space: Space
    size: int
    align: int
    dynamic: bool
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, which PTX calls an .entry.

    `registers` gives the width of each register by its name. `variables` are those declared inside the kernel. `labels`
    gives the index of the instruction that follows each label; a label at the very end has the index
    `len(instructions)`. `required_threads` is .reqntid as three numbers, and `max_threads` is .maxntid.
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
    """A parsed PTX file, with a target such as `sm_80` and a PTX version such as `8.7`.

    `source` is the path of the file that the source lines of instructions count in, where the PTX names one.
    """

    target: str
    version: str
    kernels: tuple[Kernel, ...]
    variables: tuple[Variable, ...]
    source: str | None = None

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name, or with None the only one. Raises KeyError if there is no such kernel."""
        if name is None and len(self.kernels) == 1:
            return self.kernels[0]
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(f"no kernel {name!r}; there are {', '.join(k.name for k in self.kernels) or 'none'}")
