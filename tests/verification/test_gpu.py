"""Without a GPU: what is known of kernels before one runs them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import pytest
import torch
from kept_kit import plan_of
from verification_fakes import CpuExecutor

from cutegen.atoms.targets import fitting
from cutegen.codegen import generate
from cutegen.hostchecks.checks import numbered_checks
from cutegen.verification.executor import CannotRun
from cutegen.verification.gpu import GpuExecutor
from cutegen.verification.sharing import Whole

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


TWO = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
divisible: {N: 8, K: 8}
targets: [sm_80, sm_90a]
schedule:
  - for: {target: sm_90a}
    mma: {atom: wgmma}
  - mma: {atom: mma_sync}
"""


@pytest.mark.parametrize(("own", "of"), [(80, ["case 2"]), (None, ["case 1", "case 2"])])
def test_kernels_that_are_for_other_gpus_are_not_called_with_many_tiles(own: int | None, of: list[str]) -> None:
    """Which of them a call takes is the GPU's to say: a check of the other kernel would run none of its code."""

    class OneGpu(CpuExecutor):
        def has_code_for(self, targets: Sequence[str]) -> bool:
            return own is None or fitting(own, targets) is not None

    (module,) = generate(TWO, "product.yaml").modules
    named: list[tuple[str, str, bool]] = []
    none = Whole()
    none.stop()
    assert not list(numbered_checks(module.plan, ModuleType("product"), OneGpu(), lambda name: None, none, named))
    bands = [what for _, what, _ in named if "bands of tiles" in what]
    assert [one for one in ("case 1", "case 2") if any(f", {one}" in what for what in bands)] == of
