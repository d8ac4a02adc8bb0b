"""The part that elementwise kernels and epilogues share: load the operands, compute, store the outputs."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.atoms.copies import EvictPriority
from cutegen.language.model import Tensor
from cutegen.planning.plan import Plan

WORD = 32  # bits of a register


@dataclass(frozen=True)
class Operand:
    """A tensor that a thread reads or writes value by value, in registers."""

    tensor: Tensor
    vector: int  # elements of one access
    broadcast: tuple[str, ...]  # modes of the output that it lacks
    read: bool  # loaded before computing
    write: bool
    evict_priority: EvictPriority = "evict_normal"  # of the L1 cache
    converted: bool = False  # a float of 8 bits whose values become those of another type

    @property
    def bits(self) -> int:
        return self.vector * self.tensor.dtype.bits

    def parts_words(self, narrows: bool) -> bool:
        """Whether accesses move parts of the words that are converted; with `narrows` some move one element.

        Such loads leave the values in local memory, masked ones and those of a loop, unless the registers that they
        fill are cleared before.
        """
        return self.converted and (narrows or self.bits < WORD)


@dataclass(frozen=True)
class Pointwise:
    """The part that elementwise kernels and epilogues share: load the operands, compute, store the outputs.

    All operands of a thread have `values` values in one order; each `vector` of them shares a predicate.
    """

    operands: tuple[Operand, ...]
    values: int  # of a thread
    vector: int  # values that one predicate covers
    masked: tuple[str, ...]  # modes whose coordinates are compared with the bounds
    clear: bool  # registers are cleared before a masked load: functions may branch on what they are given
    reshape: bool  # operands' fragments differ in profile, so that values meet in one mode
    slice: int | None = None  # of an epilogue: values that are loaded, computed and stored together; None: all
    forgets: bool = False  # registers are cleared before a masked load, so that no loop keeps what they held
    times_one: bool = False  # accumulators are multiplied by one, where nothing else would stand before their store

    @property
    def sliced(self) -> bool:
        return self.slice is not None

    @property
    def vectors(self) -> int:
        return self.values // self.vector


@dataclass(frozen=True, kw_only=True)
class PointwisePlan(Plan):
    """A plan with a pointwise part."""

    pointwise: Pointwise
