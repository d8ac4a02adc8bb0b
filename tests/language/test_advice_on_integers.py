"""The replacements that lint suggests for functions of integers agree with those functions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.expressions.absent import ABSENT, INSTEAD  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402


def made(text: str, tmp_path: Path) -> ModuleType:
    (module,) = generate(text, "specs/advice.yaml").modules
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    return load_module(path)


def _bits(x: int, count: int = 32) -> int:
    return x & ((1 << count) - 1)


OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "mulhi": lambda x, y: x * y >> 32,
    "umulhi": lambda x, y: _bits(x) * _bits(y) >> 32,
    "rotl": lambda x, y: _bits(_bits(x) << (y & 31)) | _bits(x) >> 32 - (y & 31) if 0 <= y < 32 else 0,
    "rotr": lambda x, y: _bits(x) >> (y & 31) | _bits(_bits(x) << 32 - (y & 31)) if 0 <= y < 32 else 0,
    "cdiv": lambda x, y: -(-x // y),
    "xor": lambda x, y: x ^ y,
}


def test_functions_of_integers_are_exact(tmp_path: Path) -> None:
    numbers = (0, 1, 2, 3, 7, 31, 65537, 123456789, 2**31 - 1, -1, -2, -7, -65536, -(2**31) + 1)
    x, y = (
        torch.tensor(list(itertools.product(numbers, numbers[1:])), dtype=torch.int32).T.reshape(2, 14, -1).contiguous()
    )
    names = sorted(OF_INTEGERS)
    outputs = "".join(f"  y_{name}: {{shape: [M, N], dtype: i32, role: out}}\n" for name in names)
    statements = "".join(f"  - y_{name} = {INSTEAD[name]}\n" for name in names)
    x_and_y = "".join(f"  {name}: {{shape: [M, N], dtype: i32}}\n" for name in "xy")
    text = f"cutegen: 1\nkernel: advice\nop: elementwise\ntensors:\n{x_and_y}{outputs}compute:\n{statements}"
    module = made(text, tmp_path)
    for name, found in zip(names, module.reference(x, y), strict=True):
        for a, b, value in zip(x.flatten().tolist(), y.flatten().tolist(), found.flatten().tolist(), strict=True):
            if name.startswith("rot") and not 0 <= b < 32:
                continue
            assert _bits(value) == _bits(OF_INTEGERS[name](a, b)), (name, a, b)


def test_bits_are_counted(tmp_path: Path) -> None:
    a, b, c = re.findall("`(.+?)`", ABSENT["popcount"][1])[:3]
    text = f"""
cutegen: 1
kernel: counted
op: elementwise
tensors:
  x: {{shape: [M, N], dtype: i32}}
  y: {{shape: [M, N], dtype: i32, role: out}}
compute: ["{a}", "{b}", "y = {c}"]
"""
    numbers = [0, 1, 255, -1, 2**31 - 1, -(2**31), 123456789, -987654321]
    found = made(text, tmp_path).reference(torch.tensor([numbers], dtype=torch.int32))
    assert found[0].tolist() == [_bits(n).bit_count() for n in numbers]
