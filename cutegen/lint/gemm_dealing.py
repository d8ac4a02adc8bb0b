"""Rules about how a gemm's threads deal out the tiles that they copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import product
from math import log2

from tensor_layouts import Layout, size

from cutegen.language.diagnostics import has_errors
from cutegen.language.model import Copy, GemmSchedule, KernelSpec, Path, Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import (
    changed_copy,
    changed_mma,
    changed_tiler,
    first_that_works,
    first_written,
    is_written,
    say_layout,
    try_out,
    written,
)
from cutegen.planning import gemm, layouts
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out, is_sound

DEPTHS = (4, 8, 16, 24, 32, 48, 64)  # of a tile along k, to suggest


def schedule_of(spec: KernelSpec) -> GemmSchedule:
    assert isinstance(spec.schedule, GemmSchedule)
    return spec.schedule


def operands(spec: KernelSpec) -> Iterator[tuple[Tensor, str, Copy]]:
    """A and B, each with its own mode and its copy."""
    a, b, m, n, _ = gemm.names(spec)
    for tensor, mode in ((a, m), (b, n)):
        yield tensor, mode, schedule_of(spec).copies[tensor.name]


def where(tensor: Tensor, *field: str) -> Path:
    return ("schedule", "copies", tensor.name, *field)


def copied(spec: KernelSpec, say: Say) -> None:
    """The threads can copy A's and B's tiles in whole rows or columns."""
    if not is_sound(spec):
        return  # nothing was tried
    schedule, k = schedule_of(spec), gemm.names(spec)[4]
    because = tuple(
        f"the mma's {threads} threads along {mode} do not divide {gemm.tile_of(schedule, mode)} either"
        for mode, threads in _undivided(spec).items()
    )
    for tensor, mode, copy in operands(spec):
        if copy.thread_layout is not None and copy.value_layout is not None:
            continue
        threads, block, depth = gemm.threads_of(schedule), gemm.tile_of(schedule, mode), gemm.tile_of(schedule, k)
        places: list[Path] = [("schedule", "tiler", mode), ("schedule", "tiler", k), ("schedule", "tiler")]
        if _odd_threads(spec):
            places.insert(0, ("schedule", "mma", "thread_layout"))
        elif threads % depth and depth % threads:
            places[:2] = [places[1], places[0]]
        say(
            f"no way was found for {threads} threads to copy {tensor.name}'s tile of {block} x {depth}",
            *first_written(spec, *places),
            notes=(
                f"{block} * {depth} = {block * depth} elements do not deal out to {threads} threads row by row",
                *because,
            ),
            help=partial(_other_threads_or_tile, spec, mode, say.code),
        )


def _undivided(spec: KernelSpec) -> dict[str, int]:
    """The mma's threads along m and n, where they do not divide the tile."""
    schedule = schedule_of(spec)
    assert schedule.mma.thread_layout is not None
    sizes = zip(gemm.names(spec)[2:4], layouts.mode_sizes(schedule.mma.thread_layout), strict=False)
    return {mode: threads for mode, threads in sizes if gemm.tile_of(schedule, mode) % threads}


def _odd_threads(spec: KernelSpec) -> bool:
    """Whether the threads that were written, rather than the tile, are the odd ones: 15 threads for 128 places are,
    16 for 72 are not."""
    if not is_written(spec, "schedule", "mma", "thread_layout"):
        return False
    schedule = schedule_of(spec)
    return any(gemm.tile_of(schedule, mode) % (x // (x & -x)) for mode, x in _undivided(spec).items())


def _other_threads_or_tile(spec: KernelSpec, mode: str, code: str) -> str | None:
    """Threads that divide the tile, where those that were written are to blame; else another tile."""
    schedule = schedule_of(spec)
    if not _odd_threads(spec):
        return _other_tile(spec, mode, code)
    assert schedule.mma.thread_layout is not None
    sizes = layouts.mode_sizes(schedule.mma.thread_layout)[:2]

    def far(counts: Sequence[int]) -> float:
        return sum(abs(log2(count / threads)) for count, threads in zip(counts, sizes, strict=True))

    near = []
    for own, threads in zip(gemm.names(spec)[2:4], sizes, strict=True):
        divisors = [x for x in range(1, MAX_THREADS + 1) if gemm.tile_of(schedule, own) % x == 0]
        near.append(nsmallest(3, divisors, key=lambda x: abs(log2(x / threads))))
    for m, n in sorted(product(*near), key=far):
        layout = Layout((m, n, 1), (1, m, 0))
        if not has_errors(try_out(changed_mma(spec, thread_layout=layout))[1]):
            return say_layout("thread_layout", layout)
    return _other_tile(spec, mode, code)


def _other_tile(spec: KernelSpec, mode: str, code: str) -> str | None:
    """Another depth, and another extent of the operand's own mode: which of them is wanted is not known."""
    _, _, m, n, k = gemm.names(spec)
    tile = {other: gemm.tile_of(schedule_of(spec), other) for other in (m, n, k)}
    near = {other: _near(spec, other, tile[other]) for other in (m, n)}
    depths = sorted(DEPTHS, key=lambda depth: abs(log2(depth / tile[k])))

    def first(changes: Iterable[Mapping[str, int]]) -> str | None:
        """The first change of the tiler without any error, as it is written there."""
        for change in changes:
            if not has_errors(try_out(changed_tiler(spec, **change))[1]):
                return f"`{', '.join(f'{x}: {extent}' for x, extent in change.items() if extent != tile[x])}`"
        return None

    found = [first({k: depth} for depth in depths), first({mode: extent} for extent in near[mode])]
    if not any(found):
        threads = gemm.threads_of(schedule_of(spec))
        all_three = product(near[m][:4], near[n][:4], (tile[k], *depths[:3]))
        # Where all threads stand in one row, any depth will do.
        trials = [*({m: x, n: y, k: z} for x, y, z in all_three), {m: threads, n: threads}]
        found = [first(trials)]
    texts = [text for text in found if text]
    return f"write {' or '.join(texts)} in the tiler" if texts else None


def _near(spec: KernelSpec, mode: str, extent: int) -> list[int]:
    """The multiples of the mma's threads next to an extent."""
    schedule = schedule_of(spec)
    assert schedule.mma.thread_layout is not None
    step = layouts.mode_sizes(schedule.mma.thread_layout)[int(mode != gemm.names(spec)[2])]
    return sorted(range(step, extent + 9 * step, step), key=lambda x: (abs(x - extent), x))[:16]


def well_formed(copy: Copy) -> bool:
    """Whether the two layouts can be combined; the rules on ranks and coverage say it where they cannot."""
    threads, values = copy.thread_layout, copy.value_layout
    if threads is None or values is None or {len(layouts.modes_of(x)) for x in (threads, values)} != {2}:
        return False
    return deals_out(threads, MAX_THREADS) and deals_out(values, MAX_VALUES)


def _better_layouts(spec: KernelSpec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: KernelSpec) -> str:
        layout = schedule_of(resolved).copies[tensor.name].thread_layout
        assert layout is not None
        return say_layout("thread_layout", layout)

    def both(resolved: KernelSpec) -> str:
        copy = schedule_of(resolved).copies[tensor.name]
        assert copy.value_layout is not None
        return f"{text(resolved)} and {say_layout('value_layout', copy.value_layout).removeprefix('write ')}"

    trials: list[Candidate] = [
        (text, changed_copy(spec, tensor.name, thread_layout=None)),
        (both, changed_copy(spec, tensor.name, thread_layout=None, value_layout=None)),
        (both, changed_copy(spec, tensor.name, thread_layout=None, value_layout=None, bits=None, atom=None)),
    ]
    return first_that_works(code, trials)


def threads_agree(spec: KernelSpec, say: Say) -> None:
    """The same threads copy and multiply, so every copy's thread layout has as many threads as the mma's."""
    wanted = gemm.threads_of(schedule_of(spec))
    for tensor, _, copy in operands(spec):
        if copy.thread_layout is not None and int(size(copy.thread_layout)) != wanted:
            found = int(size(copy.thread_layout))
            say(
                f"{tensor.name} is copied by {found} threads, and the mma has {wanted}",
                *where(tensor, "thread_layout"),
                notes=(f"{' * '.join(map(str, layouts.mode_sizes(copy.thread_layout)))} = {found} != {wanted}",),
                help=partial(_better_layouts, spec, tensor, say.code),
            )


def copy_divides(spec: KernelSpec, say: Say) -> None:
    """Threads times values of a copy divide the tile, mode by mode."""
    schedule, k = schedule_of(spec), gemm.names(spec)[4]
    for tensor, own, copy in operands(spec):
        if not well_formed(copy) or copy.thread_layout is None or copy.value_layout is None:
            continue
        sizes = zip(layouts.mode_sizes(copy.thread_layout), layouts.mode_sizes(copy.value_layout), strict=True)
        notes, whole = [], {}
        for mode, (threads, values) in zip((own, k), sizes, strict=True):
            extent, covered = gemm.tile_of(schedule, mode), threads * values
            if extent % covered:
                whole[mode] = max(1, round(extent / covered)) * covered
                notes.append(f"{mode}: {threads} threads * {values} values = {covered} does not divide {extent}")
        if notes:
            say(
                f"the copy of {tensor.name} does not divide its tile",
                *first_written(spec, where(tensor, "thread_layout"), where(tensor, "value_layout")),
                notes=tuple(notes),
                help=partial(_divided, spec, tensor, whole, say.code),
            )


def _divided(spec: KernelSpec, tensor: Tensor, whole: Mapping[str, int], code: str) -> str | None:
    """Other layouts, where some deal the tile out; else a tile that those which were written do deal out."""
    extents = ", ".join(f"{mode}: {extent}" for mode, extent in whole.items())
    candidate = (written(f"take {extents} in the tiler"), changed_tiler(spec, **whole))
    return _better_layouts(spec, tensor, code) or first_that_works(code, [candidate])
