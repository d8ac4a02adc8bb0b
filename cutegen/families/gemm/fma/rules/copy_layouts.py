"""Rules about how threads deal out the tiles of A and B that they copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import product
from math import log2

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.families.common.rules.candidates import several_in_tiler
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.product import well_formed
from cutegen.families.gemm.staged.rules.copies import copy_path, operands, with_copy
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.diagnostics import has_errors
from cutegen.language.kinds import Path
from cutegen.language.model import Tensor
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, first_written, is_written, say_layout, try_out
from cutegen.planning.sound import MAX_THREADS

DEPTHS = (4, 8, 16, 24, 32, 48, 64)  # of a tile along k, to suggest


def copied(spec: Spec, say: Say) -> None:
    """The threads can copy A's and B's tiles in whole rows or columns."""
    if not gemm.is_sound(spec):
        return  # nothing was tried
    schedule, k = spec.schedule, gemm.product_of(spec).k
    because = tuple(
        f"the mma's {threads} threads along {mode} do not divide {tile_of(schedule, mode)} either"
        for mode, threads in _undivided(spec).items()
    )
    for tensor, mode, copy in operands(spec):
        if copy.thread_layout is not None and copy.value_layout is not None:
            continue
        threads, block, depth = gemm.threads_of(schedule), tile_of(schedule, mode), tile_of(schedule, k)
        places: list[Path] = [("schedule", "tiler", mode), ("schedule", "tiler", k), ("schedule", "tiler")]
        if _odd_threads(spec):
            places.insert(0, ("schedule", "mma", "thread_layout"))
        elif threads % depth and depth % threads:
            places[:2] = [places[1], places[0]]
        say(
            f"no way was found for {threads} threads to copy {tensor.name}'s tile of {block} x {depth}",
            *first_written(spec, *places),
            notes=(
                f"{block} * {depth} = {block * depth} elements do not divide evenly among {threads} threads row by row",
                *because,
            ),
            help=partial(_other_threads_or_tile, spec, mode, say.code),
        )


def _undivided(spec: Spec) -> dict[str, int]:
    """The mma's threads along m and n, where they do not divide the tile."""
    schedule = spec.schedule
    assert schedule.mma.thread_layout is not None
    sizes = zip(gemm.product_of(spec).sides, layouts.mode_sizes(schedule.mma.thread_layout), strict=False)
    return {mode: threads for mode, threads in sizes if tile_of(schedule, mode) % threads}


def _odd_threads(spec: Spec) -> bool:
    """Whether the threads that were written, rather than the tile, are odd: 15 for 128 places are,
    16 for 72 are not.
    """
    if not is_written(spec, "schedule", "mma", "thread_layout"):
        return False
    schedule = spec.schedule
    return any(tile_of(schedule, mode) % (x // (x & -x)) for mode, x in _undivided(spec).items())


def _other_threads_or_tile(spec: Spec, mode: str, code: str) -> str | None:
    """A help with threads that divide the tile, where those that were written are to blame; else with another tile."""
    schedule = spec.schedule
    if not _odd_threads(spec):
        return _other_tile(spec, mode, code)
    assert schedule.mma.thread_layout is not None
    sizes = layouts.mode_sizes(schedule.mma.thread_layout)[:2]

    def far(counts: Sequence[int]) -> float:
        return sum(abs(log2(count / threads)) for count, threads in zip(counts, sizes, strict=True))

    near = []
    for own, threads in zip(gemm.product_of(spec).sides, sizes, strict=True):
        divisors = [x for x in range(1, MAX_THREADS + 1) if tile_of(schedule, own) % x == 0]
        near.append(nsmallest(3, divisors, key=lambda x: abs(log2(x / threads))))
    for m, n in sorted(product(*near), key=far):
        layout = Layout((m, n, 1), (1, m, 0))
        if not has_errors(try_out(changed(spec, {"mma.thread_layout": layout}))[1]):
            return say_layout("thread_layout", layout)
    return _other_tile(spec, mode, code)


def _other_tile(spec: Spec, mode: str, code: str) -> str | None:
    """A help with another depth, and another extent of the operand's own mode: which one is wanted is not known."""
    _, _, m, n, k = gemm.product_of(spec)
    tile = {other: tile_of(spec.schedule, other) for other in (m, n, k)}
    near = {other: _near(spec, other, tile[other]) for other in (m, n)}
    depths = sorted(DEPTHS, key=lambda depth: abs(log2(depth / tile[k])))

    def first(changes: Iterable[Mapping[str, int]]) -> str | None:
        """The first change of the tiler without any error, as it is written there."""
        for change in changes:
            if not has_errors(try_out(several_in_tiler(spec, change)[1])[1]):
                return f"`{', '.join(f'{x}: {extent}' for x, extent in change.items() if extent != tile[x])}`"
        return None

    found = [first({k: depth} for depth in depths), first({mode: extent} for extent in near[mode])]
    if not any(found):
        threads = gemm.threads_of(spec.schedule)
        all_three = product(near[m][:4], near[n][:4], (tile[k], *depths[:3]))
        # Where all threads stand in one row, any depth will do.
        trials = [*({m: x, n: y, k: z} for x, y, z in all_three), {m: threads, n: threads}]
        found = [first(trials)]
    texts = [text for text in found if text]
    return f"write {' or '.join(texts)} in the tiler" if texts else None


def _near(spec: Spec, mode: str, extent: int) -> list[int]:
    """The multiples of the mma's threads next to an extent."""
    schedule = spec.schedule
    assert schedule.mma.thread_layout is not None
    step = layouts.mode_sizes(schedule.mma.thread_layout)[int(mode != gemm.product_of(spec).m)]
    return sorted(range(step, extent + 9 * step, step), key=lambda x: (abs(x - extent), x))[:16]


def _better_layouts(spec: Spec, tensor: Tensor, code: str) -> str | None:
    def text(resolved: Spec) -> str:
        layout = resolved.schedule.copies[tensor.name].thread_layout
        assert layout is not None
        return say_layout("thread_layout", layout)

    def both(resolved: Spec) -> str:
        copy = resolved.schedule.copies[tensor.name]
        assert copy.value_layout is not None
        return f"{text(resolved)} and {say_layout('value_layout', copy.value_layout).removeprefix('write ')}"

    trials: list[Candidate] = [
        (text, with_copy(spec, tensor, thread_layout=None)),
        (both, with_copy(spec, tensor, thread_layout=None, value_layout=None)),
        (both, with_copy(spec, tensor, thread_layout=None, value_layout=None, bits=None, atom=None)),
    ]
    return first_that_works(code, trials)


def threads_agree(spec: Spec, say: Say) -> None:
    """The same threads copy and multiply, so every copy's thread layout has as many threads as the mma's."""
    wanted = gemm.threads_of(spec.schedule)
    for tensor, _, copy in operands(spec):
        if copy.thread_layout is not None and int(size(copy.thread_layout)) != wanted:
            found = int(size(copy.thread_layout))
            say(
                f"{tensor.name} is copied by {found} threads, and the mma has {wanted}",
                *copy_path(tensor.name, "thread_layout"),
                notes=(f"{' * '.join(map(str, layouts.mode_sizes(copy.thread_layout)))} = {found} != {wanted}",),
                help=partial(_better_layouts, spec, tensor, say.code),
            )


def copy_divides(spec: Spec, say: Say) -> None:
    """Threads times values of a copy divide the tile, mode by mode."""
    schedule, k = spec.schedule, gemm.product_of(spec).k
    for tensor, own, copy in operands(spec):
        if not well_formed(copy) or copy.thread_layout is None or copy.value_layout is None:
            continue
        sizes = zip(layouts.mode_sizes(copy.thread_layout), layouts.mode_sizes(copy.value_layout), strict=True)
        notes, whole = [], {}
        for mode, (threads, values) in zip((own, k), sizes, strict=True):
            extent, covered = tile_of(schedule, mode), threads * values
            if extent % covered:
                whole[mode] = max(1, round(extent / covered)) * covered
                notes.append(f"{mode}: {threads} threads * {values} values = {covered} does not divide {extent}")
        if notes:
            say(
                f"the copy of {tensor.name} does not divide its tile",
                *first_written(spec, copy_path(tensor.name, "thread_layout"), copy_path(tensor.name, "value_layout")),
                notes=tuple(notes),
                help=partial(_divided, spec, tensor, whole, say.code),
            )


def _divided(spec: Spec, tensor: Tensor, whole: Mapping[str, int], code: str) -> str | None:
    """A help with other layouts that deal the tile out; else with a tile that those which were written do deal out."""
    return _better_layouts(spec, tensor, code) or first_that_works(code, [several_in_tiler(spec, whole)])
