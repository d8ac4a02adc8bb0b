"""`fmod` of integers is computed in integers, as torch's is: exact where an f32 would round them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("cutlass")

from cutegen import emulator
from cutegen.codegen import generate
from cutegen.verification.executor import load_module

SPEC = """\
cutegen: 1
kernel: remainders
op: elementwise
tensors:
  A: {shape: [M, N], dtype: i64}
  B: {shape: [M, N], dtype: i64}
  I: {shape: [M, N], dtype: i32}
  J: {shape: [M, N], dtype: i32}
  wide: {shape: [M, N], dtype: i64, role: out}
  narrow: {shape: [M, N], dtype: i32, role: out}
  by_seven: {shape: [M, N], dtype: f32, role: out}
compute:
  - wide = fmod(A, B)
  - narrow = fmod(I, J)
  - by_seven = fmod(I, -7)
static: {N: 64}
targets: [sm_80]
"""
NUMBERS = (0, 1, 2, 3, 7, 64, 16777217, 123456789, 2**31 - 1, 2**53 + 1, 2**63 - 1)


def _pairs(bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of signed numbers of so many bits, in whole rows of 64."""
    fitting = [n for n in NUMBERS if n < 2 ** (bits - 1)]
    signed = torch.tensor(sorted({*fitting, *(-n for n in fitting), -(2 ** (bits - 1))}))
    x, y = (side.flatten() for side in torch.meshgrid(signed, signed, indexing="ij"))
    rows = 8 * 64
    dtype = torch.int32 if bits == 32 else torch.int64
    return tuple(side.repeat(2)[:rows].to(dtype).reshape(-1, 64).contiguous() for side in (x, y))


def _of_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Torch's own; 0 where torch divides nothing, by 0, or what overflows, by -1."""
    none = (y == 0) | (y == -1)
    return torch.where(none, 0, torch.fmod(x, torch.where(none, 1, y)))


def test_fmod_of_integers_is_exact(tmp_path: Path) -> None:
    (module,) = generate(SPEC, "x.yaml").modules
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded = load_module(path)
    emulator.install(loaded, "remainders")
    (a, b), (i, j) = _pairs(64), _pairs(32)
    wide, narrow = _of_integers(a, b), _of_integers(i, j)
    by_seven = torch.fmod(i, -7).float()
    for found in (loaded.remainders(a, b, i, j), loaded.reference(a, b, i, j)):
        assert torch.equal(found[0], wide) and torch.equal(found[1], narrow) and torch.equal(found[2], by_seven)
