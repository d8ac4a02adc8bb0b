"""Advice that works: a value is suggested only if the kernel stays right with it and what was measured gets better."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cutegen.analysis import Access, accesses, conflicts
from cutegen.language.diagnostics import has_errors
from cutegen.language.model import KernelSpec
from cutegen.lint.trial import Candidate, try_out
from cutegen.planning import make_plan
from cutegen.planning.plan import Plan

Good = Callable[[KernelSpec, Plan], bool]


def first_better(candidates: Iterable[Candidate], good: Good) -> str | None:
    """The text of the first candidate that no rule refuses and that is `good`."""
    for text, spec in candidates:
        resolved, found = try_out(spec, "")
        if not has_errors(found) and good(resolved, make_plan(resolved)):
            return text(resolved)
    return None


def named(plan: Plan, name: str) -> Access | None:
    """The access of that name, where the plan makes it."""
    return next((access for access in accesses(plan) if access.name == name), None)


def shared_cost(plan: Plan) -> tuple[int, int]:
    """Of a warp, for a tile: its instructions to shared memory, and the passes that these take."""
    shared = [access for access in accesses(plan) if access.space == "shared"]
    return sum(a.instructions for a in shared), sum(conflicts(a).passes * a.instructions for a in shared)
