"""Text for rows that wait in shared memory: how a block's pieces of a row get there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import Any

from cutegen.codegen.formatting import WIDTH, Item, call, python_tuple
from cutegen.families.common.pointwise_text import narrow_widths, width_name
from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walk_parts import WalkText
from cutegen.families.rowwise.walk_text import WalksText
from cutegen.planning.promises import known_divisor

OF_ROW, OF_ALL_ROWS = "kept_tile", "fixed_tile"
"""The variables of a piece in shared memory: of a row, and where those have stages, of what is the same for all."""


@dataclass(frozen=True)
class KeptText:
    """A tensor whose part of a row waits in shared memory."""

    plan: RowwisePlan
    operand: OperandText

    @property
    def name(self) -> str:
        return self.operand.tensor.name

    @property
    def once(self) -> bool:
        """Whether it is the same for all rows."""
        return self.name in self.plan.kept_once

    @property
    def element(self) -> str:
        """Its type in memory."""
        return f"m{self.name}.element_type"

    @property
    def layout(self) -> str:
        """Shape and strides of its place in shared memory: of a row, or of two, one behind the other."""
        extent = str(self.plan.slots * self.plan.tile[self.plan.row])
        stages = self.plan.row_stages if _has_stages(self.plan, self.once) else 0
        shape = _place(self.plan, extent, "1", [str(stages)] if stages else [])
        return f"{shape}, stride={_place(self.plan, '1', '0', [extent] if stages else [])}"

    @property
    def copying(self) -> list[str]:
        """The arguments of a copy atom for what a thread brings there itself."""
        bits = f"{self.operand.vector} * {self.operand.tensor.dtype.bits}"
        return ["cute.nvgpu.CopyUniversalOp()", self.element, f"num_bits_per_copy={bits}"]

    def bulk(self, piece: str, size: str, done: str = "") -> list[Item]:
        """The arguments of the bulk copy of so many elements of a piece, once `done` of its elements are copied."""
        plan, more = self.plan, f" + {done}" if done else ""
        extent, slot = f"TILER[{plan.flat.lead.shape.index(plan.row)}]", _slot(plan, piece)
        source = _place(plan, f"{piece} * {extent}{more}", "0" if self.once else "tile_{mode}")
        target = _place(plan, f"{slot} * {extent}{more}", "0", _stage(plan, self.once))
        return [
            f"bulk_{self.name}",
            ("neighbours(", [f"m{self.name}", source, size], ")"),
            ("neighbours(", [f"s{self.name}", target, size], ")"),
            "mbar_ptr=loaded",
        ]


@dataclass(frozen=True)
class PiecesText:
    """The pieces of a row that are copied to shared memory, as text."""

    setup: list[str]  # the statements by which a kernel finds it of a row of any size
    pieces: str
    whole: str  # the number of whole pieces
    rest: str  # elements of the last piece where that is not whole; nothing where all are
    owner: str  # the block of a cluster that has it
    elements: str  # of all whole pieces of a block
    runs: list[int]  # the sizes of copies that make up the rest, which are fixed; none where that itself is


@dataclass(frozen=True)
class KeeperText:
    """A function that brings pieces to shared memory: of a row, or of what is the same for all rows."""

    name: str
    once: bool  # whether it brings what is the same for all rows
    kept: list[KeptText]
    parameters: list[str]
    arguments: list[str]  # of a block's first row, where two have room, else of any
    next: list[str]  # of the row after the one that is computed on
    walks: bool  # whether it gets the number of a row, and computes its place
    pieces: PiecesText
    bytes: int  # of an element of all tensors
    places: list[str]  # the statements that find a piece in global memory and in shared memory
    narrow_widths: list[tuple[int, str, str]]  # of accesses of fewer elements than the widest, of these tensors


def kept(plan: RowwisePlan, texts: WalksText, block: str, divisors: list[str]) -> dict[str, Any]:
    """Template values for rows in shared memory. `block` is the variable that counts blocks or clusters, and `divisors`
    name the divisors that turn the number of a tile of rows into its coordinates.
    """
    all_kept = [KeptText(plan, operand) for name, operand in texts.operands.items() if name in plan.kept]
    if not all_kept:
        return {"kept": []}
    narrows, stages = plan.flat.schedule.narrows, plan.row_stages
    rows, fixed = [x for x in all_kept if not x.once], [x for x in all_kept if x.once]
    waiting = {1: ("loaded", "turn % 2" if plan.persistent else "0"), 2: ("loaded + stage", "turn // 2 % 2")}
    return {
        "kept": all_kept,
        "keep_fit": partial(call, width=WIDTH - 4 * bool(narrows)),
        "keep_rest_fit": partial(call, width=WIDTH - 4 * bool(narrows) - 4 * (plan.cluster > 1)),
        "keep_call": partial(call, width=texts.width + 4),
        "keep_rows": _keeper(plan, rows, block, divisors),
        "keep_fixed": _keeper(plan, fixed, block, divisors) if fixed else None,
        "keep_barriers": stages + bool(fixed),
        "keep_wait": ", ".join(waiting[stages]),
        "keep_fixed_wait": f"loaded + {stages}",
        "kept_tiles": [_tiles(plan, all_kept, walk) for walk in texts.walks],
        "kept_names": {x.name: _tile_name(plan, x.once) for x in all_kept},
        "piece_size": f"TILER[{plan.flat.lead.shape.index(plan.row)}]",
    }


def _keeper(plan: RowwisePlan, kept: list[KeptText], block: str, divisors: list[str]) -> KeeperText:
    lead, once = plan.flat.lead, kept[0].once
    narrows, staged = plan.flat.schedule.narrows, _has_stages(plan, once)
    names = [x.name for x in kept]
    tensors = [lead.name, *names] if narrows and plan.masked and lead.name not in names else names
    passed = {
        **{f"m{name}": "cute.Tensor" for name in tensors},
        **{f"s{name}": "cute.Tensor" for name in names},
        "loaded": "cute.Pointer",
    }
    if staged:
        passed |= {"row_tile": "cutlass.Int32", "stage": "cutlass.Int32"}
    elif not once:
        passed |= {f"tile_{mode}": "cutlass.Int32" for mode in lead.shape if mode != plan.row}
    passed |= {"rank": "cutlass.Int32"} if plan.cluster > 1 else {}
    passed |= {"CLUSTER_SIZE": "cutlass.Constexpr[int]"} if plan.any_cluster else {}
    passed |= {"tv_layout": "cute.Layout", width_name(plan.flat): "cutlass.Constexpr[int]"} if narrows else {}
    passed |= dict.fromkeys(divisors, "cute.FastDivmodDivisorV2") if staged else {}
    first = {f"m{o.tensor.name}": f"m{o.tensor.name}_at" for o in plan.operands if o.tensor.at}
    first |= {"row_tile": block, "stage": "0"}
    if once:
        first |= {"loaded": f"loaded + {plan.row_stages}"}
    after = {"loaded": "loaded + next_stage", "row_tile": "next_tile", "stage": "next_stage"}
    modes, operands = python_tuple(("None",) * len(lead.shape)), [o for o in plan.operands if o.tensor.name in names]
    tile = f"({modes}, {_place(plan, 'piece', '0' if once else 'tile_{mode}')})"
    places = [f"tile, kept_tile = {tile}, {_kept_tile(plan, once)}"]
    if len(places[0]) > WIDTH - 12:
        places = [f"tile = {tile}", f"kept_tile = {_kept_tile(plan, once)}"]
    return KeeperText(
        name="keep_columns" if once else "keep_row",
        once=once,
        kept=kept,
        parameters=[f"{name}: {type_}" for name, type_ in passed.items()],
        arguments=[first.get(name, name) for name in passed],
        next=[after.get(name, name) for name in passed] if staged else [],
        walks=staged,
        pieces=_pieces(plan, names[0]),
        bytes=sum(x.operand.tensor.dtype.bytes for x in kept),
        places=places,
        narrow_widths=narrow_widths(plan.flat, operands, plan.vector),
    )


def _tiles(plan: RowwisePlan, kept: list[KeptText], walk: WalkText) -> dict[str, str]:
    """The places in shared memory of a piece, of what a walk loads: variables and what they are."""
    names = {operand.tensor.name for operand in walk.loads}
    return {_tile_name(plan, x.once): _kept_tile(plan, x.once) for x in kept if x.name in names}


def _tile_name(plan: RowwisePlan, once: bool) -> str:
    return OF_ALL_ROWS if once and plan.row_stages > 1 else OF_ROW


def _kept_tile(plan: RowwisePlan, once: bool) -> str:
    """The place of a piece in shared memory, of a row or of what is the same for all."""
    modes = python_tuple(("None",) * len(plan.flat.lead.shape))
    return f"({modes}, {_place(plan, _slot(plan, 'piece'), '0', _stage(plan, once))})"


def _slot(plan: RowwisePlan, piece: str) -> str:
    """The number of a piece among those of its block."""
    return f"{piece} // {plan.cluster_text}" if plan.cluster > 1 else piece


def _has_stages(plan: RowwisePlan, once: bool) -> bool:
    """Whether shared memory has two rows, of what may be the same for all and is then there once."""
    return plan.row_stages > 1 and not once


def _stage(plan: RowwisePlan, once: bool) -> list[str]:
    """The last coordinate of a place in shared memory, where there is one."""
    return ["stage"] if _has_stages(plan, once) else []


def _place(plan: RowwisePlan, along: str, other: str, last: Sequence[str] = ()) -> str:
    """A coordinate, or a shape, of the lead's modes: `along` the row and `other` of all others; then what is `last`."""
    at = [along if mode == plan.row else other.format(mode=mode) for mode in plan.flat.lead.shape]
    return at[0] if len(at) == 1 and not last else python_tuple([*at, *last])


def _pieces(plan: RowwisePlan, name: str) -> PiecesText:
    """The pieces of a row of fixed size as numbers, else as what the kernel finds of the tensor `name`."""
    tile, blocks, size = plan.tile[plan.row], plan.cluster, plan.flat.static.get(plan.row)
    count = plan.cluster_text
    if size is not None:
        whole, rest = divmod(size, tile)
        each = f"({whole} + {count} - 1 - rank) // {count}" if whole % blocks else str(whole // blocks)
        elements = str(int(each) * tile) if each.isdecimal() else f"{each} * {tile}"
        rests = str(rest) if rest else ""
        return PiecesText([], str(whole + bool(rest)), str(whole), rests, str(whole % blocks), elements, [])
    axis = plan.flat.lead.shape.index(plan.row)
    extent, piece = f"m{name}.shape[{axis}]", f"TILER[{axis}]"
    pieces, each = f"cute.ceil_div({extent}, {piece})", f"(whole + {count} - 1 - rank) // {count}"
    elements = f"{each if blocks > 1 else 'whole'} * {tile}"
    if lcm(known_divisor(plan.flat, plan.row), plan.vector) % tile == 0:
        return PiecesText([f"whole = {extent} // {piece}"], pieces, "whole", "", "", elements, [])
    setup = [f"whole, rest = {extent} // {piece}, {extent} % {piece}"]
    return PiecesText(setup, pieces, "whole", "rest", f"whole % {count}", elements, _runs(tile, plan.vector))


def _runs(tile: int, vector: int) -> list[int]:
    """The sizes of copies that add up to any part of a tile that is a multiple of `vector`: each twice the next."""
    return [vector << i for i in reversed(range((tile // vector - 1).bit_length()))]
