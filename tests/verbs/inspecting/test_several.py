"""Modules whose call launches several kernels, as `cutegen inspect` reads and compares them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.compiling import Failed, Job, Outcome
from cutegen.verbs.inspecting.comparing import OldError, _inspect_module
from cutegen.verbs.inspecting.inspection import _as_written

ROOT = Path(__file__).parents[3]


def test_kernels_go_by_the_names_that_the_module_gives_them() -> None:
    types = "tensorptrf32gmemalign16_0"
    assert _as_written(f"kernel_cutlass_mm_kernel_{types}", "mm") == "mm_kernel"
    assert _as_written(f"kernel_cutlass_my_kernel_x_kernel_{types}", "my_kernel_x") == "my_kernel_x_kernel"
    assert _as_written(f"kernel_cutlass_mm_workspace_B_kernel_{types}", "mm") == "mm_workspace_B_kernel"
    assert _as_written(f"kernel_cutlass_mm_kernel_2_{types}", "mm") == "mm_kernel_2"
    assert _as_written(f"kernel_cutlass_mm_kernel_case_2_{types}", "mm") == "mm_kernel_case_2"
    assert _as_written("something_else", "mm") == "something_else"


CASES = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [N], dtype: f32}
  D: {shape: [N], dtype: f32, role: out}
compute: D = 2 * S
schedule:
  - for: {N: "<= 64"}
    threads: 32
  - {}
targets: [sm_90a]
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemm_f32_fma_workspace_kkn", (ROOT / "generated/gemm_f32_fma_workspace_kkn.py").read_text(encoding="utf-8")),
        ("twice", generate(CASES, "x.yaml").modules[0].text),
    ],
)
def test_a_module_of_several_kernels_is_compared_by_the_one_that_is_called(name: str, text: str) -> None:
    asked: list[Job] = []

    def compile(jobs: Sequence[Job]) -> Sequence[Outcome]:
        asked.extend(jobs)
        return [Failed("exception", "enough")]

    with pytest.raises(OldError, match="enough"):
        _inspect_module(text, "old.py", ["sm_90a"], compile)
    assert [(job.kernel, job.target) for job in asked] == [(name, "sm_90a")]
