"""Advice on memory: banks, sectors and the width of accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tensor_layouts import Layout

from cutegen.analysis import Access, accesses, conflicts, sectors
from cutegen.analysis.memory import SECTOR, Sectors
from cutegen.analysis.widths import Width, width
from cutegen.language.diagnostics import has_errors
from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import format_layout
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec, Path
from cutegen.lint.performance_trial import first_better, named, shared_cost
from cutegen.lint.rule import Say
from cutegen.lint.trial import (
    Candidate,
    as_written,
    changed,
    changed_copy,
    changed_mma,
    changed_tiler,
    first_written,
    is_written,
    try_out,
    written,
)
from cutegen.planning import layouts, make_plan
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan
from cutegen.planning.targets import WARP

_RUNS = (1, 2, 4, 8)  # neighbours of a thread, to suggest
_PADS = (0, 1, 2, 4, 8, 16)  # elements
_SHOWN = 4


def bank_conflicts(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """The lanes of a warp that shared memory serves at once want different banks, or the same word of one."""
    for access in accesses(plan):
        if access.space != "shared":
            continue
        found = conflicts(access)
        if found.passes == found.least:
            continue
        shown = ", ".join(map(str, found.lanes[:_SHOWN])) + (", ..." if len(found.lanes) > _SHOWN else "")
        words = ", ".join(map(str, found.words[:_SHOWN])) + (", ..." if len(found.words) > _SHOWN else "")

        help = _better_banks(spec, plan, access) if say.advise else None
        direction = "written to" if access.kind == "write" else "read from"
        say(
            f"{access.tensor} is {direction} shared memory with {found.ways}-way bank conflicts",
            *first_written(spec, access.path, ("schedule", "smem", access.tensor, "pad"), access.path),
            notes=(
                f"warp {found.warp}: threads {shown} want words {words}, all of bank {found.bank}",
                f"{access.bytes} bytes a thread take {found.passes} passes of the warp, and {found.least} would do",
                *(() if help else ("no other padding or permutation was found that costs less",) * say.advise),
            ),
            help=help,
        )


def _better_banks(spec: KernelSpec, plan: Plan, access: Access) -> str | None:
    return first_better(_other_banks(spec, plan, access), lambda _, other: _fewer_passes(plan, other, access))


def _fewer_passes(plan: Plan, other: Plan, access: Access) -> bool:
    there = named(other, access.name)
    return there is not None and conflicts(there).free and shared_cost(other) < shared_cost(plan)


def _other_banks(spec: KernelSpec, plan: Plan, access: Access) -> Iterator[Candidate]:
    assert isinstance(plan, GemmPlan) and isinstance(spec.schedule, GemmSchedule)
    if access.kind == "write":
        for pad in _PADS:
            padding = {**as_smem(spec), access.tensor: pad}
            yield written(f"write `pad: {pad}`"), changed(spec, smem_pad=padding)
    side = 0 if access.tensor == plan.a.tensor.name else 1
    mode = (plan.m, plan.n)[side]
    for text, mma in _other_permutations(spec, mode, side):
        yield written(text), mma


def idle_padding(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """Padding takes bank conflicts away."""
    assert isinstance(plan, GemmPlan)
    for x in (plan.a, plan.b):
        pad = x.smem_stride - x.block
        if not pad:
            continue
        plain, found = try_out(changed(spec, smem_pad={**as_smem(spec), x.tensor.name: 0}), "")
        if has_errors(found):
            continue
        without = make_plan(plain)
        if shared_cost(without) > shared_cost(plan):
            continue
        assert isinstance(without, GemmPlan)
        (_, now), (_, then) = shared_cost(plan), shared_cost(without)
        say(
            f"a padding of {pad} elements of {x.tensor.name} takes no bank conflict away",
            *("schedule", "smem", x.tensor.name, "pad"),
            notes=(
                f"for a tile a warp takes {now} passes to shared memory, and {then} without it",
                f"a block takes {plan.smem_bytes} bytes of shared memory, and {without.smem_bytes} without it",
            ),
            help="write `pad: 0`",
        )


def as_smem(spec: KernelSpec) -> dict[str, int]:
    schedule = as_written(spec).schedule
    return dict(schedule.smem_pad) if isinstance(schedule, GemmSchedule) else {}


def _other_permutations(spec: KernelSpec, mode: str, side: int) -> Iterator[tuple[str, KernelSpec]]:
    assert isinstance(spec.schedule, GemmSchedule) and spec.schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(spec.schedule.mma.thread_layout)[side]
    mma = as_written(spec).schedule
    assert isinstance(mma, GemmSchedule)
    for run in reversed(_RUNS):
        layout = Layout((threads, run), (run, 1)) if run > 1 else Layout(threads, 1)
        text = f'write `permutation: {{{mode}: "{format_layout(layout)}"}}`'
        yield text, changed_mma(spec, permutation={**mma.mma.permutation, mode: layout})


# ------------------------------------------------------------------------------------------------------ sectors


def uncoalesced(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """A warp's instruction touches no more sectors of global memory than its bytes fill."""
    alike: dict[tuple[Path, Sectors, bool], list[Access]] = {}
    for access in accesses(plan):
        if access.space == "global" and (found := sectors(access)).sectors > found.least:
            across = isinstance(plan, ElementwisePlan) and spec.tensor(access.tensor).major != spec.output.major
            alike.setdefault((access.path, found, across), []).append(access)
    for (path, found, across), group in alike.items():
        over = (
            f"over all {group[0].instructions} of them: {found.over_tile} sectors, and {found.least_over_tile} would do"
        )
        if found.over_tile == found.least_over_tile:
            over = "the warp's other accesses use the rest of them, if the first-level cache keeps them so long"
        notes = [
            f"warp 0: {found.bytes} bytes fill {found.least} sectors of {SECTOR} bytes, and lie in {found.sectors}",
            over,
        ]
        if across:
            majors = f"{group[0].tensor} is {spec.tensor(group[0].tensor).major}-major, and {spec.output.name} is "
            notes.append(f"{majors}{spec.output.major}-major: one of them is walked across")
        say(
            f"{_names(group)} accessed in {found.sectors} sectors a request, and {found.least} would do",
            *first_written(spec, path, ("schedule",)),
            notes=tuple(notes),
            help=None if across else partial(_better_walk, spec, plan, group[0]),
        )


def _names(group: Sequence[Access]) -> str:
    """`A is`, `A and B are`."""
    names = list(dict.fromkeys(access.tensor for access in group))
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{joined} {'is' if len(names) == 1 else 'are'}"


def _better_walk(spec: KernelSpec, plan: Plan, access: Access) -> str | None:
    return first_better(_other_walks(spec, plan, access), lambda _, other: _less_traffic(plan, other, access))


def _less_traffic(plan: Plan, other: Plan, access: Access) -> bool:
    """The access is coalesced, no other one became worse, and accesses are as wide or wider."""
    there = named(other, access.name)
    if there is None or sectors(there).ratio > 1 or there.vector < access.vector:
        return False
    before = {a.name: sectors(a).ratio for a in accesses(plan) if a.space == "global"}
    return all(sectors(a).ratio <= before.get(a.name, 1) for a in accesses(other) if a.space == "global")


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
        yield written(f"write `{mode}: {access.vector}` in the tiler"), changed_tiler(spec, **{mode: access.vector})
        return
    extent, values = plan.tiler[major], plan.pointwise.vector
    for along in (WARP, 16, 8, 4, plan.threads):
        if plan.threads % along or (plan.partition == "inner_outer" and extent % along):
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
    for x in (plan.a, plan.b):
        if x.tensor.name == access.tensor:
            text = f"leave `thread_layout` and `value_layout` of {access.tensor} out"
            copies = dict(as_written(spec).schedule.copies)  # type: ignore[union-attr]
            copies.pop(access.tensor, None)
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
    for text, other in _other_permutations(spec, mode, (plan.m, plan.n).index(mode)):
        yield written(text), other


# -------------------------------------------------------------------------------------------------------- width


def narrow(spec: KernelSpec, plan: Plan, say: Say) -> None:
    """An access is as wide as the alignment and 128 bits allow."""
    alike: dict[tuple[Path, Width, Dtype], list[Access]] = {}
    for access in accesses(plan):
        if access.space == "global" and _whole(spec, plan, access):
            found = width(spec, access)
            if found.vector < found.allowed:
                place = _width_place(spec, plan, access, found.vector < found.possible)
                alike.setdefault((place, found, access.dtype), []).append(access)
    for (place, found, dtype), group in alike.items():
        help = _better_width(spec, plan, group[0])
        if help is None:
            continue  # the tile and its threads leave no thread more in a row
        bits, allowed = found.vector * dtype.bits, found.allowed * dtype.bits
        say(
            f"{_names(group)} accessed {bits} bits at a time, and the alignment allows {allowed}",
            *place,
            notes=(_why(spec, found, group[0]), _instructions(group[0], found)),
            help=help,
        )


def _better_width(spec: KernelSpec, plan: Plan, access: Access) -> str | None:
    return first_better(_wider(spec, plan, access), lambda _, other: _is_wider(plan, other, access))


def _whole(spec: KernelSpec, plan: Plan, access: Access) -> bool:
    """Whether the tensor is contiguous where the kernel could access it in vectors."""
    tensor = spec.tensor(access.tensor)
    if isinstance(plan, GemmPlan) and tensor.name in (plan.a.tensor.name, plan.b.tensor.name):
        return tensor.major != plan.k  # shared memory is m- or n-major: along k nothing is contiguous there
    return tensor.major == spec.output.major and isinstance(plan, (GemmPlan, ElementwisePlan))


def _width_place(spec: KernelSpec, plan: Plan, access: Access, asked: bool) -> Path:
    if isinstance(plan, GemmPlan):
        bits: Path = ("schedule", "copies", access.tensor, "bits")
    else:
        bits = ("schedule", "copy", "bits")
    if asked and is_written(spec, *bits):
        return bits
    return first_written(spec, ("schedule", "value_layout"), access.path, ("schedule",))


def _why(spec: KernelSpec, found: Width, access: Access) -> str:
    if found.vector < found.possible:
        return (
            f"a thread has {found.run} in a row, the alignment allows {found.aligned}, and `bits` takes {found.vector}"
        )
    has = f"{found.run} in a row" if found.run > 1 else "no two in a row"
    return f"a thread has {has} along {spec.tensor(access.tensor).major}, and the alignment allows {found.aligned}"


def _instructions(access: Access, found: Width) -> str:
    most = access.values // min(found.allowed, access.values)
    return (
        f"{access.instructions} accesses of a thread, and {most} could do"
        if most < access.instructions
        else ("a thread with more values would need no more accesses")
    )


def _is_wider(plan: Plan, other: Plan, access: Access) -> bool:
    there = named(other, access.name)
    if there is None or there.vector <= access.vector:
        return False
    before = {a.name: a.vector for a in accesses(plan)}
    return all(a.vector >= before.get(a.name, 1) for a in accesses(other)) and sectors(there).ratio <= 1


def _wider(spec: KernelSpec, plan: Plan, access: Access) -> Iterator[Candidate]:
    for bits in (128, 64, 32, 16):
        yield written(f"write `bits: {bits}`"), changed_copy(spec, access.tensor, bits=bits)
    if isinstance(plan, ElementwisePlan):
        yield from _more_values(spec, plan, access)
    if isinstance(plan, GemmPlan) and access.tensor not in (plan.a.tensor.name, plan.b.tensor.name):
        mode = str(spec.output.major)
        for text, other in _other_permutations(spec, mode, (plan.m, plan.n).index(mode)):
            yield written(text), other


def _more_values(spec: KernelSpec, plan: ElementwisePlan, access: Access) -> Iterator[Candidate]:
    mode = str(spec.output.major)
    major, wanted = spec.output.shape.index(mode), width(spec, access).allowed
    plain = as_written(spec)
    assert isinstance(plain.schedule, ElementwiseSchedule)
    schedule = replace(plain.schedule, copy=replace(plain.schedule.copy, bits=None))
    if plan.partition == "inner":
        tiler = {**(schedule.tiler or {}), mode: wanted}
        yield written(f"write `{mode}: {wanted}` in the tiler"), replace(plain, schedule=replace(schedule, tiler=tiler))
        return
    assert plan.thread_layout is not None
    sides = layouts.mode_sizes(plan.thread_layout)
    own = [extent // side for extent, side in zip(plan.tiler, sides, strict=True)]
    own[major] = wanted
    value = layouts.ordered(own, major)
    text = f"`value_layout: {format_layout(value)}`"
    if plan.partition == "inner_outer":
        text = f"`partition: thread_value` with {text} instead of a tiler"
    wider = replace(
        schedule, partition="thread_value", tiler=None, thread_layout=plan.thread_layout, value_layout=value
    )
    yield written(f"write {text}"), replace(plain, schedule=wider)
