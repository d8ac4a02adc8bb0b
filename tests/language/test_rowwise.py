"""The op `rowwise`: what it refuses, under which code and where, and that what it says instead is taken."""

from __future__ import annotations

import pytest
from lint_kit import found_in

from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec

ROWS = """\
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  b: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - m = max(X, N)
  - Y = exp(X - m) * b + r
"""
DEEP = """\
cutegen: 1
kernel: deep
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: f16}
  s: {shape: [P, M], dtype: f32, role: out}
  Y: {shape: [P, M, N], dtype: f16, role: out}
compute:
  - s = sum(X * X, N)
  - Y = X * rsqrt(s)
"""
GEMM = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32}
  B: {shape: [N, K], dtype: f32}
  v: {shape: [N], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T + v
"""
ELEMENTS = """\
cutegen: 1
kernel: elements
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X
"""
PROBE = """\
cutegen: 1
kernel: look
op: probe
tensors:
  A: {shape: [M, N], dtype: i32}
  D: {shape: [T, V], dtype: i32, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 4, N: 6}
"""


def refusals(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(SpecError) as caught:
        read_specs(text, "x.yaml")
    return caught.value.diagnostics


def changed(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert text.count(old) == 1, (old, "the case must say what it changes")
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("text", [ROWS, DEEP, ELEMENTS, GEMM, PROBE])
def test_the_base_specs_are_read_and_written_again(text: str) -> None:
    (spec,) = read_specs(text, "x.yaml")
    assert read_specs(write_spec(spec))[0] == spec and found_in(text) == ()


def test_all_statements_of_a_kind_that_the_op_has_are_taken() -> None:
    more = {"Y = exp(X - m) * b + r": "d = X - mean(X, N)\n  - Y = d * rsqrt(mean(d * d, N) + 1e-5) * m * b + r"}
    (spec,) = read_specs(changed(ROWS, more), "x.yaml")
    assert spec.lead.name == "X" and spec.operation.name == "rowwise"
    assert spec.operation.summed(spec) == ("N",) and spec.operation.contracted(spec) == ()


def test_a_mode_twice_in_every_tensor_is_said_as_that() -> None:
    text = """\
cutegen: 1
kernel: twice
op: rowwise
tensors:
  A: {shape: [N, N], dtype: f32}
  D: {shape: [N, N], dtype: f32, role: out}
compute: D = A - max(A, N)
"""
    assert [problem.code for problem in found_in(text)] == ["CG115", "CG115"]


# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old, new text.
REFUSED = [
    (ROWS, {"r: {shape: [M]": "r: {shape: [M, K]", "X: {shape: ": "X: {shape: «"}, "CG129",
     "no tensor has all modes: `X` lacks `K`", "[M, K]", "[M]"),
    (ROWS, {"r: {shape: [M]": "r: {shape: [J, M]", "b: {shape: [N]": "b: {shape: [N, K]", "X: {shape: ": "X: {shape: «"
            }, "CG129", "no tensor has all modes: `X` lacks `K`", None, None),
    (ROWS, {"Y: {shape: [M, N]": "Y: {shape: «[N, M]"}, "CG129", "in another order", "[N, M]", "[M, N]"),
    (DEEP, {"s: {shape: [P, M]": "s: {shape: «[M, P]"}, "CG129", "in another order", "[M, P]", "[P, M]"),
    (ROWS, {"Y: {shape: [M, N]": "Y: {shape: [M]", "Y = exp": "Y = «exp"}, "CG129",
     "`Y` is [M], and the value assigned to it varies along N", "Y: {shape: [M]", "Y: {shape: [M, N]"),
    (ROWS, {"Y: {shape: [M, N]": "Y: {shape: [N]", "Y = exp": "Y = «exp"}, "CG129",
     "`Y` is [N], and the value assigned to it varies along M", "Y: {shape: [N]", "Y: {shape: [M, N]"),
    (DEEP, {"s: {shape: [P, M]": "s: {shape: [M]", "s = sum": "s = «sum"}, "CG129",
     "`s` is [M], and the value assigned to it varies along P", "s: {shape: [M]", "s: {shape: [P, M]"),
    (DEEP, {"s: {shape: [P, M]": "s: {shape: [P]", "s = sum": "s = «sum"}, "CG129",
     "`s` is [P], and the value assigned to it varies along M", "s: {shape: [P]", "s: {shape: [P, M]"),
    (ROWS, {"max(X, N)": "«max(r, N)"}, "CG127", "the argument of max is constant along N", "(r, N)", "(b, N)"),
    (ROWS, {"max(X, N)": "sum(X, N) - «sum(r * 2, N)"}, "CG127", "argument of sum is constant", "(r * 2, N)", "(b, N)"),
    (ROWS, {"max(X, N)": "«mean(max(X, N), N)"}, "CG127", "is constant along N", "mean(max(X, N), N)", "mean(X, N)"),
    (ROWS, {"exp(X - m)": "exp(X - m - «min(m, N))"}, "CG127", "argument of min is constant", "min(m, N)", "min(X, N)"),
    (ROWS, {"max(X, N)": "«exp(X)"}, "CG127", "a rowwise kernel reduces along a mode",
     "op: rowwise", "op: elementwise"),
    (ROWS, {"max(X, N)": "max(X, «K)"}, "CG116", "`K` is not a mode here", "X, K)", "X, N)"),
    (ROWS, {"max(X, N)": "sum(X - max(X, «K), N)"}, "CG116", "max reduces along a mode", "X, K)", "X, N)"),
    (ROWS, {"max(X, N)": "max(X, N) + sum(«coord(K), N)"}, "CG116", "`K` is not a mode here", "(K)", "(N)"),
    (ROWS, {"max(X, N)": "max(X, N) - «max(X, 0)"}, "CG120", "a value and the mode",
     "max(X, 0)", "maximum(X, 0)"),
    (ROWS, {"max(X, N)": "max(X, N) - min(X, «r)"}, "CG116", "min reduces along a mode, and `r` is not a mode here",
     "min(X, r)", "minimum(X, r)"),
    (ROWS, {"max(X, N)": "max(X, N) - «sum(X)"}, "CG120", "`sum` takes a value and the mode", "sum(X)", "sum(X, N)"),
    (ROWS, {"max(X, N)": "max(X, N) - «mean(X, dim=N)"}, "CG120", "mean takes no keyword arguments", "dim=N", "N"),
    (ROWS, {"max(X, N)": "max(X, N) - «amax(X, N)"}, "CG120", "`amax` is not in the language",
     "amax(X, N)", "max(X, N)"),
    (ROWS, {"max(X, N)": "max(«X and X > 0, N)"}, "CG128", "a condition is needed", "X and X > 0", "X != 0 and X > 0"),
    (ROWS, {"max(X, N)": "where(«max(X > 0, N), 1, 2)"}, "CG128", "a condition is needed here, not i32",
     "X > 0, N)", "X > 0, N) != 0"),
    (ROWS, {"Y: {shape: [M, N], dtype: f32": "Y: {shape: [M, N], dtype: i32", "Y = exp": "Y = «exp"}, "CG128",
     "compute gives f32 and Y holds i32", "exp(X - m) * b + r", "cast(exp(X - m) * b + r, i32)"),
    (ROWS, {"max(X, N)": "max(«3e39 * X, N)"}, "CG135", "3e+39 does not fit in f32", "3e39", "3e38"),
    (ROWS, {"  r: {": "  «in_row: {", "+ r": "+ in_row"}, "CG113", "the generated module uses that name itself",
     None, None),
    (DEEP, {"Y = X * rsqrt(s)": "Y = X * rsqrt(«t)"}, "CG121", "`t`", "(t)", "(s)"),
    (DEEP, {"s = sum(X * X, N)": "s = sum(X * «Y, N)"}, "CG123", "compute reads `Y`, whose role", "X * Y", "X * X"),
    (ROWS, {"b + r": "b + («m @ X.T) + r"}, "CG127", "a rowwise kernel has no `@`", "(m @ X.T)", "m"),
    (ROWS, {"b + r": "b + («(X + m) @ X.T) + r"}, "CG127", "a rowwise kernel has no `@`", "((X + m) @ X.T)", "m"),
    (ELEMENTS, {"Y = X": "Y = X - «max(X, N)"}, "CG127",
     "`max` is a reduction along a mode, and `op: elementwise` has none", "op: elementwise", "op: rowwise"),
    (ELEMENTS, {"compute: Y = X": "compute:\n  - m = mean(X, N)\n  - Y = X - m", "m = mean": "m = «mean"}, "CG127",
     "`mean` is a reduction", "op: elementwise", "op: rowwise"),
    (ELEMENTS, {"Y = X": "Y = X - sum(X, «K)"}, "CG116", "`K` is not a mode here", None, None),
    (GEMM, {"@ B.T + v": "@ B.T + «max(v, N)"}, "CG127", "and `op: gemm` has none", "max(v, N)", "v"),
    (GEMM, {"A @ B.T": "«sum(A @ B.T, N)"}, "CG127", "`sum` is a reduction along a mode", "sum(A @ B.T, N)", "A @ B.T"),
    (PROBE, {"D = A": "D = «min(A, N)"}, "CG127", "and `op: probe` has none", "min(A, N)", "A"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "code", "words", "before", "after"), REFUSED)
def test_what_the_op_refuses_is_told_at_its_place_and_what_works_instead(
    base: str, changes: dict[str, str], code: str, words: str, before: str | None, after: str | None
) -> None:
    text = base
    for old, new in changes.items():
        assert text.count(old) == 1, (old, "the case must say what it changes")
        text = text.replace(old, new)
    at, text = text.find("«"), text.replace("«", "")
    hit = next((d for d in refusals(text) if d.code == code and words in d.message), None)
    assert hit is not None, refusals(text)
    line, column = text[:at].count("\n") + 1, at - text.rfind("\n", 0, at)
    assert (hit.span.line, hit.span.column) == (line, column), hit
    if before is not None and after is not None:
        assert text.count(before) == 1, before
        assert found_in(text.replace(before, after)) == (), "what is said instead must work"


CONCRETE = [
    ({"Y: {shape: [M, N]": "Y: {shape: [N, M]"}, "write `shape: [M, N]`"),
    ({"Y: {shape: [M, N]": "Y: {shape: [M]"}, "reduce it along N, or write `shape: [M, N]` for Y"),
    ({"max(X, N)": "exp(X)"}, "write `op: elementwise`"),
    ({"max(X, N)": "max(X, K)"}, "modes: M, N; the larger of two values is `maximum(x, y)`"),
    ({"max(X, N)": "min(X, r)"}, "modes: M, N; the smaller of two values is `minimum(x, y)`"),
    ({"max(X, N)": "max(X, 0)"}, "write it as `max(x, N)`; the larger of two values is `maximum(x, y)`"),
    ({"max(X, N)": "sum(X, K)"}, "modes: M, N"),
    ({"max(X, N)": "max(r, N)"}, "reduce an expression that varies along N"),
    ({"op: rowwise": "op: elementwise"}, "`op: rowwise` has them"),
]


@pytest.mark.parametrize(("changes", "help"), CONCRETE)
def test_the_help_says_what_to_write(changes: dict[str, str], help: str) -> None:
    (found,) = refusals(changed(ROWS, changes))
    assert found.help is not None and found.help.startswith(help), found.help
    assert found.help == help or help.startswith("write `shape"), "nothing more is said"


def test_reducing_along_the_mode_that_the_help_names_is_taken() -> None:
    text = changed(ROWS, {"Y: {shape: [M, N]": "Y: {shape: [M]"})
    assert "reduce it along N" in (refusals(text)[0].help or "")
    assert found_in(text.replace("exp(X - m) * b + r", "sum(exp(X - m) * b, N) + r")) == ()


@pytest.mark.parametrize(
    ("compute", "row", "other"),
    [
        ("Y = X - max(X, N) - «sum(X, M) + b + r", "N", "M"),
        ("Y = X - max(X, M) - «sum(X, N) + b + r", "M", "N"),
        ("Y = X - sum(exp(X - «max(X, M)), N) + b + r", "N", "M"),
    ],
)
def test_values_of_two_modes_cannot_both_be_used_again(compute: str, row: str, other: str) -> None:
    """(Which of both is the rows' the op decides; the other one is told, at its place.)"""
    text = ROWS.partition("compute:")[0] + f"compute: {compute.replace('«', '')}\n"
    (found,) = refusals(text)
    assert found.code == "CG127" and "is the mode of the rows" in found.message
    at = text.splitlines()[-1]
    assert (found.span.line, at[found.span.column - 1 :][:3]) in [(9, "max"), (9, "sum")]
    said = {word for word in (row, other) if f"`{word}`" in found.message}
    assert said == {row, other}, found.message
    if "exp" not in compute:
        assert found.span.column == ("compute: " + compute).index("«") + 1
        assert f"`{row}` is the mode of the rows" in found.message


def test_a_tensor_that_has_more_modes_than_what_is_assigned_is_filled() -> None:
    text = changed(ROWS, {"Y = exp(X - m) * b + r": "Y = m + r", "  b: {shape: [N], dtype: f32}\n": ""})
    assert found_in(text) == ()
    text = changed(DEEP, {"Y = X * rsqrt(s)": "Y = s"})
    assert found_in(text) == ()


@pytest.mark.parametrize("name", ["pieces", "Pieces", "smallest", "has_row", "THREADS_PER_ROW", "of_thread"])
def test_names_of_the_ops_own_modules_are_taken_there_only(name: str) -> None:
    text = ROWS.replace("r: {", f"{name}: {{").replace("+ r", f"+ {name}")
    (found,) = refusals(text)
    assert found.code == "CG113" and found.help == f"write `{name}_`, or another name"
    assert found_in(text.replace(name, f"{name}_")) == ()
    alone = ELEMENTS.replace("compute: Y = X", f"  {name}: {{shape: [M], dtype: f32}}\ncompute: Y = X + {name}")
    assert found_in(alone) == ()


@pytest.mark.parametrize(("function", "empty"), [("sum", True), ("mean", True), ("max", False), ("min", False)])
def test_rows_of_nothing_have_sums_and_no_extremes(function: str, empty: bool) -> None:
    shapes = "verify:\n  shapes:\n    - {M: 3, N: 0}\n"
    text = ROWS.replace("max(", f"{function}(") + shapes
    if empty:
        assert found_in(text) == ()
        return
    (found,) = refusals(text)
    assert found.code == "CG105" and "`N` must be at least 1" in found.message
    assert found_in(text.replace("N: 0}", "N: 4}")) == ()
    assert any(d.code == "CG105" for d in refusals(text.replace("{M: 3, N: 0}", "{M: 0, N: 4}")))
