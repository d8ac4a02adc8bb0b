"""The sizes that an inner partition is verified on, and those that its host refuses."""

from __future__ import annotations

import pytest
from verification_fakes import plan_of

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule, Predicate
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.cases import derive_cases

TILE = {"M": 2, "N": 4}  # of a thread


def inner(predication: dict[str, Predicate], static: dict[str, int] | None = None) -> KernelSpec:
    divisible = {"N": 4} | ({"M": 2} if predication["M"] == "none" else {})
    return KernelSpec(
        kernel="c",
        op="elementwise",
        tensors=(Tensor("S", ("M", "N"), Dtype.f32, "N", 16), Tensor("D", ("M", "N"), Dtype.f32, "N", 16, "out")),
        compute=parse_compute("D = S"),
        schedule=ElementwiseSchedule("inner", TILE, 64, predication=predication),
        divisible=divisible,
        static=static or {},
    )


def test_an_inner_partition_is_run_on_many_blocks() -> None:
    """Its plan's tile is one thread's: a block's is 64 of them."""
    cases = derive_cases(plan_of(inner({"M": "mask", "N": "none"}), TILE))
    assert {252, 256, 260} <= {c.sizes["N"] for c in cases} and {1, 2, 3} <= {c.sizes["M"] for c in cases}
    tiles = [-(-c.sizes["M"] // 2) * -(-c.sizes["N"] // 4) for c in cases]
    assert any(t > 3 * 64 for t in tiles) and any(t % 64 for t in tiles)


@pytest.mark.parametrize("static", [{}, {"M": 4}, {"N": 12}])
def test_without_a_predicate_the_number_of_tiles_is_whole_blocks(static: dict[str, int]) -> None:
    cases = derive_cases(plan_of(inner({"M": "none", "N": "none"}, static), TILE))
    assert len(cases) > 5
    for case in cases:
        m, n = case.sizes["M"], case.sizes["N"]
        assert m % 2 == n % 4 == 0 and (m // 2) * (n // 4) % 64 == 0
        assert m == static.get("M", m) and n == static.get("N", n)
    if not static:
        assert any(c.sizes["N"] // 4 % 64 for c in cases)  # blocks that end in the middle of a row


def test_static_sizes_that_cannot_fill_blocks_leave_no_case() -> None:
    assert derive_cases(plan_of(inner({"M": "none", "N": "none"}, {"M": 2, "N": 12}), TILE)) == ()


def test_the_host_refuses_blocks_that_are_not_whole() -> None:
    free = inner({"M": "none", "N": "none"})
    assert free.family.refused(free, {"M": 2, "N": 260}) == "65 tiles, not a multiple of 64 threads"
    assert free.family.refused(free, {"M": 2, "N": 256}) is None
    assert free.family.accepted(free, {"M": 2, "N": 260}) == {"M": 128, "N": 260}
    masked = inner({"M": "mask", "N": "none"})
    assert masked.family.refused(masked, {"M": 2, "N": 260}) is None
