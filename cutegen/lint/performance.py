"""Rules about speed. They are asked about kernels that are right, and need the plan: what they say is advice."""

from __future__ import annotations

from cutegen.language.model import Op
from cutegen.lint import performance_global as memory
from cutegen.lint import performance_machine as machine
from cutegen.lint import performance_shared as shared
from cutegen.lint.rule import PerformanceRule

_GEMM: tuple[Op, ...] = ("gemm",)
_DEALT: tuple[Op, ...] = ("elementwise", "gemm")

PERFORMANCE_RULES: tuple[PerformanceRule, ...] = (
    PerformanceRule("CG270", shared.bank_conflicts, _GEMM),
    PerformanceRule("CG271", memory.uncoalesced, _DEALT),
    PerformanceRule("CG272", memory.narrow, _DEALT),
    PerformanceRule("CG273", machine.unfilled_tiles, _DEALT),
    PerformanceRule("CG274", machine.low_occupancy, _DEALT),
    PerformanceRule("CG275", machine.idle_stages, _GEMM),
    PerformanceRule("CG276", machine.needless_predicate, _DEALT),
    PerformanceRule("CG277", machine.small_grid, _DEALT),
    PerformanceRule("CG278", machine.low_intensity, _GEMM),
    PerformanceRule("CG279", shared.idle_padding, _GEMM),
)
