"""What one case limits for all calls, as it is told from the others by more than sizes, is kept to by all."""

from __future__ import annotations

from cutegen.cases.family import CasesFamily
from cutegen.codegen import generate
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
