"""Layouts as a spec writes them: ones that number their places, and ones that may be anything."""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.layouts import format_layout
from tests.fuzz.chance import Chance

ODD_LAYOUTS = (
    "(4,32)", "(4,4):(1,1)", "(4,4):(4,2)", "(4,4):(0,1)", "((2,4),8)", "((2,2),(2,3)):((2,12),(1,4))", "1:0", "(1,1)",
    "(32,8):(1,32)", "(3,5,7)", "(((2,2),2),2)", "(65536,65536)", "(1024,2)", "(2147483647)", "(4,32):(32", "()", ":",
    "(4,-1):(1,4)", "(0,4)", "(4,4):(1,4):(1,4)", "4 , 4", "(4,32):(32,1) ", "x", "(4,٣)",
    "((((((((((((((((((2))))))))))))))))))",
)  # fmt: skip


def compact(chance: Chance, sizes: tuple[int, ...], split: float = 0.3) -> str:
    """A layout of these sizes that numbers its places without gaps, in any order of its modes, some split in two."""
    shape: list[Any] = []
    for size in sizes:
        factors = [d for d in range(2, size) if size % d == 0]
        factor = chance.choice(factors) if factors and chance.odds(split) else 0
        shape.append((factor, size // factor) if factor else size)
    leaves = [(i, j) for i, s in enumerate(shape) for j in range(len(s) if isinstance(s, tuple) else 1)]
    stride: list[Any] = [[0] * len(s) if isinstance(s, tuple) else [0] for s in shape]
    step = 1
    for i, j in chance.sample(leaves, len(leaves)):
        stride[i][j] = step
        step *= shape[i][j] if isinstance(shape[i], tuple) else shape[i]
    strides = tuple(tuple(d) if isinstance(s, tuple) else d[0] for s, d in zip(shape, stride, strict=True))
    if len(sizes) == 1:
        return format_layout(Layout(shape[0], strides[0]))
    return format_layout(Layout(tuple(shape), strides))


def anything(chance: Chance) -> Any:
    """A layout as a user might write it."""
    rank = chance.randint(1, 5)
    match chance.randrange(6):
        case 0:
            return chance.choice(ODD_LAYOUTS)
        case 1:
            return chance.choice([1, 2, 4, 7, 32, 128, 1024, 4096, 2**31 - 1])
        case 2:
            shape = tuple(chance.choice([1, 2, 3, 4, 8, 16]) for _ in range(rank))
            stride = tuple(chance.choice([0, 1, 2, 3, 4, 8, 16, 32, 100]) for _ in range(rank))
            return format_layout(Layout(shape, stride))
        case _:
            return compact(chance, tuple(chance.choice([1, 2, 4, 8, 16, 32, 3, 6]) for _ in range(min(rank, 3))))
