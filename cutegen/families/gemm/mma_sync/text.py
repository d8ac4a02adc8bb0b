"""Builds the parts of a module that are specific to a multistage gemm on tensor cores. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.families.common.dealing import RUN, swizzle_text
from cutegen.families.gemm.mma_sync.mainloop import MmaSyncMainloop
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.mma_sync.reading import own_names
from cutegen.families.gemm.staged import grid_text
from cutegen.families.gemm.staged.load_text import LoadText, load_texts
from cutegen.layouts import show


@dataclass(frozen=True)
class RowText(LoadText):
    """The texts of an operand whose stages have rows along the mode in which it is contiguous."""

    plan: MmaOperand
    swizzle: str  # arguments of make_swizzle: of addresses in bytes
    memory: str  # where its stages start
    layout: str
    read_op: str  # what reads fragments
    element: str  # type of its elements in shared memory, as the product takes them


def kernel_parts(plan: MmaSyncPlan) -> KernelParts:
    """The parts of a module of one gemm."""
    (rows, columns, depth), name = plan.instruction, plan.spec.lead.name
    warps_m, warps_n = plan.atoms.shape[0], plan.atoms.shape[1]
    tile = plan.tile[plan.m], plan.tile[plan.n]
    context = {
        "spaces": [],
        "row_first": False,
        "mainloop": MmaSyncMainloop(plan).body(),
        "epilogue_slices": lambda x, vector: f"slices(thr_store.partition_D({x}), {vector})",
        "epilogue_output": f"slices(thr_store.partition_D(g{name}), VECTOR)",
        "epilogue_sums": f"staged = slices(thr_store.partition_S(s{name}), VECTOR)",
        "mma_op": _mma_op(plan),
        "atoms": make_layout(plan.atoms),
        "permutation": f"({rows * warps_m}, {2 * columns * warps_n}, {depth})",
        "fragments": show(((2, 2), tile[0] // (rows * warps_m), tile[1] // (columns * warps_n))),
    }
    unit = f"BLK_{plan.k.upper()} // {depth}"
    of_tile = (
        Constant("K_BLOCKS", unit, "products along k of one tile", f"schedule.tiler.{plan.k}"),
        Constant("SMEM_BYTES", str(plan.smem_bytes), "of shared memory", "schedule.pipeline.stages"),
    )
    return grid_text.kernel_parts(
        plan,
        "mma_sync.py.j2",
        "schedule.mma.atom_layout",
        ["tiled_mma: cute.TiledMma", "tiled_store: cute.TiledCopy"],
        context,
        [_row_text(plan, x) for x in (plan.a, plan.b)],
        "staged[None, part].load().reshape((SLICE,))",
        of_tile=of_tile,
        nvgpu=("warp",),
        taken=own_names(plan.spec.tensors),
    )


def _mma_op(plan: MmaSyncPlan) -> str:
    shape, dtype = show(plan.instruction).replace(",", ", "), plan.a.tensor.dtype
    if plan.tf32:
        return f"warp.MmaTF32Op({shape})"
    if dtype.is_f8:
        return f"warp.MmaFP8Op(cutlass.{dtype.cutlass}, cutlass.Float32, {shape})"
    return f"warp.MmaF16BF16Op(cutlass.{dtype.cutlass}, cutlass.Float32, {shape})"


def _row_text(plan: MmaSyncPlan, x: MmaOperand) -> RowText:
    texts = load_texts(plan, x)
    if x.atom == "cp_async" and x.bits == 8 * RUN:
        texts["op"] = "cpasync.CopyG2SOp(cache_mode=cute.nvgpu.LoadCacheMode.GLOBAL)"
    element = "cutlass.TFloat32" if plan.tf32 else f"m{x.tensor.name}.element_type"
    bits = f"num_bits_per_copy={x.tensor.dtype.bits}"
    return RowText(
        **texts,
        swizzle=swizzle_text(x.swizzle),
        memory="storage" if not x.offset else f"storage + {x.offset}",
        layout=make_layout(x.smem_layout).removeprefix("cute.make_layout(").removesuffix(")"),
        read_op=f"warp.LdMatrix8x8x16bOp({not x.k_major}, 4), {element}"
        if x.matrices
        else f"cute.nvgpu.CopyUniversalOp(), {element}, {bits}",
        element=element,
    )
