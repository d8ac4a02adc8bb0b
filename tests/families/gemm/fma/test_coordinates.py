"""Coordinates of elements in the epilogue of a gemm, run by the emulator against torch."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of  # noqa: E402

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.language.diagnostics import SpecError  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

SPEC = """
cutegen: 1
kernel: scores
op: gemm
tensors:
  A: {{shape: [M, K], dtype: f32, align: 4}}
  B: {{shape: [N, K], dtype: f32, align: 4}}
  C: {{shape: [M, N], dtype: f32, major: {major}, align: 4, role: out}}
compute: {compute}
schedule: {{tiler: {{M: 32, N: 32, K: 8}}, mma: {{thread_layout: "(8,8,1)"}}, predication: {{M: {mask}, N: {mask}}}}}
targets: [sm_80]
"""


@pytest.mark.parametrize(("mask", "m", "n"), [("mask", 37, 45), ("none", 64, 32)])
@pytest.mark.parametrize("major", ["M", "N"])
def test_a_causal_mask(major: str, mask: str, m: int, n: int, tmp_path: Path) -> None:
    text = SPEC.format(major=major, mask=mask, compute="C = where(coord(N) <= coord(M), A @ B.T, coord(M) - 1000)")
    module = generate(text, "specs/x.yaml").modules[0]
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    python = load_module(path)
    install(python, "scores", roles={"a": "in", "b": "in", "c": "out"}, lines=False)
    a, b, c = arguments_of(python, M=m, N=n, K=11)
    python.scores(on_device(a), on_device(b), c=on_device(c))
    below = torch.ones(m, n).tril() > 0
    right = torch.where(below, a @ b.T, torch.arange(m)[:, None].expand(m, n) - 1000.0)
    torch.testing.assert_close(c, right)
    torch.testing.assert_close(c, python.reference(a, b, c=c))


def test_no_element_has_a_coordinate_along_what_is_summed() -> None:
    with pytest.raises(SpecError) as caught:
        generate(SPEC.format(major="N", mask="mask", compute="C = A @ B.T + coord(K)"), "specs/x.yaml")
    (found,) = caught.value.diagnostics
    assert (found.code, found.help) == ("CG116", "modes: M, N")
    assert "`K` is summed over" in found.message
