"""Rules about tiles: those that warpgroups make, how they lie in shared memory, and what holds them."""

from __future__ import annotations

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.rules.limits import REGISTERS
from cutegen.families.gemm_warpspecialized.product import (
    COLUMNS,
    DEPTH_BYTES,
    MOST_COLUMNS,
    ROWS,
    WARPGROUP,
    accumulators,
    contiguous_bytes,
    product_of,
    smem_bytes,
)
from cutegen.families.gemm_warpspecialized.schedule import SWIZZLES, Spec
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written

MOST_ROWS = 3 * ROWS
LEAST, MOST, STEP = 24, 240, 8  # registers of setmaxnreg
BESIDE = 24  # registers of a consumer besides its accumulators: addresses, descriptors, a slice of the epilogue


def made(spec: Spec, say: Say) -> None:
    """Each warpgroup that multiplies has 64 rows; a product has 8 to 256 columns, and 32 bytes along k."""
    schedule, product = spec.schedule, product_of(spec)
    tiler, consumers = schedule.tiler or {}, schedule.warps.consumers
    rows, columns, depth = (tiler.get(mode) for mode in (product.m, product.n, product.k))
    unit = DEPTH_BYTES // product.a.dtype.bytes
    if rows is not None and (rows % ROWS or rows // ROWS != (consumers or rows // ROWS) or rows > MOST_ROWS):
        asked = ("schedule", "warps", "consumers") not in say.inferred and consumers is not None
        wanted = (ROWS * consumers,) if asked and consumers else (rows // ROWS * ROWS, MOST_ROWS, ROWS)
        whose = count(consumers, "warpgroup") if asked and consumers else "1 to 3 warpgroups"
        say(
            f"the tile has {rows} rows, and they are {ROWS} for each of {whose} that multiply",
            *("schedule", "tiler", product.m),
            help=lambda: _with(spec, say, "tiler", product.m, wanted),
        )
    if columns is not None and (columns % COLUMNS or columns > MOST_COLUMNS):
        near = min(MOST_COLUMNS, -(-columns // COLUMNS) * COLUMNS)
        say(
            f"the tile has {columns} columns, and wgmma makes a multiple of {COLUMNS} from {COLUMNS} to {MOST_COLUMNS}",
            *("schedule", "tiler", product.n),
            help=lambda: _with(spec, say, "tiler", product.n, (near, 128)),
        )
    if depth is not None and depth % unit:
        say(
            f"the tile is {depth} deep along {product.k}, and a wgmma of {product.a.dtype.value} is {unit}",
            *("schedule", "tiler", product.k),
            help=lambda: _with(spec, say, "tiler", product.k, (-(-depth // unit) * unit, 2 * unit)),
        )


def _with(spec: Spec, say: Say, field: str, name: str, values: tuple[int, ...]) -> str | None:
    """The first of some values of a field that works, in words."""
    made = ((written(f"write `{name}: {value}`"), changed(spec, {f"{field}.{name}": value})) for value in values)
    return first_that_works(say.code, made)


def swizzled(spec: Spec, say: Say) -> None:
    """The tile of an operand is whole swizzles along the mode in which it is contiguous."""
    schedule = spec.schedule
    if not all(mode in (schedule.tiler or {}) for mode in product_of(spec)[2:]):
        return
    for tensor, mode in product_of(spec).sides:
        extent, own = contiguous_bytes(spec, tensor, mode), schedule.smem.get(tensor.name)
        wanted = own.swizzle if own is not None and own.swizzle else SWIZZLES[-1]
        if extent % wanted:
            fitting = [width for width in SWIZZLES if extent % width == 0]
            say(
                f"the tile of `{tensor.name}` has {extent} bytes along {tensor.major}, no multiple of {wanted}",
                *("schedule", "smem", tensor.name, "swizzle"),
                help=f"write `swizzle: {fitting[0]}`" if fitting else f"a multiple of {SWIZZLES[-1]} bytes would do",
            )


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages of A and B together fit the shared memory that a block can have."""
    total = smem_bytes(spec)
    short = [t for t in spec.targets if t in TARGETS and TARGETS[t].smem_per_block < total]
    if not short:
        return
    stages = spec.schedule.pipeline.stages or 1

    def help() -> str | None:
        fewer = range(stages - 1, 0, -1)
        tried = ((written(f"write `stages: {n}`"), changed(spec, {"pipeline.stages": n})) for n in fewer)
        return first_that_works(say.code, tried)

    room = ", ".join(f"{t} has {TARGETS[t].smem_per_block}" for t in short)
    message = f"{stages} stages take {total} bytes of shared memory, and a block of {room}"
    say(message, "schedule", "pipeline", "stages", help=help)


def registers(spec: Spec, say: Say) -> None:
    """Budgets are what setmaxnreg takes, all warps' together fit a multiprocessor, and hold the accumulators."""
    budgets, consumers = spec.schedule.warps.registers, spec.schedule.warps.consumers or 1
    for role, budget in budgets.items():
        if budget % STEP or not LEAST <= budget <= MOST:
            near = min(MOST, max(LEAST, budget // STEP * STEP))
            message = f"{budget} registers of a {role}, and budgets are multiples of {STEP} from {LEAST} to {MOST}"
            say(message, "schedule", "warps", "registers", role, help=f"write `{role}: {near}`")
            return
    total = WARPGROUP * (budgets["producer"] + consumers * budgets["consumer"])
    most = (REGISTERS // WARPGROUP - budgets["producer"]) // consumers // STEP * STEP
    if total > REGISTERS:
        message = f"the warps of a block want {total} registers, and a multiprocessor has {REGISTERS}"
        say(message, "schedule", "warps", "registers", "consumer", help=f"write `consumer: {most}`")
        return
    needed = accumulators(spec) + BESIDE
    if needed > budgets["consumer"]:
        n = product_of(spec).n
        message = (
            f"a thread has {accumulators(spec)} accumulators and needs some {BESIDE} registers more, and consumers "
            f"have {budgets['consumer']}"
        )
        fewer = 2 * (budgets["consumer"] - BESIDE) // COLUMNS * COLUMNS
        help = f"write `{n}: {fewer}` in the tiler" if fewer > 0 else None
        say(message, "schedule", "warps", "registers", "consumer", help=help)
