"""Numbers that functions take as fields of one parameter, where cases share those that differ in these alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cutegen.codegen.parts import Constant, case_parameter
from cutegen.families.gemm.wgmma.block_text import own_columns
from cutegen.families.gemm.wgmma.names import source_name, stack_name
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.parts.acting import value_of


def literals(plan: WarpspecializedPlan) -> Iterator[Constant]:
    """The numbers that functions have as they are, unless they are fields: then these are constants, too."""
    registers, cluster = "schedule.warps.registers", "schedule.cluster"
    yield Constant("PRODUCER_REGISTERS", str(plan.producer_registers), "of a thread", registers)
    yield Constant("CONSUMER_REGISTERS", str(plan.consumer_registers), "", registers)
    blocks = f"BLK_{plan.m.upper()} // (64 * {plan.sharing})" if plan.any_turns else str(plan.row_blocks)
    yield Constant("ROW_BLOCKS", blocks, "of 64 rows, in a warpgroup's part of a tile", "schedule.tiler")
    if plan.scaled:
        yield Constant("CHUNK", str(plan.chunk), "columns that share a scale, wherever the tile is", "compute")
    for side in plan.sides:
        path, name = f"schedule.smem.{side.tensor.name}.swizzle", stack_name(plan.spec, side.tensors)
        yield Constant(f"KIND_{name}", _kind(side.k_major, side.swizzle), f"of a stage of {name}", path)
        served = str(plan.served(side))
        if side.letter == "B" and plan.any_peers:
            served = "(1 << CLUSTER_M) - 1"
        if side.shared_by > 1 or plan.any_peers:
            yield Constant(
                f"MASK_{name}",
                served,
                f"of blocks that have the same of {name}",
                cluster,
            )
    if plan.peers > 1 or plan.any_peers:
        yield Constant("PEERS", str(plan.peers), "blocks whose loads write one block's shared memory", cluster)
    for x in plan.passing:
        name, path = x.tensor.name, f"schedule.copies.{x.tensor.name}.columns"
        yield Constant(f"KIND_{name}", _kind(x.n_major, x.swizzle), f"of a piece of {name}", path)
    for x in plan.sources:
        name, path = source_name(x.tensor), f"schedule.copies.{x.tensor.name}.columns"
        yield Constant(f"KIND_{name}", _kind(x.n_major, x.swizzle), f"of a piece of {name}", path)
    if plan.passing and not plan.in_turn:
        path = f"schedule.copies.{plan.passing[0].tensor.name}.stages"
        rotates = str(plan.rotates) if plan.fields is None else "PIECES % BUFFERS > 0"
        yield Constant("ROTATES", rotates, "whether a tile continues with the next buffer", path)


def told(plan: WarpspecializedPlan) -> Iterator[Constant]:
    """Constants that distinguish kernels that share functions, besides the numbers of blocks and warpgroups."""
    if plan.any_turns:
        path = "schedule.warps.roles"
        yield Constant("PINGPONG", str(plan.pingpong), "whether warpgroups alternate between tiles", path)
        yield Constant("GROUPS", "1 if PINGPONG else CONSUMERS", "warpgroups that share a tile", path)
    if plan.any_rows:
        said = f"whether rows of the product are columns of {plan.spec.output.name}"
        yield Constant("EXCHANGED", str(plan.exchanged), said, "schedule.mma.rows")


def names_of_fields(plan: WarpspecializedPlan) -> frozenset[str]:
    """Names that the functions have for these, besides those that each kernel has."""
    if plan.fields is None:
        return frozenset()
    return frozenset({case_parameter(plan.spec), *(one.name for one in literals(plan)), *more_locals(plan)})


def more_locals(plan: WarpspecializedPlan) -> Iterator[str]:
    """Variables of a kernel whose functions are merged with those of others, besides those that each kernel has."""
    yield from ["start"] * plan.any_turns
    yield from ["grid", "cluster"] * (plan.any_split or plan.any_peers)
    yield from [f"order_{x.tensor.name}" for x in (*plan.passing, *plan.sources) if plan.any_rows]


def kind(plan: WarpspecializedPlan, name: str, k_major: bool, swizzle: int) -> str:
    """The kind of a swizzled layout, as functions have it."""
    return plan.number(f"KIND_{name}", _kind(k_major, swizzle))


def _kind(k_major: bool, swizzle: int) -> str:
    return f'"{"K" if k_major else "MN"}_SW{swizzle}"'


def with_formulas(plan: WarpspecializedPlan, constants: Iterable[Constant]) -> Iterator[Constant]:
    """The constants, with the formulas by which some of them follow from those before them."""
    m, n, k = (f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k))
    width, own = plan.a.tensor.dtype.bytes, own_columns(plan)
    formulas = {
        "STAGE_BYTES": f"({m} + {n}) * {k} * {width}",
        "SENT_BYTES": f"(CLUSTER_K - 1) * {'PRODUCTS * ' * (plan.products > 1)}{m} * {own} * 4",
        "VALUES": f"{m} * {own} // (128 * {plan.sharing})",
        "PARTS": "COLUMNS // 16",
        "SOURCE_BYTES": f"64 * COLUMNS * {sum(x.tensor.dtype.bytes for x in plan.sources)}",
    }
    for side in plan.sides:
        name = stack_name(plan.spec, side.tensors)
        formulas[f"BOX_BYTES_{name}"] = f"BOX_{name} * {k} * {width * len(side.tensors)}"
    values: dict[str, object] = {}
    for one in constants:
        values[one.name] = value_of(one.value, values)
        formula = formulas.get(one.name)
        if formula is not None and value_of(formula, values) == values[one.name]:
            yield one._replace(value=formula)
        else:
            yield one
