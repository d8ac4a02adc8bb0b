"""What an error offers instead works: the nearest value of a list, the key that is missing, no mode that is refused."""

from __future__ import annotations

import pytest
from lint_kit import found_in

GEMM = """\
cutegen: 1
kernel: g
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32}
  B: {shape: [N, K], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  """


def test_a_reduction_in_a_gemm_is_for_another_kernel() -> None:
    spec = GEMM.replace("schedule:", "").replace(
        "compute: C = A @ B.T", "compute:\n  - S = A @ B.T\n  - C = softmax(S)"
    )
    for text in (spec, spec.replace("  - C = softmax(S)", "  - P = softmax(S)\n  - C = P @ B.T")):
        (found,) = found_in(text)
        assert found.code == "CG120" and found.help is not None and "second one with `op: rowwise`" in found.help
        assert ("attention" in found.help) == (text is not spec)


def test_the_gradient_of_an_operand_is_shown_the_way_that_works() -> None:
    """`dX = dY @ W` with the W of `Y = X @ W.T`: what the help says lints clean."""
    spec = GEMM.replace("schedule:", "").replace("B: {shape: [N, K]", "B: {shape: [K, N]")
    (found,) = found_in(spec.replace("A @ B.T", "A @ B"))
    assert found.code == "CG120" and found.help is not None
    _, product, _, declaration, _, passed, _ = found.help.split("`")
    assert (product, passed) == ("A @ B.T", "b.mT")
    works = spec.replace("B: {shape: [K, N], dtype: f32}", declaration.replace("}", ", dtype: f32}"))
    assert not [d for d in found_in(works) if d.severity == "error"]


@pytest.mark.parametrize(
    ("schedule", "code", "help"),
    [
        ("copies: {A: {bits: 48}}", "CG104", "write `bits: 64`"),
        ("copies: {A: {bits: 33}}", "CG104", "write `bits: 32`"),
        ("copies: {A: {bits: 256}}", "CG104", "write `bits: 128`"),
        ("copies: {C: {bits: 16}}", "CG236", "write `bits: 32`"),
        ("workspace: {A: {}}", "CG102", "write `major`: the mode that is contiguous in the workspace: M of A, N of B"),
        ("workspace: {A: K}", "CG103", "write `A: {major: ...}`, with `major`: the mode that is contiguous"),
        (
            "workspace: [A]",
            "CG103",
            "write `workspace: {NAME: {major: ...}}`, with `major`: the mode that is contiguous",
        ),
        ("workspace: {A: {major: Q}}", "CG116", "modes: M"),
        ("workspace: {B: {major: Q}}", "CG116", "modes: N"),
        ('mma: {thread_layout: "(16,16)"}', "CG230", 'write `thread_layout: "(16,16,1):(1,16,0)"`'),
    ],
)
def test_a_help_offers_what_is_near_and_taken(schedule: str, code: str, help: str) -> None:
    found = next(d for d in found_in(GEMM + schedule + "\n") if d.code == code)
    assert found.help is not None and found.help.startswith(help), found.help
