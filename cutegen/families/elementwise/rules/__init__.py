"""The rules of elementwise kernels, in the order of their codes; a file for each thing that they are about."""

from __future__ import annotations

from cutegen.families.elementwise.rules import accesses, blocks, dealing, global_memory, limits, machine
from cutegen.lint.rule import PerformanceRule, Rule

RULES: tuple[Rule, ...] = (
    Rule("CG230", dealing.rank, basic=True),
    Rule("CG231", dealing.threads, basic=True),
    Rule("CG232", dealing.values, basic=True),
    Rule("CG234", dealing.deals_evenly),
    Rule("CG236", accesses.access),
    Rule("CG237", accesses.run),
    Rule("CG238", accesses.aligned),
    Rule("CG239", accesses.atom),
    Rule("CG259", limits.blocks),
    Rule("CG260", dealing.warps, severity="warning"),
    Rule("CG261", limits.registers, severity="warning"),
    Rule("CG314", blocks.divided),
)

PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG271", global_memory.uncoalesced),
    PerformanceRule("CG272", global_memory.narrow),
    PerformanceRule("CG273", machine.unfilled_tiles),
    PerformanceRule("CG274", machine.low_occupancy),
    PerformanceRule("CG276", machine.needless_predicate),
    PerformanceRule("CG277", machine.small_grid),
)
