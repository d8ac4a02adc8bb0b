"""Contractions along a mode of which only some elements exist, on the emulator: what does not exist is NaN, and counts
for nothing; each of many small mistakes in their text is seen.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.reference.bounds import evaluate
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case
from cutegen.verification.tensors import make_tensors

LN2 = 0.6931471805599453
SPEC = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  bias: {shape: [B, N], dtype: f32}
  used: {shape: [B], dtype: i32}
  O: {shape: [B, M, G, R, E], dtype: bf16, role: out}
  lse: {shape: [B, G, R, M], dtype: f32, role: out}
scalars: {scale: f32}
modes:
  N: {of: B, lengths: used}
compute:
  - x = sum(Q * K, D) * scale + bias
  - s = where(coord(N) - len(N) <= coord(M) - len(M), x, -inf)
  - m = max(s, N)
  - p = exp(s - m)
  - l = sum(p, N)
  - O = sum(cast(p, bf16) * V, N) / l
  - lse = m + log(l)
static: {D: 32, E: 48}
"""
FULL = SPEC.replace("where(coord(N) - len(N) <= coord(M) - len(M), x, -inf)", "x")
MEAN = f"""\
{FULL[: FULL.index("  lse:")]}{FULL[FULL.index("scalars:") : FULL.index("  - x =")]}\
  - w = sigmoid(sum(Q * K, D) * scale + bias)
  - O = sum(cast(w, bf16) * V, N) / len(N)
static: {{D: 32, E: 48}}
"""
GRADIENT = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  dO: {shape: [B, M, G, R, E], dtype: bf16}
  lse: {shape: [B, G, R, M], dtype: f32}
  delta: {shape: [B, G, R, M], dtype: f32}
  used: {shape: [B], dtype: i32}
  dK: {shape: [B, N, G, D], dtype: bf16, role: out}
  dV: {shape: [B, N, G, E], dtype: bf16, role: out}
scalars: {scale: f32}
modes:
  M: {of: B, lengths: used}
compute:
  - S = where(coord(N) - len(N) <= coord(M) - len(M), sum(Q * K, D) * scale, -inf)
  - P = exp(S - lse)
  - dS = P * (sum(dO * V, E) - delta)
  - dV = sum(sum(cast(P, bf16) * dO, M), R)
  - dK = sum(sum(cast(dS, bf16) * Q, M), R) * scale
static: {D: 32, E: 48}
"""
SPECS = {  # the statements, and how they are computed
    "warps": SPEC + "schedule: {tiler: {M: 32, N: 32}}\ntargets: [sm_80]\n",
    "warps, all keys": FULL + "schedule: {tiler: {M: 32, N: 32}}\ntargets: [sm_80]\n",
    "parts": SPEC + "schedule: {tiler: {M*R: 16, N: 32}, split: {N: 3}}\ntargets: [sm_80]\n",
    "queries of gradients": GRADIENT + "schedule: {tiler: {N: 32, M: 32}}\ntargets: [sm_80]\n",
    "queries of gradients, warpgroups": GRADIENT + "schedule: {tiler: {N: 128, M: 32}}\ntargets: [sm_90a]\n",
    "warpgroups": SPEC + "schedule: {tiler: {M: 128, N: 32}}\ntargets: [sm_90a]\n",
    "warpgroups, all keys": FULL + "schedule: {tiler: {M: 128, N: 32}}\ntargets: [sm_90a]\n",
    "a mean": MEAN + "schedule: {tiler: {M: 128, N: 32}}\ntargets: [sm_90a]\n",
}
OUTER = {"B": 7, "G": 1, "R": 2, "D": 32, "E": 48, "M": 37}
ENDS = (32, 0, 33, 1, 31, 2**31 - 1, -7)
CASES = (
    Case("tiles", "", {**OUTER, "N": 70}, "padded", "random", 1, {"scale": 0.2}, ends=ENDS),
    Case("exact", "", {**OUTER, "N": 101, "B": 5}, "padded", "integers", 2, {"scale": LN2}, ends=(97, 64, 65, 63, 101)),
    Case("short", "", {**OUTER, "N": 5}, "compact", "random", 3, {"scale": 0.2}, ends=(5, 4, 1, 0, 6, -1, 3)),
)
LENGTH = "size_N = cutlass.max(cutlass.min(mused[at_B], mK.shape[1]), 0)"
BOTH = {
    "a length that is ignored": (LENGTH, "size_N = mK.shape[1]"),
    "one too many": (LENGTH, LENGTH.replace("mused[at_B]", "mused[at_B] + 1")),
    "one too few": (LENGTH, LENGTH.replace("mused[at_B]", "mused[at_B] - 1")),
    "the length of the first place": (LENGTH, LENGTH.replace("mused[at_B]", "mused[0]")),
    "the length of another place": (LENGTH, LENGTH.replace("mused[at_B]", "mused[(at_B + 1) % mused.shape[0]]")),
    "the length of a group": (LENGTH, LENGTH.replace("mused[at_B]", "mused[at_G]")),
    "a length above the size": (LENGTH, "size_N = cutlass.max(mused[at_B], 0)"),
    "at least one": (LENGTH, LENGTH.replace(", 0)", ", 1)")),
}
FENCE = '                cute.arch.fence_proxy("async.shared", space="cta")\n'
MISTAKES = {
    "a mean": {"a length below 0": (LENGTH, "size_N = cutlass.min(mused[at_B], mK.shape[1])")},
    "warps": BOTH
    | {
        "values up to the size": ("tVcV, (first_tile + ahead) * BLK_N, size_N",
                                  "tVcV, (first_tile + ahead) * BLK_N, mK.shape[1]"),
        "the diagonal from the size": ("last_row + cutlass.Int64(size_N)", "last_row + cutlass.Int64(size_N) - 32"),
    },
    "warps, all keys": BOTH
    | {
        "a mask of the size": ("within = key_places < size_N", "within = key_places < mK.shape[1]"),
        "a mask that is one wider": ("within = key_places < size_N", "within = key_places <= size_N"),
        "a mask that is one tile late": ("within = key_places < size_N", "within = key_places < size_N + BLK_N"),
        "no tile for a rest": ("cute.ceil_div(size_N, BLK_N)", "size_N // BLK_N"),
        "a row without keys that is undefined": ('== float("-inf") and size_N > 0', '== float("-inf")'),
    },
    "warpgroups, all keys": {
        "a mask of the size": ("+ start < size_N", "+ start < mK.shape[1]"),
        "a mask that is one wider": ("+ start < size_N", "+ start <= size_N"),
        "a first tile that is never cut": ("if is_cut:", "if start < 0:"),
    },
    "queries of gradients, warpgroups": {
        "rows of the first tensor that do not exist": ("sQ[place // BLK_D, place", "sdO[place // BLK_D, place"),
        "rows of one place that does not exist": ("* BLK_M) * BLK_E + thr", "* BLK_M + 1) * BLK_E + thr"),
        "rows of the last place that exists": ("* BLK_M) * BLK_D + thr", "* BLK_M - 1) * BLK_D + thr"),
        "zeros in another stage": ("place % BLK_E, stage] = mdO", "place % BLK_E, 0] = mdO"),
        "no zeros behind the first head": (
            "if (first_tile + tile % tiles) * BLK_M > size_M - BLK_M:", "if tile == tiles - 1:"),
        "zeros that products do not see": (
            f"    {FENCE}                cute.arch.barrier(barrier_id=4",
            "                cute.arch.barrier(barrier_id=4"),
        "tiles of what exists": ("every_tile = cute.ceil_div(mQ.shape[1], BLK_M)",
                                 "every_tile = cute.ceil_div(size_M, BLK_M)"),
    },
    "warpgroups": BOTH
    | {
        "values that do not exist": (
            "if group == 0:\n                    beyond", "if group == 7:\n                    beyond"),
        "values of one place that does not exist": ("* BLK_N) * BLK_E + thr", "* BLK_N + 1) * BLK_E + thr"),
        "values of the last place that exists": ("* BLK_N) * BLK_E + thr", "* BLK_N - 1) * BLK_E + thr"),
        "values that another warpgroup still writes": (
            "                cute.arch.barrier(barrier_id=4, number_of_threads=256)\n", ""),
        "values that have not come": ("                cute.arch.mbarrier_wait(full_V, 0)\n                if group",
                                      "                if group"),
        "zeros that products do not see": (
            f"    {FENCE}                cute.arch.barrier(barrier_id=4",
            "                cute.arch.barrier(barrier_id=4"),
        "no zeros behind the first tile": (
            "if key_tile * BLK_N > size_N - BLK_N:", "if key_tile == 0 and size_N < BLK_N:"),
    },
}  # fmt: skip


@cache
def made(kind: str) -> Module:
    return generate(SPECS[kind], "specs/small.yaml").modules[0]


def first_failure(folder: Path, kind: str, text: str) -> str:
    """The message of the first case that fails; empty where all pass."""
    module = made(kind)
    (folder / module.name).write_text(text, encoding="utf-8")
    loaded = load_module(folder / module.name)
    executor = EmulatorExecutor(lines=False)  # which compiles the module once
    reports = (verify_case(module.plan, case, loaded, executor) for case in CASES)
    return next((report.message for report in reports if report.status != "passed"), "")


@pytest.mark.parametrize("kind", SPECS)
def test_it_is_right(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("cutlass")
    assert first_failure(tmp_path, kind, made(kind).text) == ""


@pytest.mark.parametrize(("kind", "mistake"), sampled([(kind, one) for kind in MISTAKES for one in MISTAKES[kind]], 8))
def test_each_mistake_is_seen(tmp_path: Path, kind: str, mistake: str) -> None:
    pytest.importorskip("cutlass")
    text, (right, wrong) = made(kind).text, MISTAKES[kind][mistake]
    assert right in text
    assert first_failure(tmp_path, kind, text.replace(right, wrong))


@pytest.mark.parametrize("kind", ["warps", "warpgroups"])
def test_lengths_beside_tiles_are_verified(kind: str) -> None:
    """None, one, all, one beside a tile, more than there is, and a number below 0."""
    plan = made(kind).plan
    ends = [case.ends for case in derive_cases(plan) if case.ends]
    assert all({0, 1, 31, 32, 33, 64, 2**31 - 1, -1} <= {*one} for one in ends)
    assert len(ends) == 2


def test_the_reference_of_a_module_leaves_out_what_does_not_exist(tmp_path: Path) -> None:
    """In torch, on the CPU, within the bounds of the reference that kernels are verified with."""
    torch = pytest.importorskip("torch")
    module = made("warps")
    (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    loaded, spec = load_module(tmp_path / module.name), module.plan.spec
    for case in CASES:
        given = {one.tensor.name: one.view for one in make_tensors(spec, case, "cpu") if one.tensor.reads}
        assert given["V"].isnan().any() and given["K"].isnan().any()
        expected = evaluate(spec, given, {"scale": 0.2})
        found = loaded.reference(*given.values(), 0.2)
        for one, result in zip(expected.values(), found, strict=True):
            off = (result.double() - one.value).abs()
            same = (off <= 4 * one.bound + 1e-5) | (result.isnan() & one.value.isnan()) | (result == one.value)
            assert bool(same.all())
        assert torch.isfinite(found[0][0, -1]).all()


def test_a_reference_takes_sizes_where_torch_takes_tensors(tmp_path: Path) -> None:
    """`len` of a mode without lengths is a number of Python's."""
    torch = pytest.importorskip("torch")
    text = MEAN.replace("  used: {shape: [B], dtype: i32}\n", "").replace("modes:\n  N: {of: B, lengths: used}\n", "")
    text = text.replace("/ len(N)", "/ (len(N) + minimum(coord(M), len(M)))") + "targets: [sm_80]\n"
    (module,) = generate(text, "specs/small.yaml").modules
    (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    loaded, case = load_module(tmp_path / module.name), Case("", "", {**OUTER, "N": 70}, "compact", "random", 1)
    given = {one.tensor.name: one.view for one in make_tensors(module.spec, case, "cpu") if one.tensor.reads}
    (expected,) = evaluate(module.spec, given, {"scale": 0.2}).values()
    found = loaded.reference(*given.values(), 0.2)
    assert bool(((found.double() - expected.value).abs() <= 4 * expected.bound + 1e-5).all())
    assert torch.isfinite(found).all()
