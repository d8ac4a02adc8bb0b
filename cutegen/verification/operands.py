"""Tensors of integers that others are divided or shifted by, with the numbers that those operators treat apart; and
those that are compared with another tensor, which must often be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.expressions.tree import ON_FLOATS, QUOTIENTS, SHIFTS, Binary, Call, Expr, Name, walk
from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    import torch

_TELLING = {
    QUOTIENTS: (0, -1, 1, 2, 3, 7, -7, 8, 1000),
    SHIFTS: (0, 1, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, -1),
}


_EQUAL = (0, 1, 2)  # of tensors that are compared: every third pair is equal


def with_telling_operands(spec: KernelSpec, name: str, data: torch.Tensor, seed: int) -> torch.Tensor:
    """Values of a tensor; where it is a divisor or a count of bits, half of them are numbers that tell.

    Those are zero, minus one, and counts around the widths of integers. Of a tensor that is compared with another one
    nearly all are of a few.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    if _is_compared(spec, name):
        chosen = torch.tensor(_EQUAL)[torch.randint(len(_EQUAL), data.shape, generator=generator)]
        seldom = torch.randint(16, data.shape, generator=generator) == 0
        return torch.where(seldom, data, chosen.to(data.dtype))
    numbers = [n for operators in _TELLING if _is_operand(spec, name, operators) for n in _TELLING[operators]]
    low, high = spec.tensor(name).dtype.range if spec.tensor(name).dtype.is_integer else (0, -1)
    table = torch.tensor([n for n in dict.fromkeys(numbers) if low <= n <= high])
    if not len(table):
        return data
    chosen = table[torch.randint(len(table), data.shape, generator=generator)]
    half = torch.randint(2, data.shape, generator=generator) == 0
    return torch.where(half, chosen, data.to(torch.int64)).to(data.dtype)


def _is_compared(spec: KernelSpec, name: str) -> bool:
    """Whether it is a tensor of integers that the spec asks of whether it equals another tensor."""
    whole = {tensor.name for tensor in spec.tensors if tensor.dtype.is_integer}
    pairs = (
        {side.id for side in node.children if isinstance(side, Name)} & whole
        for value in spec.compute.values
        for node in walk(value)
        if isinstance(node, Binary) and node.op in ("==", "!=")
    )
    return any(name in pair and len(pair) == 2 for pair in pairs)


def _is_operand(spec: KernelSpec, name: str, operators: tuple[str, ...]) -> bool:
    """Whether a tensor is in what is divided or shifted by, also by way of local values."""
    read: dict[str, frozenset[str]] = {}  # what goes into each target

    def into(node: Expr) -> frozenset[str]:
        names = {part.id for part in walk(node) if isinstance(part, Name)}
        return frozenset().union(*(read.get(other, {other}) for other in names))

    for statement in spec.compute.statements:
        for node in walk(statement.value):
            match node:
                case Binary(op=op, right=operand) if op in operators and name in into(operand):
                    return True
                case Call(function=function, arguments=(_, operand)) if name in into(operand):
                    if any(ON_FLOATS.get(op) == function for op in operators):
                        return True
        read[statement.target] = into(statement.value)
    return False
