"""Each kind of case earns its place: a kernel is wrong in a way that these cases show and no others.

One change to a generated module's text, and the names of all cases that fail. What is changed is found by pattern; a
pattern that finds nothing fails the test.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

GEMM = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f16, major: M}
  B: {shape: [N, K], dtype: f16, major: K}
  C: {shape: [M, N], dtype: f16, role: inout}
scalars: {alpha: f32, beta: f32}
compute: C = relu(alpha * (A @ B.T)) + beta * C
schedule: {tiler: {M: 16, N: 16, K: 4}, mma: {atom: fma, thread_layout: "(8,4,1)"}}
divisible: {M: 2, K: 2}
targets: [sm_80]
"""
POINTWISE = """
cutegen: 1
kernel: pointwise
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  E: {shape: [M, N], dtype: f16, role: out}
scalars: {s: f32}
compute:
  - Y = s * X
  - E = exp(X)
schedule: {tiler: {M: 1, N: 4}}
targets: [sm_80]
"""
COPY = """
cutegen: 1
kernel: copied
op: elementwise
tensors:
  X: {shape: [N], dtype: i32}
  Y: {shape: [N], dtype: f32}
  D: {shape: [N], dtype: i32, role: out}
  E: {shape: [N], dtype: f32, role: out}
compute: [D = X, E = Y]
schedule: {tiler: {N: 4}}
targets: [sm_80]
"""
MANY = r"more than \d+ tiles of [MN]"
SPECIAL, SCALARS = "special values", r"(alpha, beta|alpha|beta|s) = "
VALUES = f"{SPECIAL}|{SCALARS}"
COORD = r"coord = \(bidx, bidy, None\)"
BANDS = """grid_m, grid_n, _ = cute.arch.grid_dim()
    number, width = bidx + bidy * grid_m, cutlass.min(grid_n, 8)
    band, inside = number // (grid_m * width), number % (grid_m * width)
    coord = (inside // width, band * width + inside % width, None)"""
BIDX = r"bidx, _, _ = cute.arch.block_idx\(\)"
ADDED = r"beta \* c\.to\(cutlass\.Float32\)"
ZERO_BETA = "cute.where(cute.full_like(x0, beta) == 0, cute.full_like(x0, 0), beta * c.to(cutlass.Float32))"
ZERO_ALPHA = "cute.where(cute.full_like(x0, alpha) == 0, c.to(cutlass.Float32), beta * c.to(cutlass.Float32))"
ONE_NAN = "cute.where(y == y, y, cute.full_like(y, float('nan')))"
CLAMPED = "cute.where(x1 > 65504, cute.full_like(x1, 65504), x1).to(cutlass.Float16)"
MUTANTS = [
    # kernel, what is wrong, pattern, text, what all failing cases are
    ("product", "rows of blocks in 8 bits", COORD, "coord = (bidx % 256, bidy, None)", MANY),
    ("product", "columns of blocks in 8 bits", COORD, "coord = (bidx, bidy % 256, None)", MANY),
    ("product", "bands of blocks, the last as wide as all", COORD, BANDS, r"19 tiles of N"),
    ("product", "relu drops NaN", r"x0 < 0, (cute\.full_like\(x0, 0\)), x0", r"x0 > 0, x0, \1", VALUES),
    ("product", "what overflows is clamped", r"x1\.to\(cutlass\.Float16\)", CLAMPED, VALUES),
    (
        "product",
        "no alpha where beta is 0",
        "x0 = alpha ",
        "x0 = (cutlass.Float32(1) if beta == 0 else alpha) ",
        SCALARS,
    ),
    ("product", "C is not read where beta is 0", ADDED, ZERO_BETA, SCALARS),
    ("product", "C is added where alpha is 0", ADDED, ZERO_ALPHA, SCALARS),
    ("pointwise", "blocks in 8 bits", BIDX, "bidx = cute.arch.block_idx()[0] % 256", MANY),
    ("pointwise", "exp ends at 11", r"exp\(x\)", "exp(cute.where(x > 11, cute.full_like(x, 11), x))", VALUES),
    ("copied", "threads in 16 bits", r"bidx \* THREADS \+ tidx", "(bidx * THREADS + tidx) % 65536", MANY),
    ("copied", "zero is added", r"store\(y\)", "store(y + 0.0)", SPECIAL),
    (
        "copied",
        "every NaN is one",
        r"store\(y\)",
        "store(cute.where(y == y, y, cute.full_like(y, float('nan'))))",
        SPECIAL,
    ),
    ("copied", "integers by way of f32", r"store\(x\)", "store(x.to(cutlass.Float32).to(cutlass.Int32))", SPECIAL),
]


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    made = (generate(text, "specs/x.yaml").modules[0] for text in (GEMM, POINTWISE, COPY))
    return {module.spec.kernel: module for module in made}


def failing(module: Module, text: str, folder: Path) -> list[str]:
    """The names of the cases that a module with this text fails."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor, failed = load_module(path), EmulatorExecutor(lines=False), []
    for case in derive_cases(module.plan):
        report = verify_case(module.plan, case, loaded, executor)
        if report.status == "failed":
            assert not re.search("could not be run|DSLRuntimeError|MLIRError", report.message), report.message
            failed.append(case.name)
    return failed


@pytest.mark.parametrize(
    ("kernel", "wrong", "pattern", "text", "shown"), sampled(MUTANTS), ids=[wrong for _, wrong, *_ in MUTANTS]
)
def test_only_the_cases_of_its_kind_show_it(
    kernel: str, wrong: str, pattern: str, text: str, shown: str, tmp_path: Path
) -> None:
    module = modules()[kernel]
    changed, count = re.subn(pattern, text, module.text, count=1)
    assert count, f"{pattern} is not in {kernel}: adapt the pattern"
    failed = failing(module, changed, tmp_path)
    assert failed, f"{wrong}: nothing was noticed"
    assert all(re.match(shown, name) for name in failed), f"{wrong}: {failed}"


def test_the_kernels_themselves_are_right(tmp_path: Path) -> None:
    assert {name: failing(module, module.text, tmp_path) for name, module in modules().items()} == {
        name: [] for name in modules()
    }


def test_tensors_of_one_shape_have_strides_of_their_own(tmp_path: Path) -> None:
    module = modules()["pointwise"]
    changed = module.text.replace("    tidx, ", "    mY = cute.make_tensor(mY.iterator, mX.layout)\n    tidx, ", 1)
    apart = [case.name for case in derive_cases(module.plan) if case.layout != "compact"]
    failed = failing(module, changed, tmp_path)
    assert failed and set(failed) <= set(apart)
