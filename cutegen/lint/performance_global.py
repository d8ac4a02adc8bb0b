"""What accesses to global memory cost: sectors that are not filled, and accesses narrower than they could be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensor_layouts import Layout

from cutegen.analysis import Access, sectors
from cutegen.analysis.memory import Sectors
from cutegen.analysis.widths import Width, width
from cutegen.analysis.words import count
from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import format_layout
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec, Path, Scheduler
from cutegen.lint.performance_shared import other_permutations
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import as_written, changed, changed_copy, changed_tiler, first_written, is_written, written
from cutegen.planning import layouts
from cutegen.planning.elementwise import widest_tensor
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan
from cutegen.planning.targets import MAX_VECTOR_BITS, SECTOR, WARP

_BITS = ("schedule", "copy", "bits")
_CACHED = 0.5  # of the excess of a request, where the warp's other requests use the rest of its sectors
_ISSUE = 0.25  # of the excess of more instructions than needed, where they move no more sectors


def uncoalesced(spec: KernelSpec, plan: Plan, made: Accesses) -> Iterator[Finding]:
    """A warp's instruction touches no more sectors of global memory than its bytes fill."""
    alike: dict[tuple[Path, Sectors], list[Access]] = {}
    for access in made:
        if (
            access.space == "global"
            and _counts(spec, plan, access)
            and (found := sectors(access)).sectors > found.least
        ):
            alike.setdefault((access.path, found), []).append(access)
    for (path, found), group in alike.items():
        cached, times = found.over_tile == found.least_over_tile, group[0].instructions
        notes = [
            f"warp {found.warp}: {found.bytes} bytes fill {count(found.least, 'sector')} of {SECTOR} bytes, and lie in "
            f"{found.sectors}"
        ]
        if cached:
            notes.append("the warp's other accesses use the rest of them, if the first-level cache keeps them so long")
        elif times > 1:
            notes.append(f"over all {times} of them: {found.over_tile} sectors, and {found.least_over_tile} would do")
        yield Finding(
            f"{_names(group)} accessed in {count(found.sectors, 'sector')} a request, and {found.least} would do",
            first_written(spec, path, path[:-1], ("tensors", group[0].tensor)),
            tuple(notes),
            (found.ratio - 1) * (_CACHED if cached else 1) * len(group),
            _other_walks(spec, plan, group[0]),
        )


def _counts(spec: KernelSpec, plan: Plan, access: Access) -> bool:
    """Not what broadcasts in the epilogue of a product: read once for a whole tile, it stays in the cache."""
    if not isinstance(plan, GemmPlan) or access.tensor in (plan.a.tensor.name, plan.b.tensor.name):
        return True
    return set(spec.tensor(access.tensor).shape) == set(spec.output.shape)


def _names(group: Sequence[Access]) -> str:
    """`A is`, `A and B are`."""
    names = list(dict.fromkeys(a.tensor + "'s workspace" * (a.workspace is not None) for a in group))
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{joined} {'is' if len(names) == 1 else 'are'}"


def _other_walks(spec: KernelSpec, plan: Plan, access: Access) -> Iterator[Candidate]:
    match spec.schedule, plan:
        case ElementwiseSchedule(), ElementwisePlan():
            yield from _elementwise_walks(spec, plan, access)
        case GemmSchedule(), GemmPlan():
            yield from _gemm_walks(spec, plan, access)


def _elementwise_walks(spec: KernelSpec, plan: ElementwisePlan, access: Access) -> Iterator[Candidate]:
    major = spec.output.shape.index(str(spec.output.major))
    mode, rank = str(spec.output.major), len(spec.output.shape)
    if plan.partition == "inner":
        if plan.tile_order[0] != major:
            yield written(f"write `raster: {mode}`"), changed(spec, scheduler=Scheduler(raster=mode))
        yield written(f"write `{mode}: {access.vector}` in the tiler"), changed_tiler(spec, **{mode: access.vector})
        return
    extent, values = plan.tiler[major], plan.pointwise.vector
    for along in (WARP, 16, 8, 4, plan.threads):
        if plan.threads % along or (plan.partition == "inner_outer" and extent % (along * values)):
            continue
        shape = [1] * rank
        shape[major] = along
        shape[major - 1 if major else rank - 1] *= plan.threads // along
        threads = layouts.ordered(shape, major)
        fields: dict[str, Layout] = {"thread_layout": threads}
        text = f"write `thread_layout: {format_layout(threads)}`"
        if plan.partition == "thread_value":
            own = [1] * rank
            own[major] = values
            own[major - 1 if major else rank - 1] *= plan.pointwise.values // values
            fields["value_layout"] = layouts.ordered(own, major)
            text += f" and `value_layout: {format_layout(fields['value_layout'])}`"
        yield written(text), changed(spec, **fields)


def _gemm_walks(spec: KernelSpec, plan: GemmPlan, access: Access) -> Iterator[Candidate]:
    if access.path[1] == "workspace":
        plain = as_written(spec).schedule
        assert isinstance(plain, GemmSchedule)
        spaces = {**plain.workspace, access.tensor: replace(plain.workspace[access.tensor], thread_layout=None)}
        yield written(f"leave `thread_layout` of {access.tensor}'s workspace out"), changed(spec, workspace=spaces)
        return
    for x in (plan.a, plan.b):
        if x.tensor.name == access.tensor:
            text = f"leave `thread_layout` and `value_layout` of {access.tensor} out"
            plain = as_written(spec).schedule
            assert isinstance(plain, GemmSchedule)
            copies = {name: copy for name, copy in plain.copies.items() if name != access.tensor}
            yield written(text), changed(spec, copies=copies)
            for times in (2, 4):
                depth = plan.tile[plan.k] * times
                yield written(f"write `{plan.k}: {depth}` in the tiler"), changed_tiler(spec, **{plan.k: depth})
            return
    tensor = spec.tensor(access.tensor)
    for align in (8, 16):
        if (tensor.align or 1) < align:
            wider = tuple(replace(t, align=align) if t.name == tensor.name else t for t in spec.tensors)
            text = f"if its address and strides allow it, write `align: {align}` for {tensor.name}"
            yield written(text), replace(as_written(spec), tensors=wider)
    mode = str(spec.output.major)
    yield from other_permutations(spec, mode, (plan.m, plan.n).index(mode))


# -------------------------------------------------------------------------------------------------------- width


def narrow(spec: KernelSpec, plan: Plan, made: Accesses) -> Iterator[Finding]:
    """An access is as wide as the alignment and 128 bits allow."""
    alike: dict[tuple[Path, Width, Dtype], list[Access]] = {}
    for access in made:
        if access.space == "global" and _whole(spec, plan, access):
            found = width(spec, access)
            if found.vector < found.allowed:
                place = _width_place(spec, plan, access, found.vector < found.possible)
                alike.setdefault((place, found, access.dtype), []).append(access)
    for (place, found, dtype), group in alike.items():
        bits, allowed = found.vector * dtype.bits, found.allowed * dtype.bits
        yield Finding(
            f"{_names(group)} accessed {bits} bits at a time, and the alignment allows {allowed}",
            place,
            (_why(spec, found, group[0]), _instructions(group[0], found)),
            (found.allowed / found.vector - 1) * _ISSUE * len(group),
            _wider(spec, plan, group[0]),
        )


def _whole(spec: KernelSpec, plan: Plan, access: Access) -> bool:
    """Whether the tensor is contiguous where the kernel could access it in vectors."""
    tensor = access.memory(spec)
    if isinstance(plan, GemmPlan) and tensor.name in (plan.a.tensor.name, plan.b.tensor.name):
        return tensor.major != plan.k  # shared memory is m- or n-major: along k nothing is contiguous there
    return tensor.major == spec.output.major and isinstance(plan, (GemmPlan, ElementwisePlan))


def _width_place(spec: KernelSpec, plan: Plan, access: Access, asked: bool) -> Path:
    if isinstance(plan, GemmPlan):
        bits: Path = ("schedule", "copies", access.tensor, "bits")
    else:
        bits = _BITS
    dealt = isinstance(plan, ElementwisePlan) and plan.partition == "inner_outer"  # `bits` decides what is in a row
    if (asked or dealt) and is_written(spec, *bits):
        return bits
    return first_written(spec, ("schedule", "value_layout"), access.path, access.path[:-1], ("tensors", access.tensor))


def _why(spec: KernelSpec, found: Width, access: Access) -> str:
    if found.vector < found.possible:
        return (
            f"a thread has {found.run} in a row, the alignment allows {found.aligned}, and `bits` takes {found.vector}"
        )
    has = f"{found.run} in a row" if found.run > 1 else "no two in a row"
    return f"a thread has {has} along {access.memory(spec).major}, and the alignment allows {found.aligned}"


def _instructions(access: Access, found: Width) -> str:
    most = access.values // min(found.allowed, access.values)
    return (
        f"{access.instructions} accesses of a thread, and {most} could do"
        if most < access.instructions
        else ("a thread with more values would need no more accesses")
    )


def _wider(spec: KernelSpec, plan: Plan, access: Access) -> Iterator[Candidate]:
    unsaid = isinstance(plan, ElementwisePlan) and not is_written(spec, *_BITS)
    for bits in (128, 64, 32, 16):
        text = f"write `copy: {{bits: {bits}}}`" if unsaid else f"write `bits: {bits}`"
        yield written(text), changed_copy(spec, access.tensor, bits=bits)
    if isinstance(plan, ElementwisePlan):
        yield from _more_values(spec, plan, access)
    if isinstance(plan, GemmPlan) and access.tensor not in (plan.a.tensor.name, plan.b.tensor.name):
        mode = str(spec.output.major)
        yield from other_permutations(spec, mode, (plan.m, plan.n).index(mode))


def _more_values(spec: KernelSpec, plan: ElementwisePlan, access: Access) -> Iterator[Candidate]:
    mode = str(spec.output.major)
    major, wanted = spec.output.shape.index(mode), width(spec, access).allowed
    plain = as_written(spec)
    assert isinstance(plain.schedule, ElementwiseSchedule)
    schedule = replace(plain.schedule, copy=replace(plain.schedule.copy, bits=None))
    and_bits = ", and leave `bits` out" if is_written(spec, *_BITS) else ""
    if plan.partition == "inner_outer":
        yield _longer_runs(spec, plan, wanted)
        return
    if plan.partition == "inner":
        tiler = {**(schedule.tiler or {}), mode: wanted}
        text = f"write `{mode}: {wanted}` in the tiler{and_bits}"
        yield written(text), replace(plain, schedule=replace(schedule, tiler=tiler))
        return
    assert plan.thread_layout is not None
    sides = layouts.mode_sizes(plan.thread_layout)
    own = [extent // side for extent, side in zip(plan.tiler, sides, strict=True)]
    own[major] = wanted
    value = layouts.ordered(own, major)
    text = f"write `value_layout: {format_layout(value)}`{and_bits}"
    wider = replace(schedule, tiler=None, thread_layout=plan.thread_layout, value_layout=value)
    yield written(text), replace(plain, schedule=wider)


def _longer_runs(spec: KernelSpec, plan: ElementwisePlan, wanted: int) -> Candidate:
    """Whole accesses of as many elements as are `wanted` and possible for the threads of inner_outer to deal out."""
    assert plan.thread_layout is not None
    mode, element = str(spec.output.major), widest_tensor(spec).dtype.bits
    run = min(wanted, MAX_VECTOR_BITS // element)
    step = run * layouts.mode_sizes(plan.thread_layout)[spec.output.shape.index(mode)]
    extent = -(-plan.tile[mode] // step) * step
    text = f"write `{mode}: {extent}` in the tiler and `copy: {{bits: {run * element}}}`"
    longer = changed_tiler(spec, **{mode: extent})
    assert isinstance(longer.schedule, ElementwiseSchedule)
    copy = replace(longer.schedule.copy, bits=run * element)
    return written(text), replace(longer, schedule=replace(longer.schedule, copy=copy))
