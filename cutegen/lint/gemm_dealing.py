"""Rules about how a gemm's threads deal out the tiles that they copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from math import log2

from tensor_layouts import size

from cutegen.language.diagnostics import has_errors
from cutegen.language.model import Copy, GemmSchedule, KernelSpec, Path, Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import (
    changed_copy,
    changed_tiler,
    first_that_works,
    first_written,
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
    for tensor, mode, copy in operands(spec):
        if copy.thread_layout is not None and copy.value_layout is not None:
            continue
        threads, block, depth = gemm.threads_of(schedule), gemm.tile_of(schedule, mode), gemm.tile_of(schedule, k)
        say(
            f"no way was found for {threads} threads to copy {tensor.name}'s tile of {block} x {depth}",
            *first_written(spec, ("schedule", "tiler", mode), ("schedule", "tiler", k), ("schedule", "tiler")),
            notes=(f"{block} * {depth} = {block * depth} elements do not deal out to {threads} threads row by row",),
            help=partial(_other_tile, spec, mode, say.code),
        )


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
