"""Sums over millions of tiles, nearly all of them zeros: what counts them wrong is found, whatever else is right."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.emulator.machine import rounds_of_waits
from cutegen.hostchecks import long_sums
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.parts import Parts
from cutegen.hostchecks.sizes import small
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

PRODUCT = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f16, major: M}
  B: {shape: [N, K], dtype: f16, major: K}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = relu(A @ B.T)
schedule: {tiler: {M: 16, N: 16, K: 4}, mma: {thread_layout: "(8,4,1)"}}
divisible: {M: 2, K: 2}
targets: [sm_80]
"""
FETCH = r"fetch = (k_tile \+ \(STAGES - 1\))\n"
SPACED = (
    PRODUCT.replace("product", "spaced")
    .replace("major: M}\n", "major: K}\n")
    .replace("schedule: {", "schedule: {workspace: {A: {major: M}}, ")
)
WRONG = [
    ("at most 600", r"in range\(k_tiles\)", "in range(cutlass.min(k_tiles, 600))"),
    ("7 bits", FETCH, r"fetch = (\1) % 128\n"),
    ("8 bits", FETCH, r"fetch = (\1) % 256\n"),
    ("20 bits", FETCH, r"fetch = (\1) & 0xFFFFF\n"),
    ("by way of f32", FETCH, r"fetch = cutlass.Int32(cutlass.Float32(\1))\n"),
    ("one is left out", r"if fetch < k_tiles:", "if (fetch < k_tiles) & (fetch != 0xFFFFFF):"),
]
RIGHT = [
    (
        "backwards",
        r"for k_tile in range\(k_tiles\):\n",
        "for k in range(k_tiles, 0, -1):\n        k_tile = k_tiles - k\n",
    ),
    ("by way of f64", FETCH, r"fetch = cutlass.Int32(cutlass.Float64(\1))\n"),
]


@lru_cache(maxsize=2)
def module_of(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def hosted(module: Module, text: str, folder: Path) -> Host:
    """A module with this text, ready to be called on the emulator."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor, spec = load_module(path), EmulatorExecutor(lines=False), module.spec
    case = Case("wrong calls", "", small(spec), "padded", "integers")
    tensors, scalars = make_tensors(spec, case, executor.device), scalar_values(spec, case)
    return Host(module.plan, loaded, executor, case, tensors, scalars)


def told(host: Host) -> str:
    """The result of the check."""
    ((what, said),) = ((check.what, check.run()) for check in long_sums.checks(host))
    assert what == "accepts as many tiles of K as can be run"
    return said


def checked(module: Module, text: str, folder: Path) -> tuple[str, list[str]]:
    """The result of the check on a module with this text, and the names of the cases that it fails."""
    host = hosted(module, text, folder)
    plan, loaded, executor = module.plan, host.module, host.executor
    said = told(host)
    failed = [c.name for c in derive_cases(plan) if verify_case(plan, c, loaded, executor).status == "failed"]
    return said, failed


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how much of K calls were made."""
    found: list[int] = []

    def noted(host: Host, call: Parts) -> str:
        found.append(call.sizes[call.mode])
        return wrong(host, call)

    wrong = long_sums.wrong
    monkeypatch.setattr(long_sums, "wrong", noted)
    return found


def changed(module: Module, pattern: str, text: str) -> str:
    made, count = re.subn(pattern, text, module.text, count=1)
    assert count, f"{pattern} is not in {module.spec.kernel}: adapt the pattern"
    return made


def test_a_right_kernel_sums_millions_of_tiles(sizes: list[int], tmp_path: Path) -> None:
    module = module_of(PRODUCT)
    assert checked(module, module.text, tmp_path) == ("", [])
    assert sizes == [(2**24 + 2) * 4 + 2]


@pytest.mark.parametrize(("wrong", "pattern", "text"), WRONG, ids=[wrong for wrong, *_ in WRONG])
def test_only_it_finds_what_counts_wrong(wrong: str, pattern: str, text: str, tmp_path: Path) -> None:
    module = module_of(PRODUCT)
    said, failed = checked(module, changed(module, pattern, text), tmp_path)
    assert failed == []
    assert re.search(r"of K, zeros but for \[0, 8\), .*: (it gives a wrong result|FaultError)", said, re.S)


@pytest.mark.parametrize(("right", "pattern", "text"), RIGHT, ids=[right for right, *_ in RIGHT])
def test_other_ways_to_count_pass(right: str, pattern: str, text: str, sizes: list[int], tmp_path: Path) -> None:
    module = module_of(PRODUCT)
    assert checked(module, changed(module, pattern, text), tmp_path) == ("", [])
    assert sizes == [(2**24 + 2) * 4 + 2]


def test_what_divides_k_may_be_more_than_a_tile(sizes: list[int], tmp_path: Path) -> None:
    module = module_of(PRODUCT.replace("K: 2}", "K: 64}"))
    assert checked(module, module.text, tmp_path) == ("", [])
    assert sizes == [(2**24 // 16 + 1) * 64]


def test_through_a_workspace_all_of_fewer_tiles_is_there(sizes: list[int], tmp_path: Path) -> None:
    module = module_of(SPACED)
    said, _ = checked(module, module.text, tmp_path)
    assert (said, sizes) == ("", [(2**8 + 2) * 4 + 2])


@pytest.mark.parametrize("bits", sampled([8, 7]))
def test_what_counts_wrong_through_a_workspace_is_found(bits: int, tmp_path: Path) -> None:
    module = module_of(SPACED)
    said, failed = checked(module, changed(module, FETCH, rf"fetch = (\1) % {2**bits}\n"), tmp_path)
    assert failed == [] and re.search(r"it gives a wrong result|FaultError", said)


TURNS = """
cutegen: 1
kernel: turns
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: 64, N: 128, K: 64}, mma: {atom: wgmma}, warps: {roles: pingpong}}
divisible: {N: 8}
"""


LOADED = r", k_tile\]"  # of either operand
IN_TURNS = [
    ("7 bits", LOADED, ", k_tile & 0x7F]"),
    ("8 bits", LOADED, ", k_tile & 0xFF]"),
    ("20 bits", LOADED, ", k_tile & 0xFFFFF]"),
    ("by way of bf16", LOADED, ", cutlass.Int32(cutlass.BFloat16(k_tile))]"),
    ("at most 600", r"k_tiles = (cute.ceil_div\(.*\))\n", r"k_tiles = cutlass.min(\1, 600)\n"),
    ("the last of many is left out", r"k_tiles = (cute.ceil_div\(.*\))\n", r"k_tiles = cutlass.min(\1, 0x7FFFFF)\n"),
]


def test_right_warps_that_wait_for_each_other_sum_millions_of_tiles(sizes: list[int], tmp_path: Path) -> None:
    module = module_of(TURNS)
    assert told(hosted(module, changed(module, LOADED, ", k_tile & 0x7FFFFFFF]"), tmp_path)) == ""
    assert sizes == [(2**23 + 2) * 64 + 1]


@pytest.mark.parametrize(("wrong", "pattern", "text"), IN_TURNS, ids=[wrong for wrong, *_ in IN_TURNS])
def test_what_counts_wrong_for_warps_that_wait_is_found(
    wrong: str, pattern: str, text: str, sizes: list[int], tmp_path: Path
) -> None:
    module = module_of(TURNS)
    said = told(hosted(module, changed(module, pattern, text), tmp_path))
    assert re.search(r"of K, zeros but for \[0, 128\), .*: it gives a wrong result", said, re.S)
    assert sizes == [(2**23 + 2) * 64 + 1]


WALK = """
cutegen: 1
kernel: walked
op: contract
tensors:
  Q: {shape: [M, D], dtype: f16}
  K: {shape: [N, D], dtype: f16}
  V: {shape: [N, D], dtype: f16}
  O: {shape: [M, D], dtype: f32, role: out}
scalars: {scale: f32}
compute:
  - s = sum(Q * K, D) * scale
  - p = exp(s - max(s, N))
  - O = sum(cast(p, f16) * V, N) / sum(p, N)
static: {D: 32}
schedule: {tiler: {M: 64, N: 64}}
targets: [TARGET]
"""
IN_WALKS = [
    ("sm_90a", "key_tile = last_tile - tile", "key_tile = last_tile - cutlass.Int32(cutlass.BFloat16(tile))"),
    ("sm_90a", "key_tile = last_tile - tile", "key_tile = last_tile - (tile & 0xFFFF)"),
    ("sm_80", "first_tile + ahead", "first_tile + (ahead & 0xFFFF)"),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_scores_above_those_of_zeros_are_summed_over_millions_of_tiles(
    target: str, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of softmax's sums zeros are no part where their exponentials are 0."""
    monkeypatch.setattr(long_sums, "_TRIED", long_sums._TRIED[:1])
    module = module_of(WALK.replace("TARGET", target))
    ((what, said),) = ((check.what, check.run()) for check in long_sums.checks(hosted(module, module.text, tmp_path)))
    assert (what, said) == ("accepts as many tiles of N as can be run", "")
    (most,) = sizes
    assert most > 2**29  # of the 2^31 that its addresses reach


@pytest.mark.parametrize(("target", "pattern", "text"), IN_WALKS)
def test_what_counts_wrong_in_a_walk_is_found(target: str, pattern: str, text: str, tmp_path: Path) -> None:
    module = module_of(WALK.replace("TARGET", target))
    host = hosted(module, changed(module, re.escape(pattern), text), tmp_path)
    (said,) = (check.run() for check in long_sums.checks(host))
    assert re.search(r"of N, zeros but for .*: (it gives a wrong result|FaultError)", said, re.S)


def test_rounds_of_which_none_can_be_left_out_are_fewer(
    sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_of_waits, "_MOST", 4)
    module = module_of(TURNS)
    assert told(hosted(module, module.text, tmp_path)) == ""
    assert sizes[-1] == (2**8 + 2) * 64 + 1
