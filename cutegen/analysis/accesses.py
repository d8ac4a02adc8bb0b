"""Every place in a kernel where a warp's threads access memory together, as a thread-value layout into that memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from tensor_layouts import Layout, compose, right_inverse, size

from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import Path, Tensor
from cutegen.planning import layouts
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, Operand, Plan, ProbePlan
from cutegen.planning.targets import MAX_VECTOR_BITS

FAR = 1 << 20  # elements between neighbours along a mode that is not contiguous: whole cache lines, more than any tile


@dataclass(frozen=True)
class Access:
    """One instruction that all threads of a block execute together, and how often they do.

    `layout` maps (thread, value) to an element: of the buffer in shared memory, or of a tensor in global memory whose
    tile starts at a cache line and whose other strides are large. Its values are those of one thread for one tile, for
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

    @property
    def bytes(self) -> int:
        """That one instruction moves for one thread."""
        return self.vector * self.dtype.bytes

    @property
    def threads(self) -> int:
        return layouts.mode_sizes(self.layout)[0]

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
        return _pair(threads, compose(values, Layout(self.vector, 1)))


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


def _pair(threads: Layout, values: Layout) -> Layout:
    return Layout((threads.shape, values.shape), (threads.stride, values.stride))


def strides_of(tensor: Tensor, modes: Sequence[str]) -> tuple[int, ...]:
    """Elements between neighbours along each of `modes`: 1 along the contiguous one, 0 where the tensor lacks it."""
    far = [mode for mode in tensor.shape if mode != tensor.major]
    steps = {mode: FAR**i for i, mode in enumerate(reversed(far), 1)} | {str(tensor.major): 1}
    return tuple(steps.get(mode, 0) for mode in modes)


def _plane(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    return Layout(shape[0], strides[0]) if len(shape) == 1 else Layout(tuple(shape), tuple(strides))


# ------------------------------------------------------------------------------------------------- elementwise


def _elementwise(plan: ElementwisePlan) -> tuple[Access, ...]:
    loads = [_operand(plan, o, "read") for o in plan.pointwise.operands if o.read]
    return (*loads, *(_operand(plan, o, "write") for o in plan.pointwise.operands if o.write))


def _operand(plan: ElementwisePlan, operand: Operand, kind: Literal["read", "write"]) -> Access:
    tensor = operand.tensor
    strides = strides_of(tensor, plan.spec.output.shape)
    name = f"{tensor.name} {'from' if kind == 'read' else 'to'} global memory"
    path: Path = ("schedule", {"inner": "tiler"}.get(plan.partition, "thread_layout"))
    return Access(name, tensor.name, tensor.dtype, "global", kind, operand.vector, thread_values(plan, strides), path)


def thread_values(plan: ElementwisePlan, strides: Sequence[int]) -> Layout:
    """(thread, value) -> element, of a tensor with these strides along the output's modes."""
    tile = _plane(plan.tiler, strides)
    if plan.partition == "thread_value":
        assert plan.tv_layout is not None
        threads, values = (compose(tile, mode) for mode in layouts.modes_of(plan.tv_layout))
        return _pair(threads, values)
    if plan.partition == "inner_outer":
        assert plan.thread_layout is not None
        sides = layouts.mode_sizes(plan.thread_layout)
        share = [extent // side for extent, side in zip(plan.tiler, sides, strict=True)]
        spread = [stride * side for stride, side in zip(strides, sides, strict=True)]
        return _pair(compose(_plane(sides, strides), right_inverse(plan.thread_layout)), _plane(share, spread))
    values = tile if plan.value_layout is None else compose(tile, plan.value_layout)
    return _pair(_walk(plan, strides), values)


def _walk(plan: ElementwisePlan, strides: Sequence[int]) -> Layout:
    """Thread -> the start of its tile, where each thread has a tile of its own.

    As if there were as many tiles along a mode as there are threads, unless its size is fixed. Fixed sizes may leave
    the layout with a few more threads than a block has.
    """
    modes, left = plan.spec.output.shape, plan.threads
    shape, steps = [], []
    for i in plan.tile_order:
        tiles = -(-plan.spec.static[modes[i]] // plan.tiler[i]) if modes[i] in plan.spec.static else left
        extent = left if i == plan.tile_order[-1] else min(tiles, left)
        shape.append(extent)
        steps.append(plan.tiler[i] * strides[i])
        left = -(-left // extent)
    return _plane(shape, steps)


# --------------------------------------------------------------------------------------------------------- gemm


def _gemm(plan: GemmPlan) -> tuple[Access, ...]:
    found = []
    for x in (plan.a, plan.b):
        found += [_from_global(plan, x), _to_shared(plan, x)]
    found += [_fragment(plan, plan.a, 0), _fragment(plan, plan.b, 1)]
    for o in plan.pointwise.operands:
        for kind in ("read", "write"):
            if o.read if kind == "read" else o.write:
                found.append(_epilogue(plan, o, kind))
    return tuple(found)


def tiled_copy(x: GemmOperand, tile: Sequence[int], strides: Sequence[int]) -> Layout:
    """(thread, value) -> element, for all that a thread copies of a tile (m or n, k)."""
    tiler, tv = make_layout_tv(x.thread_layout, x.value_layout)
    threads, values = (compose(Layout(tiler, tuple(strides)), mode) for mode in layouts.modes_of(tv))
    rest = tuple(extent // covered for extent, covered in zip(tile, tiler, strict=True))
    steps = tuple(covered * stride for covered, stride in zip(tiler, strides, strict=True))
    return Layout(
        (threads.shape, (values.shape, *rest)),
        (threads.stride, (values.stride, *steps)),
    )


def _from_global(plan: GemmPlan, x: GemmOperand) -> Access:
    strides = strides_of(x.tensor, (x.mode, plan.k))
    layout = tiled_copy(x, (x.block, plan.tile[plan.k]), strides)
    return Access(
        f"{x.tensor.name} from global memory",
        x.tensor.name,
        x.tensor.dtype,
        "global",
        "read",
        x.vector,
        layout,
        ("schedule", "copies", x.tensor.name, "thread_layout"),
    )


def _to_shared(plan: GemmPlan, x: GemmOperand) -> Access:
    return Access(
        f"{x.tensor.name} to shared memory",
        x.tensor.name,
        x.tensor.dtype,
        "shared",
        "write",
        x.vector,
        tiled_copy(x, (x.block, plan.tile[plan.k]), (1, x.smem_stride)),
        ("schedule", "smem", x.tensor.name, "pad"),
    )


def _fragment(plan: GemmPlan, x: GemmOperand, side: int) -> Access:
    """What the multiply-add reads of one k: a thread's neighbours along m or n at once, up to 128 bits.

    As wide as the start of every k allows. Where padding aligns some starts better than others, the compiler reads
    those k wider, and parts of the others too.
    """
    threads, own = _positions(plan, side, (1, 0) if side == 0 else (0, 1))
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
        _pair(threads, own),
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
        epilogue_layout(plan, strides_of(o.tensor, (plan.m, plan.n))),
        ("schedule", "mma", "permutation", str(plan.spec.output.major)),
    )


def epilogue_layout(plan: GemmPlan, strides: Sequence[int]) -> Layout:
    """(thread, accumulator) -> element, of a tensor with these strides along m and n; in the order of the epilogue."""
    threads, along_m = _positions(plan, 0, strides)
    _, along_n = _positions(plan, 1, strides)
    along_m = Layout(along_m.shape, _scaled(along_m.stride, strides[0]))
    along_n = Layout(along_n.shape, _scaled(along_n.stride, strides[1]))
    order = (along_n, along_m) if plan.row_first else (along_m, along_n)
    return _pair(threads, Layout(tuple(x.shape for x in order), tuple(x.stride for x in order)))


def _positions(plan: GemmPlan, side: int, strides: Sequence[int]) -> tuple[Layout, Layout]:
    """Of the tiled mma: thread -> element, for strides along m and n; and a thread's own positions along `side`."""
    sides = layouts.mode_sizes(plan.thread_layout)
    parts = [_dealt(plan, i) for i in (0, 1)]
    shape = tuple(first.shape for first, _ in parts)
    steps = tuple(_scaled(first.stride, stride) for (first, _), stride in zip(parts, strides, strict=True))
    plane = Layout(shape, steps)
    places = right_inverse(_flat_k(plan.thread_layout))
    assert int(size(plane)) == prod(sides[:2])
    return compose(plane, places), parts[side][1]


def _flat_k(threads: Layout) -> Layout:
    """Without the mode of k, which has one thread."""
    m, n, _ = layouts.modes_of(threads)
    return Layout((m.shape, n.shape), (m.stride, n.stride))


def _dealt(plan: GemmPlan, side: int) -> tuple[Layout, Layout]:
    """Along m (`side` 0) or n (1): coordinate of a thread -> its first position, and its positions from there on."""
    threads = layouts.mode_sizes(plan.thread_layout)[side]
    permutation = (plan.permutation_m, plan.permutation_n)[side] or Layout(threads, 1)
    reach, block = int(size(permutation)), plan.tile[(plan.m, plan.n)[side]]
    first = compose(permutation, Layout(threads, 1))
    own = compose(permutation, Layout(reach // threads, threads))
    if block == reach:
        return first, own
    return first, Layout((own.shape, block // reach), (own.stride, reach))


def _scaled(stride: object, factor: int) -> object:
    if isinstance(stride, tuple):
        return tuple(_scaled(s, factor) for s in stride)
    assert isinstance(stride, int)
    return stride * factor


# -------------------------------------------------------------------------------------------------------- probe


def _probe(plan: ProbePlan) -> tuple[Access, ...]:
    tile = _plane(plan.tiler, strides_of(plan.source, plan.source.shape))
    threads, values = (compose(tile, mode) for mode in layouts.modes_of(plan.tv_layout))
    out = plan.spec.output
    shape = layouts.mode_sizes(plan.tv_layout)
    written = _plane(shape, strides_of(out, out.shape))
    where: Path = ("schedule", "tv_layout")
    return (
        Access(
            f"{plan.source.name} from global memory",
            plan.source.name,
            plan.source.dtype,
            "global",
            "read",
            1,
            _pair(threads, values),
            where,
        ),
        Access(f"{out.name} to global memory", out.name, out.dtype, "global", "write", 1, written, where),
    )
