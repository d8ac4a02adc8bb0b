"""The cases that a probe is verified on."""

from __future__ import annotations

from tensor_layouts import Layout
from verification_fakes import plan_of

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.probe.schedule import ProbeSchedule
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.cases import derive_cases


def test_a_probe_has_its_one_size() -> None:
    tensors = (Tensor("A", ("M", "N"), Dtype.f32, "N", 4), Tensor("D", ("T", "V"), Dtype.f32, "V", 4, "out"))
    static = {"T": 4, "V": 6, "M": 4, "N": 6}
    schedule = ProbeSchedule(Layout(((2, 2), (2, 3)), ((2, 12), (1, 4))), {"M": 4, "N": 6})
    spec = KernelSpec(
        kernel="p", op="probe", tensors=tensors, compute=parse_compute("D = A"), schedule=schedule, static=static
    )
    cases = derive_cases(plan_of(spec, {"M": 4, "N": 6}))
    assert {tuple(sorted(c.sizes.items())) for c in cases} == {tuple(sorted(static.items()))}
    assert {c.layout for c in cases} == {"compact", "padded", "offset"}
