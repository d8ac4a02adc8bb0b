"""What the module of several cases prints of a choice by cost: the numbers of each kernel, and what compares them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from cutegen.analysis.cost import Moved
from cutegen.cases.plan import CasesPlan
from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.parts import Chooser
from cutegen.language.model import KernelSpec

_LOCALS = (
    *("busy", "clusters", "columns", "costs", "crossing", "depth", "estimate", "estimates", "least", "load", "loads"),
    *("max", "memory", "min", "number", "rows", "start", "step", "steps", "taken", "tile", "tiles"),
)
"""Names that the function has of its own, in Python or C++, besides the sizes of modes."""


def chooser(plan: CasesPlan, parameter: str, contained: str) -> Chooser:
    """The choice among the cases that their cost tells apart; `parameter` is the number of one, of `launch`, and
    `contained` are the numbers of those that it is compiled with.
    """
    spec, moved, first = plan.spec, plan.moved, plan.costs[0]
    assert moved is not None
    modes = [mode for mode in (first.batch, first.m, first.n, first.k) if mode is not None]
    names = {mode: f"size_{mode}" if mode in _LOCALS else mode for mode in spec.modes}
    in_header = {mode: f"size_{mode}" for mode in spec.modes}  # a mode may be called like a keyword of C++
    rows = [python_tuple(cost.numbers) for cost in plan.costs]
    return Chooser(
        path="schedule",
        parameter=parameter,
        contained=f"{contained}: cutlass.Constexpr[tuple]",
        sizes=tuple(_place(spec, mode) for mode in modes),
        template="chooser.j2",
        header="chooser.h.j2",
        context={
            "cost_names": [names[mode] for mode in modes],
            "costs": [(number + 1, row) for number, row in zip(plan.by_cost, rows, strict=True)],
            "cost_m": names[first.m],
            "cost_n": names[first.n],
            "cost_k": names[first.k],
            "cost_batch": names[first.batch] if first.batch else "",
            "header_names": [in_header[mode] for mode in modes],
            "header_m": in_header[first.m],
            "header_n": in_header[first.n],
            "header_k": in_header[first.k],
            "header_batch": in_header[first.batch] if first.batch else "",
            "header_bytes": _bytes(moved, in_header),
            "moved": moved,
            "moved_bytes": _bytes(moved, names),
        },
    )


def _place(spec: KernelSpec, mode: str) -> tuple[str, int]:
    """A tensor that has a mode, by the name of its argument, and the number of the mode in its shape."""
    tensor = next(t for t in spec.tensors if mode in t.shape)
    return tensor.argument, tensor.shape.index(mode)


def _bytes(moved: Moved, names: Mapping[str, str]) -> str:
    """An expression of the bytes that all tensors have, of the sizes of modes."""
    terms = []
    for width, same in groupby(sorted(moved.tensors, key=lambda one: one[1]), key=lambda one: one[1]):
        elements = [" * ".join(names[mode] for mode in modes) or "1" for modes, _ in same]
        terms.append(f"{width} * ({' + '.join(elements)})" if width > 1 or len(elements) > 1 else elements[0])
    return " + ".join(terms) if len(terms) == 1 else f"({' + '.join(terms)})"
