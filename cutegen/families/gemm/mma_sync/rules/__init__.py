"""The rules of multistage gemms on tensor cores, in the order of their codes."""

from __future__ import annotations

from cutegen.families.gemm.mma_sync.rules import copies, machine, operands, pipeline, tiles
from cutegen.lint.rule import PerformanceRule, Rule

RULES: tuple[Rule, ...] = (
    Rule("CG221", copies.copied, basic=True),
    Rule("CG236", copies.access),
    Rule("CG237", copies.run),
    Rule("CG238", copies.aligned),
    Rule("CG239", copies.atom),
    Rule("CG246", pipeline.stages),
    Rule("CG250", copies.cp_async_bytes),
    Rule("CG253", copies.unused),
    Rule("CG254", pipeline.shared_memory),
    Rule("CG255", pipeline.k_predicate),
    Rule("CG259", machine.grid),
    Rule("CG261", machine.registers, severity="warning"),
    Rule("CG310", tiles.made, basic=True),
    Rule("CG311", tiles.swizzled, basic=True),
    Rule("CG312", operands.multiplied, basic=True),
)

PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG273", machine.unfilled_tiles),
    PerformanceRule("CG276", machine.needless_predicate),
    PerformanceRule("CG277", machine.small_grid),
)
