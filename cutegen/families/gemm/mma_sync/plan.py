"""The plan of a multistage gemm on tensor cores: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.gemm.staged.plan import MultistagePlan, StagedOperand

LEAST_PARTED = 2  # steps of a tile: of more, two come before the last


@dataclass(frozen=True, kw_only=True)
class MmaOperand(StagedOperand):
    """A or B on its way from global memory to the registers of warps."""

    k_major: bool
    swizzle: int  # bytes of a row of shared memory, over which runs of 16 exchange their places
    smem_layout: Layout  # (m or n, k, stage) -> element, before the exchange
    matrices: bool  # fragments are read by ldmatrix; if not, element by element
    offset: int  # bytes of shared memory before its stages


@dataclass(frozen=True, kw_only=True)
class MmaSyncPlan(MultistagePlan):
    """A multistage gemm whose warps multiply on tensor cores, and store their accumulators through shared memory."""

    a: MmaOperand
    b: MmaOperand
    atoms: Layout  # coordinate (m, n, k) to warp
    instruction: tuple[int, int, int]  # m, n and k of one mma.sync
    tf32: bool  # operands are f32, of which tf32 is multiplied
    staged: tuple[int, int]  # words between rows, and between columns, of the tile of accumulators in shared memory
    store_threads: Layout  # of the epilogue, over the tile (m, n)
    store_values: Layout  # of one access

    @property
    def steps(self) -> int:
        return self.tile[self.k] // self.instruction[2]

    @property
    def fetches(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The steps of a tile in which copies of a later one start, each with the operands, 0 for A and 1 for B.

        They follow the reads of that step, behind which products go on; those of A and B are parted where another step
        is left before the last, which waits for copies.
        """
        found = tuple(i for i, x in enumerate((self.a, self.b)) if not x.through_registers)
        if len(found) < 2 or self.steps <= LEAST_PARTED:
            return ((0, found),) if found else ()
        return ((0, found[:1]), (1, found[1:]))
