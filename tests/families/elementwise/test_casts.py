"""Casts to integers as the language defines them: the kernel, `reference` and the bound say one thing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import call  # noqa: E402

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

RANGES = {"i64": (-(2**63), 2**63 - 1), "i32": (-(2**31), 2**31 - 1), "i8": (-128, 127), "u8": (0, 255)} | {
    "i16": (-(2**15), 2**15 - 1),
    "u32": (0, 2**32 - 1),
}
KINDS = {
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "u32": torch.uint32,
}
BYTES = {"i64": 8, "i32": 4, "i8": 1, "u8": 1, "i16": 2, "u32": 4}
VALUES = [
    *(0.5, -0.5, -0.0, -1.0, -2.5, 126.9, 127.9, 128.0, -128.9, -129.0, 254.9, 255.9, 256.0, 300.0, -300.0, 65504.0),
    *(
        32767.0,
        32768.0,
        -32769.0,
        4294967040.0,
        4294967295.0,
        4294967296.0,
        2147483520.0,
        2147483648.0,
        -2147483648.0,
        -2147483904.0,
        3e9,
        -3e9,
        1e38,
        -1e38,
        1e-40,
    ),
    *(9223371487098961920.0, 9223372036854775808.0, -9223372036854775808.0, -9223373136366403584.0, 1e19, -1e19),
    *(math.nan, math.inf, -math.inf),
]
WHOLE = [0, 1, -1, 127, 128, -128, -129, 255, 256, 300, 2**31 - 1, -(2**31)]
# Where the compiler may fold: a whole number goes through a float, and a number that it knows is out of range
SOURCES = {"X": "X", "H": "H", "B": "B", "W": "W", "I": "cast(I, f32)", "C": "where(X > 1, 1e20, X)", "S": "alpha"}


def spec(target: str, kinds: Sequence[str]) -> str:
    lines = [f"cutegen: 1\nkernel: casts\nop: elementwise\ntargets: [{target}]\nscalars: {{alpha: f32}}\ntensors:"]
    for name, dtype, align in (("X", "f32", 4), ("H", "f16", 2), ("B", "bf16", 2), ("W", "f64", 8), ("I", "i32", 4)):
        lines.append(f"  {name}: {{shape: [N], dtype: {dtype}, align: {align}}}")
    lines += [
        f"  {name}{dtype}: {{shape: [N], dtype: {dtype}, align: {BYTES[dtype]}, role: out}}"
        for name in SOURCES
        for dtype in kinds
    ]
    lines += ["compute:", *(f"  - {n}{d} = cast({text}, {d})" for n, text in SOURCES.items() for d in kinds)]
    return "\n".join(lines)


def defined(value: float, dtype: str) -> int:
    low, high = RANGES[dtype]
    if math.isnan(value):
        return 0
    return low if value < low else high if value > high else math.trunc(value)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kinds", [("i32", "i8", "u8"), ("i64", "i16", "u32")])
def test_out_of_range_is_the_nearest_number_and_nan_is_0(target: str, kinds: Sequence[str], tmp_path: Path) -> None:
    module = generate(spec(target, kinds), "specs/casts.yaml").modules[0]
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    python = load_module(path)
    install(python, "casts", lines=False)
    values = torch.tensor(VALUES, dtype=torch.float64)
    x, h, b = values.float(), values.to(torch.float16), values.to(torch.bfloat16)
    whole = torch.tensor((WHOLE * 4)[: len(VALUES)], dtype=torch.int32)
    inputs = {"X": x, "H": h, "B": b, "W": values, "I": whole}
    results = {f"{n}{d}": torch.zeros(len(VALUES), dtype=KINDS[d]) for n in SOURCES for d in kinds}
    for alpha in (-2.5, 1e10, math.nan):
        arguments: list[Any] = [*inputs.values(), *results.values(), alpha]
        call(python, "casts", [*map(on_device, arguments[:-1]), alpha])
        reference = call(python, "reference", arguments)
        derived = evaluate(module.spec, inputs, {"alpha": alpha})
        computed = {
            **{name: tensor.double() for name, tensor in inputs.items() if name != "I"},
            "I": whole.float().double(),
            "C": torch.where(x > 1, torch.tensor(1e20), x).double(),
            "S": torch.full_like(values, alpha),
        }
        for number, (name, result) in enumerate(results.items()):
            right = [defined(value, name[1:]) for value in computed[name[0]].tolist()]
            assert result.tolist() == right, name
            assert reference[number].tolist() == right, name
            assert derived[name].value.tolist() == right and not derived[name].bound.any(), name
