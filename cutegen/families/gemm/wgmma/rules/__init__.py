"""The rules of warp-specialised gemms, in the order of their codes."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.rules import clusters, epilogue, operands, outputs, scales, segments, tiles
from cutegen.lint.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule("CG236", epilogue.access),
    Rule("CG237", epilogue.run),
    Rule("CG238", epilogue.aligned),
    Rule("CG302", tiles.made, basic=True),
    Rule("CG303", tiles.swizzled, basic=True),
    Rule("CG304", tiles.shared_memory),
    Rule("CG305", tiles.registers),
    Rule("CG306", operands.mapped, basic=True),
    Rule("CG307", clusters.sized, basic=True),
    Rule("CG308", outputs.passed, basic=True),
    Rule("CG309", tiles.in_flight),
    Rule("CG313", segments.walked, basic=True),
    Rule("CG315", scales.found, basic=True),
)
