"""The program of a module: one wrong element fails, and no right kernel does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.codegen.tolerance import borders, jumps, tolerance
from cutegen.verification.executor import load_module

HEAD = "cutegen: 1\nkernel: trial\ntargets: [sm_90a]\n"
GEMM = HEAD + "op: gemm\ntensors:\n  A: {{shape: [M, K], dtype: {0}}}\n  B: {{shape: [N, K], dtype: {0}}}\n"
GEMM += "  D: {{shape: [M, N], dtype: {1}, role: out}}\ncompute: D = A @ B.T\n"
ONE = "schedule: {mma: {atom: wgmma}}\n"  # of the many that are compared where none is written
TENSORS = "  X: {shape: [M, N], dtype: f32}\n  Y: {shape: [M, N], dtype: f32}\n  B: {shape: [M, N], dtype: bf16}\n"
ROWS = HEAD + "op: rowwise\ntensors:\n  X: {shape: [M, N], dtype: f32}\n  D: {shape: [M, N], dtype: bf16, role: out}\n"


def spec(compute: str, dtype: str) -> str:
    """A spec that reads what of X, Y (f32) and B (bf16) it names, and writes D."""
    read = [line for line in TENSORS.splitlines(keepends=True) if re.search(rf"\b{line.strip()[0]}\b", compute)]
    out = f"  D: {{shape: [M, N], dtype: {dtype}, role: out}}\n"
    return f"{HEAD}op: elementwise\ntensors:\n{''.join(read)}{out}compute: {compute}\n"


# A spec, and what its right kernels may be off by, as a power of two.
SPECS = {
    "what is copied": (spec("D = X", "f32"), None),
    "what is rounded once": (spec("D = X", "bf16"), None),
    "a choice of what is known": (spec("D = where(X > Y, X, abs(Y))", "f32"), None),
    "whole numbers of what is known": (spec("D = cast(round(X), i8)", "i8"), None),
    "truth of what is known": (spec("D = X > Y", "bool"), None),
    "a sum": (spec("D = X + Y", "f32"), -11),
    "a sum in bf16": (spec("D = X + Y", "bf16"), -11),
    "bf16 of another statement": (spec('["t = cast(X * Y, bf16)", "D = t"]', "f32"), -6),
    "bf16 on the way": (spec("D = cast(X * Y, bf16) * 3", "f32"), -6),
    "whole numbers of sums": (spec("D = cast(X * 3 + Y, i8)", "i8"), -11),
    "truth of sums": (spec("D = X + Y > 1", "bool"), -11),
    "a product of bf16": (GEMM.format("bf16", "f32") + ONE, -11),
    "a product of f64": (GEMM.format("f64", "f64"), -40),
    "a product of f8, of whose sums tensor cores keep 14 bits": (GEMM.format("f8e4m3", "f32") + ONE, -6),
}
JUMPS = {  # whether the last bits of what is computed decide what an element is
    "what is copied": False,
    "whole numbers of what is known": False,
    "truth of what is known": False,
    "a sum": False,
    "bf16 on the way": False,
    "whole numbers of sums": True,
    "truth of sums": True,
    "a product of bf16": False,
}


@cache
def made(text: str) -> Module:
    return generate(text, "specs/trial.yaml").modules[0]


@pytest.mark.parametrize("name", SPECS)
def test_tolerance_follows_from_the_types_on_the_way(name: str) -> None:
    text, wanted = SPECS[name]
    module = made(text)
    assert tolerance(module.plan) == wanted
    floats = wanted is not None and ("dtype: i8, role: out" not in text and "dtype: bool, role: out" not in text)
    used = floats or borders(module.plan)
    assert (f"\nTOLERANCE = 2**{wanted}  #" in module.text) == used
    assert ("TOLERANCE" in module.text) == used


@pytest.mark.parametrize("name", JUMPS)
def test_some_elements_may_jump_where_a_rounding_decides(name: str) -> None:
    module = made(SPECS[name][0])
    assert jumps(module.plan) == JUMPS[name]
    assert ("unequal.numel() // 2**14" in module.text) == JUMPS[name]


BORDERS = {  # whether elements on one side of a border are far from those on the other
    "D = X + Y > 1": True,
    "D = where(X > Y, X + Y, 0)": False,
    "D = where(X * Y > 1, X, 0)": True,
    "D = sign(X * Y)": True,
    "D = cast(X * Y, bool)": True,
    "D = cast(round(X * 3 + Y), i8)": False,
    "D = cast(round(X * 3 + Y), i8) * 2": True,
    "D = round(X * 100) * 0.001": True,
    "D = X * Y - floor(X * Y)": True,
    '["t = round(X * Y)", "D = t"]': True,
    "D = X % 3 + Y": True,
    "D = maximum(X * Y, 0)": False,
}


@pytest.mark.parametrize("compute", BORDERS)
def test_near_arguments_are_asked_for_where_a_rounding_decides_between_far_values(compute: str) -> None:
    wanted = BORDERS[compute]
    dtype = "bool" if " > 1" in compute and "where" not in compute or "bool" in compute else "f32"
    dtype = "i8" if "i8" in compute else dtype
    module = made(spec(compute, dtype))
    assert borders(module.plan) == wanted
    assert ("def _near(" in module.text) == ("reference(*map(_near, inputs), **outputs)" in module.text) == wanted


def test_tf32_leaves_out_bits_of_factors() -> None:
    text = GEMM.format("f32", "f32") + "schedule: {mma: {atom: mma_sync}, tiler: {M: 64, N: 64, K: 32}}\n"
    assert tolerance(made(text).plan) == -7


Change = Callable[[torch.Tensor], object]


def set_to(value: float, *index: int) -> Change:
    return lambda d: d.__setitem__(index, value)


def add(value: float, *index: int) -> Change:
    return lambda d: d.__setitem__(index, d.double()[index] + value)


def few_ulps(d: torch.Tensor) -> None:
    noise = torch.rand(d.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 0.5
    d.copy_(d.double() + noise * torch.finfo(d.dtype).eps * d.double().abs())


SUM, ROUNDED = SPECS["a sum"][0], SPECS["a sum in bf16"][0]
WHOLE, TRUTH = SPECS["whole numbers of sums"][0], SPECS["truth of sums"][0]
UNKNOWN = spec("D = 1 / (X - X) + Y / (Y - Y) * 0", "f32")  # infinities and NaN
INVERSE = spec("D = 1 / (X * 0)", "f32")  # infinities of either sign
MASKED = spec("D = where(coord(M) > coord(N), -1e30, X * X + 1)", "bf16")
STEEP = spec("D = exp(30 * X)", "f32")  # from e^-100 to e^100
STEPS = spec("D = round(X * 100) * 0.001", "f32")
LARGEST = ROWS.replace("[M, N], dtype: bf16, role", "[M], dtype: i32, role") + "compute: D = argmax(OF, N)\n"
HALVES = ROWS.replace("bf16, role", "i8, role") + "compute: D = cast(round(X * (127 / max(abs(X), N))), i8)\n"
CANCELS = ROWS + "compute: D = 1 / (X - mean(X, N))\n"
SUMS = ROWS.replace("[M, N], dtype: bf16, role", "[M], dtype: f32, role") + "compute: D = sum(X, N)\n"
FAR = spec("D = (X + 100000) * 3 - 300000", "f32")
PRODUCT = GEMM.format("bf16", "bf16") + ONE
LOG2_E = 1.4426950408889634
# A spec, how its right output is changed, and how many elements are then wrong: at least, if it is more than one
RUNS: dict[str, tuple[str, Change, int]] = {
    "nothing is changed": (SUM, lambda d: None, 0),
    "roundings in another order": (SUM, few_ulps, 0),
    "one element is off": (SUM, add(0.01, 12, 7), 1),
    "one element of bf16 is off": (ROUNDED, lambda d: d.__setitem__((3, 4), d[3, 4] * 1.03), 1),
    "one element is NaN": (SUM, set_to(float("nan"), 0, 0), 1),
    "one element is infinite": (SUM, set_to(float("inf"), 0, 0), 1),
    "one element is 0": (SUM, set_to(0.0, 5, 5), 1),
    "one element is 0 beside a mask's numbers": (MASKED, set_to(0.0, 0, 39), 1),
    "a mask's number is missing": (MASKED, set_to(0.0, 23, 0), 1),
    "a copy is off by a rounding": (SPECS["what is copied"][0], lambda d: d.mul_(1 + 2**-22), 24 * 40),
    "NaN is NaN": (UNKNOWN, lambda d: None, 0),
    "a number where NaN is right": (UNKNOWN, set_to(1.0, 1, 1), 1),
    "infinity is infinity": (INVERSE, lambda d: None, 0),
    "the other infinity": (INVERSE, lambda d: d.__setitem__((2, 2), -d[2, 2]), 1),
    "a number where infinity is right": (INVERSE, set_to(3e38, 2, 2), 1),
    "a whole number is two off": (WHOLE, lambda d: d[4, 4].add_(2), 1),
    "a known whole number is one off": (SPECS["whole numbers of what is known"][0], lambda d: d[4, 4].add_(1), 1),
    "a known truth is another": (SPECS["truth of what is known"][0], lambda d: d[1, 2].logical_not_(), 1),
    "a truth of sums is another": (TRUTH, lambda d: d[1, 2].logical_not_(), 1),
    "a product of bf16 is off": (PRODUCT, lambda d: d.__setitem__((3, 4), d[3, 4] * 1.02), 1),
    "rows of a product are swapped": (PRODUCT, lambda d: d.copy_(d.flip(0)), 950),
    "a small number beside large ones is off": (STEEP, lambda d: d[4, 4].mul_(1.1), 1),
    "zeros": (STEEP, lambda d: d.zero_(), 550),
    "a step is another": (STEPS, add(0.001, 6, 7), 1),
    "an index is one too high": (LARGEST.replace("OF", "X"), lambda d: d.add_(1), 24),
    "an index of products is one too high": (LARGEST.replace("OF", "X * 0.3"), lambda d: d.add_(1), 24),
    "an element beside one that cancels is off": (CANCELS, lambda d: d[1].mul_(1.04), 40),
}
Right = Callable[[torch.Tensor], torch.Tensor]
# A spec, and its output as another right kernel has it
RIGHT: dict[str, tuple[str, Right]] = {
    "a function that multiplies errors": (STEEP, lambda x: torch.exp2((x * 30) * LOG2_E)),
    "whole numbers": (STEPS, lambda x: torch.round(x.double() * (1 + 2**-22) * 100) * 0.001),
    "whole numbers, the other way": (STEPS, lambda x: torch.round(x.double() * (1 - 2**-22) * 100) * 0.001),
    "indices": (LARGEST.replace("OF", "X * 0.3"), lambda x: torch.argmax(x, 1)),
    "sums that cancel": (CANCELS, lambda x: 1 / (x - x.flip(1).cumsum(1)[:, -1:] / 40)),
    "sums near 0": (SUMS, lambda x: x.double().sum(1)),
    "large numbers on the way": (FAR, lambda x: torch.addcmul(torch.tensor(0.0), x + 100000, torch.tensor(3.0)) - 3e5),
    "numbers halfway between whole ones": (
        HALVES,
        lambda x: torch.round(x.double() * (1 - 2**-22) * 127 / x.abs().amax(1, True)),
    ),
}


Changed = Callable[..., object]


def run(text: str, change: Changed, folder: Path, patch: pytest.MonkeyPatch, says: Any) -> tuple[bool, int]:
    """Whether a program fails, and how many elements it finds wrong, whose kernel gives what its reference gives,
    changed: `change` gets that and the kernel's inputs.
    """
    module = made(text)
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    python: ModuleType = load_module(path)

    def kernel(*places: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        d = python.reference(*places, **named)
        change(d, *places)
        return named["d"].copy_(d)

    sizes = {mode: size for mode, size in {"M": 24, "N": 40, "K": 32}.items() if mode in python.SIZES}
    for name in ("make_inputs", "make_outputs"):
        own = getattr(python, name)
        patch.setattr(python, name, lambda own=own, **given: own(**given, device="cpu"))
    patch.setattr(python, "trial", kernel)
    patch.setattr(torch.cuda, "is_available", lambda: True)
    patch.setattr(sys, "argv", ["trial.py", *(text for m, n in sizes.items() for text in (f"--{m}", str(n)))])
    try:
        python.main()
    except AssertionError as failure:
        found = re.search(r"Mismatched elements: (\d+) / (960|24) ", str(failure))
        assert found and not says.readouterr().out, failure
        return True, int(found[1])
    assert says.readouterr().out == "d: agrees with torch\n"
    return False, 0


@pytest.mark.parametrize("name", RUNS)
def test_one_wrong_element_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, change, wrong = RUNS[name]
    failed, found = run(text, lambda d, *_: change(d), tmp_path, monkeypatch, capsys)
    assert failed == (wrong > 0)
    assert wrong <= found if wrong > 1 else found == wrong


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_does_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, right = RIGHT[name]
    assert run(text, lambda d, x, *_: d.copy_(right(x)), tmp_path, monkeypatch, capsys) == (False, 0)


TF32 = "schedule: {mma: {atom: mma_sync}, tiler: {M: 64, N: 64, K: 32}}\n"
# What is computed of a product, the type of that, and the numbers at which it jumps: 0, or all whole ones
OF_PRODUCTS = {
    "truths": ("cast(A @ B.T > 0, i8)", "i8", False),
    "masked numbers": ("where(A @ B.T > 0, 100.0, -100.0)", "f32", False),
    "whole numbers, times a number": ("cast(floor(A @ B.T), i32) * 100", "i32", True),
}


def by_distance(product: torch.Tensor, whole: bool) -> torch.Tensor:
    """The places of numbers, those nearest to where something made of them jumps first."""
    border = product.round() if whole else torch.zeros_like(product)
    return (product - border).abs().flatten().argsort()


def on_the_other_side(d: torch.Tensor, product: torch.Tensor, whole: bool, places: torch.Tensor) -> None:
    """Makes elements what they are on the other side of the nearest border."""
    if whole:
        nearest = product.round()
        other = torch.where(product >= nearest, nearest - 1, nearest) * 100
    else:
        low, high = d.min(), d.max()
        other = torch.where(d == low, high, low)
    flat, changed = d.view(-1), other.to(d.dtype).view(-1)
    flat[places] = changed[places]


@pytest.mark.parametrize("name", OF_PRODUCTS)
def test_elements_near_a_border_may_be_on_either_side(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    value, dtype, whole = OF_PRODUCTS[name]
    text = GEMM.format("f32", dtype).replace("D = A @ B.T", f"D = {value}") + TF32

    def change(first: int, last: int) -> Changed:
        def changed(d: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
            product = a.double() @ b.double().T
            on_the_other_side(d, product, whole, by_distance(product, whole)[first:last])

        return changed

    assert run(text, change(0, 3), tmp_path, monkeypatch, capsys) == (False, 0)
    assert run(text, change(950, 951), tmp_path, monkeypatch, capsys) == (True, 1)
    failed, found = run(text, change(0, 960), tmp_path, monkeypatch, capsys)
    assert failed and found > 500
