"""What the kernel side of a gemm's module prints. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.constants import LARGEST, Constants
from cutegen.codegen.formatting import call, make_layout, python_tuple
from cutegen.codegen.workspaces import workspace_constants
from cutegen.language.dtypes import Dtype
from cutegen.language.model import KernelSpec
from cutegen.planning.layouts import show
from cutegen.planning.plan import GemmOperand, GemmPlan


def gemm_context(plan: GemmPlan) -> dict[str, Any]:
    """What the templates of a gemm print besides what all kernels do."""
    spec, output = plan.spec, plan.spec.output
    blocks = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}
    tiler, access = "schedule.tiler", f"elements of one access to {output.name}"
    constants: Constants = [(blocks[m], str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.m, plan.n, plan.k)]
    constants += [
        ("TILER", f"({blocks[plan.m]}, {blocks[plan.n]}, {blocks[plan.k]})", "of a thread block", tiler),
        ("STAGES", str(plan.stages), "tiles in shared memory", "schedule.pipeline.stages"),
        ("THREADS", str(plan.threads), "", "schedule.mma.thread_layout"),
        ("VALUES", str(plan.pointwise.values), "accumulators of a thread", tiler),
        ("VECTOR", str(plan.pointwise.vector), access, f"schedule.copies.{output.name}"),
        ("SLICE", str(plan.pointwise.slice), "accumulators that the epilogue takes at a time", "schedule.mma"),
        *workspace_constants(plan),
        LARGEST,
    ]
    if plan.swizzle > 1:
        width = ("SWIZZLE", str(plan.swizzle), f"tiles of {output.shape[plan.tile_order[1]]} in a band")
        constants.insert(4, (*width, "schedule.scheduler.swizzle"))
    loads = [_load(plan, x) for x in (plan.a, plan.b)]
    stages, depth = plan.stages, plan.tile[plan.k]

    def read(x: LoadText, k: str, stage: str, indent: int) -> str:
        """Shared memory to registers, through a conversion where the types differ."""
        source = f"t{output.name}s{x.name}[None, None, {k}, {stage}]"
        target = f"t{output.name}r{x.name}[None, None, {k}]"
        pad = " " * indent
        if not x.plan.convert:
            return pad + call("cute.autovec_copy(", [source, target], ")", indent)
        raw = f"t{output.name}r{x.name}_in[None, None, {k}]"
        return "\n".join(
            [
                pad + call("cute.autovec_copy(", [source, raw], ")", indent),
                pad + call(f"{target}.store(", [f"{raw}.load().to(cutlass.{accumulator.cutlass})"], ")", indent),
            ]
        )

    def epilogue_view(tensor: str, vector: str) -> str:
        return f"slices({f'n_first({tensor})' if plan.row_first else tensor}, {vector})"

    def permutation(layout: Layout | None) -> str:
        return "None" if layout is None else make_layout(layout)

    accumulator = _accumulator(spec)
    return {
        "kernel_template": "gemm.py.j2",
        "constants": constants,
        "loads": loads,
        "A": plan.a.tensor.name,
        "B": plan.b.tensor.name,
        "M": plan.m.upper(),
        "N": plan.n.upper(),
        "K": plan.k.upper(),
        "blk_m": plan.tile[plan.m],
        "blk_n": plan.tile[plan.n],
        "blk_k": depth,
        "mma_a": show((1, plan.smem_fragment_m, depth, stages)),
        "mma_b": show((1, plan.smem_fragment_n, depth, stages)),
        "mma_c": show((1, plan.fragment_m, plan.fragment_n)),
        "read": read,
        "epilogue_view": epilogue_view,
        "permutation": permutation,
        "accumulator_type": accumulator.cutlass,
        **_blocks(plan),
    }


def _blocks(plan: GemmPlan) -> dict[str, Any]:
    """From a block's index to the coordinate of its tile; its grid."""
    grid, modes = ("grid_m", "grid_n"), plan.spec.output.shape
    first, second = plan.tile_order
    number = ("bidx", "bidy")
    if plan.swizzle > 1:
        number = ("place // width", "band * SWIZZLE + place % width")
    return {
        "along": modes[first],
        "across": modes[second],
        "grid_along": grid[first],
        "grid_across": grid[second],
        "block_coordinate": ", ".join(number[plan.tile_order.index(i)] for i in (0, 1)),
        "grid": f"{grid[first]}, {grid[second]}, 1" if plan.swizzle == 1 else "grid_m * grid_n, 1, 1",
    }


@dataclass(frozen=True)
class LoadText:
    """A or B on its way to shared memory, as text."""

    plan: GemmOperand
    name: str
    proj: str
    op: str
    smem_shape: str
    smem_strides: str
    pad: int
    order: str  # of a column of shared memory, if it has a layout
    gmem_profile: str
    smem_profile: str
    rest_v: int
    rest_mn: int
    rest_k: int
    predicate_shape: str
    predicate_strides: str
    predicated: bool
    residue: bool

    def copy(self, tile: str, stage: str, first: bool) -> list[str]:
        """The arguments of `cute.copy` for one tile."""
        n = self.name
        target = f"t{n}r{n}" if self.plan.through_registers else f"t{n}s{n}[None, None, None, {stage}]"
        items = [f"tiled_copy_{n}", f"t{n}g{n}[None, None, None, {tile}]", target]
        if first and self.residue:
            items.append(f"pred=t{n}p{n}_first")
        elif self.plan.masked:
            items.append(f"pred=t{n}p{n}")
        return items

    @property
    def next_copy(self) -> list[str]:
        """The arguments of `cute.copy` for the tile that is fetched to registers, if there is one."""
        return [*self.copy("fetch", "", False)[:3], f"pred=t{self.name}p{self.name}_next"]

    @property
    def next_strides(self) -> str:
        return self.predicate_strides if self.plan.masked else "(0, 0, 0)"

    def write(self, stage: str) -> str:
        """What was read into registers, to a stage of shared memory."""
        n = self.name
        return f"cute.autovec_copy(t{n}r{n}, t{n}s{n}[None, None, None, {stage}])"


def _load(plan: GemmPlan, x: GemmOperand) -> LoadText:
    name, block = x.tensor.name, f"BLK_{x.mode.upper()}"
    rest_v, rest_mn, rest_k = x.copies
    profile = ((x.vector, rest_v), rest_mn, rest_k)
    pad = x.smem_stride - x.block
    stride = f"{block} + {pad}" if pad else block
    depth = f"BLK_{plan.k.upper()}"
    column: tuple[object, object] = (block, 1)
    order = ""
    if x.smem_layout is not None:
        column = x.smem_layout.shape, x.smem_layout.stride
        order = f"the layout says where each coordinate along {x.mode} stands"
        if x.smem_runs:
            order = "what a thread reads at once stands together"
    return LoadText(
        plan=x,
        name=name,
        proj="(1, None, 1)" if x.letter == "A" else "(None, 1, 1)",
        op="cpasync.CopyG2SOp()" if x.atom == "cp_async" else "cute.nvgpu.CopyUniversalOp()",
        smem_shape=f"({column[0]}, {depth}, STAGES)",
        smem_strides=f"({column[1]}, {stride}, {depth} * {f'({stride})' if pad else stride})",
        pad=pad,
        order=order,
        gmem_profile=show((*profile, "k" if plan.k_tiles is None else plan.k_tiles)),
        smem_profile=show((*profile, plan.stages)),
        rest_v=rest_v,
        rest_mn=rest_mn,
        rest_k=rest_k,
        predicate_shape=python_tuple(x.copies),
        predicate_strides=python_tuple((rest_mn, 1, 0)),
        predicated=x.masked or plan.residue,
        residue=plan.residue,
    )


def _accumulator(spec: KernelSpec) -> Dtype:
    accumulator = spec.schedule.mma.accumulator  # type: ignore[union-attr]
    assert isinstance(accumulator, Dtype)
    return accumulator
