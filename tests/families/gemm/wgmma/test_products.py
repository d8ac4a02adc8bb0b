"""Several matrix products of one A in one kernel: what is inferred, what is refused, and kernels that run."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

GATED = "silu(A @ G.T) * (A @ U.T)"
SIZES = Case("several", "", {"M": 136, "N": 72, "K": 104}, "padded", "integers", blocks=2)


def spec(compute: str = GATED, schedule: str = "", more: str = "", a: str = "K", b: str = "K", c: str = "N") -> str:
    return f"""\
cutegen: 1
kernel: gated
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16, major: {a}}}
  G: {{shape: [N, K], dtype: bf16, major: {b}}}
  U: {{shape: [N, K], dtype: bf16, major: {b}}}
{more}  C: {{shape: [M, N], dtype: f32, major: {c}, role: out}}
compute: C = {compute}
schedule:
  mma: {{atom: wgmma}}
{schedule}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def outcomes(module: Module, folder: Path, text: str | None = None) -> list[str]:
    path = folder / "gated.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    report = verify_case(module.plan, SIZES, loaded, executor)
    return [report.message] if report.message else []


@pytest.mark.parametrize(
    ("compute", "schedule", "columns", "threads_hold"),
    [
        (GATED, "", 128, 64),
        (GATED, "  warps: {roles: pingpong}\n", 96, 96),
        ("A @ G.T + (A @ U.T) * (A @ V.T)", "", 80, 40),
        (GATED, "  mma: {atom: wgmma, rows: N}\n", 64, 32),
    ],
)
def test_the_columns_of_one_wgmma_are_those_of_all_products(
    compute: str, schedule: str, columns: int, threads_hold: int
) -> None:
    text = spec(compute, more="  V: {shape: [N, K], dtype: bf16}\n" if "V" in compute else "")
    if "rows" in schedule:
        text = text.replace("  mma: {atom: wgmma}\n", schedule)
    else:
        text += schedule
    plan = plan_of(text)
    assert plan.tile[plan.n] == columns and plan.pointwise.values == threads_hold
    assert plan.stage_bytes == sum(len(x.tensors) * x.block * plan.tile[plan.k] * 2 for x in plan.sides)
    assert all(claim.holds for claim in FAMILY.claims(plan))


def test_a_product_that_is_written_twice_is_made_once() -> None:
    plan = plan_of(spec("(A @ G.T) * sigmoid(A @ G.T)").replace("  U: {shape: [N, K], dtype: bf16, major: K}\n", ""))
    assert plan.products == 1


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (spec("A @ G.T + G @ U.T"), "CG127", "share the tensor on the left"),
        (spec(schedule="  smem: {G: {swizzle: 64}, U: {swizzle: 128}}\n"), "CG306", "the same swizzle"),
        (spec(schedule="  copies: {G: {multicast: cluster}, U: {multicast: none}}\n"), "CG306", "the same multicast"),
        (spec().replace("U: {shape: [N, K], dtype: bf16, major: K", "U: {shape: [N, K], dtype: bf16, major: N"),
         "CG306", "the same major mode"),
        (spec().replace("U: {shape: [N, K], dtype: bf16", "U: {shape: [N, K], dtype: f16"), "CG118", "the same"),
        (spec().replace("U: {shape: [N, K]", "U: {shape: [L, K]"), "CG130", "the same types and shapes"),
        (spec(schedule="  tiler: {N: 136}\n"), "CG302", "136 columns of each of 2 products"),
        (spec().replace("wgmma", "mma_sync"), "CG127", "one matrix product"),
        (spec().replace("wgmma", "fma").replace("bf16", "f32"), "CG127", "one matrix product"),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, words: str) -> None:
    found = found_in(text)
    assert [d for d in found if d.code == code and words in d.message], found


RIGHT = {
    "columns side by side": spec(schedule="  tiler: {M: 128, N: 32, K: 32}\n"),
    "three, with tensors that the epilogue reads": spec(
        "(A @ G.T) * (A @ U.T) + (A @ V.T + bias) * R",
        "  tiler: {M: 128, N: 16, K: 128}\n  pipeline: {stages: 2}\n",
        "  V: {shape: [N, K], dtype: bf16}\n  bias: {shape: [N], dtype: f32}\n  R: {shape: [M, N], dtype: bf16}\n",
    ),
    "m-major and n-major, in turn": spec(
        "maximum(A @ G.T, A @ U.T)",
        "  warps: {roles: pingpong}\n  tiler: {M: 64, N: 64, K: 32}\n  cluster: {M: 1, N: 2}\n",
        a="M",
        b="N",
        c="M",
    ),
    "rows one below the other": spec(
        "A @ G.T - coord(N) * (A @ U.T)", "  tiler: {N: 128, M: 32, K: 32}\n  warps: {consumers: 2}\n"
    ).replace("{atom: wgmma}", "{atom: wgmma, rows: N}"),
    "two blocks of rows of each warpgroup": spec(
        "where(coord(M) > 3, A @ U.T, A @ G.T)",
        "  tiler: {M: 256, N: 16, K: 32}\n  copies: {C: {atom: universal}}\n",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    assert outcomes(made(RIGHT[name]), tmp_path) == []


MISTAKES = {
    "a product is taken for the other": ("product_g = parts_G", "product_g = parts_U"),
    "accumulators of the other product": ("(BLK_N // 2, 1, 1), (1, 0, 0)", "(BLK_N // 2, 1, 1), (0, 0, 0)"),
    "a tile goes where the other's does": ("(BLK_N, BLK_K, STAGES), (1, 0, 0)", "(BLK_N, BLK_K, STAGES), (0, 0, 0)"),
    "a tile of the other matrix": ("tma_U,\n                        tUgU", "tma_G,\n                        tUgU"),
    "one product's columns": ("_product(PRODUCTS * BLK_N)", "_product(BLK_N)"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    module = made(RIGHT["columns side by side"])
    assert module.text.count(old) == 1, module.text
    assert outcomes(module, tmp_path, module.text.replace(old, new))
