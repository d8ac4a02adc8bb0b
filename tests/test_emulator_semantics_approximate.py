"""Approximate functions: within the documented bound of the true value."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from test_emulator_semantics import NAN, WIDTHS, compiled, f32, f64, one, value

from cutegen.emulator.approximate import APPROXIMATE, bound

TRUE: dict[str, Callable[..., float]] = {
    "ex2": lambda x: math.pow(2.0, x),
    "lg2": math.log2,
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "sin": math.sin,
    "cos": math.cos,
    "div": lambda x, y: x / y,
}
POSITIVE = ("lg2", "rsqrt", "sqrt")


def inputs(opcode: str, kind: str) -> np.ndarray:
    rng = np.random.default_rng(11)
    numbers = rng.standard_normal(400) * np.exp2(rng.integers(-20, 6, 400))
    numbers = np.concatenate([numbers, np.linspace(-math.pi, math.pi, 101), [0.5, 1.0, 2.0, 1.0000001, 0.99999994]])
    if opcode in POSITIVE:
        numbers = np.abs(numbers)
    numbers = numbers[numbers != 0]
    if opcode in ("sin", "cos"):
        numbers = numbers[np.abs(numbers) <= math.pi]
    if kind == "f64":
        return numbers.astype(np.float64).view(np.uint64)
    single = numbers.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        return (single >> 16).astype(np.uint16)
    return numbers.astype(np.float16).view(np.uint16) if kind == "f16" else single


@pytest.mark.parametrize("name", [n for n in APPROXIMATE if n != "rsqrt.approx.f64"] + ["rsqrt.approx.ftz.f64"])
def test_values_lie_within_the_bound(name: str) -> None:
    opcode, kind = name.split(".")[0], name.split(".")[-1]
    if name == "rcp.approx.f64":
        name = "rcp.approx.ftz.f64"
    limit = bound(name)
    assert limit is not None
    r = {16: "%rs", 32: "%r", 64: "%rd"}[WIDTHS[kind]]
    bits = inputs(opcode, kind)
    operands = (bits, bits[::-1].copy()) if opcode == "div" else (bits,)
    text = f"{name} {r}1, {r}2" + (f", {r}3" if opcode == "div" else "")
    assert compiled(text).approximate
    got = one(text, *operands)
    checked = 0
    for lane in zip(got.tolist(), *[o.tolist() for o in operands], strict=True):
        numbers = [float(value(b, kind)) for b in lane[1:]]
        if 0.0 in numbers and opcode in ("rcp", "rsqrt", "lg2", "div"):
            continue
        exact = TRUE[opcode](*numbers)
        largest = {"f16": 65504.0, "bf16": 3.3e38, "f32": 3.4e38, "f64": 1e308}[kind]
        if abs(exact) > largest or (kind != "f64" and abs(exact) < 2.0**-120):
            continue
        found = float(value(lane[0], kind))
        assert abs(found - exact) <= limit.relative * abs(exact) + limit.absolute, (name, numbers, found, exact)
        checked += 1
    assert checked > 100


INF, NINF, ZERO, NZERO, TINY = 0x7F800000, 0xFF800000, 0, 0x80000000, 1
NAN32 = NAN["f32"]


@pytest.mark.parametrize(
    ("text", "operand", "want"),
    [
        ("ex2.approx.ftz.f32", NINF, 0),
        ("ex2.approx.ftz.f32", INF, INF),
        ("ex2.approx.ftz.f32", NZERO, f32(1.0)),
        ("ex2.approx.ftz.f32", TINY, f32(1.0)),
        ("ex2.approx.ftz.f32", f32(-130.0), 0),
        ("ex2.approx.f32", f32(-130.0), 1 << 19),
        ("ex2.approx.f32", f32(128.0), INF),
        ("ex2.approx.f32", 0x7F800001, NAN32),
        ("lg2.approx.f32", ZERO, NINF),
        ("lg2.approx.f32", NZERO, NINF),
        ("lg2.approx.f32", INF, INF),
        ("lg2.approx.f32", f32(-1.0), NAN32),
        ("lg2.approx.f32", NINF, NAN32),
        ("lg2.approx.f32", TINY, f32(-149.0)),
        ("lg2.approx.ftz.f32", TINY, NINF),
        ("rcp.approx.ftz.f32", ZERO, INF),
        ("rcp.approx.ftz.f32", NZERO, NINF),
        ("rcp.approx.ftz.f32", 0x80000001, NINF),
        ("rcp.approx.ftz.f32", NINF, NZERO),
        ("rcp.approx.f32", f32(2.0**127), 1 << 22),
        ("rcp.approx.ftz.f32", f32(2.0**127), 0),
        ("rsqrt.approx.f32", ZERO, INF),
        ("rsqrt.approx.f32", NZERO, NINF),
        ("rsqrt.approx.f32", INF, 0),
        ("rsqrt.approx.f32", f32(-1.0), NAN32),
        ("rsqrt.approx.ftz.f32", 0x80000001, NINF),
        ("sqrt.approx.f32", NZERO, NZERO),
        ("sqrt.approx.f32", f32(-2.0), NAN32),
        ("sqrt.approx.ftz.f32", TINY, ZERO),
        ("tanh.approx.f32", INF, f32(1.0)),
        ("tanh.approx.f32", NINF, f32(-1.0)),
        ("tanh.approx.f32", NZERO, NZERO),
        ("tanh.approx.f32", 0xFFFFFFFF, NAN32),
        ("sin.approx.f32", NZERO, NZERO),
        ("sin.approx.f32", INF, NAN32),
        ("cos.approx.f32", ZERO, f32(1.0)),
        ("cos.approx.f32", NINF, NAN32),
    ],
)
def test_special_cases(text: str, operand: int, want: int) -> None:
    assert one(f"{text} %r1, %r2", [operand]).tolist() == [want]


def test_special_cases_of_f64_and_division() -> None:
    # Only the upper half of the operand and of the result count; subnormal numbers are zeros.
    cases = {
        f64(1.0): f64(1.0),
        f64(1.0) | 0xFFFFFFFF: f64(1.0),
        1: 0x7FF0 << 48,
        0x8000000000000001: 0xFFF0 << 48,
        0x7FF0 << 48: 0,
        0xFFF0 << 48: 1 << 63,
        f64(2.0**1023): 0,
        0x7FF8 << 48: 0x7FFFFFFF00000000,
    }
    got = one("rcp.approx.ftz.f64 %rd1, %rd2", list(cases)).tolist()
    assert got == list(cases.values())
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 2**63, 200, dtype=np.uint64)
    assert not np.any(one("rcp.approx.ftz.f64 %rd1, %rd2", anything) & np.uint64(0xFFFFFFFF))
    got = one("rsqrt.approx.ftz.f64 %rd1, %rd2", [f64(4.0), 1 << 63, f64(-1.0)]).tolist()
    assert got == [f64(0.5), 0xFFF0 << 48, 0x7FFFFFFF00000000]
    huge = f32(1.5 * 2.0**126)
    a = [f32(3.0), INF, f32(-3.0), f32(6.0)]
    assert one("div.approx.f32 %r1, %r2, %r3", a, [huge, huge, huge, f32(2.0)]).tolist() == [0, NAN32, NZERO, f32(3.0)]
    assert one("div.full.f32 %r1, %r2, %r3", [f32(3.0 * 2.0**100)], [f32(2.0**127)]).tolist() == [f32(3.0 * 2.0**-27)]


def test_packed_halves() -> None:
    one16, minus = 0x3C00, 0xBC00
    assert one("ex2.approx.f16x2 %r1, %r2", [minus << 16 | one16]).tolist() == [0x3800 << 16 | 0x4000]
    assert one("ex2.approx.ftz.bf16x2 %r1, %r2", [0xBF80 << 16 | 0x3F80]).tolist() == [0x3F00 << 16 | 0x4000]


def test_exact_instructions_have_no_bound() -> None:
    assert bound("fma.rn.f32") is None and bound("sqrt.rn.f32") is None and bound("ex2.approx.ftz.f32") is not None
    assert bound("ex2.approx.f16x2") == APPROXIMATE["ex2.approx.f16"]
    assert not compiled("sqrt.rn.f32 %r1, %r2").approximate
