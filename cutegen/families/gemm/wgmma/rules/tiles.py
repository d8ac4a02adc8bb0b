"""Rules about tiles: those that warpgroups make, how they lie in shared memory, and what holds them."""

from __future__ import annotations

from functools import partial

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.rules.limits import register_limit
from cutegen.families.gemm.wgmma import allocation
from cutegen.families.gemm.wgmma.product import (
    BESIDE,
    COLUMNS,
    DEPTH_BYTES,
    MOST_COLUMNS,
    ROWS,
    WARPGROUP,
    accumulators,
    columns_of,
    contiguous_bytes,
    groups_of,
    is_sound,
    product_of,
    source_buffers,
    sources,
    split_of,
    threads_of,
)
from cutegen.families.gemm.wgmma.scales import block_sums
from cutegen.families.gemm.wgmma.schedule import Copy, Spec
from cutegen.families.gemm.words import MAX_EXTENT, SWIZZLES, tile_of
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written

LEAST, MOST, STEP = 24, 240, 8  # registers of setmaxnreg
UNIT = 16  # columns: of what is offered


def made(spec: Spec, say: Say) -> None:
    """Each warpgroup that multiplies has whole 64 rows; a product has 8 to 256 columns, and 32 bytes along k."""
    schedule, product = spec.schedule, product_of(spec)
    tiler, warps = schedule.tiler or {}, schedule.warps
    rows, columns, depth = (tiler.get(mode) for mode in (product.m, product.n, product.k))
    unit = DEPTH_BYTES // product.dtype.bytes
    if warps.roles == "pingpong" and warps.consumers not in (None, 2):
        message = f"{count(warps.consumers or 0, 'warpgroup')} would take turns with tiles; pingpong needs two"
        say(message, "schedule", "warps", "consumers", help="write `consumers: 2`, or `roles: cooperative`")
        return
    groups = groups_of(schedule)
    if rows is not None and rows > MAX_EXTENT:
        message, fits = f"the tile has {rows} rows, and no shared memory holds more than {MAX_EXTENT}", (ROWS * groups,)
        say(message, "schedule", "tiler", product.m, help=lambda: _with(spec, say, "tiler", product.m, fits))
    elif rows is not None and rows % (ROWS * groups):
        whose = f"{ROWS}" if groups == 1 else f"{ROWS * groups}, {ROWS} for each of {groups} warpgroups"
        near = max(1, rows // (ROWS * groups)) * ROWS * groups
        say(
            f"the tile has {rows} rows; rows come in multiples of {whose}",
            *("schedule", "tiler", product.m),
            help=lambda: _with(spec, say, "tiler", product.m, (near, ROWS * groups, ROWS)),
        )
    several, split = len(product.b), split_of(spec)
    if columns is not None and columns % COLUMNS == 0 and columns % (COLUMNS * split):
        least = COLUMNS * split
        near = min(-(-columns // least), MOST_COLUMNS // several // least) * least
        say(
            f"the tile has {columns} columns; each of {split} blocks of a cluster stores a part, a multiple of "
            f"{COLUMNS}",
            *("schedule", "tiler", product.n),
            help=lambda: _with(spec, say, "tiler", product.n, (near, COLUMNS * split, 128)),
        )
    elif columns is not None and (columns % COLUMNS or columns * several > MOST_COLUMNS):
        most = MOST_COLUMNS // several // COLUMNS * COLUMNS
        near, whose = min(most, -(-columns // COLUMNS) * COLUMNS), f" of each of {several} products" * (several > 1)
        say(
            f"the tile has {columns} columns{whose}, and wgmma makes a multiple of {COLUMNS} from {COLUMNS} to "
            f"{MOST_COLUMNS}{' together' * (several > 1)}",
            *("schedule", "tiler", product.n),
            help=lambda: _with(spec, say, "tiler", product.n, (near, 128)),
        )
    if depth is not None and depth > MAX_EXTENT:
        message = f"the tile is {depth} deep along {product.k}, and no shared memory holds more than {MAX_EXTENT}"
        say(message, "schedule", "tiler", product.k, help=lambda: _with(spec, say, "tiler", product.k, (4 * unit,)))
    elif depth is not None and depth % unit:
        say(
            f"the tile is {depth} deep along {product.k}, and a wgmma of {product.dtype.value} is {unit}",
            *("schedule", "tiler", product.k),
            help=lambda: _with(spec, say, "tiler", product.k, (-(-depth // unit) * unit, 2 * unit)),
        )


def _with(spec: Spec, say: Say, field: str, name: str, values: tuple[int, ...]) -> str | None:
    """The first of some values of a field that works, in words."""
    made = ((written(f"write `{name}: {value}`"), changed(spec, {f"{field}.{name}": value})) for value in values)
    return first_that_works(say.code, made)


def swizzled(spec: Spec, say: Say) -> None:
    """The tile of an operand is whole swizzles along the mode in which it is contiguous."""
    schedule, k = spec.schedule, product_of(spec).k
    if not is_sound(spec) or not all(mode in (schedule.tiler or {}) for mode in product_of(spec).modes):
        return
    for tensor, mode in product_of(spec).sides:
        extent, own = contiguous_bytes(spec, tensor, mode), schedule.smem.get(tensor.name)
        wanted = own.swizzle if own is not None and own.swizzle else SWIZZLES[-1]
        along = k if tensor.major == k else mode
        if extent % wanted:
            fitting = [width for width in SWIZZLES if extent % width == 0]
            message = f"the tile of `{tensor.name}` has {extent} bytes along {tensor.major}, not a multiple of {wanted}"
            if fitting:
                where = ("schedule", "smem", tensor.name, "swizzle")
                say(message, *where, help=f"write `swizzle: {fitting[0]}`")
            else:
                unit = SWIZZLES[-1] // tensor.dtype.bytes
                near = -(-tile_of(schedule, along) // unit) * unit
                values = tuple(near + i * unit for i in range(4))
                say(message, "schedule", "tiler", along, help=partial(_with, spec, say, "tiler", along, values))
        elif along == k and extent == wanted == SWIZZLES[-1] and tile_of(schedule, mode) == COLUMNS:
            say(
                f"the tile of `{tensor.name}` is {COLUMNS} rows of one swizzle of {wanted} bytes: the compiler "
                "drops the swizzle from its tensor map",
                *("schedule", "tiler", k),
                help=partial(_with, spec, say, "tiler", k, (32, 64)),
            )


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B together fit the shared memory that a block can have."""
    total = allocation.smem_bytes(spec)
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if not short:
        return
    stages, outputs = spec.schedule.pipeline.stages or 1, allocation.size_of(spec, *allocation.outputs(spec))
    beside = allocation.size_of(spec, *allocation.brought(spec), *allocation.source_barriers(spec))

    def help() -> str | None:
        fewer = range(stages - 1, 0, -1)
        tried = [(written(f"write `stages: {n}`"), changed(spec, {"pipeline.stages": n})) for n in fewer]
        k = product_of(spec).k
        fewer = range(source_buffers(spec) - 1, 0, -1)
        for tensor in (t for t in sources(spec) if not t.writes):
            name = tensor.name
            tried += [
                (written(f"write `stages: {n}` for {name}"), changed(spec, {f"copies.{name}.stages": n})) for n in fewer
            ]
            loaded = changed(spec, {f"copies.{name}": Copy(atom="universal")})
            tried.append((written(f"write `{name}: {{atom: universal}}` in copies"), loaded))
        depths = (d for d in (128, 64, 32) if d < tile_of(spec.schedule, k))
        tried += [(written(f"write `{k}: {d}` in the tiler"), changed(spec, {f"tiler.{k}": d})) for d in depths]
        return first_that_works(say.code, tried)

    room = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)
    message = (
        f"{count(stages, 'stage')} take{'s' * (stages == 1)} {total} bytes of shared memory, and a block of {room}"
    )
    notes = tuple(
        f"{size} of them for {what}"
        for size, what in ((outputs, "outputs in flight"), (beside, "tensors that the epilogue reads"))
        if size
    )
    say(message, "schedule", "pipeline", "stages", notes=notes, help=help)


def in_flight(spec: Spec, say: Say) -> None:
    """A stage is free while the products of the one before it are under way: of one stage none would ever be."""
    k, fixed = product_of(spec).k, spec.static
    tiles = -(-fixed[k] // (tile_of(spec.schedule, k) * split_of(spec))) if k in fixed else 2
    if spec.schedule.mma.in_flight and spec.schedule.pipeline.stages == 1 and tiles > 1:
        message = "the load of the next tile would deadlock: its only stage is still in use"
        say(message, "schedule", "mma", "in_flight", help="write `in_flight: 0`, or `stages: 2`")


def registers(spec: Spec, say: Say) -> None:
    """Budgets are what setmaxnreg takes, come out of what the block started with, and hold the accumulators."""
    budgets, consumers = spec.schedule.warps.registers, spec.schedule.warps.consumers or 1
    for role, budget in budgets.items():
        if budget % STEP or not LEAST <= budget <= MOST:
            near = min(MOST, max(LEAST, budget // STEP * STEP))
            message = f"{budget} registers of a {role}; budgets are multiples of {STEP} from {LEAST} to {MOST}"
            say(message, "schedule", "warps", "registers", role, help=f"write `{role}: {near}`")
            return
    producer, consumer = budgets["producer"], budgets["consumer"]
    cap = register_limit(threads_of(spec.schedule)) // STEP * STEP
    start = min(cap, consumer)
    if producer > start:
        message = f"producers are left {producer} registers, and start with {start}"
        say(message, "schedule", "warps", "registers", "producer", help=f"write `producer: {min(40, start)}`")
        return
    pool = (1 + consumers) * start
    if producer + consumers * consumer > pool:
        most = (pool - producer) // consumers // STEP * STEP
        terms = f"{producer} + {consumers} * {consumer} = {producer + consumers * consumer}"
        say(
            f"consumers ask for {consumer} registers, and producers release fewer: deadlock",
            *("schedule", "warps", "registers", "consumer"),
            notes=(f"{count(1 + consumers, 'warpgroup')} start with {start} each, {pool}; {terms}",),
            help=f"write `consumer: {most}`",
        )
        return
    n, columns = product_of(spec).n, tile_of(spec.schedule, product_of(spec).n)
    for held, room, what in (
        (columns_of(spec) * ROWS // WARPGROUP, start, "starts with"),
        (accumulators(spec) + block_sums(spec), consumer, "has"),
    ):
        if held + BESIDE > room:
            fewer = columns * (room - BESIDE) // held // UNIT * UNIT
            whose = "of one wgmma" if what == "starts with" else "accumulators"
            say(
                f"a thread holds {held} {whose} and needs about {BESIDE} registers more; it {what} {room}",
                *("schedule", "tiler", n),
                help=partial(_with, spec, say, "tiler", n, (fewer, fewer - UNIT)) if fewer > 0 else None,
            )
            return
