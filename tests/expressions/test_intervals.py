"""The numbers that a float can be, and which comparisons all of them keep."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.intervals import ALL, OPEN, Interval, Intervals, may_be_nan
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import Expr, Typed

INF = math.inf
NEGATIVE = (-INF, 0)
TYPES = {"X": Dtype.f32, "Z": Dtype.f32, "D": Dtype.f64, "I": Dtype.i32, "U": Dtype.u8}
TOLD = [
    *("X * X", "X ** 2", "X ** 3", "X ** 4", "(X + 1) * (1 + X)", "X * Z", "X + Z", "X - Z", "-X", "3 * X - 1"),
    *("abs(X)", "abs(X) + 1", "1 - abs(X)", "-abs(X) - 1", "2 * abs(X) - 200", "abs(X) * -2", "abs(X) / -2"),
    *("relu(X)", "maximum(X, 0)", "minimum(X, -1)", "clamp(X, -2, 3)", "minimum(X * X, 3)", "maximum(-abs(X), abs(Z))"),
    *("exp(X)", "exp2(X)", "expm1(X)", "sqrt(X)", "rsqrt(X)", "tanh(X)", "sigmoid(X)", "erf(X)", "sin(X)", "atan(X)"),
    *("exp(abs(X))", "exp(-abs(X))", "1 / (1 + exp(-X))", "1 / (1 + abs(X))", "-1 / abs(X)", "1 / (-1 - abs(X))"),
    *("silu(relu(X))", "gelu(-abs(X))", "round(tanh(X) * 10)", "floor(abs(X) + 0.5)", "ceil(X * X)", "sinh(X * X)"),
    *("where(X < 1, 1, X)", "where(X > 1, 1, X)", "where(1 <= X, X, 1)", "where(X >= Z, X * X, 2)", "1e30 * abs(X)"),
    *("cast(U, f32) + 1", "I / 2", "square(X) + 1", "reciprocal(abs(X))", "hypot(X, Z)", "sign(X)", "elu(X)"),
]


def typed(*statements: str) -> list[Typed]:
    return annotate(with_named_numbers(parse_compute(statements), TYPES), TYPES)


def interval(*statements: str) -> Interval | None:
    """The interval of what the last statement computes; earlier ones are local values."""
    *before, last = typed(*statements)
    intervals = Intervals(["N"])
    for one in before:
        intervals.keep(one.target, one.value)
    return intervals.of(last.value)


def compared(*statements: str) -> bool:
    """Whether the comparison that the last statement computes is one that all numbers keep."""
    *before, last = typed(*statements)
    intervals = Intervals(["N"])
    for one in before:
        intervals.keep(one.target, one.value)
    left, right = last.value.children
    return intervals.foresees(left, getattr(last.value, "op"), right)  # noqa: B009


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        *[("X", ALL), ("X * Z", ALL), ("X - X", ALL), ("X * 2 + 1", ALL), ("X / Z", ALL), ("sum(X, N)", ALL)],
        *[("X * X", (0, INF)), ("X ** 3", ALL), ("X ** 4", (0, INF)), ("(X + 1) * (1 + X)", (0, INF))],
        *[("abs(X) + 1", (1, INF)), ("1 - abs(X)", (-INF, 1)), ("abs(X) * -2", (-INF, 0)), ("tanh(X) * 9", (-9, 9))],
        *[
            ("exp2(X) - 1", (-1, INF)),
            ("exp(-abs(X))", (0, 1)),
            ("1 / (1 + abs(X))", (0, 1)),
            ("-1 / abs(X)", NEGATIVE),
        ],
        *[("clamp(X, -2, 3)", (-2, 3)), ("maximum(X, 0)", (0, INF)), ("maximum(X, Z)", ALL), ("relu(-abs(X))", (0, 0))],
        *[("where(X < 1, 1, X)", (1, INF)), ("where(1 < X, 1, X)", (-INF, 1)), ("where(X < 1, X, 1)", (-INF, 1))],
        *[
            ("where(Z < 1, 1, X)", ALL),
            ("where(X == 1, X, 2)", ALL),
            ("where(Z < 1, abs(X), 5)", (0, INF)),
            ("where(X < abs(Z), 1, X)", ALL),
            ("where(X < abs(Z), X, 1)", ALL),
        ],
        *[
            ("sum(X * X, N)", (0, INF)),
            ("max(abs(X), N)", (0, INF)),
            ("max(abs(X), M)", ALL),
            ("min(-abs(X), M)", ALL),
            ("mean(tanh(X), N)", (-1, 1)),
        ],
        *[
            ("cast(U, f32)", (0, 255)),
            ("var(X, N)", (0, INF)),
            ("silu(X)", ALL),
            ("silu(relu(X))", (0, INF)),
            ("nan", OPEN),
            ("log(X)", OPEN),
        ],
        *[("abs(X) + 1e-30", (float.fromhex("0x1.4484c0p-100"), INF)), ("abs(D) + 1e-30", (1e-30, INF))],
    ],
)
def test_intervals(x: str, expected: tuple[float, float] | None) -> None:
    assert interval(f"y = {x}") == expected


def test_intervals_of_local_values() -> None:
    assert interval("u = X * X", "v = u + 1", "y = v * 2") == (2, INF)
    assert interval("u = X + 1", "y = u * u") == (0, INF)
    assert interval("a = max(abs(X), N) + 1", "y = round(X * (127 / a))") == ALL
    known = typed("u = X * X", "y = u + 1")[1].value
    assert Intervals().of(known) is OPEN


@pytest.mark.parametrize(
    "comparison",
    [
        *("X * X >= 0", "0 <= X * X", "abs(X) > -1", "abs(X) + 1 > 0", "exp2(X) > -1", "-abs(X) <= 0", "tanh(X) < 2"),
        *("X * X >= -abs(Z)", "relu(-abs(X)) == 0", "clamp(X, -1, 1) <= 1", "abs(X) + 1 >= 1.00000001", "X <= inf"),
        "sum(X * X, N) >= 0",
    ],
)
def test_comparisons_that_all_numbers_keep(comparison: str) -> None:
    assert compared(f"y = {comparison}")


@pytest.mark.parametrize(
    "comparison",
    [
        *("X >= 0", "X * X > 0", "abs(X) >= 1", "X * X < 0", "X * X != -1", "abs(X) < inf", "X == X", "X * X == 0"),
        *("exp2(X) > 0", "clamp(X, -1, 1) < 1", "abs(D) + 1 >= 1.00000001", "X * X >= Z", "X < nan", "log(X) < 1000"),
    ],
)
def test_comparisons_that_a_number_may_not_keep(comparison: str) -> None:
    assert not compared(f"y = {comparison}")


def test_what_may_be_nan() -> None:
    def asked(x: str) -> bool:
        value: Expr = typed(f"y = {x}")[0].value
        return may_be_nan(value)

    assert all(map(asked, ["X", "X * X", "nan", "cast(X, f16)", "I / 2"]))
    assert not any(map(asked, ["1.5", "cast(U, f32)", "inf"]))


def test_no_number_lies_outside_of_its_interval(tmp_path: Path) -> None:
    """Of the numbers that a module's `reference` computes of pairs of telling ones, in float32."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("cutlass")
    from cutegen.codegen import generate
    from cutegen.verification.executor import load_module

    numbers = [*(0.0, 1e-40, 1e-20, 0.5, 1.0, 1.5, 2.0, 3.0, 88.0, 1e20, 3e38, INF)]
    numbers += [-x for x in numbers]
    x, z = (torch.tensor(some, dtype=torch.float32) for some in zip(*itertools.product(numbers, numbers), strict=True))
    given = {
        "x": x,
        "z": z,
        "i": x.clamp(-(2.0**31), 2.0**31 - 129).to(torch.int32),
        "u": z.clamp(0, 255).to(torch.uint8),
    }
    for told in (TOLD[:24], TOLD[24:48], TOLD[48:]):
        outs = {f"Y{i}": one for i, one in enumerate(told)}
        tensors = "".join(f"  {n}: {{shape: [N], dtype: {TYPES[n].value}}}\n" for n in "XZIU")
        tensors += "".join(f"  {n}: {{shape: [N], dtype: f32, role: out}}\n" for n in outs)
        lines = "".join(f"  - {n} = {one}\n" for n, one in {**outs, "Y0": f"{told[0]} + 0 * (Z + I + U)"}.items())
        text = f"cutegen: 1\nkernel: told\nop: elementwise\ntensors:\n{tensors}compute:\n{lines}"
        (module,) = generate(text, "x.yaml").modules
        (tmp_path / module.name).write_text(module.text, encoding="utf-8")
        results = load_module(tmp_path / module.name).reference(*given.values())
        for one, result in zip(told[1:], results[1:], strict=True):
            found = interval(f"y = {one}")
            assert found is not OPEN, one
            kept = result[~result.isnan()]
            assert kept.numel(), one
            slack = 1e-6  # of functions that are not rounded right
            assert kept.min() >= found.low - slack * abs(found.low), (one, found, kept.min())
            assert kept.max() <= found.high + slack * abs(found.high), (one, found, kept.max())
