"""The shared memory of a block whose warpgroups multiply: tiles, stages and barriers, declared once."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.families.attention.operands import (
    extents,
    moved_in_tiles,
    multiplied,
    stored_with_columns,
    taken_places,
    vectors_of,
)
from cutegen.families.attention.plan import comes_by_turns
from cutegen.families.attention.walking_text import block_of
from cutegen.families.attention.wgmma.plan import REGISTERS, ROWS
from cutegen.families.attention.wgmma.schedule import Spec
from cutegen.language.model import Tensor
from cutegen.ops.contract import walked_of
from cutegen.ops.walked import Walked
from cutegen.parts.declared import Barriers, Buffer, Declared, bytes_of

ALIGNMENT = 1024  # bytes, in which places are exchanged
VECTOR_ALIGNMENT = 16  # bytes


def buffers(spec: Spec) -> tuple[Buffer, ...]:
    """Rows of the left tensors for each warpgroup, stages of those that are walked, and rows of the outputs, as far as
    these do not take the places of left tensors'.
    """
    found = walked_of(spec)
    tiler = spec.schedule.tiler
    assert tiler is not None
    lefts, rights = multiplied(found)
    depths, places = moved_in_tiles(spec, found), taken_places(spec, found)
    of_group = "the {number}th warpgroup's rows of "
    stages = [
        _buffer(spec.tensor(x), "STAGES", tiler[found.walked] * spec.static[depths[x]], f"stage {{number}} of {x}")
        for x in rights
    ]
    rows = [
        _buffer(spec.tensor(x), "CONSUMERS", ROWS * spec.static[depths[x]], f"{of_group}{x}", _within(places, x))
        for x in (*lefts, *(output.name for output, _ in stored_with_columns(spec, found)))
    ]
    vectors = () if comes_by_turns(found) else vectors_of(spec, found)
    of_tiles = [_vector(x, block_of(found.walked), tiler[found.walked]) for x in vectors]
    return (*rows[: len(lefts)], *stages, *of_tiles, *rows[len(lefts) :])


def _vector(tensor: Tensor, block: str, elements: int) -> Buffer:
    """The memory of a vector along the walked mode, which each warpgroup has of a tile and of the one before."""
    return Buffer(
        variable=f"s{tensor.name}",
        cells=(tensor.name,),
        element=f"cutlass.{tensor.dtype.cutlass}",
        layout=f"cute.make_layout(({block}, 2 * CONSUMERS))",
        copies="2 * CONSUMERS",
        bytes=elements * tensor.dtype.bytes,
        alignment=VECTOR_ALIGNMENT,
        title=tensor.name,
        what=f"vector {{number}} of {tensor.name}, of which each warpgroup has two",
    )


def _within(places: Mapping[str, str], name: str) -> str:
    """The variable of the memory that a tensor's tile takes the place of; empty where it has its own."""
    return f"s{places[name]}" if name in places else ""


def _buffer(tensor: Tensor, copies: str, elements: int, what: str, within: str = "") -> Buffer:
    return Buffer(
        variable=f"s{tensor.name}",
        cells=(tensor.name,),
        element=f"cutlass.{tensor.dtype.cutlass}",
        layout=f"s{tensor.name}_layout.outer",
        copies=copies,
        bytes=elements * tensor.dtype.bytes,
        alignment=ALIGNMENT,
        swizzle=f"s{tensor.name}_layout.inner",
        within=within,
        title=tensor.name,
        what=what,
    )


def barriers(spec: Spec) -> tuple[Barriers, ...]:
    """For each left tensor one that its rows have come; of each stage of the others that it has come, and that all
    warpgroups have read it.
    """
    lefts, rights = multiplied(walked_of(spec))
    found = [_barriers(f"full_{x}", "1", "1", f"that {x} has come") for x in lefts]
    for x in rights:
        found += [
            _barriers(f"full_{x}", "STAGES", "1", f"that stage {{number}} of {x} has come"),
            _barriers(f"empty_{x}", "STAGES", "CONSUMERS", f"that stage {{number}} of {x} is free"),
        ]
    return tuple(found)


def _barriers(name: str, length: str, arrivals: str, says: str) -> Barriers:
    title = f"{name} barrier{'s' * (length != '1')}"
    return Barriers(name=name, length=length, arrivals=arrivals, title=title, what=f"the barrier which says {says}")


def declared(spec: Spec) -> tuple[Declared, ...]:
    """All of it, in the order in which a kernel allocates it."""
    return (*buffers(spec), *barriers(spec))


def counts_of(spec: Spec) -> dict[str, int]:
    """The constants that lengths speak of."""
    tiler = spec.schedule.tiler
    assert tiler is not None
    return {"STAGES": spec.schedule.pipeline.stages or 1, "CONSUMERS": tiler[walked_of(spec).rows[0]] // ROWS}


def smem_bytes(spec: Spec) -> int:
    """Bytes of shared memory of a block."""
    return bytes_of(declared(spec), counts_of(spec))


def most_rows(spec: Spec, found: Walked) -> int:
    """The rows of a tile that can exist, in warpgroups: of a tile of none, a warpgroup would store those of another, as
    CuTe gives the only tile of a fixed size every number.
    """
    return -(-spec.static.get(found.rows[0], ROWS * max(REGISTERS)) // ROWS) * ROWS


OTHERS = 24  # registers of a thread for addresses, counters and what is carried, beside what is multiplied


def registers_of(spec: Spec) -> int:
    """Registers of a thread for scores, factors in 16 bits, and sums. Where tiles do not come by turns, factors take
    the places of scores.
    """
    found = walked_of(spec)
    _, n = extents(spec, found)
    columns = sum(spec.static[found.columns_of(one)] for one in found.outer)
    scores, factors = len(found.products) * n // 2, len(found.outer) * n // 4
    return scores + columns // 2 + (factors if comes_by_turns(found) else max(0, factors - scores))
