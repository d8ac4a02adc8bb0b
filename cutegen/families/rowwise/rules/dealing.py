"""Rules about how many threads, values and blocks there are."""

from __future__ import annotations

from functools import partial
from math import prod

from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.families.common.rules import dealing
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.common.rules.dealing import whole_warps
from cutegen.families.common.rules.limits import MAX_COUNT, most_computed, register_limit
from cutegen.families.rowwise.planning import plan
from cutegen.families.rowwise.rows import along, beside, cluster_of, may_share, row_of, rows_of, threads_of, values_of
from cutegen.families.rowwise.schedule import Spec
from cutegen.lint.rule import Say
from cutegen.lint.trial import as_written, changed, first_that_works, first_written, written
from cutegen.planning.sound import MAX_THREADS

_THREADS = ("schedule", "threads_per_row")
_TILER = ("schedule", "tiler")


def threads(spec: Spec, say: Say) -> None:
    """A thread block has at most 1024 threads."""
    if threads_of(spec) <= MAX_THREADS:
        return
    own, rows, mode = spec.schedule.threads_per_row or 1, rows_of(spec), beside(spec)
    message = f"a block of {rows * own} threads; the limit is {MAX_THREADS}"
    notes = (f"{count(rows, 'row')} * {count(own, 'thread')} = {rows * own} > {MAX_THREADS}",)
    if own > MAX_THREADS or mode is None:
        fits = 1 << ((MAX_THREADS // min(rows, MAX_THREADS)).bit_length() - 1)
        say(message, *_THREADS, notes=notes, help=f"write `threads_per_row: {fits}`")
    else:
        help = f"write `{mode}: {MAX_THREADS // own}` in the tiler"
        say(message, *first_written(spec, (*_TILER, mode), _THREADS), notes=notes, help=help)


def values(spec: Spec, say: Say) -> None:
    """A thread holds at most 256 values, or 128 of 8 bytes."""
    found, row, most = values_of(spec), row_of(spec), most_computed(along(spec))
    if found <= most:
        return
    extent, own = (spec.schedule.tiler or {})[row], spec.schedule.threads_per_row or 1
    message = f"a thread has {found} values; the limit is {most}"
    notes = (f"{extent} / {count(own, 'thread')} = {found} > {most}",)
    say(message, *_TILER, row, notes=notes, help=f"write `{row}: {32 * own}` in the tiler, and `keep: reload`")


def power_of_two(spec: Spec, say: Say) -> None:
    """The threads of a row halve until one is left: they are a power of two, or whole warps of one block."""
    threads, blocks = spec.schedule.threads_per_row, cluster_of(spec)
    if threads is None or may_share(spec):
        return
    below = 1 << (threads.bit_length() - 1)
    whole = threads % WARP == 0
    message = f"{threads} threads share a row; this is not a power of two" + (", nor whole warps" if not whole else "")
    notes = ["lanes reduce a row in pairs"]
    if whole and blocks > 1:
        notes.append(f"whole warps may share it where it has one block, and it has {blocks}")
    elif whole:
        notes.append("launches that choose the threads per row need a power of two")
    say(message, *_THREADS, notes=tuple(notes), help=f"write `threads_per_row: {min(below, MAX_THREADS)}`")


def blocks(spec: Spec, say: Say) -> None:
    """Fixed sizes need no more blocks than a grid can count."""
    tiler, row = spec.schedule.tiler or {}, row_of(spec)
    others = [mode for mode in spec.lead.shape if mode != row]
    if not others or not all(mode in spec.static for mode in others):
        return
    counts = {mode: -(-spec.static[mode] // tiler[mode]) for mode in others}
    if (total := prod(counts.values())) > MAX_COUNT:
        mode = max(counts, key=lambda m: counts[m])
        fits = MAX_COUNT // (total // counts[mode]) * tiler[mode]
        notes = (" * ".join(f"ceil({spec.static[m]} / {tiler[m]})" for m in counts) + f" = {total}",)
        message = f"the fixed sizes make {total} tiles; the limit is {MAX_COUNT}"
        say(message, "static", mode, notes=notes, help=f"`{mode}: {fits}` is the most" if fits else None)


def warps(spec: Spec, say: Say) -> None:
    """Threads run in warps of 32, and should fill the last one."""
    threads, mode = threads_of(spec), beside(spec)

    def help() -> str | None:
        own = spec.schedule.threads_per_row or 1
        candidates = [] if mode is None else [in_tiler(spec, mode, whole_warps(threads) // own)]
        candidates.append((written("write `threads_per_row: 32`"), changed(spec, {"threads_per_row": 32})))
        return first_that_works(say.code, candidates)

    place = _THREADS if mode is None else first_written(spec, (*_TILER, mode), _THREADS)
    dealing.warps(threads, say, place, help)


def registers(spec: Spec, say: Say) -> None:
    """A thread's values of all tensors, which are under way together, should fit its registers."""
    planned = plan(spec)
    needed = sum(-(-planned.values * o.tensor.dtype.bytes // 4) for o in planned.operands)
    limit = register_limit(planned.threads)
    if needed <= limit:
        return
    texts = [f"{planned.values} {o.tensor.dtype.value}" for o in planned.operands]
    notes = (f"{' + '.join(texts)} take {needed} registers", f"a thread of {planned.threads} has {limit}")
    help = partial(_roomier, spec, say.code)
    path = (*_TILER, planned.row)
    say(f"a thread's {planned.values} values do not fit its registers", *path, notes=notes, help=help)


def _roomier(spec: Spec, code: str) -> str | None:
    own = spec.schedule.threads_per_row or 1
    more = [
        (written(f"write `threads_per_row: {threads}`"), changed(spec, {"threads_per_row": threads}))
        for threads in (2 * own, 4 * own, 8 * own)
        if threads <= MAX_THREADS
    ]
    row = row_of(spec)
    words = f"leave `{row}` out of the tiler"
    if spec.schedule.keep != "reload":
        words = (
            f"write `keep: reload`, and {words}"
            if row in (as_written(spec).schedule.tiler or {})
            else "write `keep: reload`"
        )
    again = (written(words), changed(spec, {"keep": "reload", f"tiler.{row}": None}))
    return first_that_works(code, [*more, again])
