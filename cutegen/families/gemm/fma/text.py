"""Builds the parts of a module that are specific to a multistage gemm on the CUDA cores. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import replace

from tensor_layouts import Layout

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import KernelParts, Workspaces
from cutegen.families.gemm.fma.workspace_text import workspace_texts
from cutegen.families.gemm.staged import grid_text
from cutegen.families.gemm.staged.load_text import column_text
from cutegen.families.gemm.staged.mainloop import ColumnMainloop
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.layouts import show


def kernel_parts(plan: GemmPlan) -> KernelParts:
    """The parts of a module of one gemm."""
    spaces, name = workspace_texts(plan), plan.spec.output.name

    def slices(tensor: str, vector: str = "VECTOR") -> str:
        return f"slices({f'n_first({tensor})' if plan.row_first else tensor}, {vector})"

    def permutation(layout: Layout | None) -> str:
        return "None" if layout is None else make_layout(layout)

    context = {
        "spaces": spaces,
        "row_first": plan.row_first,
        "mainloop": ColumnMainloop(plan).body(),
        "mma_a": show((1, plan.smem_fragment_m, plan.tile[plan.k], plan.stages)),
        "mma_b": show((1, plan.smem_fragment_n, plan.tile[plan.k], plan.stages)),
        "mma_c": show((1, plan.fragment_m, plan.fragment_n)),
        "epilogue_slices": lambda x, vector: slices(f"thr_mma.partition_C({x})", vector),
        "epilogue_output": slices(f"t{name}g{name}"),
        "epilogue_sums": f"acc = {slices('acc')}",
        "permutation": permutation,
        "accumulator_type": plan.accumulator.cutlass,
    }
    threads, mma = "schedule.mma.thread_layout", ["tiled_mma: cute.TiledMma"]
    loads = [column_text(plan, x) for x in (plan.a, plan.b)]
    reshaped, one = ".reshape((SLICE,))" * plan.pointwise.reshape, " * one" * plan.pointwise.times_one
    sums = f"acc[None, part].load(){reshaped}{one}"
    parts = grid_text.kernel_parts(plan, "gemm.py.j2", threads, mma, context, loads, sums)
    memory = tuple(x.host for x in spaces)
    workspaces = Workspaces("schedule.workspace", "workspace_memory.j2", memory) if memory else None
    return replace(
        parts,
        constants=(*parts.constants, *(x.constant for x in spaces)),
        launched={f"m{x.name}": x.parameter for x in spaces} | dict(parts.launched),
        workspaces=workspaces,
    )
