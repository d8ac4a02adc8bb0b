"""Errors about features that the language lacks; the documentation lists no existing feature as missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutegen.expressions.absent import ABSENT, INSTEAD
from cutegen.expressions.parsing import FUNCTIONS, REDUCTIONS
from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.reader import read_specs

PAGE = Path(__file__).parents[2] / "docs" / "language" / "refused.md"
SPEC = """
cutegen: 1
kernel: trial
op: {op}
tensors:
  X: {{{x}}}
  Z: {{shape: [M, N], dtype: f32}}
  A: {{shape: [M, K], dtype: f32}}
  B: {{shape: [N, K], dtype: f32}}
  Y: {{shape: [M, N], dtype: f32, role: out}}
scalars: {{a: f32, b: f32}}
compute: Y = {compute}
"""


def said(compute: str, *, x: str = "shape: [M, N], dtype: f32") -> list[Diagnostic]:
    """Of a spec that computes this, without what is said of declarations that it does not use."""
    op = (
        "gemm" if "@" in compute else "rowwise" if re.search(r"\b(sum|mean|max|min|prod)\(", compute) else "elementwise"
    )
    lines = SPEC.format(op=op, x=x, compute=compute).splitlines()
    used = set(re.findall(r"\w+", compute))
    lines = [line for line in lines if not re.match(r"  [XZAB]:", line) or line.split(":")[0].strip() in used]
    scalars = ", ".join(f"{name}: f32" for name in "ab" if name in used)
    lines = [line if not line.startswith("scalars") else f"scalars: {{{scalars}}}" for line in lines]
    try:
        read_specs("\n".join(lines), "specs/trial.yaml")
    except SpecError as error:
        return list(error.diagnostics)
    return []


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_is_to_be_written_instead_is_accepted(name: str) -> None:
    text = INSTEAD[name]
    if re.search(r"~|<<|>>|\b[xy] [&|^]", text):
        text = re.sub(r"\b([xy])\b", r"cast(\1, i32)", text)
    for letter, tensor in (("x", "X"), ("y", "Z"), ("z", "2.0")):
        text = re.sub(rf"\b{letter}\b", tensor, text)
    is_condition = (
        "cast" not in text and any(word in text for word in ("==", "!=", ">", "<", "not ")) and "where" not in text
    )
    is_condition &= not text.startswith("sum(")
    assert not said(f"where({text}, 1.0, 0.0)" if is_condition else f"cast({text}, f32)"), text


def test_each_name_is_told_of_in_a_sentence_of_its_own() -> None:
    assert not {*ABSENT} & {*FUNCTIONS, *REDUCTIONS, "cast", "coord", "where"}
    for name in ("max", "softmax", "atan2", "sum", "mean", "gather", "dropout", "reshape"):
        for text in (f"{name}(X, 2)", f"X.{name}(2)", f"torch.{name}(X)"):
            (found,) = said(text)
            assert found.code == "CG120" and f"`{name}`" in found.message and found.help, text
            assert "did you mean" not in found.help
    (near,) = said("exq(X)")
    assert near.help == "did you mean `exp`?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("X.exp()", "`exp(x)`"),
        ("1 if X > 0 else 2", "`where("),
        ("gelu(X, approximate='tanh')", "`gelu_tanh(x)`"),
        ("clamp(X, 0, min=1)", "leave one of them out"),
        ("softplus(X, 1, 20)", "`softplus(b * x) / b`"),
        ("masked_fill(X, X > 0, 1)", "`where(mask, value, x)`"),
        ("nan_to_num(X)", "65504 of f16"),
        ("X + INF", "`inf`"),
        ("np.where(X > 0, X, Z)", "`where(c, x, y)`"),
        ("exp()", "`exp(x)`"),
        ("X.lgamma_()", "as a tensor"),
        ("sum(X, dim=1)", "`sum(x, N)`"),
        ("var(X, N, correction=0)", "divides by N"),
        ("signbit(X)", "1 / x < 0"),
        ("X > 0 && Z > 0", "`and`"),
        ("X > 0 || Z > 0", "`or`"),
        ("!(X > 0)", "`not x`"),
        ("X > 0 ? X :Z", "`where(condition, x, y)`"),
        ("X <> Z", "`!=`"),
        ("X >>> 3", "`x >> n`"),
        ("X * 2.0f", "without a letter"),
        ("X * 0x1p-3", "decimal exponent"),
    ],
)
def test_what_helps(text: str, words: str) -> None:
    (found,) = said(text)
    assert found.help and words in found.help


def test_all_that_the_documentation_calls_refused_is_refused() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| refused |")[2].partition("\n\n")[0]
    refused, done_by = (
        [code for row in table.splitlines()[2:] for code in re.findall("`(.+?)`", row.split(" | ")[column])]
        for column in (0, 1)
    )
    assert len(refused) > 15
    for code in refused:
        if code.startswith("dtype:"):
            found = said("X", x=f"shape: [M, N], {code}")
        elif code.startswith("shape:"):
            found = said("X", x=f"{code}, dtype: f32")
        else:
            found = said(code.replace("I)", "Z)"))
        assert found, code
    for code in done_by:
        if "X" in code or "Z" in code:
            assert not said(code), code
