"""The computation of a probe."""

from __future__ import annotations

import torch
from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.probe.schedule import ProbeSchedule
from cutegen.language.model import KernelSpec, Tensor
from cutegen.reference.bounds import evaluate


def test_the_probe_gathers_by_the_layout() -> None:
    tv = Layout(((2, 2), (2, 3)), ((2, 12), (1, 4)))
    tensors = (Tensor("A", ("M", "N"), Dtype.i32, "N", 4), Tensor("D", ("T", "V"), Dtype.i32, "V", 4, "out"))
    spec = KernelSpec(
        kernel="p",
        op="probe",
        tensors=tensors,
        compute=parse_compute("D = A"),
        schedule=ProbeSchedule(tv, {"M": 4, "N": 6}),
    )
    a = torch.arange(24, dtype=torch.int32).reshape(6, 4).T  # a[m, n] = m + 4 n: its own number in the tile
    ((expected, bound, *_),) = evaluate(spec, {"A": a}, {}).values()
    assert expected.tolist() == [[tv(t, v) for v in range(6)] for t in range(4)]
    assert bool((bound == 0).all())
