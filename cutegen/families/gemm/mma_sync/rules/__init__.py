"""The rules of multistage gemms on tensor cores, in the order of their codes."""

from __future__ import annotations

from functools import partial

from cutegen.families.gemm.mma_sync.product import PAIR
from cutegen.families.gemm.mma_sync.rules import copies, machine, operands, tiles
from cutegen.families.gemm.staged import rules as staged
from cutegen.lint.rule import PerformanceRule, Rule

RULES: tuple[Rule, ...] = (
    Rule("CG221", copies.copied, basic=True),
    Rule("CG236", partial(staged.copies.access, better=copies.better_bits)),
    Rule("CG237", copies.run),
    Rule("CG238", partial(staged.copies.aligned, better=copies.better_bits)),
    Rule("CG239", staged.copies.atom),
    Rule("CG246", staged.pipeline.stages),
    Rule("CG250", staged.copies.cp_async_bytes),
    Rule("CG253", staged.copies.unused),
    Rule("CG254", machine.shared_memory),
    Rule("CG255", staged.pipeline.k_predicate),
    Rule("CG259", staged.machine.grid),
    Rule("CG261", machine.registers, severity="warning"),
    Rule("CG310", tiles.made, basic=True),
    Rule("CG311", tiles.swizzled, basic=True),
    Rule("CG312", operands.multiplied, basic=True),
)

PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG273", machine.unfilled_tiles),
    PerformanceRule("CG276", staged.machine.needless_predicate),
    PerformanceRule("CG277", partial(staged.machine.small_grid, most=2 * PAIR)),
)
