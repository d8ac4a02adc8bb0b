"""Scans of rows: the sum or product up to each element, however threads share a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import module_of, plan_of, problems_in
from lint_kit import found_in

from cutegen.differentiation.backward import backward
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.emulator import install, on_device
from cutegen.families.rowwise.order import is_backwards
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import load_module

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")
SCAN = """\
cutegen: 1
kernel: scanned
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - Y = cumsum(X, N)
targets: [sm_90a]
"""
LANES = SCAN + "schedule: {threads_per_row: 8, tiler: {M: 4}}\nstatic: {N: 60}\n"
WARPS = SCAN + "schedule: {threads_per_row: 128, tiler: {M: 2}}\nstatic: {N: 1000}\n"
WALKED = SCAN + "schedule: {keep: reload, threads_per_row: 64, tiler: {N: 512}, copy: {fallback: refuse}}\n"
# Of several kinds of values, in a second walk, beside reductions and sums over the rows
PARTS = """\
cutegen: 1
kernel: parts
op: rowwise
tensors:
  X: {shape: [M, N], dtype: DTYPE}
  r: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
  Z: {shape: [M, N], dtype: f32, role: out}
compute:
  - c = cumsum(X, N)
  - r = sum(abs(c), N)
  - Y = cast(c, f32) - max(X, N)
  - Z = cumprod(1 + cast(X > 1, f32) * coord(N), N) * cumsum(where(X > max(X, N) - 1, 1, 0), N)
"""
WAYS = {
    "one thread": ("f32", "schedule: {threads_per_row: 1, tiler: {M: 32}}\nstatic: {N: 5}\ntargets: [sm_80]"),
    "lanes": ("i32", "schedule: {threads_per_row: 4, tiler: {M: 8}}\nstatic: {N: 23}\ntargets: [sm_80]"),
    "whole warps": ("f16", "schedule: {threads_per_row: 96}\nstatic: {N: 700}\ntargets: [sm_80]"),
    "as few as hold it": ("f32", "static: {M: 3}\ntargets: [sm_80]"),
    "reload": ("f32", "schedule: {keep: reload, threads_per_row: 32, tiler: {N: 128}}\ntargets: [sm_80]"),
    "smem": (
        "f32",
        "schedule: {keep: smem, threads_per_row: 64, tiler: {N: 256}}\nstatic: {N: 900}\ntargets: [sm_90a]",
    ),
    "ahead": (
        "f32",
        "schedule: {threads_per_row: 64, scheduler: {kind: persistent, blocks: 3}, pipeline: {stages: 2}}\n"
        "static: {N: 200}\ntargets: [sm_90a]",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_scans_are_right_however_a_row_is_shared(way: str, tmp_path: Path) -> None:
    dtype, rest = WAYS[way]
    text = f"{PARTS.replace('DTYPE', dtype)}{rest}\n"
    names = ("rows", "special values", "rows of two pieces", "several rows a block", "one less", "all one less")
    cases = [case for case in derive_cases(module_of(text).plan) if case.name.partition(",")[0] in names]
    assert {"rows", "special values"} <= {case.name.partition(",")[0] for case in cases}
    assert list(problems_in(text, cases, tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (LANES, "x = other + x if lane >= 1 << step else x", "x = x"),
        (LANES, "below = whole + below if lane > 0 else whole", "below = whole"),
        (LANES, "whole = whole + cute.arch.shuffle_sync(x, last)", "whole = cute.arch.shuffle_sync(x, last)"),
        (LANES, "values[i] = values[i - 1] + values[i]", "values[i] = values[i - 1]"),
        (WARPS, "below = whole if i == warp else below", "below = below"),
        (WARPS, "below = whole if i == warp else below", "below = whole if i <= warp + 1 else below"),
        (WALKED, "below, whole = before, before", "below, whole = cutlass.Float32(0.0), cutlass.Float32(0.0)"),
        (WALKED, "cute.arch.sync_threads()  # before", "pass  # before"),
    ],
    ids=[
        "lanes do not add", "no lane has those below it", "an access forgets the one before", "exclusive in an access",
        "warps forget those below", "warps have their own twice", "pieces forget those before",
        "no wait between pieces",
    ],
)  # fmt: skip
def test_a_wrong_scan_is_seen(text: str, old: str, new: str, tmp_path: Path) -> None:
    names = ("rows", "primes", "primes, narrow", "rows of two pieces")
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in names]
    assert next(problems_in(text, cases, tmp_path), None) is None
    assert next(problems_in(text, cases, tmp_path, {old: new}), None) is not None


def test_a_scan_is_torchs_of_special_values(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 2.0, -3.0, 0.5], [1.0, INF, 2.0, -INF], [NAN, 1.0, 2.0, 3.0], [1.0, 2.0, NAN, INF]])
    both = SCAN.replace("compute:\n", "compute:\n  - Z = cumprod(X, N)\n").replace(
        "  Y:", "  Z: {shape: [M, N], dtype: f32, role: out}\n  Y:"
    )
    path = tmp_path / "scanned.py"
    path.write_text(module_of(f"{both}static: {{N: 4}}\n").text, encoding="utf-8")
    loaded = load_module(path)
    install(loaded, "scanned", lines=False)
    y, z = torch.empty_like(x), torch.empty_like(x)
    loaded.scanned(on_device(x), y=on_device(y), z=on_device(z))
    assert torch.allclose(y, x.cumsum(-1), rtol=1e-6, atol=0, equal_nan=True)
    assert torch.allclose(z, x.cumprod(-1), rtol=1e-6, atol=0, equal_nan=True)


def test_what_comes_later_changes_nothing_before(tmp_path: Path) -> None:
    """The elements before a NaN are those without it, bit for bit."""
    path = tmp_path / "scanned.py"
    path.write_text(module_of(WARPS).text, encoding="utf-8")
    loaded = load_module(path)
    install(loaded, "scanned", lines=False)
    x = torch.randn(2, 1000, generator=torch.Generator().manual_seed(1))
    whole, broken = torch.empty_like(x), torch.empty_like(x)
    loaded.scanned(on_device(x), y=on_device(whole))
    x[:, 617] = NAN
    loaded.scanned(on_device(x), y=on_device(broken))
    assert torch.equal(whole[:, :617], broken[:, :617]) and bool(broken[:, 617:].isnan().all())


def test_an_element_of_a_scan_is_not_read_by_itself(tmp_path: Path) -> None:
    """The sum up to a place needs all elements up to it."""
    text = """\
cutegen: 1
kernel: scanned
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  target: {shape: [M], dtype: i32}
  s: {shape: [M], dtype: f32, role: out}
compute:
  - m = max(abs(X), N)
  - s = sum(where(coord(N) == target, cumsum(X, N), 0), N) / m
static: {N: 40}
targets: [sm_80]
"""
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "primes")]
    assert len(cases) == 2 and list(problems_in(text, cases, tmp_path)) == []


def test_walks_with_a_scan_begin_at_the_start() -> None:
    plan = plan_of(WALKED.replace("cumsum(X, N)", "X - max(X, N)"))
    assert [is_backwards(plan, i) for i in range(2)] == [False, True]
    plan = plan_of(WALKED.replace("cumsum(X, N)", "cumsum(X - max(X, N), N)"))
    assert [is_backwards(plan, i) for i in range(2)] == [False, False]


def test_clusters_do_not_share_a_row_that_is_scanned() -> None:
    long = f"{SCAN}static: {{N: 65536}}\n"
    assert plan_of(long).cluster == 1 and plan_of(long.replace("cumsum(X, N)", "X - sum(X, N)")).cluster > 1
    (error,) = [d for d in found_in(f"{long}schedule: {{cluster: {{N: 4}}}}\n") if d.severity == "error"]
    assert error.code == "CG289" and "4 thread blocks share a row, and `cumsum` goes along it" in error.message


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("Y = cumsum(X, K)", "CG116", "cumsum goes along a mode, and `K` is not a mode here"),
        ("Y = cumsum(X)", "CG120", "`cumsum` takes a value and the mode that it goes along"),
        ("Y = cumsum(X, M, N)", "CG120", "`cumsum` takes a value and the mode that it goes along"),
        ("Y = cumsum(max(X, N), N)", "CG127", "the argument of cumsum is constant along N"),
        ("Y = cumsum(X, M) - max(X, N)", "CG127", "`M` is the mode of the rows, and max goes along `N`"),
        ("Y = cumsum(X, M) - cumsum(X, N)", "CG127", "`M` is the mode of the rows, and cumsum goes along `N`"),
    ],
)
def test_what_is_no_scan_is_told(statement: str, code: str, message: str) -> None:
    (error,) = [d for d in found_in(SCAN.replace("Y = cumsum(X, N)", statement)) if d.severity == "error"]
    assert (error.code, error.message) == (code, message)


def test_elementwise_kernels_have_no_scan() -> None:
    (error,) = [d for d in found_in(SCAN.replace("rowwise", "elementwise")) if d.severity == "error"]
    assert error.message == "`cumsum` goes along a mode, and `op: elementwise` has none"


def test_a_gradient_of_a_scan_is_refused_by_name() -> None:
    with pytest.raises(DifferentiationError, match="`cumsum` has no gradient here"):
        backward(module_of(WARPS).spec)
