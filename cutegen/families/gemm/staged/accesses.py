"""Where a warp of a multistage gemm accesses memory together, and what it has of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tensor_layouts import Layout, compose

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer, Scratch
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.gemm.staged.partitions import (
    epilogue_layout,
    positions,
    tiled_copy,
    tiled_write,
    workspace_values,
)
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan, MultistagePlan, StagedOperand
from cutegen.families.gemm.staged.shared_memory import pad_path, smem_bytes
from cutegen.language.kinds import Path
from cutegen.language.model import Tensor


def accesses_of(plan: GemmPlan) -> tuple[Access, ...]:
    """The accesses of a gemm in the order of the kernels: those that fill workspaces, the mainloop, the epilogue."""
    found = [access for x in (plan.a, plan.b) if x.workspace is not None for access in _workspace(plan, x)]
    for x in (plan.a, plan.b):
        found += [from_global(plan, x, "thread_layout"), _to_shared(plan, x)]
    found += [_fragment(plan, plan.a, 0), _fragment(plan, plan.b, 1)]
    path: Path = ("schedule", "mma", "permutation", str(plan.spec.lead.major))
    return (*found, *epilogue(plan, lambda strides: epilogue_layout(plan, strides), path))


def epilogue(plan: MultistagePlan, layout: Callable[[Sequence[int]], Layout], path: Path) -> Iterator[Access]:
    """The accesses of an epilogue; `layout` deals a tensor with given strides along m and n out to them."""
    for o in plan.pointwise.operands:
        tensor = plan.spec.by_element.tensor(o.tensor.name)  # rows that are taken at places may lie anywhere
        own = layout(strides_of(tensor, (plan.m, plan.n), fixed_sizes(plan.spec, plan.tile)))
        kinds: list[tuple[bool, Literal["read", "write"], str]] = [(o.read, "read", "from"), (o.write, "write", "to")]
        for made, kind, way in kinds:
            if made:
                what = f"{o.tensor.name} {way} global memory"
                yield Access(what, o.tensor.name, o.tensor.dtype, "global", kind, o.vector, own, path)


def _workspace(plan: GemmPlan, x: GemmOperand) -> Iterator[Access]:
    """The accesses of the kernel that fills an operand's workspace."""
    space, name = x.workspace, x.tensor.name
    assert space is not None
    path: Path = ("schedule", "workspace", name, "thread_layout")

    sizes = fixed_sizes(plan.spec, dict(zip((space.mode, space.k), space.tile, strict=True)))

    def layout(tensor: Tensor, written: bool) -> Layout:
        return workspace_values(space, strides_of(tensor, (space.mode, space.k), sizes), written)

    source, read, write = layout(space.tensor, False), space.read, space.write
    yield Access(f"{name} from global memory", name, x.tensor.dtype, "global", "read", read, source, path)
    target = layout(x.tensor, True)
    what = f"{name} to its workspace"
    yield Access(what, name, x.tensor.dtype, "global", "write", write, target, path, workspace=x.tensor)


def from_global(plan: MultistagePlan, x: StagedOperand, field: str) -> Access:
    """The access by which a tile of A or B is read, which a `field` of its copy decides on."""
    strides = strides_of(x.tensor, (x.mode, plan.k), fixed_sizes(plan.spec, plan.tile))
    layout = tiled_copy(x, (x.block, plan.tile[plan.k]), strides)
    return Access(
        f"{x.tensor.name} from {'global memory' if x.workspace is None else 'its workspace'}",
        x.tensor.name,
        x.tensor.dtype,
        "global",
        "read",
        x.vector,
        layout,
        ("schedule", "copies", x.tensor.name, field),
        workspace=None if x.workspace is None else x.tensor,
    )


def _to_shared(plan: GemmPlan, x: GemmOperand) -> Access:
    return Access(
        f"{x.tensor.name} to shared memory",
        x.tensor.name,
        x.tensor.dtype,
        "shared",
        "write",
        x.smem_vector,
        tiled_write(x, plan.tile[plan.k]),
        pad_path(x.tensor.name),
    )


def _fragment(plan: GemmPlan, x: GemmOperand, side: int) -> Access:
    """The access by which the multiply-add reads one k: a thread's neighbours along m or n at once, up to 128 bits.

    It is as wide as the start of every k allows. Where padding aligns some starts better than others, the compiler
    reads those k wider, and parts of the others too.
    """
    threads, own = positions(plan, side, (1, 0) if side == 0 else (0, 1))
    if x.smem_layout is not None:
        threads, own = layouts.modes_of(compose(x.smem_layout, layouts.pair(threads, own)))
    run = layouts.unit_stride_run(layouts.offsets(own))
    widest = max(1, MAX_VECTOR_BITS // x.tensor.dtype.bits)
    aligned = (x.smem_stride * x.tensor.dtype.bytes) & -(x.smem_stride * x.tensor.dtype.bytes)
    vector = min(run, widest, max(1, aligned // x.tensor.dtype.bytes))
    return Access(
        f"{x.tensor.name} from shared memory",
        x.tensor.name,
        x.tensor.dtype,
        "shared",
        "read",
        vector,
        layouts.pair(threads, own),
        ("schedule", "mma", "permutation", x.mode),
    )


def buffers(plan: GemmPlan) -> Iterator[Buffer]:
    """The stages of A and B in shared memory."""
    used, _ = smem_bytes(plan.spec)
    for x in (plan.a, plan.b):
        name = x.tensor.name
        yield Buffer(name, x.block, x.smem_stride, plan.tile[plan.k], plan.stages, used[name])


def scratch(plan: GemmPlan) -> Iterator[Scratch]:
    """The workspaces of A and B."""
    for space in plan.workspaces:
        yield Scratch(space.tensor.name, ((space.mode, space.write), (space.k, 1)), space.tensor.dtype.bytes)
