"""How far the program of a module lets outputs be off: by the types on the way, and so that one wrong element fails."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.codegen.tolerances import tolerances
from cutegen.verification.executor import load_module

HEAD = "cutegen: 1\nkernel: trial\ntargets: [sm_90a]\n"
GEMM = HEAD + "op: gemm\ntensors:\n  A: {{shape: [M, K], dtype: {0}}}\n  B: {{shape: [N, K], dtype: {0}}}\n"
GEMM += "  D: {{shape: [M, N], dtype: {1}, role: out}}\ncompute: D = A @ B.T\n"
TENSORS = "  X: {shape: [M, N], dtype: f32}\n  Y: {shape: [M, N], dtype: f32}\n  B: {shape: [M, N], dtype: bf16}\n"
ROWS = HEAD + "op: rowwise\ntensors:\n  X: {shape: [M, N], dtype: f32}\n  D: {shape: [M, N], dtype: bf16, role: out}\n"


def spec(compute: str, dtype: str) -> str:
    """A spec that reads what of X, Y (f32) and B (bf16) it names, and writes D."""
    read = [line for line in TENSORS.splitlines(keepends=True) if re.search(rf"\b{line.strip()[0]}\b", compute)]
    out = f"  D: {{shape: [M, N], dtype: {dtype}, role: out}}\n"
    return f"{HEAD}op: elementwise\ntensors:\n{''.join(read)}{out}compute: {compute}\n"


# A spec, and what its output may be off: in parts of itself, in parts of the largest element, and at all.
SPECS = {
    "what is copied": (spec("D = X", "f32"), "(0, 0, 0)"),
    "what is rounded once": (spec("D = X", "bf16"), "(0, 0, 0)"),
    "a choice of what is known": (spec("D = where(X > Y, X, abs(Y))", "f32"), "(0, 0, 0)"),
    "a sum": (spec("D = X + Y", "f32"), "(2**-23, 2**-13, 0)"),
    "a sum in bf16": (spec("D = X + Y", "bf16"), "(2**-7, 2**-13, 0)"),
    "a sum in f16, which has numbers below its normal ones": (spec("D = X + Y", "f16"), "(2**-10, 2**-13, 2**-24)"),
    "a sum in f8": (spec("D = X + Y", "f8e4m3"), "(2**-3, 2**-13, 2**-9)"),
    "bf16 on the way": (spec("D = cast(X * Y, bf16) + X", "f32"), "(2**-23, 2**-7, 0)"),
    "bf16 that is exact on the way": (spec("D = cast(X, bf16) + B", "f32"), "(2**-23, 2**-13, 0)"),
    "bf16 in another statement": (spec('["t = cast(X * Y, bf16)", "D = t + X"]', "f32"), "(2**-23, 2**-7, 0)"),
    "whole numbers of sums": (spec("D = cast(X * 3 + Y, i8)", "i8"), "(0, 2**-13, 1)"),
    "whole numbers of what is known": (spec("D = cast(round(X), i8)", "i8"), "(0, 0, 0)"),
    "whole numbers as floats": (spec("D = round(X / 0.3) * 0.3", "f32"), "(2**-23, 2**-6, 1)"),
    "truth of what is known": (spec("D = X > Y", "bool"), "(0, 0, 0)"),
    "truth of sums": (spec("D = X + Y > 1", "bool"), "(0, 0, 0)"),
    "rows": (ROWS + "compute: D = X / sum(X * X, N)\n", "(2**-7, 2**-13, 0)"),
    "a loss": (ROWS + "compute: D = X - logsumexp(X, N)\n", "(2**-7, 2**-13, 0)"),
    "a product of bf16": (GEMM.format("bf16", "f32"), "(2**-23, 2**-13, 0)"),
    "a product of f64": (GEMM.format("f64", "f64"), "(2**-52, 2**-42, 0)"),
    "a product of f8, of whose sums tensor cores keep 14 bits": (GEMM.format("f8e4m3", "f32"), "(2**-23, 2**-6, 0)"),
}


def made(text: str) -> Module:
    return generate(text, "specs/trial.yaml").modules[0]


@pytest.mark.parametrize("name", SPECS)
def test_tolerances_follow_from_the_types_on_the_way(name: str) -> None:
    text, wanted = SPECS[name]
    module = made(text)
    assert tolerances(module.plan)["D"].text == wanted
    assert f'TOLERANCES = {{"d": {wanted}}}\n' in module.text
    assert ("TIES" in module.text) == (name == "truth of sums")


def test_tf32_leaves_out_bits_of_factors() -> None:
    text = GEMM.format("f32", "f32") + "schedule: {mma: {atom: mma_sync}, tiler: {M: 64, N: 64, K: 32}}\n"
    assert tolerances(made(text).plan)["D"].text == "(2**-23, 2**-9, 0)"


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
# A spec, how its right output is changed, and how many elements are then wrong
RUNS: dict[str, tuple[str, Change, int]] = {
    "nothing is changed": (SUM, lambda d: None, 0),
    "roundings in another order": (SUM, few_ulps, 0),
    "roundings to another number of bf16": (ROUNDED, few_ulps, 0),
    "one element is off": (SUM, add(0.01, 12, 7), 1),
    "one element of bf16 is off": (ROUNDED, lambda d: d.__setitem__((3, 4), d.abs().max() * 1.1), 1),
    "one element is NaN": (SUM, set_to(float("nan"), 0, 0), 1),
    "one element is infinite": (SUM, set_to(float("inf"), 0, 0), 1),
    "one element is 0": (SUM, set_to(0.0, 5, 5), 1),
    "one element is 0 beside a mask's numbers": (MASKED, set_to(0.0, 0, 39), 1),
    "a mask's number is missing": (MASKED, set_to(0.0, 23, 0), 1),
    "roundings beside a mask's numbers": (MASKED, few_ulps, 0),
    "a copy is off by a rounding": (SPECS["what is copied"][0], lambda d: d.mul_(1 + 2**-22), 24 * 40),
    "NaN is NaN": (UNKNOWN, lambda d: None, 0),
    "a number where NaN is right": (UNKNOWN, set_to(1.0, 1, 1), 1),
    "infinity is infinity": (INVERSE, lambda d: None, 0),
    "the other infinity": (INVERSE, lambda d: d.__setitem__((2, 2), -d[2, 2]), 1),
    "a number where infinity is right": (INVERSE, set_to(3e38, 2, 2), 1),
    "whole numbers are one off": (WHOLE, lambda d: d.add_(1), 0),
    "a whole number is two off": (WHOLE, lambda d: d[4, 4].add_(2), 1),
    "known whole numbers are one off": (SPECS["whole numbers of what is known"][0], lambda d: d[4, 4].add_(1), 1),
    "a known truth is another": (SPECS["truth of what is known"][0], lambda d: d[1, 2].logical_not_(), 1),
    "a product of bf16 is off": (GEMM.format("bf16", "bf16"), lambda d: d.__setitem__((3, 4), d[3, 4] + 4), 1),
}


def run(text: str, change: Change, folder: Path, patch: pytest.MonkeyPatch, says: Any) -> tuple[int, str]:
    """How a program ends whose kernel gives what its reference gives, changed, and what it prints."""
    module = made(text)
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    python: ModuleType = load_module(path)

    def kernel(*places: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        d = python.reference(*places, **named)
        change(d)
        return named["d"].copy_(d)

    sizes = {mode: size for mode, size in {"M": 24, "N": 40, "K": 32}.items() if mode in python.SIZES}
    for name in ("make_inputs", "make_outputs"):
        own = getattr(python, name)
        patch.setattr(python, name, lambda own=own, **given: own(**given, device="cpu"))
    patch.setattr(python, "trial", kernel)
    patch.setattr(torch.cuda, "is_available", lambda: True)
    patch.setattr(sys, "argv", ["trial.py", *(text for m, n in sizes.items() for text in (f"--{m}", str(n)))])
    code = python.main()
    return code, says.readouterr().out


@pytest.mark.parametrize("name", RUNS)
def test_one_wrong_element_fails_and_a_right_kernel_does_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, change, wrong = RUNS[name]
    code, said = run(text, change, tmp_path, monkeypatch, capsys)
    assert said.startswith(f"d: {wrong} of 960 are wrong, and off by up to "), said
    assert code == (wrong > 0)


@pytest.mark.parametrize(("others", "code"), [(9, 0), (10, 1)])
def test_comparisons_of_rounded_values_may_go_either_way(
    others: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(TRUTH, lambda d: d[0, :others].logical_not_(), tmp_path, monkeypatch, capsys)
    assert found == (code, f"d: {others} of 960 are wrong, and off by up to 1\n")
