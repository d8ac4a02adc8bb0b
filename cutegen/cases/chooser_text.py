"""The text of a choice by cost in a module of several cases: each kernel's numbers, and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from cutegen.analysis.cost import BOX, Cost, Moved
from cutegen.cases.plan import CasesPlan
from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.parts import Chooser
from cutegen.language.model import KernelSpec

_LOCALS = (
    *("at_once", "busy", "clusters", "columns", "crossing", "depth", "estimates", "fixed", "load_columns", "load_rows"),
    *("loads", "max", "memory", "min", "multiprocessors", "present", "rows", "start", "step", "steps", "tile", "tiles"),
)
"""Names that the function has of its own in Python, besides the sizes of modes."""


@dataclass(frozen=True)
class Sizes:
    """Variables for the sizes of modes in a text, and expressions of them.

    `m`, `n` and `k` are those of the product, `batch` is empty without one, and `all` has all of them in order. `bytes`
    is an expression of the bytes of all tensors. `elsewhere` is one of whether a call takes none of the compared
    kernels; it is empty where every call takes one.
    """

    m: str
    n: str
    k: str
    batch: str
    all: tuple[str, ...]
    bytes: str
    elsewhere: str


def chooser(plan: CasesPlan, parameter: str, contained: str) -> Chooser:
    """The choice among the cases compared by cost; `parameter` is the number of one, of `launch`, and
    `contained` are the numbers of those that it is compiled with.
    """
    spec, moved = plan.spec, plan.moved
    assert moved is not None
    scaled = not all(cost.fixed for cost in plan.costs)
    fixed = scaled and any(cost.fixed for cost in plan.costs)
    rows = [python_tuple(cost.numbers(fixed)) for cost in plan.costs]
    in_python = {mode: f"size_{mode}" if mode in _LOCALS else mode for mode in spec.modes}
    in_header = {mode: f"size_{mode}" for mode in spec.modes}  # C++ has more keywords
    of_some = tuple(target for target in spec.targets if plan.conditions[plan.by_cost[0]].takes_target(target))
    return Chooser(
        path="schedule",
        parameter=parameter,
        contained=contained,
        sizes=tuple(_place(spec, mode) for mode in _modes(plan.costs[0])),
        multiprocessors=scaled,
        targets=of_some if len(of_some) < len(spec.targets) else (),
        template="chooser.j2",
        header="chooser.h.j2",
        context={
            "costs": [(number + 1, row) for number, row in zip(plan.by_cost, rows, strict=True)],
            "moved": moved,
            "box": BOX,
            "others": len(plan.costs) if plan.told_by_sizes else 0,
            "fixed": fixed,
            "scaled": scaled,
            "assumed": plan.costs[0].multiprocessors,
            "of_python": _sizes(plan, in_python, " or ", " and "),
            "of_header": _sizes(plan, in_header, " || ", " && "),
        },
    )


def _modes(cost: Cost) -> list[str]:
    """The modes whose sizes the estimate depends on: that of the batch first, if there is one."""
    return [mode for mode in (cost.batch, cost.m, cost.n, cost.k) if mode is not None]


def _sizes(plan: CasesPlan, names: Mapping[str, str], either: str, both: str) -> Sizes:
    """The names of sizes in a text; `either` and `both` join conditions in its language."""
    cost, moved = plan.costs[0], plan.moved
    assert moved is not None
    batch = names[cost.batch] if cost.batch else ""
    every = tuple(names[mode] for mode in _modes(cost))
    elsewhere = either.join(_elsewhere(plan, names, both))
    return Sizes(names[cost.m], names[cost.n], names[cost.k], batch, every, _bytes(moved, names), elsewhere)


def _elsewhere(plan: CasesPlan, names: Mapping[str, str], both: str) -> list[str]:
    """Expressions; one holds for each call that takes, by its sizes, none of the compared kernels."""
    first, static = plan.by_cost[0], plan.spec.static
    found = []
    for number in (i for i in plan.told_by_sizes if i < first):
        conditions = plan.conditions[number].sizes.items()
        if all(one.holds(static[mode]) for mode, several in conditions if mode in static for one in several):
            terms = [one.text(names[mode]) for mode, several in conditions if mode not in static for one in several]
            found.append(terms[0] if len(terms) == 1 else f"({both.join(terms)})")
    own = plan.conditions[first].sizes.items()
    return found + [one.text_of_not(names[mode]) for mode, several in own if mode not in static for one in several]


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
