"""Prefetches of tensor maps and of boxes: nothing happens, but what they name must be there."""

from __future__ import annotations

import pytest
from tensor_map_kit import run, wrong

BOX = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd20, {8, 3}];\n"


@pytest.mark.parametrize(
    "body",
    [
        "prefetch.tensormap [%rd20];\n",
        "cvta.param.u64 %rd21, k_map;\nprefetch.param.tensormap [k_map];\nprefetch.tensormap [%rd21];\n",
        BOX,
        BOX.replace("tile [", "tile.L2::cache_hint [").replace("]", "], 0"),
        BOX.replace("{8, 3}", "{-100, 1000}"),
    ],
)
def test_nothing_happens(body: str) -> None:
    a, b = run(body)
    assert (a.reshape(-1) == range(1000, 1000 + a.size)).all() and not b.any()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("prefetch.tensormap [%rd0];\n", "tensor-map"),
        ("prefetch.tensormap [%rd20+64];\n", "tensor-map"),
        ("prefetch.tensormap [%rd30];\n", "never-written"),
        (BOX.replace("%rd20", "%rd0"), "tensor-map"),
        (BOX.replace("8,", "%r30,"), "never-written"),
        (BOX.replace("2d", "1d").replace("8, 3", "8"), "tensor-map"),
    ],
)
def test_what_they_name_must_be_there(body: str, kind: str) -> None:
    assert wrong(body).kind == kind
