"""Rules about a gemm's tile, its mma and its summed mode."""

from __future__ import annotations

from tensor_layouts import size

from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import format_layout
from cutegen.language.model import KernelSpec
from cutegen.lint.elementwise import MAX_COUNT, register_limit
from cutegen.lint.gemm_dealing import schedule_of
from cutegen.lint.rule import Say
from cutegen.lint.trial import (
    changed,
    changed_mma,
    changed_tiler,
    first_that_works,
    first_written,
    say_layout,
    written,
)
from cutegen.lint.whole import fewer
from cutegen.planning import gemm, gemm_plan, layouts
from cutegen.planning.sound import LEAST_DEPTH, MAX_THREADS
from cutegen.planning.targets import TARGETS

MMA = ("schedule", "mma")
STAGES = (2, 32)


def k_threads(spec: KernelSpec, say: Say) -> None:
    """All threads of the mma stand along m and n: `thread_layout` has size 1 along k."""
    layout = schedule_of(spec).mma.thread_layout
    assert layout is not None
    sizes = layouts.mode_sizes(layout)
    if len(sizes) == 3 and sizes[2] != 1:
        k = gemm.names(spec)[4]
        better = fewer(layout, MAX_THREADS, flat_k=True)
        say(
            f"{sizes[2]} threads along {k}, and the sums over {k} are not shared",
            *(*MMA, "thread_layout"),
            notes=(f"{format_layout(layout)} has the sizes {layouts.show(sizes)}",),
            help=say_layout("thread_layout", better),
        )


def permutation_threads(spec: KernelSpec, say: Say) -> None:
    """A permutation reorders a whole number of elements for every thread along its mode."""
    schedule = schedule_of(spec)
    assert schedule.mma.thread_layout is not None
    _, _, m, n, _ = gemm.names(spec)
    for mode, threads in zip((m, n), layouts.mode_sizes(schedule.mma.thread_layout), strict=False):
        layout = schedule.mma.permutation[mode]
        if int(size(layout)) % threads == 0:
            continue

        def text(resolved: KernelSpec, mode: str = mode) -> str:
            return say_layout(mode, schedule_of(resolved).mma.permutation[mode])

        def help(mode: str = mode) -> str | None:
            rest = {m: x for m, x in schedule.mma.permutation.items() if m != mode}
            return first_that_works(say.code, [(text, changed_mma(spec, permutation=rest))])

        say(
            f"the permutation of {mode} has {size(layout)} places for {threads} threads",
            *(*MMA, "permutation", mode),
            notes=(f"{size(layout)} = {int(size(layout)) // threads} * {threads} + {int(size(layout)) % threads}",),
            help=help,
        )


def mma_divides(spec: KernelSpec, say: Say) -> None:
    """The tile is a whole number of permutations, hence of threads, along m and n."""
    schedule = schedule_of(spec)
    a, b, m, n, k = gemm.names(spec)
    assert schedule.mma.thread_layout is not None
    for mode, threads in zip((m, n), layouts.mode_sizes(schedule.mma.thread_layout), strict=False):
        extent, step = gemm.tile_of(schedule, mode), int(size(schedule.mma.permutation[mode]))
        if extent % step == 0 or step % threads:  # of the latter the permutation itself is told
            continue

        def help(mode: str = mode, extent: int = extent, step: int = step) -> str | None:
            near = sorted((c * step for c in range(1, extent // step + 18)), key=lambda c: (abs(c - extent), c))[:40]
            trials = ((written(f"write `{mode}: {c}` in the tiler"), changed_tiler(spec, **{mode: c})) for c in near)
            return first_that_works(say.code, trials)

        of = "threads" if step == threads else "places of its permutation"
        say(
            f"the mma does not divide the tiler's {extent} along {mode}",
            *("schedule", "tiler", mode),
            notes=(f"{extent} = {extent // step} * {step} + {extent % step}, with {step} {of}",),
            help=help,
        )


def k_permutation(spec: KernelSpec, say: Say) -> None:
    """Only m and n can be permuted: the order in which k is summed is that of memory."""
    k = gemm.names(spec)[4]
    if k in schedule_of(spec).mma.permutation:
        message = f"`{k}` is summed over, and its order cannot be permuted"
        say(message, *MMA, "permutation", k, help=f"remove `{k}` from the permutation")


def accumulator(spec: KernelSpec, say: Say) -> None:
    """Products are summed in a type that holds the operands: f64 operands need an f64 accumulator."""
    a, found = gemm.names(spec)[0], schedule_of(spec).mma.accumulator
    if a.dtype is Dtype.f64 and found is not Dtype.f64:
        assert found is not None
        notes = (f"{a.dtype.bits} bits > {found.bits} bits",)
        message = f"{a.dtype.value} operands cannot be summed in {found.value}"
        say(message, *MMA, "accumulator", notes=notes, help="write `accumulator: f64`")


def depth(spec: KernelSpec, say: Say) -> None:
    """A tile is at least 2 deep along k: the next step is read while one is multiplied."""
    k = gemm.names(spec)[4]
    found = gemm.tile_of(schedule_of(spec), k)
    if found < LEAST_DEPTH:

        def help() -> str | None:
            near = (8, 16, 32, 4, 2)
            trials = [(written(f"write `{k}: {c}` in the tiler"), changed_tiler(spec, **{k: c})) for c in near]
            return first_that_works(say.code, trials)

        notes = ("step k + 1 is read while step k is multiplied",)
        message = f"the tile is {found} deep along {k}, and {LEAST_DEPTH} is the least"
        say(message, "schedule", "tiler", k, notes=notes, help=help)


def stages(spec: KernelSpec, say: Say) -> None:
    """Between 2 and 32 stages: one tile is used while `stages` - 1 are on their way."""
    found, (least, most) = schedule_of(spec).stages, STAGES
    assert found is not None
    if not least <= found <= most:
        counts = (least, 3) if found < least else range(most, least - 1, -1)  # the most that fit, as CG254 says too

        def help() -> str | None:
            trials = ((written(f"write `stages: {c}`"), changed(spec, stages=c)) for c in counts)
            return first_that_works(say.code, trials)

        message = f"{found} stage{'s' * (found > 1)}, and there can be {least} to {most}"
        notes = (f"one tile is used while {found - 1} are on their way",)
        say(message, "schedule", "pipeline", "stages", notes=notes, help=help)


def store(spec: KernelSpec, say: Say) -> None:
    """`store` is a step of the tile along k, and something that travels through registers is stored there."""
    schedule, (a, b, *_, k) = schedule_of(spec), gemm.names(spec)
    found, depth, where = schedule.store, gemm.tile_of(schedule, k), ("schedule", "pipeline", "store")
    if found is None:
        return
    if all(schedule.copies[x.name].atom != "universal" for x in (a, b)):
        message = f"`store: {found}` has no effect: {a.name} and {b.name} travel by cp.async, past the registers"
        help = f"remove `store`, or write `atom: universal` for {a.name} or {b.name}"
        say(message, *where, help=help)
    elif found >= depth:
        notes = (f"the steps of a tile {depth} deep are 0 to {depth - 1}",)
        say(f"stored before step {found} of {depth}", *where, notes=notes, help=f"write `store: {depth - 1}`")


def shared_memory(spec: KernelSpec, say: Say) -> None:
    """The stages of A and B together fit the shared memory that a block can have, on every target."""
    schedule = schedule_of(spec)
    (a, b, m, n, k), stage_count = gemm.names(spec), schedule.stages
    buffers, total = gemm.smem_bytes(spec)
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if not short:
        return
    lines = []
    for tensor, mode in ((a, m), (b, n)):
        block, pad = gemm.tile_of(schedule, mode), schedule.smem_pad[tensor.name]
        column = f"({block} + {pad})" if pad else f"{block}"
        product = f"{column} * {gemm.tile_of(schedule, k)} * {stage_count} stages * {tensor.dtype.bytes} bytes"
        lines.append(f"{tensor.name}: {product}{' less the last pad' if pad else ''} = {buffers[tensor.name]}")
    limits = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)

    def help() -> str | None:
        counts = range((stage_count or 2) - 1, 1, -1)
        found = first_that_works(say.code, ((written(f"write `stages: {c}`"), changed(spec, stages=c)) for c in counts))
        if found:
            return found
        extent = gemm.tile_of(schedule, k) // 2
        shallower = []
        while extent >= 2:
            shallower.append((written(f"write `{k}: {extent}` in the tiler"), changed_tiler(spec, **{k: extent})))
            extent //= 2
        side = 128
        while side >= 16:
            tile = {m: side, n: side, k: 8}
            text = ", ".join(f"{mode}: {extent}" for mode, extent in tile.items())
            shallower.append((written(f"write `tiler: {{{text}}}`"), changed_tiler(spec, **tile)))
            side //= 2
        return first_that_works(say.code, shallower)

    say(
        f"the kernel needs {total} bytes of shared memory, and {limits}",
        *first_written(spec, ("schedule", "pipeline", "stages"), ("schedule", "tiler")),
        notes=(*lines, f"{' + '.join(str(x) for x in buffers.values())}, each rounded up to 16 = {total}"),
        help=help,
    )


def k_predicate(spec: KernelSpec, say: Say) -> None:
    """The summed mode is guarded by `residue_first` or not at all."""
    k = gemm.names(spec)[4]
    if schedule_of(spec).predication[k] == "mask":
        message = f"`mask` is not known for `{k}`, which is summed over"
        say(message, "schedule", "predication", k, help="write `residue_first`")


def grid(spec: KernelSpec, say: Say) -> None:
    """Fixed sizes need no more tiles across the raster than a grid has blocks along y; in bands, than 31 bits count."""
    schedule, order = schedule_of(spec), gemm_plan.tile_order(spec)
    assert schedule.scheduler.swizzle is not None
    if schedule.scheduler.swizzle > 1:
        if all(mode in spec.static for mode in spec.output.shape):
            _bands(spec, say)
        return
    mode = spec.output.shape[order[1]]
    tile, limit = gemm.tile_of(schedule, mode), min(TARGETS[t].grid_y for t in spec.targets)
    found = -(-spec.static.get(mode, 0) // tile)
    if found > limit:
        notes = (f"ceil({spec.static[mode]} / {tile}) = {found} > {limit}",)
        message = f"the fixed size of {mode} makes {found} tiles, and a grid has {limit} at most"
        say(message, "static", mode, notes=notes, help=f"`{mode}: {limit * tile}` is the most")


def _bands(spec: KernelSpec, say: Say) -> None:
    found = gemm_plan.banded_tiles(spec, spec.static)
    if found > MAX_COUNT:
        swizzle, mode = schedule_of(spec).scheduler.swizzle, spec.output.shape[gemm_plan.tile_order(spec)[1]]
        message = f"the fixed sizes make {found} tiles in bands of {swizzle}, and {MAX_COUNT} are the most"
        say(message, "static", mode)


def registers(spec: KernelSpec, say: Say) -> None:
    """A thread's accumulators should fit its registers."""
    schedule = schedule_of(spec)
    _, _, m, n, _ = gemm.names(spec)
    threads = gemm.threads_of(schedule)
    count = gemm.tile_of(schedule, m) * gemm.tile_of(schedule, n) // threads
    assert schedule.mma.accumulator is not None
    needed, limit = count * schedule.mma.accumulator.bytes // 4, register_limit(threads)
    if needed <= limit:
        return

    def help() -> str | None:
        tile, trials = {mode: gemm.tile_of(schedule, mode) for mode in (m, n)}, []
        while max(tile.values()) > 1:
            wide = max(tile, key=lambda mode: tile[mode])
            tile = {**tile, wide: tile[wide] // 2}
            text = ", ".join(f"{mode}: {extent}" for mode, extent in tile.items())
            trials.append((written(f"take {text} in the tiler"), changed_tiler(spec, **tile)))
        return first_that_works(say.code, trials)

    say(
        f"{count} accumulators of {schedule.mma.accumulator.value} do not fit a thread's registers",
        *("schedule", "tiler"),
        notes=(
            f"{gemm.tile_of(schedule, m)} * {gemm.tile_of(schedule, n)} / {threads} threads = {count}",
            f"they take {needed} registers, and a thread of {threads} has {limit}",
        ),
        help=help,
    )
