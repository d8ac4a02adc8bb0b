"""The plan: every number and every choice of one kernel. Templates print it and decide nothing.

Shapes are in elements, `align` in bytes, `bits` in bits. `profile` strings are layouts' shapes as CuTe prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.language.expressions import Expr
from cutegen.language.model import CopyAtomName, EvictPriority, KernelSpec, Partition, Tensor


@dataclass(frozen=True)
class Operand:
    """A tensor that a thread reads or writes value by value, in registers."""

    tensor: Tensor
    vector: int  # elements of one access
    broadcast: tuple[str, ...]  # modes of the output that it lacks
    read: bool  # loaded before computing
    write: bool
    evict_priority: EvictPriority = "evict_normal"  # of the L1 cache

    @property
    def bits(self) -> int:
        return self.vector * self.tensor.dtype.bits


@dataclass(frozen=True)
class Pointwise:
    """The part that elementwise kernels and epilogues share: load the operands, compute, store the output.

    All operands of a thread have `values` values in one order, of which `vector` at a time share a predicate.
    """

    operands: tuple[Operand, ...]
    values: int  # of a thread
    vector: int  # values that one predicate covers
    value: Expr  # annotated
    masked: tuple[str, ...]  # modes whose coordinates are compared with the bounds
    clear: bool  # registers are cleared before a masked load: functions may branch on what they are given
    reshape: bool  # operands' fragments differ in profile, so that values meet in one mode
    slice: int | None = None  # of an epilogue: values that are loaded, computed and stored together; None: all
    times_one: bool = False  # accumulators are multiplied by one, where nothing else would stand before their store

    @property
    def sliced(self) -> bool:
        return self.slice is not None

    @property
    def vectors(self) -> int:
        return self.values // self.vector


@dataclass(frozen=True)
class Plan:
    """What all kernels share."""

    spec: KernelSpec  # resolved
    threads: int
    tile: Mapping[str, int]  # of a thread block, by mode
    pointwise: Pointwise


@dataclass(frozen=True)
class ElementwisePlan(Plan):
    partition: Partition
    tiler: tuple[int, ...]  # of the output's modes: of a thread for inner, of a block else
    thread_layout: Layout | None
    value_layout: Layout | None  # thread_value: of the partition; inner: the order of a thread's values, if not CuTe's
    tv_layout: Layout | None
    run: tuple[int, ...] | None  # inner_outer: the shape of what the threads deal out, if not single elements
    tile_order: tuple[int, ...]  # modes in the order in which consecutive blocks (inner: threads) walk the tiles
    check_threads: bool  # inner: the host demands a whole number of blocks
    guard_tiles: bool  # inner: threads beyond the last tile are told by their tile's index, not by its coordinates
    most_tiles: int | None  # that 32 bits can count; None if the sizes are fixed, and fewer


@dataclass(frozen=True)
class WorkspacePlan:
    """How an operand [`mode`, `k`] that is k-major gets to memory where `mode` is contiguous."""

    tensor: Tensor  # as the spec has it
    mode: str
    k: str
    threads: int
    thread_layout: Layout
    read: int  # elements of one access to the operand, along k
    write: int  # elements of one access to the workspace, along `mode`, whose size there is a multiple of this
    tile: tuple[int, int]  # of a thread block; each of its threads moves `write` x `read` elements
    largest: int | None  # size of k that the grid can count; None if it is less

    @property
    def read_bits(self) -> int:
        return self.read * self.tensor.dtype.bits

    @property
    def write_bits(self) -> int:
        return self.write * self.tensor.dtype.bits


@dataclass(frozen=True)
class GemmOperand:
    """A or B on its way from global memory to the multiply-add."""

    tensor: Tensor
    letter: str  # A or B: CuTe's name for it
    mode: str  # M or N, in the spec's own name
    block: int  # extent of the tile along `mode`
    atom: CopyAtomName
    vector: int  # elements of one access to global memory
    smem_vector: int  # elements of one access that writes shared memory
    thread_layout: Layout
    value_layout: Layout
    copies: tuple[int, int, int]  # accesses of one thread: in its values, along m or n, along k
    smem_stride: int  # elements between neighbours in k
    smem_layout: Layout | None  # coordinate along `mode` -> place in a column of shared memory; None: the same
    smem_runs: bool  # that layout puts elements of one thread side by side
    masked: bool
    convert: bool  # to the accumulator's type after reading shared memory
    zero_fill: bool  # its registers are cleared first: a load that is predicated off leaves them as they are
    workspace: WorkspacePlan | None  # what is copied is not the argument: `tensor` says how it lies there

    @property
    def through_registers(self) -> bool:
        return self.atom == "universal"

    @property
    def bits(self) -> int:
        return self.vector * self.tensor.dtype.bits


@dataclass(frozen=True)
class GemmPlan(Plan):
    m: str
    n: str
    k: str
    a: GemmOperand
    b: GemmOperand
    stages: int
    store: int  # k_block before which what travels through registers is written to shared memory
    k_tiles: int | None  # where k is fixed
    residue: bool  # K: residue_first
    thread_layout: Layout
    permutation_m: Layout | None
    permutation_n: Layout | None
    fragment_m: str  # (4,2): a thread's share of the tile along m
    fragment_n: str
    smem_fragment_m: str  # the same of a column of shared memory, where A's has a layout of its own
    smem_fragment_n: str
    tile_order: tuple[int, int]  # modes of the output: that of the raster, then the other
    swizzle: int  # tiles of the other mode in a band; 1: the grid is two-dimensional, the raster's mode along x
    largest: tuple[str, int] | None  # swizzle 1: size of the other mode that the grid can count; None if it is less
    most_tiles: int | None  # swizzle > 1: what 32 bits can count, in whole bands; None if sizes are fixed and fewer
    row_first: bool  # the output's values are walked along n first
    smem_bytes: int

    @property
    def workspaces(self) -> tuple[WorkspacePlan, ...]:
        return tuple(x.workspace for x in (self.a, self.b) if x.workspace is not None)

    @property
    def uses_cp_async(self) -> bool:
        return "cp_async" in (self.a.atom, self.b.atom)

    @property
    def uses_registers(self) -> bool:
        """Whether an operand travels through registers."""
        return self.a.through_registers or self.b.through_registers

    @property
    def stores_early(self) -> bool:
        """Whether what does is written to shared memory before an earlier step than the last, where the barrier is."""
        return self.uses_registers and self.store < self.tile[self.k] - 1


@dataclass(frozen=True)
class ProbePlan(Plan):
    source: Tensor
    tv_layout: Layout
    tiler: tuple[int, ...]
    values: int
