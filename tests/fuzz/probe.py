"""Probe specs by chance."""

from __future__ import annotations

from math import prod
from typing import Any

from tests.fuzz import declarations as declare
from tests.fuzz.chance import Chance
from tests.fuzz.layouts import compact

LAYOUTS = ("((2,2),(2,3)):((2,12),(1,4))", "(32,4):(4,1)", "(8,3):(3,1)", "(4,6):(1,4)", "(3,2):(1,3)", "(6,2):(2,1)")


def probe(chance: Chance, small: bool) -> dict[str, Any]:
    """The document of one; a `small` one has a tile of which the layout meets each place once."""
    modes = list(chance.choice(declare.MODES)[: chance.choice([1, 2, 2, 2, 3])])
    dtype = declare.dtype_of(chance)
    out = dtype if chance.odds(0.6) else chance.choice(["f64", "f32", "i64", "i32"])
    tensors = {
        "A" if "A" not in modes else "S": declare.tensor(chance, modes, dtype, small),
        "Y": declare.tensor(chance, ["TT", "VV"], out, small, role="out"),
    }
    extents = tuple(chance.choice([1, 2, 3, 4, 6, 8]) for _ in modes)
    count = prod(extents)
    threads = chance.choice([d for d in range(1, count + 1) if count % d == 0])
    layout = compact(chance, (threads, count // threads))
    if chance.odds(0.25):
        layout = chance.choice(LAYOUTS)
    schedule = {"tv_layout": layout, "tiler": dict(zip(modes, extents, strict=True))}
    if chance.odds(0.1):
        del schedule["tiler"]
    document = {"op": "probe", "tensors": tensors, "compute": f"Y = {next(iter(tensors))}", "schedule": schedule}
    return document | declare.targets(chance, small)
