"""Without a GPU: what is known of kernels before one runs them."""

from __future__ import annotations

import pytest
import torch
from kept_kit import plan_of

from cutegen.verification.executor import CannotRun
from cutegen.verification.gpu import GpuExecutor

TEXT = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X - mean(X, N)
static: {N: 64}
"""


@pytest.mark.parametrize(
    ("targets", "capability", "runs"),
    [
        ("[sm_80]", (8, 0), True),
        ("[sm_80]", (8, 9), True),
        ("[sm_80]", (9, 0), False),
        ("[sm_90a]", (9, 0), True),
        ("[sm_90a]", (8, 0), False),
        ("[sm_90a]", (10, 0), False),
        ("[sm_80, sm_90a]", (9, 0), True),
        ("[sm_80, sm_90a]", (12, 0), False),
    ],
)
def test_a_kernel_without_code_for_the_gpu_is_not_executed_rather_than_wrong(
    targets: str, capability: tuple[int, int], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = plan_of(f"{TEXT}targets: {targets}\n").spec
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    executor = object.__new__(GpuExecutor)  # which asks for a GPU when it is made
    if runs:
        executor._check_targets(spec)
        return
    with pytest.raises(CannotRun, match=rf"runs on sm_{capability[0]}{capability[1]}\Z"):
        executor._check_targets(spec)
