"""The semantics of an instruction that only reads and writes registers, as data that an operation is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cutegen.emulator.ptx.model import Immediate, Register, Special, Symbol
from cutegen.emulator.ptx.types import Bits

Source: TypeAlias = Register | Immediate | Special | Symbol
"""An operand that an instruction on registers may read."""


@dataclass(frozen=True, slots=True)
class PureOp:
    """The semantics of one instruction on registers, for all lanes at once.

    Call it with one array of raw bits for each of `sources`, in their order; shapes broadcast against each other. It
    returns one array of raw bits for each of `destinations`, in their order; a result whose register is named `_` is
    not wanted. Results may share memory with sources. It computes every lane: guards are the caller's.

    Vectors are flattened. The dtype of an argument is that of the source's width in `widths` (`STORAGE`). Every
    Immediate has its width; `constant_array` makes the array. A predicate that the PTX writes as `!p` is passed as it
    is: the operation inverts it.

    `parts` is the number of equal parts of sources and results, which are computed separately (2 for f16x2).
    `approximate` is True where PTX documents a bound rather than a value (ex2.approx). `contractible` is the type of a
    float sum or product without a rounding modifier, else "": PTX lets the assembler fuse such a pair and round once.
    `undefined` gives, from the sources, the lanes whose results PTX leaves open (a division by zero). `kept` is for
    what is made once, by name, for all instructions that differ in the names of their registers only.
    """

    destinations: tuple[Register, ...]
    sources: tuple[Source, ...]
    widths: tuple[int, ...]
    function: Callable[[Sequence[Bits]], list[Bits]] = field(repr=False)
    parts: int = 1
    approximate: bool = False
    contractible: str = ""
    undefined: Callable[[Sequence[Bits]], Bits] | None = field(default=None, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, sources: Sequence[Bits]) -> list[Bits]:
        """Computes the raw bits of the destinations from those of the sources."""
        return self.function(sources)
