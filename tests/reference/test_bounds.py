from __future__ import annotations

import math
import operator
from dataclasses import replace

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.families.gemm.staged.schedule import GemmSchedule, Mma
from cutegen.families.rowwise.schedule import RowwiseSchedule
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.reference import arithmetic
from cutegen.reference.arithmetic import FUNCTION_ULPS
from cutegen.reference.bounds import Expected
from cutegen.reference.bounds import evaluate as evaluate_all
from cutegen.reference.casting import cast
from cutegen.reference.rounding import Bounded, product_is_exact, sum_is_exact
from cutegen.verification.compare import compare

TORCH = {d: getattr(torch, d.torch) for d in Dtype}


def evaluate(spec: KernelSpec, tensors: dict[str, torch.Tensor], scalars: dict[str, float]) -> Expected:
    """Of a kernel with one output."""
    (expected,) = evaluate_all(spec, tensors, scalars).values()
    return expected.value, expected.bound


def pointwise(text: str, out: Dtype, scalars: dict[str, Dtype] | None = None, **inputs: Dtype) -> KernelSpec:
    tensors = [Tensor(name, ("M",), dtype, "M", 16) for name, dtype in inputs.items()]
    return KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=(*tensors, Tensor("D", ("M",), out, "M", 16, "out")),
        compute=parse_compute(text),
        schedule=ElementwiseSchedule(),
        scalars=tuple(Scalar(n, d) for n, d in (scalars or {}).items()),
    )


def gemm(dtype: Dtype, out: Dtype, accumulator: Dtype, text: str = "C = A @ B.T") -> KernelSpec:
    tensors = (
        Tensor("A", ("M", "K"), dtype, "K", 16),
        Tensor("B", ("N", "K"), dtype, "K", 16),
        Tensor("C", ("M", "N"), out, "N", 16, "out"),
    )
    return KernelSpec(
        kernel="g",
        op="gemm",
        tensors=tensors,
        compute=parse_compute(text),
        schedule=GemmSchedule(mma=Mma(accumulator=accumulator)),
    )


def inside(actual: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> None:
    found = compare(actual, expected, bound)
    assert found.ok, found.reason


def ulp_apart(values: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(values, torch.full_like(values, math.inf))


# ------------------------------------------------------------------------------------------------ elementwise

EXPRESSIONS = [
    "X + Y",
    "X - Y",
    "X * Y + Z",
    "(X + Y) * (X - Y)",
    "X / Y - Z / (Y + 2.0)",
    "(X - Y) ** 3 + X ** 5",
    "where(X + Y > Z, X * Y, Z - X)",
    "where((X < Y) and not (Y * Z >= X) or X == Z, X, Y)",
    "maximum(minimum(X, Y * Z), abs(X - Y) - 1)",
    "relu(X * Y - Z) * 0.1",
    "exp(X * Y) + log(abs(Z) + 0.5)",
    "sqrt(X * X + Y * Y) * rsqrt(Z * Z + 1.0)",
    "tanh(X * Y) - sigmoid(Z - X)",
    "gelu(X - Y) + silu(Y * Z)",
    "gelu_tanh(X * Y - Z)",
    "round(X * Y) + floor(Z) - ceil(X / 0.3)",
    "log(X + Y)",
    "rsqrt(X) * sqrt(Y)",
    "cast(X * Y, bf16) + cast(Z, f16)",
    "cast(cast(X * 10.0, i32), f32) + Y",
]


def in_single(text: str, values: dict[str, torch.Tensor], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The expression as torch computes it in one precision: an independent evaluation, by Python itself."""

    def number(x: object) -> torch.Tensor:
        return x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=dtype)

    def cast_to(x: torch.Tensor, name: str) -> torch.Tensor:
        return x.to(TORCH[Dtype[name]]).to(dtype)

    names = {
        "where": lambda c, a, b: torch.where(c, number(a), number(b)),
        "minimum": lambda a, b: torch.minimum(number(a), number(b)),
        "maximum": lambda a, b: torch.maximum(number(a), number(b)),
        "relu": torch.relu,
        "gelu": lambda x: x * 0.5 * (1 + torch.erf(x * 0.5**0.5)),  # (torch's own overflows at 3e38)
        "silu": torch.nn.functional.silu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "cast": cast_to,
        **{
            n: getattr(torch, n)
            for n in ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "abs", "round", "floor", "ceil"]
        },
        **{d.value: d.value for d in Dtype},
        **{n: v.to(dtype) for n, v in values.items()},
    }
    text = text.replace(" and not ", " & ~").replace(" or ", " | ").replace("X == Z", "(X == Z)")
    return eval(text, {}, names)


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.f64, Dtype.bf16])
def test_computed_in_the_nodes_precision_lies_within_the_bound(text: str, dtype: Dtype) -> None:
    spec = pointwise(f"D = {text}", dtype, X=dtype, Y=dtype, Z=dtype)
    for seed, scale in enumerate((1.0, 30.0, 1e-3)):
        generator = torch.Generator().manual_seed(seed)
        values = {
            n: (torch.randn(4000, generator=generator, dtype=torch.float64) * scale).to(TORCH[dtype]) for n in "XYZ"
        }
        expected, bound = evaluate(spec, values, {})
        actual = in_single(text, values, torch.float64 if dtype is Dtype.f64 else torch.float32).to(TORCH[dtype])
        inside(actual, expected, bound)
        judged = bound.isfinite()
        assert judged.float().mean() > 0.9  # the bound says something nearly everywhere


@pytest.mark.parametrize("text", ["X + Y", "X * Y + Z", "X / Y - Z / (Y + 2.0)", "tanh(X * Y) - sigmoid(Z - X)"])
def test_the_bound_is_tight_enough_to_see_a_lower_precision(text: str) -> None:
    spec = pointwise(f"D = {text}", Dtype.f32, X=Dtype.f32, Y=Dtype.f32, Z=Dtype.f32)
    values = {n: torch.randn(4000, generator=torch.Generator().manual_seed(ord(n))) for n in "XYZ"}
    expected, bound = evaluate(spec, values, {})
    lower = {n: v.to(torch.float16).to(torch.float32) for n, v in values.items()}
    found = compare(in_single(text, lower), expected, bound)
    assert found.failed > 3000
    assert (bound / expected.abs()).median() < 32 * 2.0**-24


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-50, 50), min_size=3, max_size=3), st.sampled_from(["X * Y + Z", "(X - Y) ** 2", "-X / 4 + Y"])
)
def test_whole_numbers_must_be_exact(numbers: list[int], text: str) -> None:
    spec = pointwise(f"D = {text}", Dtype.f32, X=Dtype.f32, Y=Dtype.f32, Z=Dtype.f32)
    values = {n: torch.tensor([float(v)]) for n, v in zip("XYZ", numbers, strict=True)}
    expected, bound = evaluate(spec, values, {})
    assert bound.item() == 0
    x, y, z = numbers
    assert expected.item() == {"X * Y + Z": x * y + z, "(X - Y) ** 2": (x - y) ** 2, "-X / 4 + Y": -x / 4 + y}[text]
    assert not compare(ulp_apart(expected.float()), expected, bound).ok


@pytest.mark.parametrize("first", [1.0, 1.25, 1.9990234375])  # of one ulp
def test_an_inexact_result_may_be_half_an_ulp_off_and_not_more(first: float) -> None:
    spec = pointwise("D = X + Y", Dtype.f32, X=Dtype.f32, Y=Dtype.f32)
    x, y = torch.tensor([first]), torch.tensor([2.0**-24 * 1.5])
    expected, bound = evaluate(spec, {"X": x, "Y": y}, {})
    assert 1 <= bound.item() * 2**24 < 1 + 2**-20
    inside(x + y, expected, bound)
    assert not compare(ulp_apart(x + y), expected, bound).ok


@pytest.mark.parametrize("text", ["rsqrt({})", "1 / {}"])
def test_a_zero_of_open_sign_leaves_its_infinity_open(text: str) -> None:
    values = {"X": torch.tensor([0.0, 4.0])}
    for open_sign, argument in ((True, "maximum(X, -X)"), (False, "X")):
        _, bound = evaluate(pointwise(f"D = {text.format(argument)}", Dtype.f32, X=Dtype.f32), values, {})
        assert (bound[0].item() == math.inf) is open_sign and bound[1] < 1


@pytest.mark.parametrize(
    ("argument", "open_sign"),
    [
        ("minimum(I, 5)", False),
        ("cast(maximum(I, I - 1), f64)", False),
        ("-minimum(I, 5)", False),
        ("cast(cast(maximum(X, -X), i32), f32)", False),
        ("cast(maximum(X, -X) > 1, f32)", False),
        ("X * minimum(I, 5)", False),
        ("where(maximum(X, -X) > 1, X, -X)", True),
        ("minimum(X, I)", True),
    ],
)
def test_whole_numbers_have_one_zero(argument: str, open_sign: bool) -> None:
    values = {"X": torch.tensor([0.0]), "I": torch.tensor([0], dtype=torch.int32)}
    spec = pointwise(f"D = 1 / ({argument}) + 0 * (X + I)", Dtype.f64, X=Dtype.f32, I=Dtype.i32)
    _, bound = evaluate(spec, values, {})
    assert (bound.item() == math.inf) is open_sign


def test_a_zero_times_what_may_have_either_sign_is_a_zero_of_either() -> None:
    spec = pointwise("D = X * (exp(Y) - 1.0)", Dtype.f32, X=Dtype.f32, Y=Dtype.f32)
    values = {"X": torch.tensor([0.0, 0.0]), "Y": torch.tensor([1e-9, 3.0])}
    expected, bound = evaluate(spec, values, {})
    assert expected.tolist() == [0, 0] and 0 < bound[0] < 1e-44 and bound[1] == 0
    for result, ok in ((-0.0, True), (1e-40, False)):
        assert compare(torch.tensor([result, 0.0]), expected, bound, signed=True).ok is ok


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("exp(Y) - 1.0", Dtype.f8e4m3),
        ("round(exp(Y) - 1.0)", Dtype.f32),
        ("where(exp(Y) > 1.0, X, -X)", Dtype.f32),
    ],
)
def test_what_becomes_zero_from_either_side_is_a_zero_of_either_sign(text: str, out: Dtype) -> None:
    """The first element is near a number at which its zero turns its sign, the second is far from it."""
    values = {"X": torch.tensor([0.0, 0.0]), "Y": torch.tensor([-1e-9, -5e-4])}
    expected, bound = evaluate(pointwise(f"D = {text}", out, X=Dtype.f32, Y=Dtype.f32), values, {})
    assert expected.tolist() == [0, 0] and 0 < bound[0] < 1e-44 and bound[1] == 0
    right = torch.where(expected.signbit(), -0.0, 0.0)
    for first, second, ok in ((-1, 1, True), (1, 1, True), (1, -1, False)):
        given = (right * torch.tensor([first, second])).to(TORCH[out])
        assert compare(given, expected, bound, signed=True).ok is ok


def test_a_fixed_size_need_not_be_seen_in_a_tensor_that_is_read() -> None:
    spec = pointwise("D = X + coord(M)", Dtype.f32, X=Dtype.f32)
    fixed = replace(spec, tensors=(replace(spec.tensors[0], shape=("N",)), replace(spec.tensors[1], shape=("N", "M"))))
    expected, _ = evaluate(replace(fixed, static={"M": 3}), {"X": torch.tensor([1.0, 5.0])}, {})
    assert expected.tolist() == [[1, 2, 3], [5, 6, 7]]


def test_scalars_and_literals_are_rounded_to_their_dtype() -> None:
    spec = pointwise("D = alpha * X", Dtype.f32, {"alpha": Dtype.f32}, X=Dtype.f32)
    expected, bound = evaluate(spec, {"X": torch.ones(1)}, {"alpha": 0.1})
    assert expected.item() == torch.tensor(0.1).double().item() and bound.item() == 0
    half = pointwise("D = X * 0.1", Dtype.f64, X=Dtype.f64)
    assert evaluate(half, {"X": torch.ones(1, dtype=torch.float64)}, {})[0].item() == 0.1


def test_broadcast_and_permuted_inputs() -> None:
    tensors = (
        Tensor("X", ("N", "M"), Dtype.f32, "N", 4),
        Tensor("b", ("N",), Dtype.f32, "N", 4),
        Tensor("D", ("M", "N"), Dtype.f32, "N", 4, "out"),
    )
    spec = KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=tensors,
        compute=parse_compute("D = X + b"),
        schedule=ElementwiseSchedule(),
    )
    x, b = torch.arange(6.0).reshape(3, 2), torch.tensor([10.0, 20.0, 30.0])
    expected, bound = evaluate(spec, {"X": x, "b": b}, {})
    assert expected.shape == bound.shape == (2, 3) and torch.equal(expected.float(), x.T + b)
    with pytest.raises(ValueError, match="mode N"):
        evaluate(spec, {"X": x, "b": torch.ones(2)}, {})


# ---------------------------------------------------------------------------------------------------- functions

HARD = [0.0, -0.0, 1e-45, -1e-45, 1e-38, -3e-39, 1e-20, 0.5, -0.5, 1.0, -1.0, math.sqrt(2), -math.sqrt(2), 5.0, -5.4]
HARD += [88.72, 88.73, -87.4, -88.8, -103.9, -104.1, 89.5, 3e38, -3e38, math.inf, -math.inf, math.nan, 0.99999, 1.00001]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "gelu", "silu", "relu", "abs"])
@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.f64])
def test_functions_hold_at_the_extremes(name: str, dtype: Dtype) -> None:
    spec = pointwise(f"D = {name}(X)", dtype, X=dtype)
    x = torch.cat([torch.tensor(HARD, dtype=torch.float64), torch.linspace(-110, 95, 5000, dtype=torch.float64)])
    values = {"X": x.to(TORCH[dtype])}
    expected, bound = evaluate(spec, values, {})
    inside(in_single(f"{name}(X)", values, TORCH[dtype]), expected, bound)
    assert bound.isfinite().float().mean() > 0.99


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "gelu", "silu"])
def test_functions_agree_with_mpmath(name: str) -> None:
    mpmath.mp.prec = 120
    exact = {
        "exp": mpmath.exp,
        "log": mpmath.log,
        "sqrt": mpmath.sqrt,
        "rsqrt": lambda v: 1 / mpmath.sqrt(v),
        "tanh": mpmath.tanh,
        "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
        "gelu": lambda v: v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2,
        "silu": lambda v: v / (1 + mpmath.exp(-v)),
    }[name]
    positive = name in ("log", "sqrt", "rsqrt")
    x = torch.cat([torch.logspace(-30, 1.9, 150), -torch.logspace(-30, 1.9, 0 if positive else 150)])
    expected, bound = evaluate(pointwise(f"D = {name}(X)", Dtype.f32, X=Dtype.f32), {"X": x}, {})
    for v, value, allowed in zip(x.tolist(), expected.tolist(), bound.tolist(), strict=True):
        true = exact(mpmath.mpf(v))
        assert abs(true - value) <= max(abs(true) * 1e-12, 1e-320)
        # the bound is the allowance and not much more (gelu's is relative to x)
        scale = abs(true) + (abs(mpmath.mpf(v)) if name == "gelu" else 0)
        assert allowed <= scale * 2.1 * FUNCTION_ULPS * 2.0**-24 + 1e-36


def test_an_error_in_front_of_a_function_propagates() -> None:
    """exp of something with error e is off by exp(x) (exp(e) - 1): shifting x to the edge of its bound stays inside."""
    x, y = torch.full((1,), 40.0), torch.full((1,), 1 / 3)
    argument, edge = evaluate(pointwise("D = X + Y", Dtype.f32, X=Dtype.f32, Y=Dtype.f32), {"X": x, "Y": y}, {})
    assert edge.item() > 0
    expected, bound = evaluate(pointwise("D = exp(X + Y)", Dtype.f32, X=Dtype.f32, Y=Dtype.f32), {"X": x, "Y": y}, {})
    for sign in (-1, 1):
        inside(torch.exp(argument + sign * edge), expected, bound)
        assert not compare(torch.exp(argument + sign * 8 * edge), expected, bound).ok


# ------------------------------------------------------------------------------------------------------- matmul


def orders(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """A @ B.T in f32, summed in several orders."""
    products = a[:, None, :] * b[None, :, :]
    forward = torch.zeros(products.shape[:2])
    backward = forward.clone()
    for k in range(products.shape[2]):
        forward = forward + products[:, :, k]
        backward = backward + products[:, :, -1 - k]
    pairs = products
    while pairs.shape[2] > 1:
        if pairs.shape[2] % 2:
            pairs = torch.cat([pairs, torch.zeros_like(pairs[:, :, :1])], 2)
        pairs = pairs[:, :, ::2] + pairs[:, :, 1::2]
    ascending, _ = products.sort(dim=2)
    climbing = torch.zeros(products.shape[:2])
    for k in range(products.shape[2]):
        climbing = climbing + ascending[:, :, k]
    return {"forward": forward, "backward": backward, "pairs": pairs[:, :, 0], "sorted": climbing, "blas": a @ b.T}


@pytest.mark.parametrize("k", [1, 2, 7, 64, 301])
@pytest.mark.parametrize("dtype", [Dtype.f32, Dtype.f16, Dtype.bf16])
def test_matmul_in_any_order_lies_within_the_bound(k: int, dtype: Dtype) -> None:
    generator = torch.Generator().manual_seed(k)
    a = torch.randn(13, k, generator=generator).to(TORCH[dtype])
    b = torch.randn(9, k, generator=generator).to(TORCH[dtype])
    expected, bound = evaluate(gemm(dtype, Dtype.f32, Dtype.f32), {"A": a, "B": b}, {})
    for name, result in orders(a.float(), b.float()).items():
        found = compare(result, expected, bound)
        assert found.ok, f"{name}: {found.reason}"
    # a term left out, and a bound's worth of error four times over, show
    if k > 1:
        assert not compare(a[:, :-1].float() @ b[:, :-1].float().T, expected, bound).ok
    assert not compare(expected + 4 * bound, expected, bound).ok


def test_matmul_of_whole_numbers_is_exact_up_to_the_mantissa() -> None:
    generator = torch.Generator().manual_seed(5)
    a, b = (torch.randint(-4, 5, (n, 200), generator=generator).float() for n in (17, 19))
    expected, bound = evaluate(gemm(Dtype.f32, Dtype.f32, Dtype.f32), {"A": a, "B": b}, {})
    assert bool((bound == 0).all()) and torch.equal(expected.float(), a @ b.T)
    wide, bounds = evaluate(gemm(Dtype.f32, Dtype.f32, Dtype.f32), {"A": a * 1024, "B": b * 1024}, {})
    assert bool((bounds > 0).all()) and torch.equal(wide, expected * 2**20)
    # and what is stored in bf16 is the exact sum, rounded once
    narrow, none = evaluate(gemm(Dtype.f32, Dtype.bf16, Dtype.f32), {"A": a, "B": b}, {})
    assert bool((none == 0).all()) and torch.equal(narrow, expected.float().bfloat16().double())


def test_an_empty_sum_is_zero() -> None:
    spec = gemm(Dtype.f32, Dtype.f32, Dtype.f32, "C = A @ B.T + 1.5")
    expected, bound = evaluate(spec, {"A": torch.ones(3, 0), "B": torch.ones(4, 0)}, {})
    assert expected.shape == (3, 4) and bool((expected == 1.5).all()) and bool((bound == 0).all())


def test_integer_matmul_wraps_like_32_bits() -> None:
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randint(-(2**31), 2**31, (n, 9), generator=generator).to(torch.int32) for n in (4, 5))
    expected, bound = evaluate(gemm(Dtype.i32, Dtype.i32, Dtype.i32), {"A": a, "B": b}, {})
    for i in range(4):
        for j in range(5):
            total = sum(map(operator.mul, a[i].tolist(), b[j].tolist()))
            assert expected[i, j].item() == (total + 2**31) % 2**32 - 2**31
    assert expected.dtype == torch.int64 and bool((bound == 0).all())


# ------------------------------------------------------------------------------------- integers, casts, decisions


def test_integer_arithmetic_wraps() -> None:
    spec = pointwise("D = X * Y + X - Y", Dtype.i32, X=Dtype.i32, Y=Dtype.i32)
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randint(-(2**31), 2**31, (500,), generator=generator).to(torch.int32) for _ in "xy")
    expected, bound = evaluate(spec, {"X": x, "Y": y}, {})
    assert torch.equal(expected.to(torch.int32), x * y + x - y) and bool((bound == 0).all())
    narrow = pointwise("D = X + Y", Dtype.i8, X=Dtype.i8, Y=Dtype.i8)
    a, b = (torch.randint(-128, 128, (500,), generator=generator).to(torch.int8) for _ in "ab")
    assert torch.equal(evaluate(narrow, {"X": a, "Y": b}, {})[0].to(torch.int8), a + b)


@pytest.mark.parametrize("target", [Dtype.f16, Dtype.bf16, Dtype.f32])
def test_casts_of_exact_values_are_exact(target: Dtype) -> None:
    x = torch.cat(
        [torch.randn(5000) * 100, torch.tensor([65519.0, 65520.0, 3.4e38, 1e-8, -1e-40, math.nan, -math.inf])]
    )
    source = Dtype.f64 if target is Dtype.f32 else Dtype.f32
    x = x.to(TORCH[source])
    expected, bound = evaluate(pointwise("D = X", target, X=source), {"X": x}, {})
    assert bool((bound == 0).all())
    inside(x.to(TORCH[target]), expected, bound)
    assert bool((expected[-6].isinf() if target is Dtype.f16 else expected[-6].isfinite()).all())


def test_overflow_that_may_or_may_not_happen_is_left_open() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    value = torch.tensor([65519.9], dtype=torch.float64)
    assert cast(Bounded(value, zero, Dtype.f32), Dtype.f16).error.item() == 0
    assert cast(Bounded(value, zero + 0.2, Dtype.f32), Dtype.f16).error.item() == math.inf
    sure = cast(Bounded(value + 100, zero + 0.2, Dtype.f32), Dtype.f16)
    assert sure.value.item() == math.inf and sure.error.item() == 0


def test_float_to_integer_truncates_and_saturates() -> None:
    spec = pointwise("D = cast(X, i8)", Dtype.i8, X=Dtype.f32)
    x = torch.tensor([1.9, -1.9, 127.9, -128.9, 128.0, 3e38, math.nan, math.inf, -math.inf])
    expected, bound = evaluate(spec, {"X": x}, {})
    assert expected.tolist() == [1, -1, 127, -128, 127, 127, 0, 127, -128] and not bound.any()
    value = torch.tensor([300.0, 126.5, -3.0, math.inf, math.nan], dtype=torch.float64)
    unsure = cast(Bounded(value, torch.tensor([40.0, 1.0, 1000.0, math.inf, math.inf]).double(), Dtype.f32), Dtype.u8)
    assert unsure.value.tolist() == [255, 126, 0, 255, 0]
    assert unsure.error.tolist() == [0, 1, math.inf, math.inf, math.inf]
    third = pointwise("D = cast(X / 3.0 * 3.0, i32)", Dtype.i32, X=Dtype.f32)
    _, close = evaluate(third, {"X": torch.tensor([7.0])}, {})
    assert close.item() == 1  # 6.9999 or 7


def test_a_comparison_that_could_flip_covers_both_branches() -> None:
    spec = pointwise("D = where(X / 3.0 * 3.0 >= X, 1.0, Y)", Dtype.f32, X=Dtype.f32, Y=Dtype.f32)
    x, y = torch.tensor([7.0, 7.0]), torch.tensor([5.0, math.nan])
    expected, bound = evaluate(spec, {"X": x, "Y": y}, {})
    inside(torch.tensor([1.0, 1.0]), expected, bound)
    inside(torch.tensor([5.0, math.nan]), expected, bound)
    assert not compare(torch.tensor([5.1, 0.0]), expected, bound).ok
    clear = pointwise("D = X / 3.0 * 3.0 >= Y", Dtype.bool, X=Dtype.f32, Y=Dtype.f32)
    expected, bound = evaluate(clear, {"X": x, "Y": torch.tensor([6.9, math.nan])}, {})
    assert expected.tolist() == [1, 0] and bound.tolist() == [0, 0]


def test_minimum_and_maximum_let_nan_through() -> None:
    spec = pointwise("D = minimum(X, Y)", Dtype.f32, X=Dtype.f32, Y=Dtype.f32)
    x, y = torch.tensor([math.nan, 1.0, -math.inf]), torch.tensor([1.0, math.nan, 2.0])
    expected, bound = evaluate(spec, {"X": x, "Y": y}, {})
    inside(torch.minimum(x, y), expected, bound)
    assert bool((bound == 0).all()) and not compare(torch.fmin(x, y), expected, bound).ok


@pytest.mark.parametrize(
    "text", ["X * Y + Z", "X / Y", "where(X > Y, X + Z, Y)", "relu(X) - abs(Y)", "X * 2.0 - Y * Z"]
)
def test_special_values(text: str) -> None:
    table = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1.5, -2.25, 1e-45, 1.2e-38])
    x, y, z = (t.flatten() for t in torch.meshgrid(table, table, table, indexing="ij"))
    values = {"X": x, "Y": y, "Z": z}
    expected, bound = evaluate(pointwise(f"D = {text}", Dtype.f32, X=Dtype.f32, Y=Dtype.f32, Z=Dtype.f32), values, {})
    actual = in_single(text, values)
    inside(actual, expected, bound)
    assert bound.isfinite().float().mean() > 0.9
    assert not compare(torch.where(actual.isnan(), 0.0, actual), expected, bound).ok


def test_error_free_transforms_know_exact_results() -> None:
    a = torch.tensor([1.0, 1.0, 3.0, 0.1], dtype=torch.float64)
    b = torch.tensor([2.0, 2.0**-60, 7.0, 0.2], dtype=torch.float64)
    assert sum_is_exact(a, b).tolist() == [True, False, True, False]
    assert product_is_exact(a, b).tolist() == [True, True, True, False]
    spec = pointwise("D = X + Y", Dtype.f64, X=Dtype.f64, Y=Dtype.f64)
    assert (evaluate(spec, {"X": a, "Y": b}, {})[1] == 0).tolist() == [True, False, True, False]


# -------------------------------------------------------------------------------------------------------- compare


def test_compare_demands_both_the_bound_and_the_tolerance() -> None:
    expected, bound = torch.tensor([1.0, 100.0], dtype=torch.float64), torch.tensor([0.5, 0.5], dtype=torch.float64)
    actual = torch.tensor([1.01, 100.4])
    assert compare(actual, expected, bound).ok
    assert compare(actual, expected, bound, rtol=0.01, atol=0.01).ok
    strict = compare(actual, expected, bound, rtol=1e-3)
    assert (strict.ok, strict.failed, strict.worst) == (False, 2, (1,)) and "tolerance" in strict.reason
    loose = compare(torch.tensor([1.0, 100.6]), expected, bound, rtol=1.0, atol=1.0)
    assert not loose.ok and loose.worst == (1,) and "bound" in loose.reason and loose.ratio == pytest.approx(1.2, 1e-4)


def test_compare_names_what_is_not_judged_and_agrees_on_nan_and_infinity() -> None:
    inf, nan = math.inf, math.nan
    expected = torch.tensor([nan, inf, -inf, 1.0, 2.0], dtype=torch.float64)
    bound = torch.tensor([0.0, 0.0, 0.0, inf, 0.0], dtype=torch.float64)
    good = compare(torch.tensor([nan, inf, -inf, 77.0, 2.0]), expected, bound)
    assert good.ok and good.unbounded == 1 and good.judged == 4 and good.max_error == 0
    for position, wrong in ((0, 1.0), (1, -inf), (1, nan), (2, 3e38), (4, nan), (4, inf)):
        actual = torch.tensor([nan, inf, -inf, 1.0, 2.0])
        actual[position] = wrong
        found = compare(actual, expected, bound)
        assert not found.ok and found.worst == (position,)
    with pytest.raises(ValueError, match="shape"):
        compare(torch.ones(2), expected, bound)


@pytest.mark.parametrize(
    "operation", ["add", "multiply", "divide", "minimum", "relu", "absolute", "exp", "tanh", "gelu", "silu", "sigmoid"]
)
def test_uncertain_operands_propagate_over_their_whole_range(operation: str) -> None:
    """Wherever inside their (wide) bounds the operands lie, the result lies inside its own."""
    generator = torch.Generator().manual_seed(3)
    size = (2000,)
    a, b = (torch.randn(size, generator=generator, dtype=torch.float64) * 2 for _ in "ab")
    ea, eb = (torch.rand(size, generator=generator, dtype=torch.float64) * 0.5 for _ in "ab")
    x, y = Bounded(a, ea, Dtype.f32), Bounded(b, eb, Dtype.f32)

    def run(x: Bounded, y: Bounded) -> Bounded:
        match operation:
            case "add" | "multiply" | "divide":
                return getattr(arithmetic, operation)(x, y, Dtype.f32)  # type: ignore[no-any-return]
            case "minimum":
                return arithmetic.extremum("minimum", x, y)
            case "relu" | "absolute":
                return getattr(arithmetic, operation)(x)  # type: ignore[no-any-return]
        return arithmetic.function(operation, x, Dtype.f32)

    result = run(x, y)
    none = torch.zeros(size, dtype=torch.float64)
    edge = 1 - 1e-12  # the sample points themselves are rounded
    for ta in (-edge, -0.5, 0.0, 0.5, edge):
        for tb in (-edge, 0.0, edge):
            point = run(Bounded(a + ta * ea, none, Dtype.f32), Bounded(b + tb * eb, none, Dtype.f32))
            inside(point.value, result.value, result.error)
    assert result.error.isfinite().float().mean() > 0.8


def test_what_is_expected_does_not_change_with_the_output() -> None:
    tensors = (Tensor("C", ("M",), Dtype.f64, "M", 8, "inout"),)
    spec = KernelSpec(
        kernel="k", op="elementwise", tensors=tensors, compute=parse_compute("C = C"), schedule=ElementwiseSchedule()
    )
    c = torch.ones(3, dtype=torch.float64)
    expected, _ = evaluate(spec, {"C": c}, {})
    c.zero_()
    assert expected.tolist() == [1, 1, 1]


def test_a_fast_exponential_is_within_its_own_bound_and_not_within_that_of_the_library() -> None:
    """2 to a rounded power, as PTX has it: mul.f32 by log2(e), then ex2.approx.ftz.f32, to 2**-22 (PTX ISA)."""
    x = torch.linspace(-87, 88, 100_001, dtype=torch.float32)
    power = (x * torch.tensor(math.log2(math.e), dtype=torch.float32)).double()
    known = Bounded(x.double(), torch.zeros_like(power), Dtype.f32)
    fast = arithmetic.function("exp", known, Dtype.f32, fast_math=True)
    precise = arithmetic.function("exp", known, Dtype.f32)
    assert torch.equal(fast.value, x.double().exp()) and torch.equal(precise.value, fast.value)
    for slip in (1 - 2.0**-22, 1 + 2.0**-22):
        apart = (2.0**power * slip - fast.value).abs()
        assert (apart <= fast.error).all() and (apart > precise.error).any()
        assert (apart / fast.error).max() > 0.3, "the bound is no looser than it must be"
    ends = Bounded(torch.tensor([-math.inf, math.inf, math.nan]).double(), torch.zeros(3).double(), Dtype.f32)
    assert torch.equal(
        arithmetic.function("exp", ends, Dtype.f32, fast_math=True).error,
        arithmetic.function("exp", ends, Dtype.f32).error,
    )


def test_a_fast_exponential_of_scores_that_are_scaled_late_is_within_its_own_bound() -> None:
    """One multiply-add of scores and a rounded constant, above a product that is rounded on its own."""
    generator = torch.Generator().manual_seed(7)
    scores = (torch.rand(1000, 64, generator=generator) * 60 - 60).float()
    scores += (10 ** (torch.rand(1000, 1, generator=generator) * 6)).float()
    largest = scores.amax(1, keepdim=True)
    for factor in (1.0, 0.125, 0.3):
        scale = torch.tensor(factor, dtype=torch.float32)
        steep = scale * torch.tensor(math.log2(math.e), dtype=torch.float32)
        power = (scores.double() * steep.double() - (largest * steep).double()).float().double()
        s, m = scores.double() * scale.double(), largest.double() * scale.double()
        x = Bounded(s - m, torch.zeros_like(s), Dtype.f32)
        base = Bounded(m, torch.zeros_like(m), Dtype.f32)
        late = arithmetic.function("exp", x, Dtype.f32, True, base)
        early = arithmetic.function("exp", x, Dtype.f32, True)
        for slip in (1 - 2.0**-22, 1 + 2.0**-22):
            apart = (2.0**power * slip - late.value).abs()
            assert (apart <= late.error).all() and (apart > early.error).any()
            assert (apart / late.error).max() > 0.3, "the bound is no looser than it must be"


def test_a_product_with_a_reciprocal_is_within_its_own_bound_and_not_within_that_of_a_quotient() -> None:
    generator = torch.Generator().manual_seed(5)
    a = torch.rand(100_001, generator=generator, dtype=torch.float32)
    b = 1 + 4095 * torch.rand(100_001, generator=generator, dtype=torch.float32)
    exact = [Bounded(x.double(), torch.zeros(len(x)).double(), Dtype.f32) for x in (a, b)]
    scaled, divided = arithmetic.scale_by_reciprocal(*exact, Dtype.f32), arithmetic.divide(*exact, Dtype.f32)
    assert torch.equal(scaled.value, divided.value)
    apart = ((a * (1 / b)).double() - scaled.value).abs()
    assert (apart <= scaled.error).all() and (apart > divided.error).any()
    assert (apart / scaled.error).max() > 0.5, "the bound is no looser than it must be"


@pytest.mark.parametrize(
    ("statements", "scaled"),
    [
        (("e = exp(X - max(X, N))", "Y = e / sum(e, N)"), True),
        (("Y = exp(X - max(X, N)) / sum(exp(X - max(X, N)), N)",), True),
        (("Y = X / sum(X, N)",), False),
        (("Y = X / sum(X * X, N)",), False),
    ],
)
def test_a_fast_softmax_may_multiply_by_a_reciprocal(statements: tuple[str, ...], scaled: bool) -> None:
    """In rows of equal values the exponentials and their sum are exact, so that only the quotient is rounded."""
    tensors = (Tensor("X", ("M", "N"), Dtype.f32, "N", 4), Tensor("Y", ("M", "N"), Dtype.f32, "N", 4, "out"))
    x = torch.full((4, 37), 1.5)
    fast, precise = (
        evaluate(
            KernelSpec(
                kernel="k",
                op="rowwise",
                tensors=tensors,
                compute=parse_compute(statements),
                schedule=RowwiseSchedule(math=math),
            ),
            {"X": x},
            {},
        )[1]
        for math in ("fast", "precise")
    )
    assert (fast > precise).all() if scaled else torch.equal(fast, precise)


def test_a_mean_by_torch_on_a_gpu_is_a_sum_times_a_reciprocal() -> None:
    """17 / 3 is 5.6666665 there, a last bit from the quotient."""
    spec = KernelSpec(
        kernel="m",
        op="rowwise",
        tensors=(Tensor("X", ("M", "N"), Dtype.f32, "N", 4), Tensor("Y", ("M",), Dtype.f32, "M", 4, "out")),
        compute=parse_compute("Y = mean(X, N)"),
        schedule=RowwiseSchedule(),
    )
    sums = torch.arange(1, 4001, dtype=torch.float32)
    x = torch.stack([sums - 3, torch.full_like(sums, 2), torch.ones_like(sums)], dim=1)
    multiplied = sums * (torch.ones(()) / 3)
    (exact,) = evaluate_all(spec, {"X": x}, {}).values()
    (by_torch,) = evaluate_all(spec, {"X": x}, {}, by_torch=True).values()
    assert compare(sums / 3, *exact).ok and not compare(multiplied, *exact).ok
    assert compare(multiplied, *by_torch).ok and compare(sums / 3, *by_torch).ok
    assert (by_torch.bound <= 2**-23 * by_torch.value).all()  # an ulp and a half


def test_hardswish_is_exact_beyond_3_whatever_torch_takes_for_a_sixth(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU torch's hardsigmoid of float64 has a sixth that is rounded to f32: 4 became 4.00000012 there."""
    of_torch, sixth = torch.nn.functional.hardsigmoid, float(torch.tensor(1.0) / 6)
    x = torch.linspace(-5, 5, 4001)
    spec = pointwise("D = hardswish(X)", Dtype.f32, X=Dtype.f32)
    wanted = x.double() * of_torch(x.double())
    monkeypatch.setattr(torch.nn.functional, "hardsigmoid", lambda x: (x + 3).clamp(0, 6) * sixth)
    value, bound = evaluate(spec, {"X": x}, {})
    assert (value - wanted).abs().max() < 1e-15
    assert torch.equal(value[x >= 3], x[x >= 3].double()) and (bound[x >= 3] == 0).all()
