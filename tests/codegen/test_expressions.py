"""Each function and operator of the expression language, against Python's own `math`, in both translations.

The torch reference runs anywhere; the kernel only where there is a GPU.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutegen.codegen import generate
from cutegen.verification import gpu_available
from cutegen.verification.executor import load_module

SPEC = """
cutegen: 1
kernel: {kernel}
op: elementwise
tensors:
  X: {{shape: [N], dtype: {dtype}, align: {align}}}
  Y: {{shape: [N], dtype: {dtype}, align: {align}}}
  D: {{shape: [N], dtype: {out}, align: {out_align}, role: out}}
scalars: {{alpha: f32}}
compute: D = {compute}
"""
NAN = math.nan


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def nan_max(x: float, y: float) -> float:
    return NAN if math.isnan(x) or math.isnan(y) else max(x, y)


def nan_min(x: float, y: float) -> float:
    return NAN if math.isnan(x) or math.isnan(y) else min(x, y)


FLOAT: list[tuple[str, Callable[[float, float, float], float]]] = [
    ("exp(X) + 0 * (Y + alpha)", lambda x, y, a: math.exp(x)),
    ("log(abs(X) + 1) + 0 * (Y + alpha)", lambda x, y, a: math.log(abs(x) + 1)),
    ("sqrt(abs(X)) + 0 * (Y + alpha)", lambda x, y, a: math.sqrt(abs(x))),
    ("rsqrt(abs(X) + 0.5) + 0 * (Y + alpha)", lambda x, y, a: 1 / math.sqrt(abs(x) + 0.5)),
    ("tanh(X) + 0 * (Y + alpha)", lambda x, y, a: math.tanh(x)),
    ("sigmoid(X - Y) + 0 * alpha", lambda x, y, a: sigmoid(x - y)),
    ("relu(X) * Y + 0 * alpha", lambda x, y, a: max(x, 0.0) * y),
    ("gelu(X) + 0 * (Y + alpha)", lambda x, y, a: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    (
        "gelu_tanh(X) + 0 * (Y + alpha)",
        lambda x, y, a: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (
        "round(X * Y) + floor(Y) * 0.5 - ceil(X) + 0 * alpha",
        lambda x, y, a: round(x * y) + math.floor(y) / 2 - math.ceil(x),
    ),
    ("silu(X + Y) + 0 * alpha", lambda x, y, a: (x + y) * sigmoid(x + y)),
    ("minimum(X, Y) + maximum(X, 1) - minimum(alpha, 2)", lambda x, y, a: min(x, y) + max(x, 1.0) - min(a, 2.0)),
    ("where(X < Y, X * alpha, Y / 4)", lambda x, y, a: x * a if x < y else y / 4),
    (
        "where(not (X < Y) and X > -1 or Y == 2, 1, X) + 0 * alpha",
        lambda x, y, a: 1.0 if (not x < y and x > -1) or y == 2 else x,
    ),
    ("X - (1 - 3) * Y + sqrt(5 - 1) + 0 * alpha", lambda x, y, a: x + 2 * y + 2),
    (
        "where(alpha > minimum(alpha, 2), X, where(1 < 2, Y, X))",
        lambda x, y, a: x if a > min(a, 2.0) else y,
    ),
    ("where(not (1 < 2), alpha * X, Y)", lambda x, y, a: y),
    ("X - (Y - alpha) - X ** 3", lambda x, y, a: x - (y - a) - x * x * x),
    ("X / (Y * Y + 1) * -alpha", lambda x, y, a: x / (y * y + 1) * -a),
    ("-X ** 2 + (X - Y) * (X + Y) / alpha", lambda x, y, a: -(x * x) + (x - y) * (x + y) / a),
]


def build(compute: str, dtype: str, folder: Path, out: str = "") -> ModuleType:
    size = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i8": 1, "u8": 1, "bool": 1}
    kernel, out = f"check_{zlib.crc32((compute + dtype).encode())}", out or dtype
    text = SPEC.format(kernel=kernel, compute=compute, dtype=dtype, align=size[dtype], out=out, out_align=size[out])
    module = generate(text, "specs/check.yaml").modules[0]
    path = folder / module.name
    path.write_text(module.text)
    loaded = load_module(path)
    loaded.__dict__["run"] = getattr(loaded, kernel)
    return loaded


def devices() -> list[str]:
    return ["cpu", "cuda"] if gpu_available() else ["cpu"]


def results(module: ModuleType, x: torch.Tensor, y: torch.Tensor, d: torch.Tensor, alpha: float) -> list[torch.Tensor]:
    """The result of the reference, and on a GPU that of the kernel."""
    found = [module.reference(x, y, alpha, d=d)]
    if "cuda" in devices():
        on_gpu = [t.cuda() for t in (x, y)]
        found.append(module.run(*on_gpu, alpha, d=d.cuda()).cpu())
    return found


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize(("compute", "independent"), FLOAT, ids=[c for c, _ in FLOAT])
def test_floats(compute: str, independent: Callable[..., float], dtype: str, tmp_path: Path) -> None:
    module = build(compute, dtype, tmp_path)
    kind = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    generator = torch.Generator().manual_seed(1)
    x = torch.cat([torch.randn(400, generator=generator) * 2, torch.tensor([0.0, 1.0, -1.0, 2.0, 2.0, 7.5, -7.5])])
    y = torch.cat([torch.randn(400, generator=generator) * 2, torch.tensor([0.0, 1.0, 2.0, 2.0, -2.0, 0.25, 3.0])])
    x, y, alpha = x.to(kind), y.to(kind), 1.25
    expected = torch.tensor(
        [independent(a, b, alpha) for a, b in zip(x.double().tolist(), y.double().tolist(), strict=True)],
        dtype=torch.float64,
    )
    unit = {"f32": 2e-6, "f64": 1e-6 if "alpha" in compute else 1e-14, "f16": 1e-3, "bf16": 8e-3}[dtype]
    if dtype == "f64":
        unit = 1e-13  # alpha is exact in f32
    for actual in results(module, x, y, torch.empty_like(x), alpha):
        scale = expected.abs() + x.double().abs() ** 3 + y.double().abs() ** 2 + 1
        assert ((actual.double() - expected).abs() <= unit * scale).all()


def test_the_reference_divides_numbers_with_one_rounding(tmp_path: Path) -> None:
    module = build("0.044715 / X + Y / 3 + 0 * alpha", "f32", tmp_path)
    x = torch.arange(1, 1025, dtype=torch.float32)
    for device in devices():
        first, second = (t.to(device) for t in (x, x * 0.7))
        found = module.reference(first, second, 1.0)
        wanted = torch.full_like(first, 0.044715) / first + second / torch.full_like(first, 3)
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("function", ["minimum", "maximum"])
@pytest.mark.parametrize("other", ["Y", "1", "alpha"])
def test_nan_passes_through(function: str, other: str, tmp_path: Path) -> None:
    module = build(f"{function}(X, {other}) + 0 * Y + 0 * alpha", "f32", tmp_path)
    x = torch.tensor([1.0, NAN, NAN, 3.0, -0.0, math.inf])
    y = torch.tensor([2.0, 1.0, 0.5, 0.0, 0.0, 1.0])
    independent = nan_min if function == "minimum" else nan_max
    right = {"Y": y.tolist(), "1": [1.0] * 6, "alpha": [2.5] * 6}[other]
    expected = [independent(a, b) for a, b in zip(x.tolist(), right, strict=True)]
    for actual in results(module, x, y, torch.empty_like(x), 2.5):
        torch.testing.assert_close(actual, torch.tensor(expected), equal_nan=True, rtol=0, atol=0)


def wrap(value: int, bits: int, signed: bool) -> int:
    value %= 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value


@pytest.mark.parametrize(("dtype", "bits", "signed"), [("i32", 32, True), ("i8", 8, True), ("u8", 8, False)])
@pytest.mark.parametrize(
    ("compute", "independent"),
    [
        ("X * Y + 3", lambda x, y: x * y + 3),
        ("where(X < Y, X - Y, abs(X) + 1)", lambda x, y: x - y if x < y else abs(x) + 1),
        ("maximum(minimum(X, Y), 2) - relu(Y - X)", lambda x, y: max(min(x, y), 2) - max(y - x, 0)),
        ("-X + Y ** 2", lambda x, y: -x + y * y),
    ],
)
def test_integers(
    compute: str, independent: Callable[[int, int], int], dtype: str, bits: int, signed: bool, tmp_path: Path
) -> None:
    module = build(f"cast({compute} + 0 * cast(alpha, i32), {dtype})", dtype, tmp_path)
    kind = {"i32": torch.int32, "i8": torch.int8, "u8": torch.uint8}[dtype]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(low, high, (200,), generator=generator).to(kind)
    y = torch.randint(low, high, (200,), generator=generator).to(kind)
    # Arithmetic is in i32 and wraps there, then at the output's width.
    if "relu" in compute:  # of a difference that must not wrap before relu sees it
        x, y = x // 4, y // 4
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = [wrap(wrap(independent(a, b), 32, True), bits, signed) for a, b in pairs]
    for actual in results(module, x, y, torch.empty_like(x), 1.0):
        assert actual.tolist() == expected


def test_comparison_to_bool(tmp_path: Path) -> None:
    module = build("X < Y or not (X == alpha) and Y >= 0", "f32", tmp_path, out="bool")
    x, y = torch.tensor([1.0, 2.0, 3.0, NAN]), torch.tensor([2.0, 1.0, -1.0, -1.0])
    expected = [a < b or (a != 3.0 and b >= 0) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for actual in results(module, x, y, torch.empty(4, dtype=torch.bool), 3.0):
        assert actual.tolist() == expected


def test_a_function_of_a_number_is_one(tmp_path: Path) -> None:
    """It is of Python's own, and has no type to be cast from."""
    module = build("X * (square(round(3)) + 1.0) + 0 * (Y + alpha)", "f32", tmp_path)
    x = torch.tensor([1.0, -2.0, 0.5, 100.0])
    for actual in results(module, x, torch.zeros(4), torch.empty(4), 0.0):
        assert actual.tolist() == (x * 10).tolist()


def test_explicit_cast_rounds(tmp_path: Path) -> None:
    module = build("X - cast(X, bf16) + 0 * (Y + alpha)", "f32", tmp_path)
    x = torch.tensor([1.0, 1.001, 3.14159, -100.3])
    expected = x - x.bfloat16().float()
    for actual in results(module, x, torch.zeros(4), torch.empty(4), 0.0):
        assert actual.tolist() == expected.tolist()
        assert actual.abs().max() > 0
