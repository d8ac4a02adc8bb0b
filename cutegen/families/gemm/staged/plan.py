"""The plan of a multistage gemm: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.atoms.copies import CopyAtomName
from cutegen.dtypes import Dtype
from cutegen.families.common.pointwise import PointwisePlan
from cutegen.language.model import Tensor


@dataclass(frozen=True)
class WorkspacePlan:
    """How a k-major operand [`mode`, `k`] gets to memory in which `mode` is contiguous."""

    tensor: Tensor  # as the spec has it
    mode: str
    k: str
    threads: int
    thread_layout: Layout
    read: int  # elements of one access to the operand, along k
    write: int  # elements of one access to the workspace, along `mode`, whose size there is a multiple of this
    tile: tuple[int, int]  # of a thread block; each of its threads moves `write` x `read` elements
    largest: int | None  # size of k that the grid can count; None if it is less
    rows: int | None  # of the workspace, in whole accesses, if the size of `mode` is fixed

    @property
    def read_bits(self) -> int:
        return self.read * self.tensor.dtype.bits

    @property
    def write_bits(self) -> int:
        return self.write * self.tensor.dtype.bits


@dataclass(frozen=True, kw_only=True)
class StagedOperand:
    """A or B on its way from global memory to its stages of shared memory."""

    tensor: Tensor
    letter: str  # A or B: CuTe's name for it
    mode: str  # M or N, in the spec's own name
    block: int  # extent of the tile along `mode`
    atom: CopyAtomName
    vector: int  # elements of one access to global memory
    thread_layout: Layout
    value_layout: Layout
    copies: tuple[int, int, int]  # accesses of one thread: in its values, along m or n, along k
    masked: bool
    zero_fill: bool  # its registers are cleared first: a load that is predicated off leaves them as they are
    workspace: WorkspacePlan | None  # what is copied is not the argument: `tensor` says how it lies there
    convert: bool = False  # to the accumulator's type after reading shared memory
    gathered: bool = False  # its rows are at places that another tensor has; `tensor` has a row for each of these

    @property
    def through_registers(self) -> bool:
        return self.atom == "universal"

    @property
    def bits(self) -> int:
        return self.vector * self.tensor.dtype.bits


@dataclass(frozen=True, kw_only=True)
class GemmOperand(StagedOperand):
    """A or B on its way from global memory to a multiply-add of the CUDA cores."""

    smem_vector: int  # elements of one access that writes shared memory
    smem_stride: int  # elements between neighbours in k
    smem_whole: int | None  # elements that its memory is rounded up to a multiple of, where it is none by itself
    smem_layout: Layout | None  # coordinate along `mode` -> place in a column of shared memory; None: the same
    smem_runs: bool  # that layout puts elements of one thread side by side


@dataclass(frozen=True, kw_only=True)
class MultistagePlan(PointwisePlan):
    """A gemm whose operands travel through `stages` of shared memory, which a mainloop along k fills and multiplies."""

    m: str
    n: str
    k: str
    batch: str | None  # the mode of the batch, of which a tile has one matrix
    a: StagedOperand
    b: StagedOperand
    stages: int
    store: int  # step of a tile before which what travels through registers is written to shared memory
    k_tiles: int | None  # where k is fixed
    residue: bool  # K: residue_first
    tile_order: tuple[int, int]  # modes of the output: that of the raster, then the other
    swizzle: int  # tiles of the other mode in a band; 1 without a batch: the grid is two-dimensional, the raster's mode
    # along x
    largest: tuple[str, int] | None  # of such a grid: size of the other mode that it can count; None if it is less
    most_tiles: int | None  # of others: what 32 bits can count, in whole bands; None if sizes are fixed and fewer

    @property
    def steps(self) -> int:
        """Products of a tile along k, for each of which fragments are read."""
        return self.tile[self.k]

    def has_batch(self, tensor: Tensor) -> bool:
        """Whether a tensor has a matrix for each one of a batch."""
        return self.batch in tensor.shape

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
        """Whether operands that travel through registers are written to shared memory before the last step of a tile.

        The barrier is at that last step.
        """
        return False

    @property
    def told_size(self) -> bool:
        """Whether the kernel gets the size along k at run time, though it is fixed.

        Where the compiler knows how often the mainloop runs, the registers that it settles for do not always suffice,
        and up to 20 bytes spill. Told the size, from which it sees that no index overflows, it needs no more than where
        the size is free. A single tile has no loop.
        """
        return self.k_tiles is not None and self.k_tiles > 1

    @property
    def told_divisor(self) -> int:
        """The power of two that divides the size along k, if the kernel gets that size; 1 where it does not matter.

        It does where the first tile is moved back by the residue: accesses along k stay aligned.
        """
        size = self.spec.static[self.k] if self.told_size and self.residue else 1
        return size & -size


@dataclass(frozen=True, kw_only=True)
class GemmPlan(MultistagePlan):
    """A multistage gemm on the CUDA cores: its operands, its pipeline, and the fragments of a thread.

    Texts such as `fragment_m` are layouts' shapes as CuTe prints them.
    """

    a: GemmOperand
    b: GemmOperand
    thread_layout: Layout
    permutation_m: Layout | None
    permutation_n: Layout | None
    fragment_m: str  # (4,2): a thread's share of the tile along m
    fragment_n: str
    smem_fragment_m: str  # the same of a column of shared memory, where A's has a layout of its own
    smem_fragment_n: str
    row_first: bool  # the output's values are walked along n first

    @property
    def accumulator(self) -> Dtype:
        """The type that products are summed in."""
        accumulator = self.spec.schedule.mma.accumulator
        assert isinstance(accumulator, Dtype)
        return accumulator

    @property
    def stores_early(self) -> bool:
        return self.uses_registers and self.store < self.tile[self.k] - 1
