"""The emulator against a GPU: the same bits, wherever PTX says every bit of the result. Needs a GPU.

`pytest -s tests/test_emulator_gpu.py` prints what was compared, a line a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from calls_kit import call
from specs_kit import kernels_of_specs, modules_of_specs

from cutegen.emulator import Report, install, on_device
from cutegen.verification import gpu_missing
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

pytestmark = pytest.mark.skipif(gpu_missing() is not None, reason=f"no GPU: {gpu_missing()}")
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def inexact(reports: Iterable[Report]) -> list[str]:
    """Instructions of whose results PTX does not say every bit."""
    return sorted({name for report in reports for name in (*report.approximate, *report.contractible)})


@pytest.mark.parametrize("kernel", kernels_of_specs())
def test_same_bits(kernel: str, tmp_path: Path) -> None:
    module = modules_of_specs()[kernel]
    spec, plan = module.spec, module.plan
    path = tmp_path / module.name
    path.write_text(module.text)
    real, emulated = load_module(path), load_module(path)
    runs = install(emulated, spec.kernel, roles={t.argument: t.role for t in spec.tensors})
    compared = elements = 0
    for planned in derive_cases(plan):
        case = replace(planned, data="random")
        if any(
            torch.Size(case.sizes[m] for m in t.shape).numel() > EmulatorExecutor.element_limit for t in spec.tensors
        ):
            continue
        scalars = list(scalar_values(spec, case).values())
        here, there = make_tensors(spec, case, "cpu"), make_tensors(spec, case, "cuda:0")
        call(real, spec.kernel, [*(t.view for t in there), *scalars])
        torch.cuda.synchronize()
        call(emulated, spec.kernel, [*(on_device(t.view) for t in here), *scalars])
        left_open = inexact(runs.reports)
        for cpu, gpu in zip(here, there, strict=True):
            if cpu.tensor.writes and not left_open:
                whole = BITS[cpu.tensor.dtype.bytes]
                assert torch.equal(cpu.view.view(whole), gpu.view.cpu().view(whole)), (
                    f"{spec.kernel}, {case.name}: {cpu.tensor.name} differs"
                )
                elements += cpu.view.numel()
        compared += not left_open
    names = ", ".join(inexact(runs.reports))
    print(
        f"\n{spec.kernel}: {compared} cases, {elements} elements equal bit for bit",
        f"(approximate, or may be contracted: {names})" * bool(names),
    )
    assert compared or names
