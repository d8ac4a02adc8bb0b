"""Tensors that are taken at places: kernels of them are right on the CPU, and each kind of mistake is found there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.families.common.places import enough_places
from cutegen.language.writer import write_spec
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.places import places_for
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

HEAD = "cutegen: 1\nkernel: taken\nop: elementwise\ntargets: [sm_90a]\ntensors:\n"
GATHER = f"""{HEAD}  W: {{shape: [V, D], dtype: bf16, at: {{V: ids}}}}
  ids: {{shape: [T], dtype: i32}}
  Y: {{shape: [T, D], dtype: bf16, role: out}}
compute: Y = W * 2
"""
PAGED = f"""{HEAD}  K: {{shape: [T, D], dtype: bf16}}
  page: {{shape: [T], dtype: i64}}
  row: {{shape: [T], dtype: i64}}
  cache: {{shape: [P, R, D], dtype: bf16, role: out, at: {{P: page, R: row}}}}
compute: cache = K
"""
ROWS_FIRST = PAGED.replace("at: {P: page, R: row}", "at: {R: row, P: page}")
COLUMNS = f"""{HEAD}  X: {{shape: [M, K], dtype: f32, at: {{K: idx}}}}
  idx: {{shape: [N], dtype: i64}}
  Y: {{shape: [M, N], dtype: f32, role: inout}}
compute: Y = Y + X
"""
ALONG_ONE = f"""{HEAD}  X: {{shape: [V], dtype: f32, at: {{V: idx}}}}
  idx: {{shape: [N], dtype: i32}}
  slots: {{shape: [N], dtype: i64}}
  Y: {{shape: [S], dtype: f32, role: out, at: {{S: slots}}}}
compute: Y = X
schedule: {{partition: inner_outer, tiler: {{N: 256}}, thread_layout: "64", predication: {{N: mask}}}}
"""
SHARED = f"""{HEAD}  K: {{shape: [T, D], dtype: bf16}}
  page: {{shape: [T], dtype: i32}}
  row: {{shape: [T], dtype: i32}}
  gate: {{shape: [Q], dtype: f32, at: {{Q: page}}}}
  cache: {{shape: [P, R, D], dtype: bf16, role: inout, at: {{P: page, R: row}}}}
compute: cache = cache + K * gate
"""
TOLD = ("tile", "all one less", "all one more", "primes")  # the names of the cases that tell first
MUTANTS = [
    (GATHER, "the place is left out", "cutlass.Int64(tYrids_at[vector]) * step_W_V", "cutlass.Int64(0)"),
    (GATHER, "the place of another access", "tYrids_at[vector]", "tYrids_at[0]"),
    (GATHER, "a place too far", "tYrids_at[vector])", "tYrids_at[vector] + 1)"),
    (GATHER, "steps along another mode", "step_W_V = mW.stride[2]", "step_W_V = mW.stride[1]"),
    (GATHER, "places of neighbours along D", "stride=((0, width),)", "stride=((0, 1),)"),
    (GATHER, "rows that do not exist are read", "        if tYpY[vector]:", "        if True:"),
    (GATHER, "no stride for places", "mW.stride[1], mW.stride[0])", "mW.stride[1], mW.stride[1])"),
    (PAGED, "pages are left out", "cutlass.Int64(tcacherpage_at[vector])", "cutlass.Int64(0)"),
    (PAGED, "pages and rows swapped", "step_cache_P = mcache.stride[2]", "step_cache_P = mcache.stride[3]"),
    (PAGED, "rows that do not exist are written", "        if tcachepcache[vector]:", "        if True:"),
    (COLUMNS, "places by the access", "VALUES),), stride=((0, 1),)", "VALUES),), stride=((0, 0),)"),
]  # fmt: skip


def failures(module: Module, text: str, folder: Path) -> list[str]:
    path = folder / "taken.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name.partition(",")[0] in TOLD]
    reports = (verify_case(module.plan, case, loaded, executor) for case in cases)
    return [report.message for report in reports if report.message]


@pytest.mark.parametrize(
    "text",
    [GATHER, PAGED, ROWS_FIRST, COLUMNS, ALONG_ONE, SHARED],
    ids=["gather", "paged", "rows first", "columns", "along one mode", "places of several"],
)
def test_kernels_are_right(text: str, tmp_path: Path) -> None:
    (module,) = generate(text, "specs/taken.yaml").modules
    assert failures(module, module.text, tmp_path) == []


@pytest.mark.parametrize(("text", "broken", "old", "new"), MUTANTS, ids=[m[1] for m in MUTANTS])
def test_a_mistake_is_found(text: str, broken: str, old: str, new: str, tmp_path: Path) -> None:
    (module,) = generate(text, "specs/taken.yaml").modules
    assert old in module.text
    assert failures(module, module.text.replace(old, new), tmp_path), broken


def test_an_explained_scatter_is_a_spec() -> None:
    """Its schedule names the modes that the kernel walks, which those of the output in memory are not."""
    (module,) = generate(PAGED, "specs/taken.yaml").modules
    (again,) = generate(write_spec(module.plan.spec), "specs/taken.yaml").modules
    assert again.text.split("\n", 3)[3] == module.text.split("\n", 3)[3]


def test_places_are_in_range_of_all_that_are_taken_there() -> None:
    """And differ where one of those is written, though others are only read."""
    (module,) = generate(SHARED, "specs/taken.yaml").modules
    spec = module.plan.spec
    sizes = enough_places(spec, {"T": 12, "D": 1, "Q": 2, "P": 9, "R": 3})
    assert sizes == {"T": 12, "D": 1, "Q": 4, "P": 9, "R": 3}
    page, row = (places_for(spec, name, sizes, 1) for name in ("page", "row"))
    assert page is not None and row is not None and int(page.max()) == 3 and int(row.max()) == 2
    assert len(torch.unique(torch.stack([page, row]), dim=1).T) == 12


@pytest.mark.parametrize("sizes", [{"T": 5, "P": 2, "R": 3, "D": 1}, {"T": 6, "P": 2, "R": 3, "D": 1}])
def test_places_that_are_written_differ(sizes: dict[str, int]) -> None:
    (module,) = generate(PAGED, "specs/taken.yaml").modules
    page, row = (places_for(module.plan.spec, name, sizes, 1) for name in ("page", "row"))
    assert page is not None and row is not None
    assert page.dtype is torch.int64 and 0 <= int(page.min()) <= int(page.max()) == 1
    assert len(torch.unique(torch.stack([page, row]), dim=1).T) == sizes["T"]
