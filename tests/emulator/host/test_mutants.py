"""Every way to break a generated kernel is seen on the CPU: one change to the text, and a case of its plan must fail.

What is changed is found by pattern, so that a template may be reworded; a pattern that finds nothing fails the test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from emulator_kit import THROUGH_A_WORKSPACE
from specs_kit import ROOT, modules_of_specs
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")


@dataclass(frozen=True)
class Mutant:
    """In the module of `kernel`, the match number `nth` of `pattern` becomes `text`; `sign` is in what verification
    says ("" for a wrong result)."""

    kernel: str
    name: str
    pattern: str
    text: str
    sign: str = ""
    nth: int = 0


TRUE = "cutlass.Boolean(True)"
COMMIT, WAIT, SYNC = (
    r"cute\.arch\.cp_async_commit_group\(\)",
    r"cp_async_wait_group\([^)]*\)",
    r"cute\.arch\.sync_threads\(\)",
)
FIRST = r"(tXpX_first\[.*\] = )in_bounds & in_k"
FIRST_A, FIRST_B = r"else \(tApA_first, tBpB_first\)", r"else \(tApA_first, tBpB_first\)"
OF_ALL_A, OF_ALL_B = "else (tApA, tBpB_first)", "else (tApA_first, tBpB)"
BOUND = r"(elem_less\(tXcX.*\[0\], )mX\.shape\[0\]"
LAYOUT_A = r"(\(BLK_M, BLK_K, STAGES\), stride=\(1, )BLK_M \+ 8, BLK_K \* \(BLK_M \+ 8\)"
OUTSIDE = "out-of-bounds|never-written"  # what is stored out of bounds was not loaded either
AXPBY, MMAJOR, THROUGH = "small_axpby", "sgemm_mmajor", "through_registers"
TURNED = "through_a_workspace"
THROUGH_REGISTERS = """
cutegen: 1
kernel: through_registers
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K}
  B: {shape: [N, K], dtype: f32, major: K}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 32, N: 32, K: 8}
  mma: {thread_layout: "(8,8,1)"}
  copies: {A: {bits: 128}, B: {bits: 128}}
divisible: {K: 4}
"""

SMALL = [  # sgemm_axpby with 8 accumulators a thread, which compiles in a third of the time
    ("sgemm_axpby", AXPBY),
    ("tiler: {M: 128, N: 128, K: 8}", 'tiler: {M: 32, N: 32, K: 4}\n  mma: {thread_layout: "(16,8,1)"}'),
]

GEMM = [
    Mutant(AXPBY, "first tiles without m and n predicates", FIRST, r"\1in_k", "out-of-bounds"),
    Mutant(AXPBY, "first tiles without k predicate", FIRST, r"\1in_bounds", "out-of-bounds"),
    Mutant(AXPBY, "first tile of A without k predicate", FIRST_A, OF_ALL_A, "out-of-bounds"),
    Mutant(AXPBY, "first tile of B without k predicate", FIRST_B, OF_ALL_B, "out-of-bounds"),
    Mutant(AXPBY, "later tiles of A without predicate", r"smem_write, tApA\)", "smem_write)", "out-of-bounds"),
    Mutant(AXPBY, "later tiles of B without predicate", r"smem_write, tBpB\)", "smem_write)", "out-of-bounds"),
    Mutant(AXPBY, "bounds of A and B one more", BOUND, r"\1mX.shape[0] + 1", "out-of-bounds"),
    Mutant(AXPBY, "bounds of A and B one less", BOUND, r"\1mX.shape[0] - 1"),
    Mutant(AXPBY, "predicates of B by the bounds of A", r"= predicates\(mB,", "= predicates(mA,"),
    Mutant(AXPBY, "k bound one less", r"elem_less\(-1, ", "elem_less(-2, ", "out-of-bounds"),
    Mutant(AXPBY, "k bound one more", r"elem_less\(-1, ", "elem_less(0, "),
    Mutant(AXPBY, "residue at the wrong end", r"residue = .*", "residue = 0", "out-of-bounds"),
    Mutant(
        AXPBY, "prologue past the last tile", r"if k_tile < k_tiles:", "if cutlass.const_expr(True):", "out-of-bounds"
    ),
    Mutant(AXPBY, "fetch past the last tile", r"if fetch < k_tiles:", "if cutlass.const_expr(True):", "out-of-bounds"),
    Mutant(AXPBY, "fetch one tile too many", r"if fetch < k_tiles:", "if fetch <= k_tiles:", "out-of-bounds"),
    Mutant(AXPBY, "fetch the wrong tile", r"fetch = k_tile \+ \(STAGES - 1\)", "fetch = k_tile + STAGES"),
    Mutant(AXPBY, "no commit in the prologue", COMMIT, "pass", "in-flight"),
    Mutant(AXPBY, "no commit in the mainloop", COMMIT, "pass", "in-flight", 1),
    Mutant(AXPBY, "no first wait", "cute.arch." + WAIT, "pass", "in-flight"),
    Mutant(AXPBY, "no wait in the mainloop", "cute.arch." + WAIT, "pass", "in-flight", 1),
    Mutant(AXPBY, "first wait for one group less", WAIT, "cp_async_wait_group(STAGES - 1)", "in-flight"),
    Mutant(AXPBY, "mainloop waits for one group less", WAIT, "cp_async_wait_group(STAGES - 1)", "in-flight", 1),
    Mutant(AXPBY, "no first barrier", SYNC, "pass", "race"),
    Mutant(AXPBY, "no barrier in the mainloop", SYNC, "pass", "race|in-flight", 1),
    Mutant(
        AXPBY,
        "barrier before the wait",
        r"(cute\.arch\.cp_async_wait_group.*)\n(\s+)(cute\.arch\.sync.*)",
        r"\3\n\2\1",
        "race|in-flight",
    ),
    Mutant(
        AXPBY,
        "barrier for some threads",
        rf"({SYNC})\n(\s+)cute.autovec",
        r"if tidx < 32:\n        \1\n\2cute.autovec",
        "barrier",
    ),
    Mutant(AXPBY, "one stage of shared memory less", r"\(BLK_M, BLK_K, STAGES\)", "(BLK_M, BLK_K, STAGES - 1)"),
    Mutant(AXPBY, "stages overlap", LAYOUT_A, r"\1BLK_M + 8, BLK_K * BLK_M", "in-flight|race"),
    Mutant(AXPBY, "columns of shared memory overlap", LAYOUT_A, r"\1BLK_M - 8, BLK_K * (BLK_M + 8)", "in-flight|race"),
    Mutant(
        AXPBY,
        "writes a stage that is being read",
        r"smem_write = cutlass\.Int32\(STAGES - 1\)",
        "smem_write = cutlass.Int32(0)",
        "in-flight|race",
    ),
    Mutant(AXPBY, "reads the stage before", r"stage = smem_next", "stage = smem_read"),
    Mutant(AXPBY, "stage counter wraps late", r"if smem_read \+ 1 < STAGES", "if smem_read + 1 <= STAGES"),
    Mutant(AXPBY, "stage counter wraps early", r"if smem_read \+ 1 < STAGES", "if smem_read + 2 < STAGES"),
    Mutant(AXPBY, "writes the next stage", r"smem_write = smem_read", "smem_write = smem_next", "in-flight|race"),
    Mutant(AXPBY, "prologue reads the second stage", r"(tCsB\[None, None, 0, )0\]", r"\g<1>1]"),
    Mutant(AXPBY, "prologue copies over the first stage", r"k_tile, tBsB, k_tile", "k_tile, tBsB, 0"),
    Mutant(AXPBY, "fragments of another k", r"\(k_block \+ 1\) % BLK_K", "(k_block + 2) % BLK_K"),
    Mutant(AXPBY, "accumulators not cleared", r"acc\.fill\(0\.0\)", "pass", "never-written"),
    Mutant(AXPBY, "store of C without predicate", r"(cute\.copy\(store_C, .*), pred=tCpC\)", r"\1)", OUTSIDE),
    Mutant(AXPBY, "load of C without predicate", r"(cute\.copy\(copy_C, .*), pred=tCpC\)", r"\1)", "out-of-bounds"),
    Mutant(
        AXPBY,
        "bound of C one more",
        r"(tCpC\[.*), mC\.shape\)",
        r"\1, (mC.shape[0], mC.shape[1] + 1))",
        "out-of-bounds|unordered",  # the row after it may be another block's
    ),
    Mutant(AXPBY, "bound of C one less", r"(tCpC\[.*), mC\.shape\)", r"\1, (mC.shape[0] - 1, mC.shape[1]))"),
    Mutant(
        AXPBY,
        "C without predicate for M",
        r"(tCpC\[.*), mC\.shape\)",
        r"\1, (mC.shape[0] + 256, mC.shape[1]))",
        "out-of-bounds",
    ),
    Mutant(AXPBY, "block coordinates swapped", r"coord = \(bidx, bidy, None\)", "coord = (bidy, bidx, None)"),
    Mutant(AXPBY, "too few blocks", r"grid=\[grid_m, grid_n, 1\]", "grid=[grid_m, 1, 1]"),
    Mutant(AXPBY, "every block twice", r"grid=\[grid_m, grid_n, 1\]", "grid=[grid_m, grid_n, 2]", "unordered"),
    Mutant(AXPBY, "half of the threads", r"block=\[THREADS, 1, 1\]", "block=[THREADS // 2, 1, 1]"),
    Mutant(AXPBY, "alpha and beta swapped", r"alpha \* product \+ beta \* c", "beta * product + alpha * c"),
    Mutant(MMAJOR, "first tiles without m and n predicates", FIRST, r"\1in_k", "out-of-bounds"),
    Mutant(MMAJOR, "first tile of B without k predicate", FIRST_B, OF_ALL_B, "out-of-bounds"),
    Mutant(MMAJOR, "no barrier in the mainloop", SYNC, "pass", "race|in-flight", 1),
    Mutant(MMAJOR, "no wait in the mainloop", "cute.arch." + WAIT, "pass", "in-flight", 1),
    Mutant(MMAJOR, "stores of C without predicate", r"(cute\.copy\(store_C, .*), pred=tCpC\)", r"\1)", OUTSIDE),
    Mutant(
        MMAJOR, "C written through A", r"gC = cute\.local_tile\(mC", "gC = cute.local_tile(mA", "write-to-input|out-of"
    ),
]
NEXT_A, NEXT_B = r"(tApA_next\[.*\] = )in_bounds and in_k", r"(tBpB_next\[.*\] = )in_bounds and in_k"
WRITE_A = r"cute\.autovec_copy\(tArA, .*\)"
REGISTERS = [  # operands that travel through registers
    Mutant(THROUGH, "fetch of A without m predicate", NEXT_A, r"\1in_k", "out-of-bounds"),
    Mutant(THROUGH, "fetch of B past the last tile", NEXT_B, r"\1in_bounds", "out-of-bounds"),
    Mutant(THROUGH, "fetch one tile too many", r"in_k = fetch < k_tiles", "in_k = fetch <= k_tiles", "out-of-bounds"),
    Mutant(THROUGH, "fetch one tile too few", r"in_k = fetch < k_tiles", "in_k = fetch < k_tiles - 1"),
    Mutant(THROUGH, "registers of A not cleared", r"tArA\.fill\(0\.0\)", "pass", "never-written"),
    Mutant(THROUGH, "first tile of A not written", WRITE_A, "pass", "never-written"),
    Mutant(THROUGH, "later tiles of A not written", WRITE_A, "pass", "", 1),
    Mutant(
        THROUGH,
        "written to the stage that is being read",
        r"tArA, tAsA\[None, None, None, smem_write\]",
        "tArA, tAsA[None, None, None, smem_read]",
        "race",
    ),
    Mutant(THROUGH, "no barrier in the mainloop", SYNC, "pass", "race", 1),
    Mutant(THROUGH, "first tile of B without k predicate", FIRST_B, OF_ALL_B, "out-of-bounds"),
]
READ, WRITTEN = r"(tSpS\[.*\] = )cute.*", r"(tDpD\[.*\] = )cute.*"
ORDER = r"make_layout\(\(4, 4\), stride=\(4, 1\)\)"
OTHER_ORDER = "make_layout((4, 4), stride=(1, 4))"
ROWS, COLUMNS = r"grid=\[along, ", r"cutlass\.max\(deep, 1\)"
FILL = r"        _fill_workspace_B\([^\n]*"
PRODUCT = r"(?s)(        through_a_workspace_kernel\(.*?)grid=\[grid_m, (.*?stream=stream\)\n)"
FEWER = r"\g<1>grid=[cutlass.max(grid_m - 1, 1), \g<2>"
WORKSPACES = [
    Mutant(TURNED, "read without predicate", READ, rf"\1{TRUE}", "out-of-bounds"),
    Mutant(TURNED, "written without predicate", WRITTEN, rf"\1{TRUE}", "out-of-bounds"),
    Mutant(TURNED, "read up to the other size", r"(tScD\[.*, )mS\.shape", r"\1mD.shape", "out-of-bounds"),
    Mutant(TURNED, "not turned", ORDER, OTHER_ORDER),
    Mutant(TURNED, "read in another order", ORDER, OTHER_ORDER, nth=1),
    Mutant(TURNED, "blocks of another tile", r"coord = \(bidx, bidy\)", "coord = (bidy, bidx)"),
    Mutant(TURNED, "a row of blocks too few", ROWS, "grid=[cutlass.max(along - 1, 1), ", "never-written"),
    Mutant(TURNED, "a column of blocks too few", COLUMNS, "cutlass.max(deep - 1, 1)", "never-written"),
    Mutant(TURNED, "no block for an empty k", COLUMNS, "deep"),
    Mutant(TURNED, "never filled", FILL, "        pass", "workspace 1.*, which was never written"),
    Mutant(TURNED, "filled after the product", rf"(?s)({FILL})(.*?stream=stream\)\n)", r"\2\1\n", "never-written"),
    Mutant(TURNED, "product twice, with too few blocks", PRODUCT, rf"{FEWER}{FEWER}", "output-not-written"),
]
ELEMENTWISE = [
    Mutant("add_tv", "load of A without predicate", r"(cute\.copy\(copy_A, .*), pred=tCpC\)", r"\1)", "out-of-bounds"),
    Mutant("add_tv", "load of B without predicate", r"(cute\.copy\(copy_B, .*), pred=tCpC\)", r"\1)", "out-of-bounds"),
    Mutant("add_tv", "store without predicate", r"(cute\.copy\(store_C, .*), pred=tCpC\)", r"\1)", OUTSIDE),
    Mutant(
        "add_tv", "bound one more", r"(tCpC\[.*), mC\.shape\)", r"\1, (mC.shape[0] + 1, mC.shape[1]))", "out-of-bounds"
    ),
    Mutant("add_tv", "bound one less", r"(tCpC\[.*), mC\.shape\)", r"\1, (mC.shape[0] - 1, mC.shape[1]))"),
    Mutant(
        "add_tv",
        "last predicate left out",
        r"range_constexpr\(VALUES // VECTOR\)",
        "range_constexpr(VALUES // VECTOR - 1)",
        "never.written",
    ),
    Mutant(
        "add_tv", "a block too few", r"grid=\[grid,", "grid=[cutlass.max(grid - 1, 1),", "never written|was not written"
    ),
    Mutant("add_tv", "coordinates of a tile swapped", r"tile_M, tile_N = divmod", "tile_N, tile_M = divmod"),
    Mutant("add_tv", "divided by the other mode's tiles", r"V2\(tiles\[1\]\)", "V2(tiles[0])"),
    Mutant("add_tv", "one tile of a row left out", r"V2\(tiles\[1\]\)", "V2(cutlass.max(tiles[1] - 1, 1))"),
    Mutant("copy_inner", "coordinates of a tile swapped", r"tile_M, tile_N = divmod", "tile_N, tile_M = divmod"),
    Mutant("copy_inner", "a tile for two threads", r"THREADS \+ tidx,", "THREADS + tidx // 2,"),
    Mutant("add_tv", "threads that share a value", r"(tCgC = .*)\[tidx, None\]", r"\1[tidx // 2, None]"),
    Mutant("add_tv", "another thread's values", r"(tCgA = .*)\[tidx, None\]", r"\1[(tidx + 1) % THREADS, None]"),
    Mutant("add_tv", "B read for A", r"gA = cute\.zipped_divide\(mA", "gA = cute.zipped_divide(mB"),
    Mutant("add_tv", "C written to A", r"(gC = cute\.zipped_divide\()mC", r"\1mA", "write-to-input"),
    Mutant(
        "copy_inner_outer",
        "thread layout that overlaps",
        r"make_layout\(\(8, 32\), stride=\(32, 1\)\)",
        "make_layout((8, 32), stride=(16, 1))",
    ),
    Mutant(
        "copy_inner_outer", "load without predicate", r"(cute\.copy\(copy_S, .*), pred=tDpD\)", r"\1)", "out-of-bounds"
    ),
    Mutant(
        "copy_inner_outer",
        "half of the threads",
        r"block=\[THREADS, 1, 1\]",
        "block=[THREADS // 2, 1, 1]",
        "never written|was not written",
    ),
    Mutant(
        "copy_bf16_inner_outer",
        "coordinates of another run",
        r"cD = cute\.tiled_divide\(cD, \(1, VECTOR\)\)",
        "cD = cute.tiled_divide(cD, (1, 2 * VECTOR))",
    ),
    Mutant(
        "copy_bf16_inner_outer",
        "store without predicate",
        r"(cute\.copy\(store_D, .*), pred=tDpD\)",
        r"\1)",
        OUTSIDE,
    ),
    Mutant("predicated_tile", "store without predicate", r"(cute\.copy\(store_D, .*), pred=tDpD\)", r"\1)", OUTSIDE),
    Mutant(
        "predicated_tile",
        "strides of the input swapped",
        r"(gS = cute\.zipped_divide\()mS",
        r"\1cute.make_tensor(mS.iterator, cute.make_layout(mS.shape, stride=(1, mS.shape[0])))",
    ),
    Mutant(
        "predicated_vector", "bound one more", r"(tDpD\[.*), mD\.shape\)", r"\1, (mD.shape[0] + 1,))", "out-of-bounds"
    ),
    Mutant("add_naive", "store without predicate", r"(cute\.copy\(store_C, .*), pred=tCpC\)", r"\1)", OUTSIDE),
    Mutant("probe_tv", "all threads write the first row", r"mD\[tidx, ", "mD[0, ", "unordered"),
    Mutant("probe_tv", "one thread more", r"block=\[THREADS, 1, 1\]", "block=[THREADS + 1, 1, 1]", "out-of-bounds"),
    Mutant("probe_tv", "one thread less", r"block=\[THREADS, 1, 1\]", "block=[THREADS - 1, 1, 1]", "never written"),
    Mutant("probe_tv", "one value of all", r"tDgA\[\w+\]", "tDgA[0]"),
]
SIZES_OF_LAUNCH = r"grid=\[grid, 1, 1\], block=\[THREADS, 1, 1\]"
LAUNCHED = [  # what the host code asks the device for
    Mutant("add_tv", "on the default stream", r", stream=stream\s", "\n", r"fault\[stream\].*the default stream"),
    Mutant(TURNED, "workspace filled on the default stream", r", stream=stream\s", "\n", r"fault\[stream\]"),
    Mutant(TURNED, "product on the default stream", r", stream=stream\)", ")", r"fault\[stream\]"),
    Mutant("add_tv", "a stream to be given", "env_stream=True", "env_stream=False", "Expects 4"),
    Mutant("add_tv", "for another target", r"GPUArch\(arch\)", 'GPUArch("sm_90a")', "other-target.*sm_90a"),
    Mutant("add_tv", "blocks beyond 65535", SIZES_OF_LAUNCH, "grid=[1, 65536, 1], block=[THREADS, 1, 1]", "along y"),
    Mutant("add_tv", "no blocks", SIZES_OF_LAUNCH, "grid=[grid, 0, 1], block=[THREADS, 1, 1]", "0 along y"),
    Mutant("add_tv", "threads beyond 64", SIZES_OF_LAUNCH, "grid=[grid, 1, 1], block=[1, 1, THREADS]", "along z"),
    Mutant("add_tv", "too many threads", SIZES_OF_LAUNCH, "grid=[grid, 1, 1], block=[1024, 2, 1]", "2048 threads"),
]
HARMLESS = [
    # A workspace is neither an input nor an output; and what is computed twice is the same.
    Mutant(TURNED, "filled twice", FILL, r"\g<0>\n\g<0>"),
    Mutant(TURNED, "product twice", PRODUCT, r"\g<0>\g<0>"),
    # A vector that starts below one starts below the other
    Mutant(TURNED, "written up to the other size", r"(tDcD\[.*, )mD\.shape", r"\1mS.shape"),
    # Stricter than need be: all copies are waited for, so those that count are too.
    Mutant(AXPBY, "waits for everything", WAIT, "cp_async_wait_group(0)", nth=1),
    # A barrier more orders more.
    Mutant(AXPBY, "a second barrier", SYNC, "cute.arch.sync_threads(); cute.arch.sync_threads()"),
    # Any one-to-one thread layout copies the same tile, only in another order.
    Mutant(
        AXPBY,
        "copy of A by another thread layout",
        r"make_layout\(\(32, 4\), stride=\(4, 1\)\)",
        "make_layout((32, 4), stride=(1, 32))",
    ),
    # Blocks that have nothing in bounds do nothing.
    Mutant("add_tv", "a block too many", r"grid=\[grid,", "grid=[grid + 1,"),
    Mutant(AXPBY, "a row of blocks too many", r"grid=\[grid_m, ", "grid=[grid_m + 1, "),
]
CASES = (
    "primes integers",
    "M = 1",
    "K = 0",
    "K 1 tiles and 1",
    "K 4 tiles and 1",
    "small primes",
    "padded residue",
    "several tiles",
    "workspace of B, one more",
)


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    found = dict(modules_of_specs())
    small = (ROOT / "specs" / "sgemm_axpby.yaml").read_text(encoding="utf-8")
    for old, new in SMALL:
        assert old in small
        small = small.replace(old, new)
    for text in (THROUGH_REGISTERS, THROUGH_A_WORKSPACE, small):
        (module,) = generate(text, "specs/x.yaml").modules
        found[module.spec.kernel] = module
    return found


def cases(module: Module) -> list[Case]:
    derived = derive_cases(module.plan)
    small = [c for c in derived if max(c.sizes.values()) <= 2000]
    if module.spec.op != "gemm":
        return small
    return sorted((c for c in small if c.name in CASES), key=lambda c: CASES.index(c.name))


def broken(mutant: Mutant, folder: Path) -> str:
    """The verdict of verification on the mutant; empty if it notices nothing."""
    module = modules()[mutant.kernel]
    places = list(re.finditer(mutant.pattern, module.text))
    assert len(places) > mutant.nth, f"{mutant.pattern} is not in {mutant.kernel}: adapt the pattern"
    place = places[mutant.nth]
    text = module.text[: place.start()] + place.expand(mutant.text) + module.text[place.end() :]
    assert text != module.text
    path = folder / f"{mutant.kernel}.py"
    path.write_text(text, encoding="utf-8")
    loaded = load_module(path)
    executor = EmulatorExecutor(targets=module.spec.targets[:1], lines=False)
    for case in cases(module):
        report = verify_case(module.plan, case, loaded, executor)
        if report.status == "failed":
            assert "could not be run" not in report.message, report.message
            assert not re.search("DSLRuntimeError|MLIRError", report.message), f"does not compile: {report.message}"
            return report.message
    return ""


def label(mutant: Mutant) -> str:
    return f"{mutant.kernel}: {mutant.name}"


@pytest.mark.parametrize("mutant", sampled(GEMM + REGISTERS + WORKSPACES + ELEMENTWISE + LAUNCHED), ids=label)
def test_mutant_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    said = broken(mutant, tmp_path)
    assert said, "nothing was noticed"
    assert re.search(mutant.sign, said), said


@pytest.mark.parametrize("mutant", HARMLESS, ids=label)
def test_harmless_change_is_not_reported(mutant: Mutant, tmp_path: Path) -> None:
    assert broken(mutant, tmp_path) == ""
