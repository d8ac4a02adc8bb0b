"""Some case reveals errors in state that a block carries from round to round, and in intermediate sums.

Each kernel is changed so that it is right for the first rounds, or for small sums, and wrong after that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

PRODUCT = """
cutegen: 1
kernel: {roles}
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16, align: 16}}
  B: {{shape: [N, K], dtype: bf16, align: 16}}
  C: {{shape: [M, N], dtype: bf16, align: 16, role: out}}
compute: C = A @ B.T
schedule:
  tiler: {{M: {tile}, N: 64, K: 16}}
  cluster: {{M: 1}}
  pipeline: {{stages: 3}}
  mma: {{atom: wgmma}}
  warps: {{roles: {roles}, consumers: 2}}
  scheduler: {{raster: M}}
targets: [sm_90a]
"""
WARPS = """
cutegen: 1
kernel: warps
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: 32, N: 32, K: 32}, mma: {atom: mma_sync}, pipeline: {stages: 3}}
targets: [sm_80]
"""
ROWS = """
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X * rsqrt(mean(X * X, N) + 0.001)
schedule: {keep: smem, pipeline: {stages: 2}, scheduler: {kind: persistent, blocks: 264}}
static: {N: 512}
targets: [sm_90a]
"""
SPECS = (
    PRODUCT.format(roles="pingpong", tile=64),
    PRODUCT.format(roles="cooperative", tile=128),
    WARPS,
    ROWS,
)
ROUNDED = ".to(cutlass.BFloat16).to(cutlass.Float32))"
MUTANTS = [
    # kernel, what is wrong, pattern, text, the cases that run
    (
        "pingpong",
        "a phase that changes once at most",
        r"\(stage \+ k_tiles\) // STAGES\) % 2",
        "cutlass.min((stage + k_tiles) // STAGES, 1)) % 2",
        "turn",
    ),
    (
        "pingpong",
        "a stage that is off from the fourth tile on",
        r"\(stage \+ k_tiles\) % STAGES",
        "(stage + k_tiles + cutlass.Int32(tile >= first + group * clusters + 4 * clusters)) % STAGES",
        "turn",
    ),
    (
        "cooperative",
        "a stage of the producer that is off in the third round",
        r"(tAgA\[None, [^]]*, )k_tile\]",
        r"\1k_tile + cutlass.Int32(tile >= first + 3 * clusters)]",
        "turn",
    ),
    (
        "cooperative",
        "accumulators that are rounded now and then",
        r"before = stage\n",
        "before = stage\n                if k_tile % 8 == 7:\n                    warpgroup.wait_group(0)\n"
        f"                    acc.store(acc.load(){ROUNDED}\n",
        r"K 17 tiles and 1",
    ),
    (
        "warps",
        "accumulators that are rounded now and then",
        r"( +)cute\.gemm\(tiled_mma, acc, .*\n",
        rf"\g<0>\1if k_tile % 8 == 7:\n\1    acc.store(acc.load(){ROUNDED}\n",
        r"K 17 tiles and 1",
    ),
    (
        "rows",
        "a phase that stays from the third round of both on",
        "turn // 2 % 2",
        "cutlass.min(turn // 2, 5) % 2",
        "several rows",
    ),
    ("rows", "squares in f16", r"\(\(x \* x\)", "((x * x).to(cutlass.Float16).to(cutlass.Float32)", "magnitudes"),
]


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    made = (generate(text, "specs/x.yaml").modules[0] for text in SPECS)
    return {module.spec.kernel: module for module in made}


def failing(module: Module, text: str, cases: str, folder: Path) -> Sequence[str]:
    """The names of those cases that a module with this text fails, of those whose names have the pattern `cases`."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor, failed = load_module(path), EmulatorExecutor(lines=False), []
    chosen = [case for case in derive_cases(module.plan) if re.search(cases, case.name)]
    assert chosen
    for case in chosen:
        report = verify_case(module.plan, case, loaded, executor)
        if report.status == "failed":
            assert not re.search("could not be run|DSLRuntimeError|MLIRError", report.message), report.message
            failed.append(case.name)
    return failed


@pytest.mark.parametrize(
    ("kernel", "wrong", "pattern", "text", "cases"),
    sampled(MUTANTS),
    ids=[f"{kernel}: {wrong}" for kernel, wrong, *_ in MUTANTS],
)
def test_what_is_right_for_two_rounds_is_found(
    kernel: str, wrong: str, pattern: str, text: str, cases: str, tmp_path: Path
) -> None:
    module = modules()[kernel]
    changed, count = re.subn(pattern, text, module.text)
    assert count, f"{pattern} is not in {kernel}: adapt the pattern"
    assert failing(module, changed, cases, tmp_path), f"{wrong}: nothing was noticed"
