"""Contractions on warpgroups on the emulator: they are right, and each of many small mistakes in their text is seen."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case, derive_cases
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
schedule: {tiler: {M: 128, N: 32}}
targets: [sm_90a]
"""
OUTER = {"B": 1, "G": 2, "R": 2, "D": 32, "E": 48}
CASES = (  # all three parts of a walk, stages that go round, rows without an element, factors of both signs, and 0
    Case("tiles", "", {**OUTER, "M": 150, "N": 301}, "padded", "random", 1, {"scale": 0.2, "left": 140}),
    Case("narrow", "", {**OUTER, "M": 37, "N": 101}, "padded", "integers", 2, {"scale": -LN2, "left": 5}),
    Case("short", "", {**OUTER, "M": 35, "N": 7}, "compact", "random", 3, {"scale": 0.2, "left": 40}),
    Case("flat", "", {**OUTER, "R": 1, "M": 70, "N": 70}, "compact", "random", 4, {"scale": 0.0, "left": 2**31 - 1}),
    Case("many", "", {**OUTER, "B": 3, "R": 3, "M": 130, "N": 40}, "compact", "random", 5, {"scale": 0.2, "left": 60}),
)
MISTAKES = {
    "sums are not scaled where the largest grows": (
        "acc_mn[row, None].store(acc_mn[row, None].load() * grown_rows[row])",
        "pass",
    ),
    "nor are those of rows": ("l_rows[row] * grown + of_tile", "l_rows[row] + of_tile"),
    "a mask that is one wider": (".to(cutlass.Int64) >= 0)", ".to(cutlass.Int64) >= -1)"),
    "a tile too few at its begin": ("Int32(first_place // BLK_N)", "Int32(first_place // BLK_N + 1)"),
    "a tile too few at its end": ("end_tile - first_tile, 0)", "end_tile - first_tile - 1, 0)"),
    "a tile too few that is cut at its end": ("cut_tiles = last_tile + 1 -", "cut_tiles = last_tile -"),
    "a tile too few that is cut at its begin": ("whole_tiles = last_tile + 1 -", "whole_tiles = last_tile + 2 -"),
    "a walk that skips a tile": ("walk = (1, ", "walk = (2, "),
    "the first tile is never cut": ("is_cut = start < whole_first or", "is_cut = start < -1 and"),
    "half of a row's lanes": ("for lanes in range(1, 3):", "for lanes in range(1, 2):"),
    "another base of the logarithm": ("cute.math.log(l)", "cute.math.log2(l)"),
    "a difference of infinities": (' if largest == float("-inf") else largest', " if largest == 1e30 else largest"),
    "a row without elements": ("+ undefined", "+ 0.0"),
    "a factor whose sign is ignored": ("if factor < 0.0:", "if factor < -1e30:"),
    "a largest score with the factor's sign": ("* magnitude", "* factor"),
    "a factor of 0, which makes minus infinity a number": ("cute.arch.fmax(magnitude, 2.0**-126)", "magnitude"),
    "keys of the first group": ("tma_tensor_K[None, None, at_B, at_G]", "tma_tensor_K[None, None, at_B, 0]"),
    "values of the first sequence": ("tma_tensor_V[None, None, at_B, at_G]", "tma_tensor_V[None, None, 0, at_G]"),
    "a row beyond the end": ("at_M < size_M:", "at_M <= size_M:"),
    "the rows of the first warpgroup": ("group * 64 + places_S", "places_S"),
    "rows stored by another warpgroup": ("row_tile * CONSUMERS + group]", "row_tile * CONSUMERS + 1 - group]"),
    "places that are taken twice": ("first_place + place % places_together", "place % places_together"),
    "factors that are rounded once too often": (
        "scores_mn[row, None].store(p)",
        "scores_mn[row, None].store(p * 1.004)",
    ),
    "the products are not waited for": ("warpgroup.wait_group(1)", "warpgroup.wait_group(2)"),
    "factors that products still read": (
        "warpgroup.wait_group(0)\n                if thr == 0:\n                    cute.arch.mbarrier_arrive(empty_V",
        "if thr == 0:\n                    cute.arch.mbarrier_arrive(empty_V",
    ),
    "writes that copies do not see": (
        'cute.arch.fence_proxy("async.shared", space="cta")\n        cute.arch.barrier(barrier_id=5',
        "cute.arch.barrier(barrier_id=5",
    ),
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


def test_scores_are_verified_in_the_other_order_too() -> None:
    """Kernels give scores the other sign where their factor is negative: in no other case do these statements run."""
    assert any(case.scalars.get("scale", 0.0) < 0.0 < case.scalars["left"] for case in derive_cases(made().plan))


def test_factors_may_be_weighted(tmp_path: Path) -> None:
    """As may sums of what they are made of, by a tensor that has fewer modes than the scores."""
    pytest.importorskip("cutlass")
    text = SPEC.replace("  O: {", "  W: {shape: [N, G], dtype: f32}\n  O: {")
    text = text.replace("cast(p, bf16)", "cast(p * W, bf16)").replace("sum(p, N)", "sum(p * W, N)")
    module = generate(text, "specs/small.yaml").modules[0]
    (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    case = Case("narrow", "", {**OUTER, "M": 37, "N": 101}, "padded", "random", 2, {"scale": -0.2, "left": 60})
    report = verify_case(module.plan, case, load_module(tmp_path / module.name), EmulatorExecutor(lines=False))
    assert report.status == "passed", report.message


@pytest.mark.parametrize("mistake", sampled(list(MISTAKES), 7))
def test_each_mistake_is_seen(tmp_path: Path, mistake: str) -> None:
    pytest.importorskip("cutlass")
    text, (right, wrong) = made().text, MISTAKES[mistake]
    assert right in text
    assert first_failure(tmp_path, text.replace(right, wrong))
