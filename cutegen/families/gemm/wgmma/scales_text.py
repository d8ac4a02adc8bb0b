"""Text of a module for scales of operands: how threads load them, and scale the products of a block."""

from __future__ import annotations

from typing import Any

from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import COLUMNS
from cutegen.families.gemm.wgmma.scales import Scale


def scales_context(plan: WarpspecializedPlan) -> dict[str, Any]:
    """Template variables of `scales.j2`, and of what consumers have for scales."""
    if not plan.scaled:
        return {"scales": ()}
    of_rows = plan.scale_a is not None and plan.scale_a.along is not None
    of_chunks = plan.scale_b is not None and plan.scale_b.along is not None
    letters = [letter for letter, scale in (("A", plan.scale_a), ("B", plan.scale_b)) if scale is not None]
    added = ("acc: cute.Tensor", "row_block: cutlass.Constexpr[int]", "acc_block: cute.Tensor", "scales: cute.Tensor")
    return {
        "scales": [_loads(plan, letter) for letter in letters],
        "multiplied": [f"{name}: cute.Tensor" for name in (*(f"next_{letter}" for letter in letters), "scales")],
        "factors": " * ".join(f"next_{letter}[{'row' if letter == 'A' else 'chunk'}]" for letter in letters),
        "added": list(added),
        "scale": f"scales[{'2 * row_block + row' if of_rows else '0'}, {'chunk' if of_chunks else '0'}]",
        "block_rows": _block_rows(plan),
        "rows_of_tile": "(0, None, 0)" if plan.tile[plan.n] > COLUMNS else "(0, None)",
    }


def _block_rows(plan: WarpspecializedPlan) -> str:
    """The rows of the tile that all warpgroups multiply at a time."""
    rows = f"BLK_{plan.m.upper()}"
    several = plan.row_blocks > 1 or plan.varies("ROW_BLOCKS")
    return f"{rows} // {plan.number('ROW_BLOCKS', plan.row_blocks)}" if several else rows


def _loads(plan: WarpspecializedPlan, letter: str) -> dict[str, Any]:
    """Template variables for the function that loads the scales of one operand."""
    scale = plan.scale_a if letter == "A" else plan.scale_b
    assert scale is not None
    first, found = "first: cutlass.Int32", ["k: cutlass.Int32", "found: cute.Tensor"]
    mode, name = (plan.m, "row") if letter == "A" else (plan.n, "column")
    start, more = (
        ("thr_rows[i][0]", "thr_rows: cute.Tensor") if letter == "A" else ("i * width", "width: cutlass.Constexpr[int]")
    )
    clips = scale.unit > 1 or plan.spec.schedule.predication[mode] == "mask"
    says = f"Loads the scales of a thread's {name}s in a block of {plan.k.upper()}"
    if letter == "B":
        says = f"Loads the scale of each `width` columns in a block of {plan.k.upper()}"
    return {
        "letter": letter,
        "along": scale.along,
        "parameters": ["mS: cute.Tensor", first, more, *found],
        "says": says + (f"; past the end, the last {name}'s." if clips else "."),
        "place": f"{name} = {_place(scale, f'first + {start}')}",
        "index": f"cutlass.min({name}, mS.shape[0] - 1)" if clips else name,
    }


def _place(scale: Scale, place: str) -> str:
    return place if scale.unit == 1 else f"({place}) // {scale.unit}"
