"""What is printed of rows that wait in shared memory: how a block's pieces of a row come there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from cutegen.codegen.formatting import WIDTH, call, python_tuple
from cutegen.families.common.pointwise_text import width_name
from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walk_text import WalksText
from cutegen.planning.promises import known_divisor


@dataclass(frozen=True)
class KeptText:
    """A tensor whose part of a row waits in shared memory."""

    plan: RowwisePlan
    operand: OperandText

    @property
    def name(self) -> str:
        return self.operand.tensor.name

    @property
    def element(self) -> str:
        """Its type in memory."""
        return f"m{self.name}.element_type"

    @property
    def copying(self) -> list[str]:
        """The arguments of a copy atom for what a thread brings there itself."""
        width, bits = width_name(self.plan.spec), self.operand.tensor.dtype.bits
        return ["cute.nvgpu.CopyUniversalOp()", self.element, f"num_bits_per_copy={width} * {bits}"]

    def bulk(self, piece: str, size: str, done: str = "") -> list[str]:
        """The arguments of the bulk copy of so many elements of a piece, once `done` of its elements are copied."""
        axis = self.plan.spec.lead.shape.index(self.plan.row)
        slot, more = f"{piece} // CLUSTER" if self.plan.cluster > 1 else piece, f" + {done}" if done else ""
        source = _place(self.plan, f"{piece} * TILER[{axis}]{more}", "tile_{mode}")
        target = _place(self.plan, f"{slot} * TILER[{axis}]{more}", "0")
        return [
            f"bulk_{self.name}",
            f"neighbours(m{self.name}, {source}, {size})",
            f"neighbours(s{self.name}, {target}, {size})",
            "mbar_ptr=loaded",
        ]


@dataclass(frozen=True)
class PiecesText:
    """What is copied of a row, as text."""

    setup: list[str]  # the statements by which a kernel finds it of a row of any size
    pieces: str
    whole: str  # the number of whole pieces
    rest: str  # elements of the last piece where that is not whole; nothing where all are
    owner: str  # the block of a cluster that has it
    elements: str  # of all whole pieces of a block
    runs: list[int]  # the sizes of copies that make up the rest, which are fixed; none where that itself is


def kept(plan: RowwisePlan, texts: WalksText) -> dict[str, Any]:
    """What the templates print of it."""
    if not plan.kept:
        return {"kept": []}
    lead, narrows = plan.spec.lead, plan.spec.schedule.narrows
    operands = [o for name, o in texts.operands.items() if name in plan.kept]
    tensors = [o.tensor.name for o in operands]
    if narrows and plan.masked and lead.name not in tensors:
        tensors = [lead.name, *tensors]
    passed = {
        **{f"m{name}": "cute.Tensor" for name in tensors},
        **{f"s{o.tensor.name}": "cute.Tensor" for o in operands},
        "loaded": "cute.Pointer",
        **{f"tile_{mode}": "cutlass.Int32" for mode in lead.shape if mode != plan.row},
        **({"rank": "cutlass.Int32"} if plan.cluster > 1 else {}),
        **({"tv_layout": "cute.Layout", width_name(plan.spec): "cutlass.Constexpr[int]"} if narrows else {}),
    }
    slot = "piece // CLUSTER" if plan.cluster > 1 else "piece"
    elements = _place(plan, str(plan.slots * plan.tile[plan.row]), "1")
    return {
        "kept": [KeptText(plan, operand) for operand in operands],
        "keep_fit": partial(call, width=WIDTH - 4 * bool(narrows)),
        "keep_rest_fit": partial(call, width=WIDTH - 4 * bool(narrows) - 4 * (plan.cluster > 1)),
        "keep_parameters": [f"{name}: {type_}" for name, type_ in passed.items()],
        "keep_arguments": list(passed),
        "keep_bytes": sum(o.tensor.dtype.bytes for o in operands),
        "keep_sizes": _sizes(plan, operands[0].tensor.name),
        "kept_layout": f"{elements}, stride={_place(plan, '1', '0')}",
        "kept_tile": f"({python_tuple(('None',) * len(lead.shape))}, {_place(plan, slot, '0')})",
        "piece_size": f"TILER[{lead.shape.index(plan.row)}]",
    }


def _place(plan: RowwisePlan, along: str, other: str) -> str:
    """A coordinate, or a shape, of the lead's modes: `along` the row, and `other` of all others."""
    at = [along if mode == plan.row else other.format(mode=mode) for mode in plan.spec.lead.shape]
    return at[0] if len(at) == 1 else python_tuple(at)


def _sizes(plan: RowwisePlan, name: str) -> PiecesText:
    """The pieces of a row of fixed size as numbers, else as what the kernel finds of the tensor `name`."""
    tile, blocks, size = plan.tile[plan.row], plan.cluster, plan.spec.static.get(plan.row)
    if size is not None:
        whole, rest = divmod(size, tile)
        each = f"({whole} + CLUSTER - 1 - rank) // CLUSTER" if whole % blocks else str(whole // blocks)
        elements = str(int(each) * tile) if each.isdecimal() else f"{each} * {tile}"
        rests = str(rest) if rest else ""
        return PiecesText([], str(whole + bool(rest)), str(whole), rests, str(whole % blocks), elements, [])
    axis = plan.spec.lead.shape.index(plan.row)
    extent, piece = f"m{name}.shape[{axis}]", f"TILER[{axis}]"
    pieces, each = f"cute.ceil_div({extent}, {piece})", "(whole + CLUSTER - 1 - rank) // CLUSTER"
    elements = f"{each if blocks > 1 else 'whole'} * {tile}"
    if known_divisor(plan.spec, plan.row) % tile == 0:
        return PiecesText([f"whole = {extent} // {piece}"], pieces, "whole", "", "", elements, [])
    setup = [f"whole, rest = {extent} // {piece}, {extent} % {piece}"]
    return PiecesText(setup, pieces, "whole", "rest", "whole % CLUSTER", elements, _runs(tile, plan.vector))


def _runs(tile: int, vector: int) -> list[int]:
    """The sizes of copies of which some make any part of a tile that is a multiple of `vector`: each twice the next."""
    return [vector << i for i in reversed(range((tile // vector - 1).bit_length()))]
