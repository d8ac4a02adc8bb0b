"""Text about the order in which clusters walk tiles, in the module of a warp-specialised gemm."""

from __future__ import annotations

from typing import Any

from cutegen.codegen.parts import case_parameter
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.segments_text import FINDERS as SEGMENT_FINDERS


def divisors(plan: WarpspecializedPlan) -> dict[str, str]:
    """Maps the divisors of tile numbers, which the host prepares, to the expressions that create them: the tiles of a
    band, the width of the last band, and the tiles of a matrix.

    Where K is small, divisions are many, and a producer that creates its own divisors is late, which costs 2 % at
    8192 x 8192 x 1024 on an H200.
    """
    if plan.segments is not None:  # whose rows make other numbers of tiles
        return {}
    along, across = (f"tiles_{letter}" for letter in letters(plan))
    divisors = {"by_band": f"cutlass.min(BAND, {across}) * {along}", "by_last": f"cutlass.max({across} % BAND, 1)"}
    divisors = {"by_band": along} if plan.band == 1 else divisors
    divisors |= {"by_matrix": "tiles_m * tiles_n"} if plan.batch is not None else {}
    return {name: f"cute.fast_divmod_create_divisor_v2({text})" for name, text in divisors.items()}


def letters(plan: WarpspecializedPlan) -> tuple[str, str]:
    """The letters of the modes of the product along which consecutive clusters walk, and across."""
    along, across = ("m" if plan.spec.output.shape[i] == plan.m else "n" for i in plan.tile_order)
    return along, across


def walk_context(plan: WarpspecializedPlan) -> dict[str, Any]:
    """Template variables for the order of tiles."""
    first, second = letters(plan)
    along, across = (plan.spec.output.shape[i].upper() for i in plan.tile_order)
    places = {first: "along", second: "band * BAND + across" if plan.band > 1 else "across"}
    more = [case_parameter(plan.spec)] * plan.varies("BAND")
    return {
        "along": along,
        "across": across,
        "along_letter": first,
        "across_letter": second,
        "finders": SEGMENT_FINDERS
        if plan.segments is not None
        else ["tile", *("tiles_m", "tiles_n")[: 2 * (plan.band > 1)], *divisors(plan), *more],
        "coordinate": ", ".join((places["m"], places["n"], *["l_tile"] * (plan.batch is not None))),
    }
