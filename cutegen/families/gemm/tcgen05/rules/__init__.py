"""The rules of gemms on Blackwell's tensor cores, in the order of their codes."""

from __future__ import annotations

from cutegen.families.gemm.tcgen05.rules import epilogue, operands, tiles
from cutegen.lint.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule("CG236", epilogue.access),
    Rule("CG237", epilogue.run),
    Rule("CG238", epilogue.aligned),
    Rule("CG319", tiles.made, basic=True),
    Rule("CG320", operands.mapped, basic=True),
    Rule("CG321", tiles.shared_memory),
)
