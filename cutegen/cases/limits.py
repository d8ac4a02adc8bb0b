"""The limits that the cases of a module impose on its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from cutegen.cases.kernels import KernelText, inside_text
from cutegen.cases.plan import CasesPlan
from cutegen.codegen.formatting import replaced
from cutegen.codegen.parts import Constant, Limit
from cutegen.family import family_of
from cutegen.parts.acting import value_of


def limits_of(
    plan: CasesPlan, kernels: Sequence[KernelText], kernel: KernelText, names: Mapping[str, str]
) -> list[Limit]:
    """The limits of a case's kernel: on all calls where all kernels have them, else on calls that the case is for."""
    own, unless = kernel.plan.spec, _not_taken(plan, kernel.number)
    found = []
    for limit in kernel.parts.limits:
        path = inside_text(limit.path, kernel.number)
        tiles = tuple(replaced(text, names) for text in limit.tiles)
        wanted, holds = replaced(limit.wanted, names), replaced(limit.holds, names)
        alike = all(limit in other.parts.limits for other in kernels) and (tiles, holds) == (limit.tiles, limit.holds)
        found.append(Limit(path, tiles, wanted, holds, () if alike else unless))
    numbers = family_of(own).largest(kernel.plan)
    for mode, text in kernel.parts.largest.items():
        if own.sizes_of(mode)[1] <= numbers.get(mode, 0) or mode in own.static:
            continue
        most = replaced(text, names)
        path, size = inside_text("schedule.tiler", kernel.number), f'sizes["{mode}"]'
        found.append(Limit(path, (size,), f'f"{mode} <= {{{most}}}"', f"tiles <= {most}", unless=unless))
    return found


def _not_taken(plan: CasesPlan, number: int) -> tuple[tuple[str, ...], ...]:
    """Comparisons of `sizes`, some of which stand together: where all of those hold, a call is not for the case of that
    number.
    """
    spec = plan.spec
    found: list[tuple[str, ...]] = []

    def size(mode: str) -> str:
        return f'sizes["{mode}"]'

    for mode, several in plan.conditions[number].sizes.items():
        if mode not in spec.static:
            found += [(f"({one.text_of_not(size(mode))})",) for one in several]
    for other in plan.conditions[:number]:
        if other.by_cost and plan.conditions[number].by_cost:
            continue
        if other.targets or other.align > 1 or not other.sizes:
            continue
        dynamic = [(mode, one) for mode, several in other.sizes.items() if mode not in spec.static for one in several]
        found.append(tuple(f"({one.text(size(mode))})" for mode, one in dynamic))
    return tuple(found)


def strictest(limits: Iterable[Limit], constants: Iterable[Constant]) -> tuple[Limit, ...]:
    """Those limits that no other one implies: of fewer tiles, which are larger along some mode and smaller along none.

    `constants` are those of the module, whose names limits may have.
    """
    values: dict[str, object] = {}
    for one in constants:
        values[one.name] = value_of(one.value, values)
    extents = {limit: _extents(limit, values) for limit in limits}
    found: list[Limit] = []
    for limit in sorted(extents, key=lambda limit: [*(extents[limit] or {}).values()]):
        if not any(_implies(one, extents[one], limit, extents[limit]) for one in found):
            found.append(limit)
    return tuple(limit for limit in extents if limit in found)


def _implies(one: Limit, extents: Mapping[str, int] | None, other: Limit, others: Mapping[str, int] | None) -> bool:
    """Whether one limit lets no call pass that the other one refuses."""
    if (one.holds, one.wanted, one.unless) != (other.holds, other.wanted, other.unless):
        return False
    if extents is None or others is None:
        return one.tiles == other.tiles
    return extents.keys() == others.keys() and all(extents[mode] <= others[mode] for mode in extents)


def _extents(limit: Limit, values: Mapping[str, object]) -> dict[str, int] | None:
    """How much of each mode a tile has; None where the limit is not one of a number of tiles."""
    found: dict[str, int] = {}
    for factor in limit.tiles:
        match ast.parse(factor, mode="eval").body:
            case ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), size), ast.FloorDiv(), extent)):
                found[ast.unparse(size)] = int(str(value_of(ast.unparse(extent), dict(values))))
            case size:
                found[ast.unparse(size)] = 1
    return dict(sorted(found.items())) if limit.holds.startswith("tiles <= ") else None
