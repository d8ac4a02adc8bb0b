"""Text for tensors along the rows that are taken at places: a thread walks a tensor whose rows are all its own row."""

from __future__ import annotations

from typing import NamedTuple

from cutegen.families.common.taken_text import LaidOutText, laid_out
from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.walk_text import WalksText


class TakenRow(NamedTuple):
    """A tensor along the rows that is taken at places, as text."""

    operand: OperandText
    layout: LaidOutText
    offset: str  # of a thread's row from that of place 0, in elements


def taken_rows(texts: WalksText) -> list[TakenRow]:
    """The tensors along the rows that are taken at places, in the order in which the kernel moves them."""
    lead, found = texts.lead, []
    for o in (o for o in texts.operands.values() if o.tensor.at):
        name = o.tensor.name
        terms = [
            f"cutlass.Int64({texts.row_variables[index]}) * m{name}.stride[{len(lead.shape) + number}]"
            for number, (_, index) in enumerate(o.tensor.at)
        ]
        layout = laid_out(o.tensor, [f"*m{lead.name}.shape"], [o.strides.strip("(),")])
        found.append(TakenRow(o, layout, " + ".join(terms)))
    return found
