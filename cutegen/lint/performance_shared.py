"""What accesses to shared memory cost: bank conflicts, and padding that takes none away."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import Layout

from cutegen.analysis import Access, accesses, conflicts
from cutegen.language.diagnostics import has_errors
from cutegen.language.layouts import format_layout
from cutegen.language.model import GemmSchedule, KernelSpec, Path
from cutegen.lint.rule import Accesses, Candidate, Finding
from cutegen.lint.trial import as_written, changed, changed_mma, first_written, try_out, written
from cutegen.planning import layouts, make_plan
from cutegen.planning.plan import GemmPlan, Plan
from cutegen.planning.targets import MAX_VECTOR_BITS

_RUNS = (8, 4, 2, 1)  # neighbours of a thread, to suggest
_PADS = (0, 1, 2, 4, 8, 16)  # elements
_SHOWN = 4
_IDLE = 0.1  # excess of what only takes room


def bank_conflicts(spec: KernelSpec, plan: Plan, made: Accesses) -> Iterator[Finding]:
    """The lanes of a warp that shared memory serves at once want different banks, or the same word of one."""
    for access in made:
        if access.space != "shared" or (found := conflicts(access)).passes == found.least:
            continue
        shown = ", ".join(map(str, found.lanes[:_SHOWN])) + (", ..." if len(found.lanes) > _SHOWN else "")
        words = ", ".join(map(str, found.words[:_SHOWN])) + (", ..." if len(found.words) > _SHOWN else "")
        direction = "written to" if access.kind == "write" else "read from"
        pad: Path = ("schedule", "smem", access.tensor, "pad")
        yield Finding(
            f"{access.tensor} is {direction} shared memory with {found.ways}-way bank conflicts",
            first_written(spec, access.path, pad, access.path[:-1], ("tensors", access.tensor)),
            (
                f"warp {found.warp}: threads {shown} want words {words}, all of bank {found.bank}",
                f"{access.bytes} bytes a thread take {found.passes} passes of the warp, and {found.least} would do",
            ),
            found.passes / found.least - 1,
            _other_banks(spec, plan, access),
        )


def _other_banks(spec: KernelSpec, plan: Plan, access: Access) -> Iterator[Candidate]:
    assert isinstance(plan, GemmPlan)
    if access.kind == "write":
        for pad in _PADS:
            padding = {**_written_padding(spec), access.tensor: pad}
            yield written(f"write `pad: {pad}` for {access.tensor}"), changed(spec, smem_pad=padding)
    side = 0 if access.tensor == plan.a.tensor.name else 1
    yield from other_permutations(spec, (plan.m, plan.n)[side], side)


def idle_padding(spec: KernelSpec, plan: Plan, made: Accesses) -> Iterator[Finding]:
    """Padding takes bank conflicts away."""
    assert isinstance(plan, GemmPlan)
    now = shared_cost(made)
    for x in (plan.a, plan.b):
        name, pad = x.tensor.name, x.smem_stride - x.block
        if not pad:
            continue
        plain = changed(spec, smem_pad={**_written_padding(spec), name: 0})
        resolved, found = try_out(plain)
        if has_errors(found):
            continue
        without = make_plan(resolved)
        assert isinstance(without, GemmPlan)
        then = shared_cost(accesses(without))
        if then <= now:
            yield Finding(
                f"a padding of {pad} elements of {name} takes no bank conflict away",
                ("schedule", "smem", name, "pad"),
                (
                    f"for a tile a warp takes {now[1]} passes to shared memory, and {then[1]} without it",
                    f"a block takes {plan.smem_bytes} bytes of shared memory, and {without.smem_bytes} without it",
                ),
                _IDLE,
                ((written(f"write `pad: 0` for {name}"), plain),),
            )


def shared_cost(made: Accesses) -> tuple[int, int]:
    """Of a warp, for a tile: its instructions to shared memory, and the passes that these take."""
    shared = [access for access in made if access.space == "shared"]
    return sum(a.instructions for a in shared), sum(conflicts(a).passes * a.instructions for a in shared)


def narrow_reads(plan: Plan, made: Accesses) -> float:
    """Instructions that fragments spend on reads narrower than 16 bytes, for a hundred multiply-adds of a thread.

    No finding of its own, since a permutation or a padding is always its cause, but a price that a change of these must
    not pay unseen.
    """
    if not isinstance(plan, GemmPlan):
        return 0.0
    reads = [access for access in made if access.space == "shared" and access.kind == "read"]
    more = sum(a.instructions * (1 - a.vector * a.dtype.bits / MAX_VECTOR_BITS) for a in reads)  # for one k
    return 100 * more / plan.pointwise.values


def _written_padding(spec: KernelSpec) -> dict[str, int]:
    schedule = as_written(spec).schedule
    return dict(schedule.smem_pad) if isinstance(schedule, GemmSchedule) else {}


def other_permutations(spec: KernelSpec, mode: str, side: int) -> Iterator[Candidate]:
    """With other runs of neighbours that a thread of the mma has along a mode, `side` 0 being m and 1 n."""
    assert isinstance(spec.schedule, GemmSchedule) and spec.schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(spec.schedule.mma.thread_layout)[side]
    plain = as_written(spec).schedule
    assert isinstance(plain, GemmSchedule)
    for run in _RUNS:
        layout = Layout((threads, run), (run, 1)) if run > 1 else Layout(threads, 1)
        text = f'write `permutation: {{{mode}: "{format_layout(layout)}"}}`'
        yield written(text), changed_mma(spec, permutation={**plain.mma.permutation, mode: layout})
