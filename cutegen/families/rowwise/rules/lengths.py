"""Rules about rows of several lengths: which of them a block holds, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.analysis.words import count
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.rowwise.rows import (
    beside,
    cluster_of,
    has_exponentials,
    has_exponentials_above,
    has_squares_around,
    is_walked,
    program,
    row_of,
    rows_with,
)
from cutegen.families.rowwise.schedule import Spec
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, is_written, written

_KEYS = ("shorter", "longer")


def apply(spec: Spec, say: Say) -> None:
    """`shorter` and `longer` apply to rows of several lengths that threads hold whole."""
    schedule, row = spec.schedule, row_of(spec)
    given = [key for key in _KEYS if getattr(schedule, key) is not None]
    removed = (written(f"remove {' and '.join(f'`{key}`' for key in given)}"), changed(spec, dict.fromkeys(given)))
    for key in given:
        help = partial(first_that_works, say.code, [removed])
        if row in spec.static and not (schedule.fewer_threads and program(spec).columns):
            message = f"`{key}` applies to rows of several lengths; every row has {spec.static[row]} elements"
            say(message, "schedule", key, help=help)
        elif schedule.keep != "registers":
            message = f"`{key}` applies to rows that threads hold; these are walked in pieces"
            held = (written("write `keep: registers`"), changed(spec, {"keep": "registers"}))
            say(message, "schedule", key, help=partial(first_that_works, say.code, [removed, held]))
    if schedule.longer == "reload" and schedule.shorter == "mask" and row not in spec.static:
        fewer = (written("write `shorter: fewer_threads`"), changed(spec, {"shorter": "fewer_threads"}))
        refuse = (written("write `longer: refuse`"), changed(spec, {"longer": "refuse"}))
        message = "a second kernel for longer rows needs launches that choose the threads per row"
        say(message, "schedule", "longer", help=partial(first_that_works, say.code, [fewer, refuse]))


def exponentials(spec: Spec, say: Say) -> None:
    """`online` is about sums that depend on another reduction, `math` about exponentials, and there are some."""
    schedule = spec.schedule
    wrong = {}
    if schedule.online is not None and not (has_exponentials_above(spec) or has_squares_around(spec)):
        about = "`sum(exp(x - max(x, N)), N)` and `mean((x - mean(x, N)) ** 2, N)`"
        wrong["online"] = f"`online` applies to {about}; this kernel computes neither"
    elif schedule.online is not None and not is_walked(spec):
        wrong["online"] = "`online` applies to rows that are walked in pieces; threads hold these"
    if schedule.math is not None and not has_exponentials(spec):
        wrong["math"] = "`math` applies to `exp` of f32; this kernel has none"
    for key, message in wrong.items():
        removed = (written(f"remove `{key}`"), changed(spec, {key: None}))
        say(message, "schedule", key, help=partial(first_that_works, say.code, [removed]))


def fewer_threads(spec: Spec, say: Say) -> None:
    """Where the launch decides how many threads a row has, nothing else of the kernel depends on their number."""
    schedule = spec.schedule
    if not schedule.fewer_threads or schedule.keep != "registers" or row_of(spec) in spec.static:
        return
    for message, path, candidate in _fixed(spec):
        say(message, "schedule", *path, help=partial(first_that_works, say.code, [candidate]))


def _fixed(spec: Spec) -> Iterator[tuple[str, tuple[str, ...], Candidate]]:
    """Yields the settings that depend on how many threads a row has: a message, a path and a change that would work."""
    schedule, row, mode = spec.schedule, row_of(spec), beside(spec)
    also = "; remove `longer`" if is_written(spec, "schedule", "longer") else ""
    words = (
        "write `shorter: mask`" if is_written(spec, "schedule", "keep") else "write `keep: registers`, `shorter: mask`"
    )
    mask = written(words + also), changed(spec, {"shorter": "mask", "keep": "registers", "longer": None})
    columns, walks = program(spec).columns, schedule.scheduler.kind == "persistent"
    if columns and schedule.longer == "reload":
        name = columns[0].tensor
        yield f"each block sums its rows for {name} in registers, which cannot hold longer rows", ("longer",), mask
    elif walks and not columns and cluster_of(spec) == 1:
        message = "the rows per block of a persistent kernel are fixed for all launches"
        yield message, ("scheduler", "kind"), mask
    if cluster_of(spec) > 1 and not (walks and columns):
        yield "blocks that share a row use all their threads for it", ("cluster", row), mask
    threads = schedule.threads_per_row or 1
    wanted, several = rows_with(spec, threads), (schedule.tiler or {}).get(mode or "", 1)
    if mode is not None and several != wanted:
        message = f"a block has {count(wanted, 'row')} of {count(threads, 'thread')} each, and the tiler {several}"
        yield message, ("tiler", mode), in_tiler(spec, mode, wanted)
    bare = [one for one in (mode, row) if one is not None and schedule.predication.get(one) == "none"]
    guarded = changed(spec, {f"predication.{one}": "mask" for one in bare})
    for one in bare:
        message = f"`none` does not guard {one}: a launch may end within a block"
        yield message, ("predication", one), (written(f"write `{' and '.join(f'{x}: mask' for x in bare)}`"), guarded)
