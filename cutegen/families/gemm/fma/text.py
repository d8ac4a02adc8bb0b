"""What a multistage gemm's module prints. Numbers come from the plan."""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import KernelParts
from cutegen.families.common.pointwise_text import pointwise_context
from cutegen.families.gemm.fma.workspace_text import workspace_texts, workspaces
from cutegen.families.gemm.staged.grid_text import (
    constants,
    coordinates_alone,
    copy_path,
    largest_text,
    launched,
    limits,
    parameters,
    tile_context,
)
from cutegen.families.gemm.staged.load_text import column_text
from cutegen.families.gemm.staged.mainloop import ColumnMainloop
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.predicate_text import predicate_text
from cutegen.layouts import show


def kernel_parts(plan: GemmPlan) -> KernelParts:
    """The parts of a module of one gemm."""
    spaces = workspace_texts(plan)
    return KernelParts(
        template="gemm.py.j2",
        constants=(*constants(plan, "schedule.mma.thread_layout"), *(x.constant for x in spaces)),
        context=_epilogue(plan) | _context(plan) | {"spaces": spaces},
        parameters=parameters(plan, ["tiled_mma: cute.TiledMma"]),
        launched={f"m{x.name}": x.parameter for x in spaces} | launched(plan),
        largest=largest_text(plan),
        limits=limits(plan),
        workspaces=workspaces(plan),
        nvgpu=("cpasync",) if plan.uses_cp_async else (),
    )


def _epilogue(plan: GemmPlan) -> dict[str, Any]:
    reshaped = ".reshape((SLICE,))" if plan.pointwise.reshape else ""
    one = " * one" if plan.pointwise.times_one else ""
    product = f"acc[None, part].load(){reshaped}{one}"
    return pointwise_context(
        plan,
        copy_path(plan),
        accumulators={plan.b.tensor.name: product},
        modes=(plan.m, plan.n),
        alone=coordinates_alone(plan),
    )


def _context(plan: GemmPlan) -> dict[str, Any]:
    output = plan.spec.output
    loads = [column_text(plan, x) for x in (plan.a, plan.b)]
    stages, depth, name = plan.stages, plan.tile[plan.k], output.name

    def slices(tensor: str, vector: str = "VECTOR") -> str:
        return f"slices({f'n_first({tensor})' if plan.row_first else tensor}, {vector})"

    def permutation(layout: Layout | None) -> str:
        return "None" if layout is None else make_layout(layout)

    return {
        "loads": loads,
        "predicates": predicate_text(loads),
        "row_first": plan.row_first,
        "mainloop": ColumnMainloop(plan).body(),
        **tile_context(plan),
        "mma_a": show((1, plan.smem_fragment_m, depth, stages)),
        "mma_b": show((1, plan.smem_fragment_n, depth, stages)),
        "mma_c": show((1, plan.fragment_m, plan.fragment_n)),
        "epilogue_slices": lambda x, vector: slices(f"thr_mma.partition_C({x})", vector),
        "epilogue_output": slices(f"t{name}g{name}"),
        "epilogue_sums": f"acc = {slices('acc')}",
        "permutation": permutation,
        "accumulator_type": plan.accumulator.cutlass,
    }
