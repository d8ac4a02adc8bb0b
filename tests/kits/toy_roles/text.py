"""The values that the module's templates print."""

from __future__ import annotations

from cutegen.codegen.parts import Constant, KernelParts
from toy_roles import memory
from toy_roles.plan import BestPlan
from toy_roles.roles import kernel_body


def constants_of(plan: BestPlan) -> tuple[Constant, ...]:
    """The numbers that the module gives names."""
    size = sum(buffer.bytes for buffer in memory.buffers(plan.a, plan.b, plan.columns))
    return (
        Constant("ROWS", str(memory.ROWS), "of A that a block has", "op"),
        Constant("COLUMNS", str(plan.columns), "rows of B of one product", "schedule.columns"),
        Constant("DEPTH", str(memory.DEPTH), "of a tile along K", "op"),
        Constant("STAGES", str(plan.stages), "tiles in shared memory", "schedule.stages"),
        Constant("THREADS", str(memory.THREADS), "a warpgroup and a warp", "op"),
        Constant("STAGE_BYTES", str(size), "that the loads of one bring", "schedule.columns"),
        Constant("N_TILES", str(plan.steps[0]), "", "static"),
        Constant("K_TILES", str(plan.steps[1]), "", "static"),
    )


def kernel_parts(plan: BestPlan) -> KernelParts:
    """The parts of a module of one kernel."""
    sides = [(t.name, f"cutlass.{t.dtype.cutlass}", rows) for t, rows in ((plan.a, "ROWS"), (plan.b, "COLUMNS"))]
    parameters = [(f"tma_{name}: cute.CopyAtom", f"s{name}_layout: cute.ComposedLayout") for name, _, _ in sides]
    return KernelParts(
        template="best.py.j2",
        constants=constants_of(plan),
        context={"body": kernel_body(plan), "sides": sides, "element": sides[0][1]},
        parameters=(*(text for pair in parameters for text in pair), "tiled_mma: cute.TiledMma"),
        launched={f"m{name}": f"tma_tensor_{name}" for name, _, _ in sides},
        nvgpu=("OperandMajorMode", "cpasync", "warpgroup"),
    )
