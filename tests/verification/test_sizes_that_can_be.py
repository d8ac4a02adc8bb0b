"""Host checks ask for no call that a spec rules out, and try a size of its own beside what other modes need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.hostchecks import memory, sizes
from cutegen.hostchecks.judging import Check, Host
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

SCATTER = """\
op: elementwise
tensors:
  X: {shape: [T, H], dtype: f32}
  ids: {shape: [T], dtype: i32}
  Y: {shape: [slots, H], dtype: f32, role: out, at: {slots: ids}}
compute: Y = X
"""
PAGED = """\
op: elementwise
tensors:
  X: {shape: [T, H], dtype: f32}
  page: {shape: [T], dtype: i32}
  row: {shape: [T], dtype: i32}
  Y: {shape: [P, R, H], dtype: f32, role: out, at: {P: page, R: row}}
compute: Y = X
"""
INNER = """\
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X
divisible: {N: 96}
schedule: {partition: inner, tiler: {M: 1, N: 2}, threads: 128}
"""
COLUMNS = """\
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: Y = X
divisible: {N: 6}
"""
PERSISTENT = """\
op: rowwise
tensors:
  X: {shape: [B, M, N], dtype: f32}
  Y: {shape: [B, M], dtype: f32, role: out}
compute: Y = sum(X, N)
static: {M: 9, N: 4}
schedule: {threads_per_row: 1, tiler: {M: 1}, keep: registers, scheduler: {kind: persistent, blocks: 4}}
"""
BANDS = """\
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
divisible: {N: 256}
schedule: {tiler: {M: 4, N: 4, K: 4}, mma: {thread_layout: "(2,2,1)"}, scheduler: {swizzle: 8}}
"""
MATRICES = """\
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
divisible: {N: 8192}
schedule:
  mma: {atom: wgmma}
  tiler: {M: 64, N: 8}
  cluster: {M: 2}
  pipeline: {stages: 2}
  scheduler: {kind: persistent}
"""
WHOLE = """\
op: elementwise
tensors:
  S: {shape: [MB, N], dtype: f16, major: MB}
  Y: {shape: [M, N], dtype: f32, role: out}
modes: {MB: {blocks: M, size: 2}}
compute: Y = S + 1
schedule: {partition: inner, threads: 16, tiler: {M: 1, N: 1}, predication: {M: none}, scheduler: {raster: N}}
"""


def host_of(text: str, folder: Path, target: str = "sm_80") -> Host:
    (module,) = generate(f"cutegen: 1\nkernel: small\n{text}targets: [{target}]\n", "specs/small.yaml").modules
    path = folder / "small.py"
    path.write_text(module.text, encoding="utf-8")
    executor = EmulatorExecutor(lines=False)
    case = Case("wrong calls", "", sizes.small(module.spec), "padded", "integers")
    tensors = make_tensors(module.spec, case, executor.device)
    return Host(module.plan, load_module(path), executor, case, tensors, {})


def named(host: Host, *words: str) -> Iterator[Check]:
    """The checks of sizes whose names have one of these words."""
    return (check for check in sizes.checks(host) if any(word in check.what for word in words))


@pytest.mark.parametrize("promised", ["divisible: {T: 8}\n", "static: {T: 6}\n", "static: {T: 1}\n", ""])
def test_as_many_places_are_asked_for_as_there_are_elements(promised: str, tmp_path: Path) -> None:
    host = host_of(SCATTER + promised, tmp_path)
    found = dict(sizes.where_strides_mean_nothing(host))
    assert ("slots" in found) == (promised in ("", "static: {T: 1}\n"))
    assert all(host.spec.takes(one) and one["slots"] >= one["T"] for one in found.values())
    checks = [*named(host, "any stride", "divide", "fixed at")]
    assert checks and not [(check.what, said) for check in checks if (said := check.run())]


def test_where_a_mode_has_one_place_another_has_more(tmp_path: Path) -> None:
    """Each element that is written needs a pair of places of its own."""
    host = host_of(PAGED + "static: {T: 6}\n", tmp_path)
    found = dict(sizes.where_strides_mean_nothing(host))
    assert found["P"] == {**found["P"], "P": 1, "T": 6} and found["P"]["R"] >= 6
    assert found["R"] == {**found["R"], "R": 1, "T": 6} and found["R"]["P"] >= 6
    assert not [said for check in named(host, "any stride") if (said := check.run())]


@pytest.mark.parametrize(
    ("text", "mode", "most", "target"),
    [
        (INNER, "M", (2**31 - 1 - 128) // 48, "sm_80"),
        (PERSISTENT, "B", (2**31 - 1) // 9, "sm_80"),
        (BANDS, "M", (2**31 - 1) // 8 // 8 * 4, "sm_80"),
        (MATRICES, "M", (2**31 - 2**16) // 1024 * 128, "sm_90a"),
    ],
    ids=["inner", "persistent rows", "bands", "persistent products"],
)
def test_the_largest_size_is_one_that_fits_beside_the_others(
    text: str, mode: str, most: int, target: str, tmp_path: Path
) -> None:
    """Tiles of all modes are counted together, and those of others are several."""
    host = host_of(text, tmp_path, target)
    alone = host.plan.spec.family.largest(host.plan).get(mode, 2**31 - 2**21)
    beside = host.plan.spec.family.largest(host.plan, sizes.least_of(host))[mode]
    assert beside == most < alone
    checks = {check.what: check for check in named(host, f"{mode} of ")}
    assert f"accepts {mode} of {most} elements" in checks
    assert not [(what, said) for what, check in checks.items() if (said := check.run())]


def test_a_limit_of_tiles_that_is_too_low_is_found(tmp_path: Path) -> None:
    host = host_of(INNER, tmp_path)
    host.module.MOST_TILES -= 1000
    wrong = [check.what for check in named(host, "M of ") if check.run()]
    assert wrong == [f"accepts M of {(2**31 - 1 - 128) // 48} elements"]


def test_a_size_is_changed_in_tensors_of_its_blocks_too(tmp_path: Path) -> None:
    """Else the call would be wrong in two ways, and either may be said."""
    host = host_of(WHOLE, tmp_path)
    (check,) = named(host, "not a multiple of 16 threads")
    assert check.run() == ""


@pytest.mark.parametrize("promised", ["static: {M: 8}\n", "divisible: {M: 8}\n"])
def test_a_promise_of_a_size_is_broken_in_tensors_of_its_blocks_too(promised: str, tmp_path: Path) -> None:
    host = host_of(WHOLE.partition("schedule")[0] + promised, tmp_path)
    checks = [*named(host, "fixed at 8", "8 does not divide")]
    assert checks and not [(check.what, said) for check in checks if (said := check.run())]


def test_columns_of_one_buffer_keep_what_is_promised_of_their_number(tmp_path: Path) -> None:
    """Of 6, and of 4 for the alignment of the rows, columns are a multiple of 12."""
    host = host_of(COLUMNS, tmp_path)
    checks = [check for check in memory.checks(host) if "columns of one buffer" in check.what]
    assert any("next to" in check.what for check in checks)
    assert not [(check.what, said) for check in checks if (said := check.run())]
