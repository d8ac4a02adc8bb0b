"""A case that differs from the others by more than sizes limits all calls, and all cases keep that limit."""

from __future__ import annotations

from cutegen.cases.family import CasesFamily
from cutegen.cases.limits import strictest
from cutegen.codegen import generate
from cutegen.codegen.parts import Constant, Limit
from cutegen.verification.cases import derive_cases

WHOLE_BLOCKS = """\
cutegen: 1
kernel: trial
op: elementwise
tensors:
  X: {shape: [M, N], dtype: u8}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * 2
schedule:
  - {for: {align: 8}, partition: inner, threads: 128, predication: {M: none, N: none}}
  - {}
"""


def test_a_call_of_another_case_is_refused_for_the_limits_of_one_by_alignment() -> None:
    """The module asks for whole blocks of every call: sizes decide what is refused, and no tensor's address."""
    (module,) = generate(WHOLE_BLOCKS, "specs/trial.yaml").modules
    spec, family = module.plan.spec, CasesFamily()
    sizes = family.accepted(spec, {"M": 19, "N": 16})
    assert sizes is not None and family.refused(spec, sizes) is None
    assert family.refused(spec, {"M": 19, "N": 16}) is not None
    of_last = [case for case in derive_cases(module.plan) if case.of[0].startswith("case 2")]
    assert of_last and not any(family.refused(spec, case.sizes) for case in of_last)


def test_a_limit_that_another_one_implies_is_not_asked_for() -> None:
    def tiles(*factors: str, most: str = "MOST", unless: tuple[tuple[str, ...], ...] = ()) -> Limit:
        return Limit("schedule.tiler", factors, "fewer", f"tiles <= {most}", unless)

    def along(mode: str, extent: str) -> str:
        return f'-(-sizes["{mode}"] // {extent})'

    small = tiles(along("N", "64"), along("M", "32"))
    wider = tiles(along("M", "32"), along("N", "(BLK_N * 2)"))
    other = tiles(along("N", "128"), along("M", "16"))  # more tiles along M, fewer along N
    fewer = tiles(along("N", "64"), along("M", "32"), most="LESS")
    some = tiles(along("N", "128"), along("M", "128"), unless=(('(sizes["M"] > 8)',),))
    of_batch = tiles(along("N", "64"), along("M", "32"), 'sizes["L"]')
    sizes = Limit("schedule.tiler", ('sizes["M"]',), "even", "tiles % 2 == 0")
    given = (wider, small, other, fewer, small, some, of_batch, sizes, sizes)
    assert strictest(given, [Constant("BLK_N", "64", "", "")]) == (small, other, fewer, some, of_batch, sizes)
    assert strictest((wider, small), [Constant("BLK_N", "16", "", "")]) == (wider,)
