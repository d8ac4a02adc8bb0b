"""The plan of a multistage gemm on tensor cores: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.gemm_multistage.plan import MultistagePlan, StagedOperand


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
    steps: int  # of it along k, for one tile
    tf32: bool  # operands are f32, of which tf32 is multiplied
    staged: tuple[int, int]  # words between rows, and between columns, of the tile of accumulators in shared memory
    store_threads: Layout  # of the epilogue, over the tile (m, n)
    store_values: Layout  # of one access

    @property
    def store(self) -> int:
        """The step of a tile before which operands that travel through registers are written: the last."""
        return self.steps - 1
