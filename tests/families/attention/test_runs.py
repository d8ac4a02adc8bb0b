"""Kernels of contractions on the emulator: they are right, and each of many small mistakes in their text is seen."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

LN2 = 0.6931471805599453
SPEC = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  O: {shape: [B, M, G, R, E], dtype: bf16, role: out}
  lse: {shape: [B, G, R, M], dtype: f32, role: out}
scalars: {scale: f32, left: i32}
compute:
  - d = coord(M) - coord(N) + len(N) - len(M)
  - s = where(d >= 0 and d <= left, sum(Q * K, D) * scale, -inf)
  - m = max(s, N)
  - p = exp(s - m)
  - l = sum(p, N)
  - O = sum(cast(p, bf16) * V, N) / l
  - lse = m + log(l)
static: {D: 32, E: 48}
schedule: {tiler: {M: 32, N: 32}}
targets: [sm_80]
"""
OUTER = {"B": 2, "G": 2, "R": 2, "D": 32, "E": 48}
CASES = (  # windows that begin within a tile of rows, and in one that the first rows need; rows without an element
    Case("tiles", "", {**OUTER, "M": 37, "N": 101}, "padded", "random", 1, {"scale": 0.2, "left": 40}),
    Case("narrow", "", {**OUTER, "M": 37, "N": 101}, "padded", "integers", 2, {"scale": LN2, "left": 5}),
    Case("short", "", {**OUTER, "M": 35, "N": 7}, "compact", "random", 3, {"scale": 0.2, "left": 40}),
)
WAIT = "        cute.arch.cp_async_wait_group(2 * STAGES - 2)\n"
MISTAKES = {
    "sums are not scaled where the largest grows": (
        "acc_mn[row, None].store(acc_mn[row, None].load() * grown)",
        "pass",
    ),
    "nor are those of rows": ("l_rows[row] * grown + of_tile", "l_rows[row] + of_tile"),
    "a mask that is one wider": ("x2 = (d >= 0) & (d <= left", "x2 = (d >= -1) & (d <= left"),
    "a tile too few at its begin": ("Int32(first_place // BLK_N)", "Int32(first_place // BLK_N + 1)"),
    "a tile too few at its end": ("end_tile - first_tile, 0)", "end_tile - first_tile - 1, 0)"),
    "half of a row's lanes": ("for lanes in range(1, 3):", "for lanes in range(1, 2):"),
    "another base of the logarithm": ("cute.math.log(l)", "cute.math.log2(l)"),
    "a difference of infinities": (' if largest == float("-inf") else largest', " if largest == 1e30 else largest"),
    "a row without elements": ("+ undefined", "+ 0.0"),
    "heads of the first group": ("mK[at_B, None, at_G, None]", "mK[at_B, None, 0, None]"),
    "values of the first sequence": ("mV[at_B, None, at_G, None]", "mV[0, None, at_G, None]"),
    "a row beyond the end": ("at_M < size_M:", "at_M <= size_M:"),
    "values of rows beyond the end": ("tVcV, (first_tile + ahead) * BLK_N, size_N", "tVcV, 0, size_N"),
    "a stage that is still read": (
        "cute.arch.sync_threads()\n        ahead = tile + STAGES",
        "ahead = tile + STAGES",
    ),
    "a copy under way": (
        f"{WAIT}        cute.arch.sync_threads()\n        ahead = tile + STAGES\n",
        "        cute.arch.sync_threads()\n        ahead = tile + STAGES\n",
    ),
    "factors that are rounded once too often": ("factor = p.to(", "factor = (p * 1.004).to("),
}  # fmt: skip


@cache
def made() -> Module:
    return generate(SPEC, "specs/small.yaml").modules[0]


def first_failure(folder: Path, text: str) -> str:
    """The message of the first case that fails; empty where all pass."""
    module = made()
    (folder / module.name).write_text(text, encoding="utf-8")
    loaded = load_module(folder / module.name)
    executor = EmulatorExecutor(lines=False)  # which compiles the module once
    reports = (verify_case(module.plan, case, loaded, executor) for case in CASES)
    return next((report.message for report in reports if report.status != "passed"), "")


def test_it_is_right(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    assert first_failure(tmp_path, made().text) == ""


@pytest.mark.parametrize("mistake", sampled(list(MISTAKES), 4))
def test_each_mistake_is_seen(tmp_path: Path, mistake: str) -> None:
    pytest.importorskip("cutlass")
    text, (right, wrong) = made().text, MISTAKES[mistake]
    assert right in text
    assert first_failure(tmp_path, text.replace(right, wrong))
