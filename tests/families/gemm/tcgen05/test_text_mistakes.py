"""Mistakes in the text of a gemm in tensor memory are seen on the CPU: as faults, or as results that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

SPEC = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 64, K: 32}
  mma: {atom: tcgen05}
  pipeline: {stages: 2}
divisible: {N: 4}
targets: [sm_100a]
"""
CASE = Case("several", "", {"M": 136, "N": 40, "K": 152}, "padded", "integers")
WAIT, SYNC, ELECT = "cute.arch.mbarrier_wait", "    cute.arch.sync_threads()\n", "with cute.arch.elect_one():"
ALLOC, GIVE = "cute.arch.alloc_tmem(COLUMNS, held.iterator)", "cute.arch.relinquish_tmem_alloc_permit()"
OTHER_LANE = "if tidx == 4 * 32 + 1:\n            tcgen05.commit(ready)"
ADDS = "tiled_mma.set(tcgen05.Field.ACCUMULATE, k_tile > 0)"
EARLY = f"{ADDS}\n            {ELECT}\n                tcgen05.commit(empty + stage)"
# What is changed, the text that stands there, at which of its places, the text instead, and a part of what is said
MISTAKES = {
    "products before their operands have come": (f"{WAIT}(full + stage, phase)", 0, "pass", "fault["),
    "loads before their stage is free": (f"{WAIT}(empty + stage, 1 - phase)", 0, "pass", "fault["),
    "sums are loaded before they are complete": (f"{WAIT}(ready, 0)", 0, "pass", "fault["),
    "a stage is never given back": ("tcgen05.commit(empty + stage)", 0, "pass", "fault["),
    "sums are never complete": ("tcgen05.commit(ready)", 0, "pass", "fault["),
    "another lane commits": (f"{ELECT}\n            tcgen05.commit(ready)", 0, OTHER_LANE, "fault["),
    "stages are committed before their products": (ADDS, 0, EARLY, "fault["),
    "columns are not freed": ("cute.arch.dealloc_tmem(tmem, COLUMNS)", 0, "pass", "fault["),
    "other columns are freed": ("dealloc_tmem(tmem, COLUMNS)", 0, "dealloc_tmem(tmem, 32)", "fault["),
    "too few columns are allocated": ("COLUMNS = 64 ", 0, "COLUMNS = 32 ", "fault["),
    "columns are freed before they are loaded": (SYNC, 1, "", "fault["),
    "the address is read before it is written": (SYNC, 0, "", "fault["),
    "all warps load the same lanes": ("tiled_load.get_slice(tidx)", 0, "tiled_load.get_slice(tidx % 32)", "fault["),
    "half of the bytes are expected": ("(full + stage, STAGE_BYTES)", 0, "(full + stage, STAGE_BYTES // 2)", "fault["),
    "more bytes are expected": ("(full + stage, STAGE_BYTES)", 0, "(full + stage, STAGE_BYTES + 16)", "fault["),
    "each tile replaces the sums": ("ACCUMULATE, k_tile > 0)", 0, "ACCUMULATE, False)", "off by"),
    "products are added to what stands there": ("ACCUMULATE, k_tile > 0)", 0, "ACCUMULATE, True)", "fault["),
    "only the first product of a stage": ("range_constexpr(cute.size(tCrA, mode=[2]))", 0, "range_constexpr(1)", ""),
    "the stages of B are those of the tile before": ("tBgB[None, k_tile]", 0, "tBgB[None, k_tile // 2]", ""),
    "the phase never changes": ("cutlass.Int32(0), 1 - phase", 1, "cutlass.Int32(0), phase", "fault["),
    "a stage less": ("if stage == STAGES:", 0, "if stage == STAGES - 1:", "fault["),
    "rows beyond the end are stored": (", pred=tCpC)", 0, ")", "fault["),
    "barriers that copies do not see": ("cute.arch.mbarrier_init_fence()", 0, "pass", "fault["),
    "two arrivals complete the sums": ("mbarrier_init(ready, 1)", 0, "mbarrier_init(ready, 2)", "fault["),
    "columns are asked for once nobody may": (f"{ALLOC}\n        {GIVE}", 0, f"{GIVE}\n        {ALLOC}", "fault["),
    "rows and columns exchanged": ("(m_tile, None))", 0, "(n_tile, None))", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def right() -> Module:
    return generate(SPEC, "specs/product.yaml").modules[0]


def outcome(module: Module, text: str, folder: Path) -> str:
    """The faults of the module with another text; nothing where it is right."""
    path = folder / "product.py"
    path.write_text(text, encoding="utf-8")
    return verify_case(module.plan, CASE, load_module(path), EmulatorExecutor(lines=False)).message


def test_the_text_is_right(right: Module, tmp_path: Path) -> None:
    assert outcome(right, right.text, tmp_path) == ""


@pytest.mark.parametrize("mistake", sampled(MISTAKES, 5))
def test_a_mistake_is_seen(right: Module, tmp_path: Path, mistake: str) -> None:
    old, place, new, said = MISTAKES[mistake]
    parts = right.text.split(old)
    assert len(parts) > place + 1
    text = old.join(parts[: place + 1]) + new + old.join(parts[place + 1 :])
    found = outcome(right, text, tmp_path)
    assert found and said in found
    assert "could not be run" not in found or "FaultError" in found
