"""Fixes that errors suggest work: the nearest value of a list, the missing key, no rejected mode."""

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


SCALED = """\
cutegen: 1
kernel: scaled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  s: {shape: [M, 1], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X * s
"""


def _has_errors(text: str) -> bool:
    return any(found.severity == "error" for found in found_in(text))


@pytest.mark.parametrize(
    ("change", "told", "help"),
    [
        (("s: {shape: [M, 1]", "s: {shape: [M, 4]"), "must be at most 1, not 4", "fix its size under `static:`"),
        (("Y: {shape: [M, N]", "Y: {shape: [1, M, N]"), "`Y` has a 1 in its shape", "`shape: [U, M, N]`"),
        (("Y: {shape: [M, N]", "Y: {shape: []"), "`Y` has no modes", ""),
    ],
)
def test_a_number_is_no_mode_and_an_output_has_names(change: tuple[str, str], told: str, help: str) -> None:
    found = next(d for d in found_in(SCALED.replace(*change)) if told in d.message)
    assert help in (found.help or "")


@pytest.mark.parametrize(
    ("word", "kind"),
    [("pointwise", "elementwise"), ("Reduction", "rowwise"), ("matmul", "gemm"), ("elementwis", "elementwise")],
)
def test_a_kind_of_another_library_is_the_one_that_computes_it(word: str, kind: str) -> None:
    """And the rest of the spec is read as one of that kind."""
    found = found_in(SCALED.replace("op: elementwise", f"op: {word}"))
    assert found[0].help == f"did you mean `{kind}`?"
    assert kind != "elementwise" or len(found) == 1


def test_inputs_have_a_1_or_no_modes() -> None:
    for shape in ("[M, 1]", "[1, N]", "[1, 1]", "[M, 1, N]", "[]"):
        assert not _has_errors(SCALED.replace("[M, 1]", shape)), shape


_GROUPS = """\
cutegen: 1
kernel: groups
op: rowwise
tensors:
  X: {shape: [B, G, C, D], dtype: f32}
  W: {shape: [G, C], dtype: f32}
  Y: {shape: [B, G, C, D], dtype: f32, role: out}
compute:
  - x = X - mean(X, C, D)
  - Y = W + x
"""


def test_a_row_may_have_several_modes() -> None:
    assert not _has_errors(_GROUPS)
    over = _GROUPS.replace("Y: {shape: [B, G, C, D]", "Y: {shape: [D]").replace("- x = X - mean(X, C, D)\n  ", "")
    assert not _has_errors(over.replace("W + x", "mean(X * W, B, G, C)"))


@pytest.mark.parametrize(
    ("changes", "told", "help"),
    [
        ([("+ x", "+ x - mean(X, D)")], "a row goes along C and D, and mean along D", "`mean(x, C, D)`"),
        (
            [("+ x", "+ x - sum(X, B, D)")],
            "and sum along B and D",
            "one reduces along D to an output with the other modes",
        ),
        (
            [("mean(X, C, D)", "mean(X, D)"), ("+ x", "+ x - max(X, C, D)")],
            "`D` is the mode of the rows",
            "write all of them along C and D",
        ),
        (
            [("X: {shape: [B, G, C, D]", "X: {shape: [C, D, B, G]")],
            "not the last modes of `X`",
            "`shape: [B, G, C, D]`",
        ),
        (
            [("X: {shape: [B, G, C, D]", "X: {shape: [B, G, D, C]")],
            "not the last modes of `Y`",
            "`shape: [B, G, D, C]`",
        ),
        (
            [("Y: {shape: [B, G, C, D]", "Y: {shape: [B, G, C]"), ("+ x", "+ max(x, C, D)")],
            "`Y` has C alone",
            "what is reduced along D alone is a kernel of its own",
        ),
        ([("+ x", "+ x + argmax(X, C, D)")], "`argmax` takes a value and the mode", ""),
    ],
)
def test_what_a_row_of_several_modes_cannot_be(changes: list[tuple[str, str]], told: str, help: str) -> None:
    text = _GROUPS
    for change in changes:
        assert change[0] in text
        text = text.replace(*change)
    found = [d for d in found_in(text) if d.severity == "error"]
    assert any(told in d.message and help in (d.help or "") for d in found), found
