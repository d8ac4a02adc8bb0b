"""Some blocks of launches that are too large to run: what counts them wrong is found, whatever else is right."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

from cutegen.cases import FAMILY
from cutegen.codegen import Module, generate
from cutegen.hostchecks import far_blocks, host_checks, walked_tiles
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.parts import allowed
from cutegen.hostchecks.sizes import small
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

TENSORS = """
tensors:
  X: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
targets: [sm_80]
compute: D = 2 * X + coord(M)
"""
WALKED = """
cutegen: 1
kernel: walked
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = X - max(X, N)
schedule: {scheduler: {kind: persistent, blocks: 300}}
static: {N: 8}
targets: [sm_80]
"""
TILES = f"""
cutegen: 1
kernel: tiles
op: elementwise
schedule: {{partition: thread_value, thread_layout: "(2,16):(16,1)", value_layout: "(1,4):(4,1)"}}
{TENSORS}"""
INNER = f"""
cutegen: 1
kernel: inner
op: elementwise
schedule: {{partition: inner, tiler: {{M: 1, N: 4}}, threads: 32}}
{TENSORS}"""
PRODUCT = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32}
  B: {shape: [N, K], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = A @ B.T
schedule: {tiler: {M: 16, N: 16, K: 4}, mma: {atom: fma, thread_layout: "(8,4,1)"}}
targets: [sm_80]
"""
CLUSTERS = """\
cutegen: 1
kernel: clusters
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X - max(X, N)
schedule: {keep: reload, threads_per_row: 32, tiler: {N: 128}, cluster: {N: 2}}
static: {N: 300}
targets: [sm_90a]
"""
BIDX, COORD = r"bidx, _, _ = cute\.arch\.block_idx\(\)", r"coord = \(bidx, bidy, None\)"
BEHIND = """\
cutegen: 1
kernel: behind
op: elementwise
tensors:
  Y: {shape: [T, H], dtype: i8, align: 16, role: out}
  U: {shape: [T, H], dtype: f64, major: T}
  Z: {shape: [T, H], dtype: f16, role: out}
scalars: {eps: f32}
compute:
  - Y = cast(where(U + eps > coord(T), clamp_max(0.5, eps), U - eps), i8)
  - Z = where(floor(Y) != U, U, eps)
schedule:
  - {for: {align: 16}}
  - {thread_layout: "((4,8),1):((1,4),32)", value_layout: "(8,1):(1,1)", scheduler: {raster: H}}
targets: [sm_80]
"""
BLOCK = "cute.arch.block_idx()[0]"
WRONG = [
    ("tiles", "16 bits", BIDX, f"bidx = {BLOCK} % 65536"),
    ("tiles", "by way of f32", BIDX, f"bidx = cutlass.Int32(cutlass.Float32({BLOCK}))"),
    ("tiles", "at most 20000", BIDX, f"bidx = cutlass.min({BLOCK}, 20000)"),
    ("tiles", "a grid of 300000", r"grid = (cute\.size\(tiles\))", r"grid = cutlass.min(\1, 300000)"),
    ("product", "a grid of 20000", r"grid=\[grid_m, ", "grid=[cutlass.min(grid_m, 20000), "),
    ("inner", "threads in 22 bits", r"bidx \* THREADS \+ tidx", "(bidx * THREADS + tidx) % (1 << 22)"),
    ("product", "14 bits", COORD, "coord = (bidx % 16384, bidy, None)"),
    (
        "clusters",
        "clusters in 16 bits",
        r"cluster_idx, rank = bidx // CLUSTER,",
        "cluster_idx, rank = bidx // CLUSTER % 65536,",
    ),
    ("product", "columns in 15 bits", COORD, "coord = (bidx, bidy % 32768, None)"),
]
RIGHT = [
    ("tiles", "backwards", BIDX, f"bidx = cute.arch.grid_dim()[0] - 1 - {BLOCK}"),
    ("tiles", "pairs exchanged", BIDX, f"bidx = cutlass.min({BLOCK} ^ 1, cute.arch.grid_dim()[0] - 1)"),
]


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    made = (generate(text, "specs/x.yaml").modules[0] for text in (TILES, INNER, PRODUCT, WALKED, CLUSTERS))
    return {module.spec.kernel: module for module in made}


def checked(module: Module, text: str, folder: Path, cases: bool = False) -> tuple[dict[str, str], list[str]]:
    """The result of each check on a module with this text, and with `cases` the names of the cases that it fails."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor, spec = load_module(path), EmulatorExecutor(lines=False), module.spec
    case = Case("wrong calls", "", small(spec), "padded", "integers")
    host = Host(
        module.plan, loaded, executor, case, make_tensors(spec, case, executor.device), scalar_values(spec, case)
    )
    said = {check.what: check.run() for check in far_blocks.checks(host)}
    derived = derive_cases(module.plan) if cases else ()
    return said, [c.name for c in derived if verify_case(module.plan, c, loaded, executor).status == "failed"]


def changed(module: Module, pattern: str, text: str) -> str:
    made, count = re.subn(pattern, text, module.text, count=1)
    assert count, f"{pattern} is not in {module.spec.kernel}: adapt the pattern"
    return made


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, list[int]]]:
    """By mode, of how many tiles which blocks ran: all that checks have done since."""
    found = []

    def noted(host: Host, call: far_blocks._Call, order: far_blocks.Order | None) -> str:
        found.append((call.mode, call.tiles, call.blocks(order) if order else [*range(call.tiles * call.others)]))
        return wrong(host, call, order)

    wrong = far_blocks._wrong
    monkeypatch.setattr(far_blocks, "_wrong", noted)
    return found


@pytest.mark.parametrize("kernel", ["tiles", "inner"])
def test_a_right_kernel_passes_with_millions_of_tiles(
    kernel: str, ran: list[tuple[str, int, list[int]]], tmp_path: Path
) -> None:
    module = modules()[kernel]
    said, _ = checked(module, module.text, tmp_path)
    assert said == {f"accepts as many tiles of {mode} as can be run": "" for mode in "MN"}
    most = {mode: (tiles, blocks) for mode, tiles, blocks in ran}
    assert max(tiles for tiles, _ in most.values()) > 1 << 22 and min(tiles for tiles, _ in most.values()) >= 65535
    for tiles, blocks in most.values():
        assert {0, 1, 256, tiles - 1} < set(blocks) and len(blocks) <= 8


ODD = [
    # what a spec says besides: every mode is still tried, and nothing is too large for a test
    (TILES, "static: {N: 4096}\ndivisible: {M: 8}"),
    (TILES, "divisible: {M: 5, N: 96}"),
    (TILES.replace("2 * X + coord(M)", "coord(N) - X"), "divisible: {M: 3}"),
    (INNER.replace("[M, N]", "[B, M, N]").replace("tiler: {", "tiler: {B: 1, "), "divisible: {N: 12}"),
    (PRODUCT, "static: {N: 64, K: 4096}"),
    (PRODUCT.replace("schedule: {", "schedule: {scheduler: {raster: M, swizzle: 4}, "), "divisible: {M: 64}"),
    (PRODUCT.replace("[N, K], dtype: f32", "[N, K], dtype: f32, major: K").replace(
        "schedule: {", "schedule: {workspace: {B: {major: N}}, "), "divisible: {M: 128}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "more"), ODD)
def test_sizes_are_those_that_the_module_takes(text: str, more: str, tmp_path: Path) -> None:
    module = generate(f"{text}{more}\n", "specs/x.yaml").modules[0]
    said, _ = checked(module, module.text, tmp_path)
    assert set(said.values()) <= {""} and len(said) == len(set(module.spec.output.shape) - set(module.spec.static))


def test_sizes_of_a_case_are_those_that_the_module_takes_of_all_calls() -> None:
    """A case that asks for whole tiles, and comes first for aligned calls, has its module ask all for them."""
    cases = "schedule: [{for: {align: 8}, partition: inner, threads: 128, predication: {M: none, N: none}}, {}]"
    text = re.sub("schedule: .*", cases, TILES)
    plan = generate(text, "specs/x.yaml").modules[0].plan
    case = Case("", "", small(plan.spec))
    host = Host(plan.kernels[1].ways[0], ModuleType("none"), EmulatorExecutor(), case, (), whole=plan)
    sizes = allowed(host, {"M": 257, "N": 9})
    assert sizes["M"] >= 257 and FAMILY.refused(plan.spec, sizes) is None
    assert FAMILY.refused(plan.spec, allowed(replace(host, whole=None), {"M": 257, "N": 9}))


def test_calls_for_a_kernel_behind_one_for_aligned_tensors_are_its_own(tmp_path: Path) -> None:
    """As many tiles of H would have the first kernel, which has larger ones, if their tensors were aligned to 16."""
    module = generate(BEHIND, "specs/x.yaml").modules[0]
    path = tmp_path / "behind.py"
    path.write_text(module.text, encoding="utf-8")
    checks = host_checks(module.plan, load_module(path), EmulatorExecutor(lines=False))
    said = [check for check in checks if "as many tiles" in check.what]
    assert len(said) == 4 and all(check.status == "passed" for check in said)


def test_where_a_few_blocks_take_too_long_fewer_tiles_run(
    ran: list[tuple[str, int, list[int]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(far_blocks, "_DEAR", 0.04)
    monkeypatch.setattr(far_blocks, "_SOME", 0)
    monkeypatch.setattr(walked_tiles, "known", lambda host, mode: False)
    module = generate(f"{PRODUCT}static: {{K: 4096}}\n", "specs/x.yaml").modules[0]
    said, _ = checked(module, module.text, tmp_path)
    assert [*said.values()] == ["", ""] and all(len(blocks) == tiles <= 4 for _, tiles, blocks in ran)


@pytest.mark.parametrize(("kernel", "wrong", "pattern", "text"), WRONG, ids=[wrong for _, wrong, *_ in WRONG])
def test_only_these_checks_find_tiles_that_are_counted_wrong(
    kernel: str, wrong: str, pattern: str, text: str, tmp_path: Path
) -> None:
    module = modules()[kernel]
    said, failed = checked(module, changed(module, pattern, text), tmp_path, cases=True)
    assert any(said.values()) and not failed


@pytest.mark.parametrize(("kernel", "what", "pattern", "text"), RIGHT, ids=[what for _, what, *_ in RIGHT])
def test_blocks_may_take_tiles_in_any_order(
    kernel: str, what: str, pattern: str, text: str, ran: list[tuple[str, int, list[int]]], tmp_path: Path
) -> None:
    module = modules()[kernel]
    said, _ = checked(module, changed(module, pattern, text), tmp_path)
    assert set(said.values()) == {""} and ("M", 257, [*range(257)]) in ran


def test_blocks_that_walk_several_tiles(
    ran: list[tuple[str, int, list[int]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = modules()["walked"]
    said, _ = checked(module, module.text, tmp_path)
    assert [*said.values()] == [""] and ("M", 303, [*range(303)]) in ran
    wrong = changed(module, r"\(bidx, row_tiles, grid\)", "(bidx, row_tiles, grid + 1)")
    said, _ = checked(module, wrong, tmp_path)
    assert "300 blocks are launched for" in said["accepts as many tiles of M as can be run"]
    monkeypatch.setattr(far_blocks, "_DEARER", 0.0)  # too many blocks to run them all, as the plan has it
    ran.clear()
    said, _ = checked(module, module.text, tmp_path)
    assert [*said.values()] == [""] and ("M", 257, [*range(257)]) in ran
    fewer = changed(module, "BLOCKS = 300", "BLOCKS = 320")
    said, _ = checked(module, fewer, tmp_path)
    assert "fewer tiles have a block each" in said["accepts as many tiles of M as can be run"]
