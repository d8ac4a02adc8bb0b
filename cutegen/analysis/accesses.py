"""Every place in a kernel where a warp's threads access memory together, as a thread-value layout into that memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tensor_layouts import Layout, compose

from cutegen.analysis.partitions import (
    epilogue_layout,
    pair,
    plane,
    positions,
    thread_values,
    tiled_copy,
    tiled_write,
    workspace_values,
)
from cutegen.language.dtypes import Dtype
from cutegen.language.model import KernelSpec, Path, Tensor
from cutegen.planning import layouts
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, Operand, Plan, ProbePlan
from cutegen.planning.targets import MAX_VECTOR_BITS

FAR = 1 << 20  # elements that stand for any size of a mode: whole cache lines, and more than any tile


@dataclass(frozen=True)
class Access:
    """One instruction that all threads of a block execute together, and how often they do.

    `layout` maps (thread, value) to an element: of the buffer in shared memory, or of a tensor in global memory whose
    tile starts at a cache line, with the strides of `strides_of`. Its values are those of one thread for one tile, for
    one k of it where the multiply-add reads shared memory; one instruction moves `vector` of them.
    """

    name: str  # "A to shared memory"
    tensor: str
    dtype: Dtype
    space: Literal["global", "shared"]
    kind: Literal["read", "write"]
    vector: int
    layout: Layout
    path: Path  # what in the spec decides it
    block: int | None = None  # threads of a block, where the layout has more
    workspace: Tensor | None = None  # the tensor as it lies there, where that is what is accessed

    def memory(self, spec: KernelSpec) -> Tensor:
        """The tensor as it lies in the memory that is accessed."""
        return self.workspace or spec.tensor(self.tensor)

    @property
    def bytes(self) -> int:
        """That one instruction moves for one thread."""
        return self.vector * self.dtype.bytes

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.block or layouts.mode_sizes(self.layout)[0]

    @property
    def values(self) -> int:
        return layouts.mode_sizes(self.layout)[1]

    @property
    def instructions(self) -> int:
        """Of one thread, for one tile; for one k of it from shared memory."""
        return self.values // self.vector

    @property
    def first(self) -> Layout:
        """(thread, value) of a thread's first instruction."""
        threads, values = layouts.modes_of(self.layout)
        return pair(threads, compose(values, Layout(self.vector, 1)))


def accesses(plan: Plan) -> tuple[Access, ...]:
    """In the order in which the kernel makes them: loads, shared memory, stores."""
    match plan:
        case GemmPlan():
            return _gemm(plan)
        case ElementwisePlan():
            return _elementwise(plan)
        case ProbePlan():
            return _probe(plan)
    raise TypeError(f"no accesses are known of a {type(plan).__name__}")


def strides_of(tensor: Tensor, modes: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Elements between neighbours along each of `modes`: 1 along the contiguous one, 0 where the tensor lacks it.

    Along the others those of a packed tensor, as torch makes it, while `sizes` has the sizes of all modes inside: as
    packed as the alignment allows, which the host demands of strides (it takes tensors with wider strides too). From
    the first size on that it lacks, whole cache lines and further than any tile.
    """
    unit = max(1, (tensor.align or 1) // tensor.dtype.bytes)
    steps, step = {}, 1
    for mode in (str(tensor.major), *(mode for mode in reversed(tensor.shape) if mode != tensor.major)):
        steps[mode] = step
        step = -(-step * sizes.get(mode, FAR) // unit) * unit
    return tuple(steps.get(mode, 0) for mode in modes)


def fixed_sizes(plan: Plan, tile: Mapping[str, int] | None = None) -> Mapping[str, int]:
    """Those that the spec fixes, without those that a tile reaches beyond: the plan's, or a workspace's.

    There some threads have no element, and in packed rows they would seem to have another row's.
    """
    tile = plan.tile if tile is None else tile
    fits = {mode: size >= tile.get(mode, 1) for mode, size in plan.spec.static.items()}
    if isinstance(plan, ElementwisePlan) and plan.partition == "inner":
        fits = {mode: size % plan.tile[mode] == 0 for mode, size in plan.spec.static.items()}
    return {mode: size for mode, size in plan.spec.static.items() if fits[mode]}


# ------------------------------------------------------------------------------------------------- elementwise


def _elementwise(plan: ElementwisePlan) -> tuple[Access, ...]:
    loads = [_operand(plan, o, "read") for o in plan.pointwise.operands if o.read]
    return (*loads, *(_operand(plan, o, "write") for o in plan.pointwise.operands if o.write))


def _operand(plan: ElementwisePlan, operand: Operand, kind: Literal["read", "write"]) -> Access:
    tensor = operand.tensor
    strides = strides_of(tensor, plan.spec.output.shape, fixed_sizes(plan))
    name = f"{tensor.name} {'from' if kind == 'read' else 'to'} global memory"
    path: Path = ("schedule", {"inner": "tiler"}.get(plan.partition, "thread_layout"))
    layout, vector = thread_values(plan, strides), operand.vector
    return Access(name, tensor.name, tensor.dtype, "global", kind, vector, layout, path, plan.threads)


# --------------------------------------------------------------------------------------------------------- gemm


def _gemm(plan: GemmPlan) -> tuple[Access, ...]:
    found = [access for x in (plan.a, plan.b) if x.workspace is not None for access in _workspace(plan, x)]
    for x in (plan.a, plan.b):
        found += [_from_global(plan, x), _to_shared(plan, x)]
    found += [_fragment(plan, plan.a, 0), _fragment(plan, plan.b, 1)]
    for o in plan.pointwise.operands:
        for kind in ("read", "write"):
            if o.read if kind == "read" else o.write:
                found.append(_epilogue(plan, o, kind))
    return tuple(found)


def _workspace(plan: GemmPlan, x: GemmOperand) -> Iterator[Access]:
    """Of the kernel that fills it."""
    space, name = x.workspace, x.tensor.name
    assert space is not None
    path: Path = ("schedule", "workspace", name, "thread_layout")

    sizes = fixed_sizes(plan, dict(zip((space.mode, space.k), space.tile, strict=True)))

    def layout(tensor: Tensor, written: bool) -> Layout:
        return workspace_values(space, strides_of(tensor, (space.mode, space.k), sizes), written)

    source, read, write = layout(space.tensor, False), space.read, space.write
    yield Access(f"{name} from global memory", name, x.tensor.dtype, "global", "read", read, source, path)
    target = layout(x.tensor, True)
    what = f"{name} to its workspace"
    yield Access(what, name, x.tensor.dtype, "global", "write", write, target, path, workspace=x.tensor)


def _from_global(plan: GemmPlan, x: GemmOperand) -> Access:
    strides = strides_of(x.tensor, (x.mode, plan.k), fixed_sizes(plan))
    layout = tiled_copy(x, (x.block, plan.tile[plan.k]), strides)
    return Access(
        f"{x.tensor.name} from {'global memory' if x.workspace is None else 'its workspace'}",
        x.tensor.name,
        x.tensor.dtype,
        "global",
        "read",
        x.vector,
        layout,
        ("schedule", "copies", x.tensor.name, "thread_layout"),
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
        ("schedule", "smem", x.tensor.name, "pad"),
    )


def _fragment(plan: GemmPlan, x: GemmOperand, side: int) -> Access:
    """What the multiply-add reads of one k: a thread's neighbours along m or n at once, up to 128 bits.

    As wide as the start of every k allows. Where padding aligns some starts better than others, the compiler reads
    those k wider, and parts of the others too.
    """
    threads, own = positions(plan, side, (1, 0) if side == 0 else (0, 1))
    if x.smem_layout is not None:
        threads, own = layouts.modes_of(compose(x.smem_layout, pair(threads, own)))
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
        pair(threads, own),
        ("schedule", "mma", "permutation", x.mode),
    )


def _epilogue(plan: GemmPlan, o: Operand, kind: Literal["read", "write"]) -> Access:
    return Access(
        f"{o.tensor.name} {'from' if kind == 'read' else 'to'} global memory",
        o.tensor.name,
        o.tensor.dtype,
        "global",
        kind,
        o.vector,
        epilogue_layout(plan, strides_of(o.tensor, (plan.m, plan.n), fixed_sizes(plan))),
        ("schedule", "mma", "permutation", str(plan.spec.output.major)),
    )


# -------------------------------------------------------------------------------------------------------- probe


def _probe(plan: ProbePlan) -> tuple[Access, ...]:
    tile = plane(plan.tiler, strides_of(plan.source, plan.source.shape, fixed_sizes(plan)))
    threads, values = (compose(tile, mode) for mode in layouts.modes_of(plan.tv_layout))
    out = plan.spec.output
    shape = layouts.mode_sizes(plan.tv_layout)
    written = plane(shape, strides_of(out, out.shape, fixed_sizes(plan)))
    where: Path = ("schedule", "tv_layout")
    return (
        Access(
            f"{plan.source.name} from global memory",
            plan.source.name,
            plan.source.dtype,
            "global",
            "read",
            1,
            pair(threads, values),
            where,
        ),
        Access(f"{out.name} to global memory", out.name, out.dtype, "global", "write", 1, written, where),
    )
