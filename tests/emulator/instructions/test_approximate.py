"""Approximate functions within the bounds of the PTX ISA manual, its tables of special cases, and its rules for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from semantics_kit import NAN, REGISTER, WIDTHS, compiled, compute, f32, f64, instruction

from cutegen.emulator.instructions.approximate import APPROXIMATE, bound
from cutegen.emulator.instructions.opcodes import compile_pure
from cutegen.emulator.ptx.errors import UnsupportedInstruction

LONG = np.longdouble
TRUE: dict[str, Callable[..., np.ndarray]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda x: LONG(1) / x,
    "rsqrt": lambda x: LONG(1) / np.sqrt(x),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "div": np.divide,
}
PLAIN = [(name, "") for name in APPROXIMATE if name.endswith("f32")]
FLUSHING = [(name, ".ftz") for name in APPROXIMATE if name.endswith("f32") and not name.startswith("tanh")]

MANUAL = [
    # instruction, exact result, largest error there (sections 9.7.3 and 9.7.4 of the PTX ISA manual 9.1)
    ("ex2.approx.f32", 1.0, 2 * 2.0**-23),
    ("ex2.approx.f32", 2.0**-140, 2 * 2.0**-149),
    ("ex2.approx.f16", 4.0, 4 * 2.0**-9.9),
    ("ex2.approx.f16x2", 1.0, 2.0**-9.9),
    ("ex2.approx.ftz.bf16", 1.0, 2.0**-7),
    ("lg2.approx.f32", 0.25, 2.0**-22),
    ("lg2.approx.ftz.f32", -8.0, 8 * 2.0**-22),
    ("rcp.approx.f32", 1.0, 2.0**-23),
    ("rsqrt.approx.f32", 4.0, 4 * 2.0**-22.9),
    ("sqrt.approx.f32", 4.0, 4 * 2.0**-23),
    ("tanh.approx.f32", 0.5, 0.5 * 2.0**-11),
    ("tanh.approx.f16", 0.001, 2.0**-10.987),
    ("tanh.approx.bf16x2", 0.001, 2.0**-8),
    ("sin.approx.f32", 0.001, 2.0**-20.5),
    ("cos.approx.ftz.f32", 0.001, 2.0**-20.5),
    ("div.approx.f32", 1.0, 2 * 2.0**-23),
    ("div.full.ftz.f32", 1.0, 2 * 2.0**-23),
]


def allowed(name: str, exact: np.ndarray) -> np.ndarray:
    limit = bound(name)
    assert limit is not None
    return np.maximum(LONG(limit.relative) * np.abs(exact), LONG(limit.absolute))


@pytest.mark.parametrize(("name", "exact", "error"), MANUAL)
def test_bounds_are_the_manuals(name: str, exact: float, error: float) -> None:
    # Units in the last place count from the correctly rounded result, half a one from the exact one.
    assert error <= allowed(name, np.asarray(exact)) <= 1.5 * error


def test_there_is_no_bound_for_float64_nor_for_what_is_flushed() -> None:
    assert all(bound(f"{name}.approx.ftz.f64").relative == math.inf for name in ("rcp", "rsqrt"))  # type: ignore[union-attr]
    tiny = np.asarray(0.999 * 2.0**-126)
    for name in ("ex2.approx.ftz.f32", "rcp.approx.ftz.f32", "div.full.ftz.f32"):
        assert allowed(name, tiny) >= tiny > allowed(name.replace(".ftz", ""), tiny)


def numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    """As long doubles."""
    if kind == "bf16":
        bits, kind = bits.astype(np.uint32) << 16, "f32"
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(LONG)


@pytest.mark.parametrize("name", ["ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"])
def test_all_operands_of_sixteen_bits(name: str) -> None:
    opcode, kind = name.split(".")[0], name.split(".")[-1]
    bits = np.arange(2**16).astype(np.uint16)
    got = compute(f"{name} %rs1, %rs2", bits)
    x, y = numbers(bits, kind), numbers(got, kind)
    assert (got[np.isnan(x)] == NAN[kind]).all() and not np.isnan(y[~np.isnan(x)]).any()
    # Ends of the format: the largest number, the least normal one.
    top, least = {"f16": (65504.0, 2.0**-14), "bf16": (2.0**128 * (1 - 2.0**-8), 2.0**-126)}[kind]
    if "ftz" in name:
        x = np.where(np.abs(x) < least, np.copysign(0, x), x)
    with np.errstate(all="ignore"):
        exact = TRUE[opcode](x)
        normal = np.isfinite(x) & (np.abs(exact) <= top) & (np.abs(exact) >= least)
        assert normal.sum() > 2**13
        assert (np.abs(y - exact)[normal] <= allowed(name, exact)[normal]).all()
        small = np.isfinite(x) & (np.abs(exact) < least)
        unit = least if "ftz" in name else least * 2.0 ** -{"f16": 10, "bf16": 7}[kind]
        assert (np.abs(y - exact)[small] <= unit).all()
    assert (np.signbit(y) == np.signbit(exact))[~np.isnan(x)].all()
    assert np.isinf(y[np.isfinite(x) & (exact > 1.01 * top)]).all()
    if "ftz" in name:
        assert not ((np.abs(y) > 0) & (np.abs(y) < least)).any()


@pytest.mark.parametrize(("name", "flush"), PLAIN + FLUSHING)
def test_float32_of_every_size(name: str, flush: str) -> None:
    """Random bits have every exponent. ``.ftz`` takes subnormal operands for zeros and gives zeros for such results."""
    opcode = name.split(".")[0]
    name = name.replace(".f32", f"{flush}.f32")
    rng = np.random.default_rng(5)
    count = 2 if opcode == "div" else 1
    bits = rng.integers(0, 2**32, (count, 20_000), dtype=np.uint32)
    bits[0, :2000] &= np.uint32(0x807FFFFF)  # subnormal
    bits[0, 2000:4000] = (bits[0, 2000:4000] & np.uint32(0x80FFFFFF)) + np.uint32(0x3F000000)  # 0.5 to 2
    bits[0, 4000:9000] = (bits[0, 4000:9000] & np.uint32(0x83FFFFFF)) + np.uint32(0x40000000)  # 2 to 512
    if opcode in ("lg2", "sqrt", "rsqrt"):
        bits &= np.uint32(0x7FFFFFFF)
    got = compute(f"{name} %r1, %r2" + ", %r3" * (count - 1), *bits)
    operands = [numbers(b, "f32") for b in bits]
    y, least = numbers(got, "f32"), LONG(2) ** -126
    if flush:
        operands = [np.where(np.abs(x) < least, np.copysign(0, x), x) for x in operands]
    with np.errstate(all="ignore"):
        exact = TRUE[opcode](*operands)
        error = np.abs(y - exact)
    ordinary = np.isfinite(exact) & (np.abs(exact) < 2.0**128 * (1 - 2.0**-22))
    ordinary &= np.logical_and.reduce([np.isfinite(x) for x in operands])
    if opcode in ("sin", "cos"):
        ordinary &= np.abs(operands[0]) <= 2 * math.pi
    if name.startswith("div.approx"):
        ordinary &= (np.abs(operands[1]) >= least) & (np.abs(operands[1]) <= 2.0**126)
    assert ordinary.sum() > 4000
    assert (error <= allowed(name, exact))[ordinary].all()
    if flush:
        lost = ordinary & (np.abs(exact) < least * (1 - 2.0**-20))
        assert (y[lost] == 0).all()
        assert (np.signbit(y) == np.signbit(exact))[lost].all()
    else:
        # Subnormal numbers are numbers: results that are such are within a unit in their last place.
        tiny = ordinary & (np.abs(exact) < least)
        assert (error <= LONG(2) ** -149)[tiny].all()


@pytest.mark.parametrize("opcode", ["rcp", "rsqrt"])
def test_seeds_of_float64_have_twenty_bits_of_fraction(opcode: str) -> None:
    rng = np.random.default_rng(2)
    bits = (np.abs(rng.standard_normal(2000)) * np.exp2(rng.integers(-900, 900, 2000))).view(np.uint64)
    bits = np.concatenate([bits, (-bits.view(np.float64)).view(np.uint64)]) if opcode == "rcp" else bits
    got = compute(f"{opcode}.approx.ftz.f64 %rd1, %rd2", bits)
    exact = TRUE[opcode](numbers(bits & np.uint64(0xFFFFFFFF00000000), "f64"))
    assert (np.abs(numbers(got, "f64") - exact) <= 2.0**-21 * np.abs(exact)).all()
    assert not np.any(got & np.uint64(0xFFFFFFFF))


@pytest.mark.parametrize(
    "text",
    [
        "tanh.approx.ftz.f32 %r1, %r2",
        "tanh.approx.ftz.bf16 %rs1, %rs2",
        "ex2.approx.bf16 %rs1, %rs2",
        "ex2.approx.bf16x2 %r1, %r2",
        "ex2.approx.ftz.f16 %rs1, %rs2",
        "lg2.approx.f16 %rs1, %rs2",
        "sin.f32 %r1, %r2",
        "rcp.approx.f64 %rd1, %rd2",
        "sqrt.approx.f64 %rd1, %rd2",
        "div.full.f64 %rd1, %rd2, %rd3",
        "rcp.full.f32 %r1, %r2",
        "min.xorsign.f32 %r1, %r2, %r3",
        "min.abs.f32 %r1, %r2, %r3",
        "max.f64 %rd1, %rd2, %rd3, %rd4",
        "min.NaN.f64 %rd1, %rd2, %rd3",
    ],
)
def test_forms_that_the_manual_does_not_have_or_the_emulator_not(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        compile_pure(instruction(text))


INF, NINF, NZERO, TINY = 0x7F800000, 0xFF800000, 0x80000000, 1
NAN32 = NAN["f32"]
LOST = math.nan
TABLES = {
    # The manual's tables: results for -Inf, -1.5 (None: any), -0, +0, +Inf
    "ex2": (0.0, None, 1.0, 1.0, math.inf),
    "lg2": (LOST, LOST, -math.inf, -math.inf, math.inf),
    "rcp": (-0.0, None, -math.inf, math.inf, 0.0),
    "rsqrt": (LOST, LOST, -math.inf, math.inf, 0.0),
    "sqrt": (LOST, LOST, -0.0, 0.0, math.inf),
    "tanh": (-1.0, None, -0.0, 0.0, 1.0),
    "sin": (LOST, None, -0.0, 0.0, LOST),
    "cos": (LOST, None, 1.0, 1.0, LOST),
}
NAMES = [f"{opcode}.approx{ftz}.f32" for opcode in TABLES for ftz in ("", ".ftz") if opcode != "tanh" or not ftz]
NAMES += ["ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"]


def encoded(number: float, kind: str) -> int:
    if math.isnan(number):
        return NAN[kind]
    if kind == "f16":
        return int(np.float16(number).view(np.uint16))
    return f32(number) >> (16 if kind == "bf16" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_special_cases(name: str) -> None:
    opcode, kind = name.split(".")[0], name.split(".")[-1]
    lower, negative, below, above, upper = TABLES[opcode]
    cases = [(-math.inf, lower), (-1.5, negative), (-0.0, below), (0.0, above), (math.inf, upper)]
    operands = [encoded(x, kind) for x, want in cases if want is not None]
    wanted = [encoded(want, kind) for _, want in cases if want is not None]
    width = WIDTHS[kind]
    infinite = encoded(math.inf, kind)
    operands += [infinite + 1, NAN[kind], infinite + 1 | 1 << (width - 1)]
    wanted += [NAN[kind]] * 3
    if "ftz" in name:  # subnormal numbers as the zeros
        operands += [1, encoded(-0.0, kind) | 1]
        wanted += [encoded(above, kind), encoded(below, kind)]
    assert compute(f"{name} {REGISTER[width]}1, {REGISTER[width]}2", operands).tolist() == wanted


@pytest.mark.parametrize(
    ("text", "operand", "want"),
    [
        ("ex2.approx.ftz.f32", f32(-130.0), 0),
        ("ex2.approx.f32", f32(-130.0), 1 << 19),
        ("ex2.approx.f32", f32(128.0), INF),
        ("lg2.approx.f32", TINY, f32(-149.0)),
        ("lg2.approx.f32", NZERO | TINY, NAN32),
        ("rsqrt.approx.f32", NZERO | TINY, NAN32),
        ("rcp.approx.f32", f32(2.0**127), 1 << 22),
        ("rcp.approx.ftz.f32", f32(-(2.0**127)), NZERO),
        ("rcp.approx.f32", TINY, INF),
        ("tanh.approx.f32", NZERO | 0x1234, NZERO | 0x1234),
        ("sin.approx.f32", TINY, TINY),
    ],
)
def test_results_and_operands_that_are_subnormal(text: str, operand: int, want: int) -> None:
    assert compute(f"{text} %r1, %r2", [operand]).tolist() == [want]


@pytest.mark.parametrize("manner", ["approx", "full"])
def test_special_cases_of_division(manner: str) -> None:
    three, six, zero = f32(3.0), f32(6.0), 0
    rows = [(six, three, f32(2.0)), (three, zero, INF), (three, NZERO, NINF), (zero, zero, NAN32), (INF, INF, NAN32)]
    rows += [(INF, f32(-3.0), NINF), (f32(-3.0), INF, NZERO), (NAN32, three, NAN32), (three, 0x7F800001, NAN32)]
    a, b, want = zip(*rows, strict=True)
    assert compute(f"div.{manner}.f32 %r1, %r2, %r3", a, b).tolist() == list(want)
    # With .ftz a subnormal divisor is zero, and so is a subnormal quotient.
    rows = [(three, TINY, INF), (zero, TINY, NAN32), (NZERO | TINY, three, NZERO), (f32(-(2.0**-126)), three, NZERO)]
    a, b, want = zip(*rows, strict=True)
    assert compute(f"div.{manner}.ftz.f32 %r1, %r2, %r3", a, b).tolist() == list(want)


def test_special_cases_of_f64() -> None:
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
    got = compute("rcp.approx.ftz.f64 %rd1, %rd2", list(cases)).tolist()
    assert got == list(cases.values())
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 2**63, 200, dtype=np.uint64)
    assert not np.any(compute("rcp.approx.ftz.f64 %rd1, %rd2", anything) & np.uint64(0xFFFFFFFF))
    got = compute("rsqrt.approx.ftz.f64 %rd1, %rd2", [f64(4.0), 1 << 63, f64(-1.0)]).tolist()
    assert got == [f64(0.5), 0xFFF0 << 48, 0x7FFFFFFF00000000]


def test_divisors_beyond_2_to_the_126() -> None:
    huge = f32(1.5 * 2.0**126)
    a = [f32(3.0), INF, f32(-3.0), NAN32, f32(2.0**127)]
    assert compute("div.approx.f32 %r1, %r2, %r3", a, [huge] * 5).tolist() == [0, NAN32, NZERO, NAN32, 0]
    a, b, want = [f32(3.0 * 2.0**100)], [f32(2.0**127)], [f32(3.0 * 2.0**-27)]
    assert compute("div.full.f32 %r1, %r2, %r3", a, b).tolist() == want


def test_packed_halves() -> None:
    one16, minus = 0x3C00, 0xBC00
    assert compute("ex2.approx.f16x2 %r1, %r2", [minus << 16 | one16]).tolist() == [0x3800 << 16 | 0x4000]
    assert compute("ex2.approx.ftz.bf16x2 %r1, %r2", [0xBF80 << 16 | 0x3F80]).tolist() == [0x3F00 << 16 | 0x4000]


def test_exact_instructions_have_no_bound() -> None:
    assert bound("fma.rn.f32") is None and bound("sqrt.rn.f32") is None and bound("ex2.approx.ftz.f32") is not None
    assert bound("ex2.approx.f16x2") == APPROXIMATE["ex2.approx.f16"]
    assert not compiled("sqrt.rn.f32 %r1, %r2").approximate


# ------------------------------------------------------------------------------------ NaN, zeros, what is out of range


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_every_nan_is_the_canonical_one(kind: str) -> None:
    """Of arithmetic, however the NaN comes about and whatever its payload and sign."""
    r, nan = REGISTER[WIDTHS[kind]], NAN[kind]
    inf, zero, number = encoded(math.inf, kind), 0, encoded(1.5, kind)
    minus = inf | 1 << (WIDTHS[kind] - 1)
    strange = [inf + 1, minus + 1, nan, minus | (nan & (inf - 1)) | 1]
    for name in ("add", "sub", "mul"):
        for operands in ((strange, [number] * 4), ([number] * 4, strange), (strange, strange[::-1])):
            assert compute(f"{name}.{kind} {r}1, {r}2, {r}3", *operands).tolist() == [nan] * 4
    assert compute(f"add.{kind} {r}1, {r}2, {r}3", [inf], [minus]).tolist() == [nan]
    assert compute(f"mul.{kind} {r}1, {r}2, {r}3", [zero, inf], [minus, zero]).tolist() == [nan] * 2
    fma = f"fma.rn.{kind} {r}1, {r}2, {r}3, {r}4"
    for place in range(3):
        operands = [strange if i == place else [number] * 4 for i in range(3)]
        assert compute(fma, *operands).tolist() == [nan] * 4
    # 0 * inf is invalid whatever is added, a number or a NaN; so is inf - inf.
    assert compute(fma, [zero, zero, inf], [inf, inf, number], [number, nan, minus]).tolist() == [nan] * 3
    if kind != "f32":
        assert compute(fma.replace("rn.", "rn.relu."), [zero], [inf], [number]).tolist() == [nan]
        assert compute(fma.replace("rn.", "rn.relu."), [number], [number | 1 << (WIDTHS[kind] - 1)], [0]).tolist() == [
            0
        ]
    if kind != "bf16":
        assert compute(fma.replace("rn.", "rn.sat."), [zero, nan], [inf, number], [number] * 2).tolist() == [0, 0]
        assert compute(f"add.sat.{kind} {r}1, {r}2, {r}3", [inf, number, minus], [minus, number, number]).tolist() == [
            0,
            encoded(1.0, kind),
            0,
        ]


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
def test_min_and_max_pass_a_nan_over_and_order_the_zeros(kind: str) -> None:
    r, low = REGISTER[WIDTHS[kind]], 1 << (WIDTHS[kind] - 1)
    number = f64(1.5) if kind == "f64" else encoded(1.5, kind)
    inf = f64(math.inf) if kind == "f64" else encoded(math.inf, kind)
    a, b = [inf + 1, number, 0, low, low], [number, inf + 1 | low, low, 0, low]
    assert compute(f"min.{kind} {r}1, {r}2, {r}3", a, b).tolist() == [number, number, low, low, low]
    assert compute(f"max.{kind} {r}1, {r}2, {r}3", a, b).tolist() == [number, number, 0, 0, low]
    if kind == "f64":
        return
    both = compute(f"min.{kind} {r}1, {r}2, {r}3", [inf + 1], [low | inf + 1]).tolist()
    assert both == [NAN[kind]]
    assert compute(f"max.NaN.{kind} {r}1, {r}2, {r}3", a[:2], b[:2]).tolist() == [NAN[kind]] * 2
    # The sign is that of the product even where a NaN is passed over, but a NaN has none.
    got = compute(
        f"max.xorsign.abs.{kind} {r}1, {r}2, {r}3", [inf + 1 | low, number | low, inf + 1], [number, 0, inf + 1]
    )
    assert got.tolist() == [number | low, number | low, NAN[kind]]
    if kind != "bf16":
        got = compute(f"min.ftz.{kind} {r}1, {r}2, {r}3", [low | 1, 1], [0, number])
        assert got.tolist() == [low, 0]


INTEGERS = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]


@pytest.mark.parametrize(
    ("source", "result"),
    [(f, i) for f in ("f16", "bf16", "f32", "f64") for i in INTEGERS if (f, i[1:]) != ("bf16", "8")],  # there is none
)
def test_integers_of_nan_infinity_and_numbers_out_of_range(source: str, result: str) -> None:
    """The manual's section 9.7.9.21: clamped to the range; NaN is 0, or the top bit alone where 64 bits take part."""
    width = int(result[1:])
    top, bottom = (2 ** (width - 1) - 1, -(2 ** (width - 1))) if result[0] == "s" else (2**width - 1, 0)
    nan = 1 << (width - 1) if source == "f64" or width == 64 else 0
    nan = nan - (1 << width) if result[0] == "s" and nan else nan
    encode = f64 if source == "f64" else lambda x: encoded(x, source)
    quiet = 0x7FF8 << 48 if source == "f64" else NAN[source]
    largest = 65504.0 if source == "f16" else 2.0**100
    over = min(top + 1.0, largest)  # the first number that does not fit
    operands = [quiet, *(encode(x) for x in (math.inf, -math.inf, -0.0, -0.5, largest, over))]
    wanted = [nan, top, bottom, 0, 0, min(int(largest), top), min(int(over), top)]
    register = REGISTER[max(width, 16)]
    got = compute(f"cvt.rzi.{result}.{source} {register}1, {REGISTER[WIDTHS[source]]}2", operands)
    mask = (1 << max(width, 16)) - 1  # a byte is extended to its register
    assert got.tolist() == [want & mask for want in wanted]


def test_floats_of_nan_infinity_and_numbers_out_of_range() -> None:
    operands = [0x7F800001, NINF, f32(3.0e38), f32(-70000.0), NZERO | TINY, f32(65519.0)]
    assert compute("cvt.rn.f16.f32 %rs1, %r2", operands).tolist() == [0x7FFF, 0xFC00, 0x7C00, 0xFC00, 0x8000, 0x7BFF]
    assert compute("cvt.rz.f16.f32 %rs1, %r2", operands).tolist() == [0x7FFF, 0xFC00, 0x7BFF, 0xFBFF, 0x8000, 0x7BFF]
    got = compute("cvt.rn.satfinite.f16.f32 %rs1, %r2", operands).tolist()
    assert got == [0x7FFF, 0xFBFF, 0x7BFF, 0xFBFF, 0x8000, 0x7BFF]
    assert compute("cvt.rn.relu.f16.f32 %rs1, %r2", operands).tolist() == [0x7FFF, 0, 0x7C00, 0, 0, 0x7BFF]
    assert compute("cvt.rn.bf16.f32 %rs1, %r2", [0xFF800001, NINF, 0x7F7FFFFF]).tolist() == [0x7FFF, 0xFF80, 0x7F80]
    assert compute("cvt.sat.f32.f32 %r1, %r2", [NAN32, INF, NINF, NZERO]).tolist() == [0, f32(1.0), 0, 0]
    assert compute("cvt.ftz.f32.f32 %r1, %r2", [NZERO | TINY, TINY]).tolist() == [NZERO, 0]
    assert compute("cvt.rn.ftz.f32.f64 %r1, %rd2", [f64(-(2.0**-130)), f64(2.0**128)]).tolist() == [NZERO, INF]
    assert compute("cvt.f32.f16 %r1, %rs2", [0x7C01, 0xFC00, 0x8001]).tolist() == [NAN32, NINF, f32(-(2.0**-24))]
