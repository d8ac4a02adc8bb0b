"""Text for tensors along the rows that are taken at places: a thread walks a tensor whose rows are all its own row."""

from __future__ import annotations

from typing import NamedTuple

from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.walk_text import WalksText


class TakenRow(NamedTuple):
    """A tensor along the rows that is taken at places, as text."""

    operand: OperandText
    told: str  # `at ids along V`
    offset: str  # of a thread's row from that of place 0, in elements
    shape: list[str]  # of its layout in `launch`: the lead's modes, then those that are taken
    strides: list[str]


def taken_rows(texts: WalksText) -> list[TakenRow]:
    """The tensors along the rows that are taken at places, in the order in which the kernel moves them."""
    lead, found = texts.lead, []
    for o in (o for o in texts.operands.values() if o.tensor.at):
        name, at = o.tensor.name, o.tensor.at
        terms = [
            f"cutlass.Int64({texts.row_variables[index]}) * m{name}.stride[{len(lead.shape) + number}]"
            for number, (_, index) in enumerate(at)
        ]
        axes = [o.tensor.shape.index(mode) for mode, _ in at]
        found.append(
            TakenRow(
                operand=o,
                told=" and ".join(f"at {index} along {mode}" for mode, index in at),
                offset=" + ".join(terms),
                shape=[f"*m{lead.name}.shape", *(f"m{name}.shape[{axis}]" for axis in axes)],
                strides=[o.strides.strip("(),"), *(f"m{name}.stride[{axis}]" for axis in axes)],
            )
        )
    return found
