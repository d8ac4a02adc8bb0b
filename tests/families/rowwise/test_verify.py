"""Row kernels on the emulator: right ones pass, and each of several plausible mistakes in their text is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.dtypes import Dtype
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.language.model import Tensor
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.costs import LARGEST_TENSOR, seconds
from cutegen.verification.data import KINDS_OF_ROWS, data_for
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import CaseReport
from cutegen.verification.runner import verify_case
from cutegen.verifying.kernel import verify_kernel

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

LANES = """\
cutegen: 1
kernel: lanes
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e * (1 / sum(e, N))
schedule: {threads_per_row: 4, tiler: {M: 8}}
static: {M: 20, N: 24}
targets: [sm_80]
"""
WARPS = """\
cutegen: 1
kernel: warps
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16, align: 2}
  Y: {shape: [M, N], dtype: f16, align: 2, role: out}
  s: {shape: [M], dtype: f32, role: out}
compute:
  - s = max(X, N)
  - d = X - mean(X, N)
  - Y = d * rsqrt(mean(d * d, N) + 0.01)
schedule: {threads_per_row: 64, tiler: {M: 2}}
static: {N: 117}
targets: [sm_80]
"""
AGAIN = """\
cutegen: 1
kernel: again
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  w: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, align: 4, role: out}
compute:
  - s = sum(X * w, N) + r
  - Y = (X - max(X, N)) * r
schedule: {threads_per_row: 8, tiler: {M: 4, N: 16}}
targets: [sm_80]
"""
WHOLE = """\
cutegen: 1
kernel: whole
op: rowwise
tensors:
  X: {shape: [M, N], dtype: i8}
  P: {shape: [M, N], dtype: bool}
  c: {shape: [M], dtype: i32, role: out}
  q: {shape: [M], dtype: bool, role: out}
  Y: {shape: [M, N], dtype: i32, role: out}
compute:
  - c = sum(where(P, X, 0), N)
  - q = max(P, N) > 0
  - Y = max(X, N) - min(X, N) + minimum(X, coord(M))
schedule: {threads_per_row: 4, tiler: {M: 8}}
static: {N: 20}
targets: [sm_80]
"""
DEEP = """\
cutegen: 1
kernel: deep
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: bf16, align: 2}
  b: {shape: [P, N], dtype: f32}
  Y: {shape: [P, M], dtype: f32, role: out}
compute: Y = min(X + b, N) * coord(M)
schedule: {threads_per_row: 4, tiler: {M: 8, N: 12}}
static: {N: 11}
targets: [sm_80]
"""
ONE = """\
cutegen: 1
kernel: one_row
op: rowwise
tensors:
  X: {shape: [N], dtype: f32}
  w: {shape: [N], dtype: f16}
  Y: {shape: [N], dtype: u8, role: out}
  Z: {shape: [N], dtype: f32, role: out}
compute:
  - m = max(X * w, N)
  - Y = cast(sqrt(abs(m)), u8)
  - Z = (X - m) * coord(N)
schedule: {threads_per_row: 32, scheduler: {blocks: 8}}
static: {N: 128}
targets: [sm_80]
"""
FREE = """\
cutegen: 1
kernel: free
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * w / sum(abs(X), N)
schedule: {threads_per_row: 8, tiler: {M: 4, N: 64}}
targets: [sm_80]
"""
BYTES = """\
cutegen: 1
kernel: bytes
op: rowwise
tensors:
  X: {shape: [T], dtype: bf16}
  F: {shape: [T], dtype: f8e4m3}
  Y: {shape: [T], dtype: bf16, role: out}
compute: Y = X + F - max(X, T)
schedule: {threads_per_row: 16, keep: reload, tiler: {T: 256}, predication: {T: none}}
targets: [sm_89]
"""
SHARED = """\
cutegen: 1
kernel: shared
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  s: {shape: [M], dtype: f64, role: out}
  Y: {shape: [M, N], dtype: f16, role: out}
compute:
  - e = exp(X - max(X, N))
  - s = sum(cast(X, f64), N)
  - Y = e * (1 / sum(e, N))
schedule: {threads_per_row: 64, tiler: {M: 2}, cluster: {N: 4}}
static: {N: 500}
"""
TURNS = """\
cutegen: 1
kernel: turns
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  d: {shape: [N], dtype: f32, role: out}
compute:
  - Y = (X - mean(X, N)) * w * r
  - d = sum(X, M)
schedule: {threads_per_row: 32, tiler: {M: 2}, cluster: {N: 2}, scheduler: {blocks: 4}}
static: {N: 250}
"""
PIECES = """\
cutegen: 1
kernel: walked
op: rowwise
tensors:
  X: {shape: [M, N], dtype: i32}
  Y: {shape: [M, N], dtype: i32, role: out}
compute: Y = X - max(X, N)
schedule: {threads_per_row: 32, tiler: {N: 128}, cluster: {N: 2}, keep: reload}
"""
NUMBERS = """\
cutegen: 1
kernel: constant
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  a: {shape: [M], dtype: bf16, role: out}
  b: {shape: [M], dtype: f64, role: out}
  c: {shape: [M], dtype: i8, role: out}
  d: {shape: [M], dtype: bool, role: out}
  r: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: bool, role: out}
compute:
  - a = 3
  - b = 0.1 ** 2
  - c = -3
  - d = 1 > 0
  - r = sum(X, N) + 0.3
  - Y = 1 < 2
schedule: {threads_per_row: 4, tiler: {M: 8}}
static: {N: 20}
targets: [sm_80]
"""
FEW = """\
cutegen: 1
kernel: few
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - s = max(X, N)
  - d = X - mean(X, N) + r
  - Y = d * w + coord(N)
schedule: {shorter: fewer_threads, threads_per_row: 64, tiler: {N: 512}}
targets: [sm_80]
"""
LINE = """\
cutegen: 1
kernel: line
op: rowwise
tensors:
  X: {shape: [N], dtype: f32}
  Y: {shape: [N], dtype: i32, role: out}
compute: Y = cast(X - max(X, N), i32) + coord(N)
schedule: {shorter: fewer_threads, threads_per_row: 32, tiler: {N: 256}}
targets: [sm_80]
"""
AGAIN_WRITTEN = """\
cutegen: 1
kernel: written
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  R: {shape: [M, N], dtype: f32, role: inout}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - R = R + X
  - Y = R * sum(R, N)
schedule: {keep: reload, threads_per_row: 32, tiler: {N: 128}}
targets: [sm_80]
"""
ONLINE = """\
cutegen: 1
kernel: online
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  t: {shape: [M], dtype: f32, role: out}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f16, role: out}
compute:
  - e = exp(X - max(X, N))
  - t = sum(e, N)
  - s = sum(X, N)
  - Y = e * (1 / t)
schedule: {keep: reload, threads_per_row: 64, tiler: {M: 2, N: 512}}
targets: [sm_80]
"""
# Pieces and rows that are not whole; the same in f64, and in a cluster
SQUARES = """\
cutegen: 1
kernel: squares
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  v: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, align: 4, role: out}
compute:
  - d = X - mean(X, N)
  - v = mean(d * d, N)
  - Y = d * rsqrt(v + 0.01)
schedule: {keep: reload, threads_per_row: 64, tiler: {M: 2, N: 512}}
targets: [sm_80]
"""
DOUBLE = SQUARES.replace("f32", "f64").replace("align: 4", "align: 8").replace("kernel: squares", "kernel: double")
DOUBLE = DOUBLE.replace("threads_per_row: 64, tiler: {M: 2, N: 512}", "threads_per_row: 8, tiler: {M: 4, N: 32}")
TOGETHER = """\
cutegen: 1
kernel: together
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  v: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f16, role: out}
compute:
  - m = mean(X, N)
  - v = mean((X - m) ** 2, N)
  - Y = (X - m) * rsqrt(v + 0.01)
schedule: {keep: smem, threads_per_row: 64, tiler: {N: 512}, cluster: {N: 2}}
static: {N: 1304}
targets: [sm_90a]
"""
THREE = """\
cutegen: 1
kernel: three
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X * rsqrt(mean(X * X, N))
schedule: {keep: registers, threads_per_row: 32, scheduler: {kind: persistent, blocks: 3}}
static: {N: 768}
targets: [sm_80]
"""
# Sums over the rows, by launches that choose how many threads a row has, of one block or a cluster
SUMMED = """\
cutegen: 1
kernel: summed
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  d: {shape: [N], dtype: f32, role: out}
  e: {shape: [N], dtype: f32, role: out}
compute:
  - Y = (X - mean(X, N)) * w * r
  - d = sum(X * r, M)
  - e = prod(X, M)
schedule: {shorter: fewer_threads, threads_per_row: 64, tiler: {N: 512}, scheduler: {blocks: 2}}
targets: [sm_90a]
"""
SUMMED_TOGETHER = SUMMED.replace("kernel: summed", "kernel: summed_together").replace("blocks: 2", "blocks: 4")
SUMMED_TOGETHER = SUMMED_TOGETHER.replace("shorter:", "cluster: {N: 2}, shorter:")
TEXTS = {
    "summed": SUMMED,
    "summed_together": SUMMED_TOGETHER,
    "constant": NUMBERS,
    "shared": SHARED,
    "turns": TURNS,
    "walked": PIECES,
}
TEXTS |= {"online": ONLINE, "few": FEW, "line": LINE, "written": AGAIN_WRITTEN}
TEXTS |= {"free": FREE, "one_row": ONE, "lanes": LANES, "warps": WARPS, "again": AGAIN, "whole": WHOLE, "deep": DEEP}
TEXTS |= {"bytes": BYTES, "three": THREE, "squares": SQUARES, "double": DOUBLE, "together": TOGETHER}
ALONE = (
    *("N alone does not fit", "w alone starts elsewhere", "X alone starts elsewhere", "Y alone starts elsewhere"),
    *("Y alone has rows elsewhere", "X alone has rows at 8"),
)
NARROW = (*ALONE, "rows, narrow", "all one more, narrow")
WAYS = (
    "rows, 8 threads a row",
    "rows of two pieces, longer rows",
    "offset residue, longer rows",
    "offset residue, 8 threads a row, narrow",
)
TELLING = ("rows", "rows of two pieces", "tile", "primes", "special values", "offset residue", "M = 0", "N = 0")
"""The cases that are run of most kernels: all that rows are apart by, and a few of any kernel's."""


@lru_cache
def module_of(name: str) -> Module:
    (module,) = generate(TEXTS[name], "x.yaml").modules
    return module


@dataclass(frozen=True)
class Written:
    """A module's text in a file, and the text of another in place of parts of it."""

    name: str
    path: Path

    def cases(self) -> list[Case]:
        return [case for case in derive_cases(module_of(self.name).plan) if case.name in (*TELLING, *NARROW, *WAYS)]

    def reports(self) -> Iterator[CaseReport]:
        loaded, executor = load_module(self.path), EmulatorExecutor(lines=False)
        for case in sorted(self.cases(), key=lambda case: (*TELLING, *NARROW, *WAYS).index(case.name)):
            yield verify_case(module_of(self.name).plan, case, loaded, executor)


def written(name: str, folder: Path, changes: dict[str, str] | None = None) -> Written:
    text = module_of(name).text
    for old, new in (changes or {}).items():
        assert old in text, f"{old} is not in the module: adapt the change"
        text = text.replace(old, new)
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return Written(name, path)


def test_rows_of_a_few_lanes_are_verified_whole_with_their_host(tmp_path: Path) -> None:
    plan = module_of("lanes").plan
    assert plan.threads_per_row == 4 and plan.keep == "registers" and plan.masked == ("M", "N")
    report = verify_kernel(plan, written("lanes", tmp_path).path, EmulatorExecutor(lines=False))
    assert report.ok and report.complete, (report.failures, report.error)
    assert any(case.name == "rows" or case.orders > 1 for case in report.cases) and report.host_checks


NAMES = [
    "warps",
    "again",
    "whole",
    "deep",
    "one_row",
    "free",
    "constant",
    "shared",
    "turns",
    "walked",
    "few",
    "written",
    "line",
    "online",
    "bytes",
    "three",
    "squares",
    "double",
    "together",
    "summed",
    "summed_together",
]


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_several_warps_pieces_types_and_modes_are_right(name: str, tmp_path: Path) -> None:
    found = list(written(name, tmp_path).reports())
    assert len(found) >= 3 and {"rows", "special values"} <= {report.name for report in found}
    assert ("rows of two pieces" in {report.name for report in found}) == (
        name in ("again", "free", "walked", "written", "online", "bytes", "squares", "double")
    )
    assert [(report.name, report.message) for report in found if report.status != "passed"] == []
    outputs = [report for report in found if report.elements]
    assert all(report.unbounded < report.elements for report in outputs), "most elements are judged"


FITTING = "    accesses_fit = "
ONE_MORE = "i in cutlass.range_constexpr(1, 2)"
MUTANTS = [
    ("warps", "warps do not wait for each other", {"    cute.arch.sync_threads()\n": ""}),
    ("warps", "one exchange of lanes less", {"for step in cutlass.range_constexpr(5)": "for step in range(4)"}),
    ("warps", "the last warp is left out", {ONE_MORE: "i in cutlass.range_constexpr(1, 1)"}),
    ("warps", "two results of a warp share their place", {"partials_0, partials_1)": "partials_0, partials_0)"}),
    ("warps", "a reduction uses the memory of the one before", {"(row_sum_1, partials_2)": "(row_sum_1, partials_1)"}),
    ("warps", "the largest begins at 0", {'cute.full_like(x1, float("-inf"))': "cute.full_like(x1, 0.0)"}),
    ("warps", "a NaN is no largest", {", nan=True": ""}),
    ("warps", "what is beyond the row is summed", {"cute.where(accessed, x8, cute.full_like(x8, 0.0))": "x8"}),
    ("warps", "a mean of the whole tile", {"/ 117.0": "/ 128.0"}),
    ("warps", "rows that there are not", {" and has_row": ""}),
    ("warps", "rows of one block share a partial result", {
        "partials[tidx // 32 % 2, tidx // THREADS_PER_ROW] = x": "partials[tidx // 32 % 2, 0] = x",
    }),
    ("again", "one piece too few", {"cute.ceil_div(mX.shape[1], TILER[1])": "mX.shape[1] // TILER[1]"}),
    ("again", "only the last piece is summed", {"row_sum = row_sum + cutlass": "row_sum = cutlass"}),
    ("again", "a NaN of an earlier piece is forgotten", {
        "cute.arch.fmax(row_max, x7, nan=True)": "cute.arch.fmax(row_max, x7)",
    }),
    ("again", "a value of another row is loaded", {"r = mr[row_M] if has_row": "r = mr[tile_M * 4] if has_row"}),
    ("again", "a value of no row is loaded", {"mr[row_M] if has_row else cutlass.Float32(0.0)": "mr[row_M]"}),
    ("again", "each lane stores what it has", {"row_sum = row_sum_f32(row_sum)": "row_sum = row_sum"}),
    ("free", "no size is looked at", {f"{FITTING}(mX.shape[1] % VECTOR == 0)": f"{FITTING}(mX.shape[1] >= 0)"}),
    ("free", "an address is not looked at", {"fitting & (start == 0)": "fitting & (start >= 0)"}),
    ("free", "a stride is not looked at", {"fitting & (stride % vector == 0)": "fitting & (stride >= 0)"}),
    ("free", "rows half an access apart", {"fitting & (stride % vector == 0)": "fitting & (stride % 2 == 0)"}),
    ("free", "a tensor is not looked at", {"_fits(VECTOR, mX, mw, mY)": "_fits(VECTOR, mX, mY)"}),
    ("shared", "no block waits until all run", {"cute.arch.cluster_wait()  # all": "pass  # all"}),
    ("shared", "a block tells itself only", {"arrived, lane)": "arrived, rank)"}),
    ("shared", "all blocks tell the same place", {"(rank * 2 + tidx": "(0 * rank + tidx"}),
    ("shared", "a warp of each block is left out", {"(rank * 2 + tidx // 32 % 2, row)": "(rank * 2 + 0 * tidx, row)"}),
    ("shared", "less is waited for", {"(arrived, 64)": "(arrived, 60)"}),
    ("shared", "nothing is waited for", {"    cute.arch.mbarrier_wait(arrived, 0)\n": ""}),
    ("shared", "two meetings share a barrier", {"arrived + 1": "arrived"}),
    ("shared", "results of half the blocks", {"partials[lane % 8, row]": "partials[lane % 4, row]"}),
    ("shared", "half of a number", {"cutlass.Int32(bits >> 32)": "cutlass.Int32(bits)"}),
    ("shared", "every block has the first part", {"(tile_M, rank))": "(tile_M, 0 * rank))"}),
    ("turns", "no block waits until all have read", {
        "    cute.arch.mbarrier_wait(read, (turn + 1) % 2)  # of the row before, by all warps of the cluster\n": "",
    }),
    ("turns", "a warp is done before all its lanes are", {"    cute.arch.sync_warp()\n": ""}),
    ("turns", "a block ends while others tell it something", {
        "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n": "",
    }),
    ("turns", "the phase of the first row", {"(arrived, turn % 2)": "(arrived, 0 * turn)"}),
    ("turns", "the next rows' values", {"    r = next_r\n": "    r = mr[row_M + 1] if has_row else next_r\n"}),
    ("turns", "rows before they are used", {"next_tile = row_tile + clusters": "next_tile = row_tile + clusters + 1"}),
    ("walked", "both blocks have the same pieces", {"range(rank, pieces": "range(0 * rank, pieces"}),
    ("few", "a row has too few threads", {"row_threads * values < row_size": "row_threads * values + 1 < row_size"}),
    ("few", "a longer row is taken as held", {"<= MOST_THREADS * values": "<= MOST_THREADS * values + 8"}),
    ("summed", "a warp that there is not", {"if lane % WARPS < warps": "if lane % WARPS <= warps"}),
    ("summed", "rows of one block share a partial result", {"row * warps + thread // 32": "thread // 32"}),
    ("few", "lanes of other rows are added", {"both1 if 1 << step < threads else x1": "both1"}),
    ("few", "a block's other rows are the first", {"tile_M * block_rows + tidy": "tile_M * block_rows"}),
    ("few", "warps have parts that overlap", {"tidx // 32 * 32 * OWN_VALUES": "tidx // 32 * 16 * OWN_VALUES"}),
    ("few", "a row's lanes are as far apart as a warp's", {"row_threads * width, divby": "32 * width, divby"}),
    ("few", "pieces of half the row", {"(piece * row_threads +": "(piece * row_threads * 2 +"}),
    ("few", "rows beyond the last", {
        "cute.elem_less((row_M, column_idx), (mX.shape[0], mX.shape[1]))": "cute.elem_less(column_idx, mX.shape[1])",
    }),
    ("summed", "only the first of a block's rows is stored", {"range(block_rows)": "range(1)"}),
    ("summed", "a block's rows share their sums' place", {"(tidy * row_size + own": "(0 * tidy + own"}),
    ("summed", "a block's sums are read before they are there", {
        "        cute.copy(copy_d, tXrd_out, own_d)\n        cute.arch.sync_threads()\n":
        "        cute.copy(copy_d, tXrd_out, own_d)\n",
    }),
    ("summed", "rows that there are not", {"        if has_row:\n": "        if True:\n"}),
    ("summed", "two rows' results in one place", {"turn % 2 * WARPS": "0 * turn"}),
    ("summed", "every block's sums are the first's", {"workspace_d[bidx, column]": "workspace_d[0 * bidx, column]"}),
    ("summed", "a row more than blocks have", {"me, grid,": "me, grid + 1,"}),
    ("summed_together", "every block has the first part", {"rank * row_threads * VALUES": "0 * rank * VALUES"}),
    ("summed_together", "no block waits until all have read", {
        "    cute.arch.mbarrier_wait(read, (turn + 1) % 2)  # of the row before, by all warps of the cluster\n": "",
    }),
    ("summed_together", "results of one block", {"results = warps * CLUSTER": "results = warps"}),
    ("summed_together", "less is waited for", {"rows * results * 4": "rows * results * 4 - 4"}),
    ("summed_together", "rows share their results' place", {"row * results + rank": "rank"}),
    ("summed_together", "one warp has read for all", {"row_threads * block_rows // 32": "1"}),
    ("online", "what was summed before is not scaled", {
        "new_t = new_t * scale_f32(row_max_before, row_max)": "pass",
    }),
    ("online", "what others have is not scaled", {"other1 * scale_f32(other0, both0)": "other1"}),
    ("online", "what a thread has is not scaled", {"x1 * scale_f32(x0, both0)": "x1"}),
    ("online", "nothing is above -inf", {"cute.arch.fmax(row_max, -3.4028234663852886e38)": "row_max"}),
    ("online", "a row of -inf has a sum", {"new_t = new_t + (row_max - row_max) if": "new_t = new_t if"}),
    ("online", "what is beyond the row is summed", {"cute.where(accessed, x6, cute.full_like(x6, 0.0))": "x6"}),
    ("online", "two results of a warp share their place", {
        "partials_0, partials_1, partials_2": "partials_0, partials_0, partials_2",
    }),
    ("online", "the last walk leaves the first piece out", {"pieces - 1 - walked": "pieces - walked"}),
    ("squares", "nothing is between the means of pieces", {
        "piece_row_sum_1 += apart_f32(": "piece_row_sum_1 + apart_f32(",
    }),
    ("squares", "nothing is between the means of threads", {
        "x2 + other2 + apart_f32(x0, x1, other0, other1)": "x2 + other2",
    }),
    ("squares", "the means of what was summed already", {"        row_sum = row_sum + piece_row_sum\n": ""}),
    ("squares", "what is beyond the row is counted", {"cute.where(accessed, x5, cute.full_like(x5, 0.0))": "x5"}),
    ("squares", "what is beyond the row is squared", {"cute.where(accessed, x10, cute.full_like(x10, 0.0))": "x10"}),
    ("squares", "sums that are infinite have no difference", {
        "cute.arch.fmax(y * n - x * m, -3.4028234663852886e38)": "y * n - x * m",
    }),
    ("squares", "values around 0", {"x7 = x - piece_row_sum_mean": "x7 = x"}),
    ("squares", "no values make no number", {"cute.arch.fmax(n * m * (n + m), 1.0)": "n * m * (n + m)"}),
    ("squares", "half of what is between them", {"(n + m), 1.0)": "(n + m) * 2.0, 1.0)"}),
    ("squares", "squares of one side", {"both2 = x2 + other2 +": "both2 = x2 +"}),
    ("together", "a block's means are all the same", {"both1 = x1 + other1": "both1 = x1"}),
    ("free", "narrow accesses of another layout", {"stride=((4, 1), (0, 32))": "stride=((4, 1), (0, 16))"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "changes"), sampled(MUTANTS), ids=[f"{name}: {what}" for name, what, _ in MUTANTS]
)
def test_a_plausible_mistake_is_found(name: str, what: str, changes: dict[str, str], tmp_path: Path) -> None:
    """By the first of the cases that shows it, and as what it is: a wrong result or a fault, no error of the trial."""
    failed = next((r for r in written(name, tmp_path, changes).reports() if r.status == "failed"), None)
    assert failed is not None, f"{what}: all cases pass"
    assert "raised" not in failed.message or "FaultError" in failed.message, failed.message


LONG_ROWS = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - x = X - mean(X, N)
  - Y = x * rsqrt(mean(x * x, N)) * W
schedule: {keep: registers, scheduler: {kind: persistent}}
targets: [sm_90a]
"""


@pytest.mark.parametrize("size", [64, 4096, 8192, 65536, 262144])
def test_blocks_that_stay_walk_several_rows(size: int) -> None:
    """Even where they are many and rows long: what blocks do after their first rows is a part of the kernel, too."""
    plan = generate(LONG_ROWS + f"static: {{N: {size}}}\n", "x.yaml").modules[0].plan
    assert isinstance(plan, RowwisePlan) and plan.blocks is not None and plan.blocks > 100
    for name, blocks, tiles in (("several rows a block", plan.cluster, 7), ("rows of two turns", plan.blocks, 2)):
        case = next(case for case in derive_cases(plan) if case.name == name)
        assert case.sizes["M"] > (tiles - 1) * plan.rows * blocks // plan.cluster
        assert case.sizes["M"] * size <= LARGEST_TENSOR and seconds(plan, case.sizes) < 100


def test_rows_of_a_block_are_of_different_kinds_however_many_there_are() -> None:
    """A largest that is not begun anew shows where a row of small numbers comes after one of large ones."""
    x = Tensor("X", ("M", "N"), Dtype.f32, "N", 4)
    for distance in (KINDS_OF_ROWS, 11 * KINDS_OF_ROWS, 66):
        rows = data_for(x, (2 * distance + 1, 64), "rows", 5, (1,))
        same = [torch.equal(rows[i].isnan(), rows[i + distance].isnan()) for i in range(distance + 1)]
        assert not all(same)
    largest = rows.amax(1)
    assert (largest < -200).any() and rows[largest < -200].isfinite().any(), "far below zero"
