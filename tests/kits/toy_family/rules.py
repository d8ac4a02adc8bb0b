"""The rules of fills: errors, and advice on speed."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.lint.rule import Accesses, Finding, PerformanceRule, Rule, Say
from cutegen.lint.trial import changed, written
from toy_family.plan import FillPlan
from toy_family.schedule import Spec

MOST_ROWS = 64


def rows(spec: Spec, say: Say) -> None:
    """A thread's rows are written out one after the other: they are few."""
    count = spec.schedule.rows
    if count is not None and count > MOST_ROWS:
        message = f"a thread has {count} rows; the limit is {MOST_ROWS}"
        say(message, "schedule", "rows", notes=(f"{count} > {MOST_ROWS}",), help=f"write `rows: {MOST_ROWS}`")


def idle_lanes(spec: Spec, plan: FillPlan, _: Accesses) -> Iterator[Finding]:
    """Threads are whole warps."""
    whole = -(-plan.threads // 32) * 32
    if whole > plan.threads:
        message = f"{plan.threads} threads leave {whole - plan.threads} lanes of their last warp idle"
        other = written(f"write `threads: {whole}`"), changed(spec, {"threads": whole})
        notes = (f"{whole} = {whole // 32} * 32",)
        yield Finding(message, ("schedule", "threads"), notes, whole / plan.threads - 1, [other])


RULES = (Rule("CG299", rows, basic=True),)
PERFORMANCE_RULES = (PerformanceRule("CG298", idle_lanes),)
