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

    def bulk(self, piece: str, size: str) -> list[str]:
        """The arguments of the bulk copy of a piece of so many elements."""
        axis = self.plan.spec.lead.shape.index(self.plan.row)
        slot = f"{piece} // CLUSTER" if self.plan.cluster > 1 else piece
        source = _place(self.plan, f"{piece} * TILER[{axis}]", "tile_{mode}")
        target = _place(self.plan, f"{slot} * TILER[{axis}]", "0")
        return [
            f"bulk_{self.name}",
            f"neighbours(m{self.name}, {source}, {size})",
            f"neighbours(s{self.name}, {target}, {size})",
            "mbar_ptr=loaded",
        ]


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
        "keep_parameters": [f"{name}: {type_}" for name, type_ in passed.items()],
        "keep_arguments": list(passed),
        "keep_bytes": sum(o.tensor.dtype.bytes for o in operands),
        "keep_sizes": _sizes(plan),
        "kept_layout": f"{elements}, stride={_place(plan, '1', '0')}",
        "kept_tile": f"({python_tuple(('None',) * len(lead.shape))}, {_place(plan, slot, '0')})",
        "tile_text": f"TILER[{lead.shape.index(plan.row)}]",
    }


def _place(plan: RowwisePlan, along: str, other: str) -> str:
    """A coordinate, or a shape, of the lead's modes: `along` the row, and `other` of all others."""
    at = [along if mode == plan.row else other.format(mode=mode) for mode in plan.spec.lead.shape]
    return at[0] if len(at) == 1 else python_tuple(at)


def _sizes(plan: RowwisePlan) -> dict[str, Any]:
    """Of a row, the numbers of pieces, of whole ones, and of elements of one that is not; which block has that; and
    the text of how many elements a block has in whole pieces.
    """
    whole, tile, blocks = plan.whole_pieces, plan.tile[plan.row], plan.cluster
    pieces = f"({whole} + CLUSTER - 1 - rank) // CLUSTER" if whole % blocks else str(whole // blocks)
    elements = str(int(pieces) * tile) if pieces.isdecimal() else f"{pieces} * {tile}"
    counts = {"pieces": whole + bool(plan.rest), "whole": whole, "rest": plan.rest, "owner": whole % blocks}
    return {**counts, "elements": elements}
