"""Kernels with other fields, as rules try them out: what is left to planning, and what stays as it was written."""

from __future__ import annotations

import pytest
from tensor_layouts import Layout

from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, SharedMemory, Spec, Workspace
from cutegen.language.reader import read_specs
from cutegen.lint.trial import changed
from cutegen.planning import resolve
from cutegen.planning.report import Report

GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 64}
  workspace: {A: {major: M, thread_layout: "(16,16):(1,16)"}}
  smem: {A: {pad: 4}}
"""


@pytest.fixture
def spec() -> Spec:
    (read,) = read_specs(GEMM, "x.yaml")
    return resolve(read, Report(read.source))


def test_without_a_change_it_is_as_written(spec: Spec) -> None:
    (read,) = read_specs(GEMM, "x.yaml")
    (written,) = read.schedule.options
    assert spec.schedule != written == changed(spec, {}).schedule


def test_several_fields_change_at_once(spec: Spec) -> None:
    threads = Layout((8, 8, 1), (1, 8, 0))
    found = changed(spec, {"tiler.N": 32, "mma.thread_layout": threads, "copies.B.bits": 64}).schedule
    assert found.tiler == {"M": 64, "N": 32} and found.mma.thread_layout == threads
    assert found.copies == {"B": Copy(bits=64)} and found.smem == {"A": SharedMemory(pad=4)}


def test_none_leaves_a_field_to_planning(spec: Spec) -> None:
    """Beside it, what has no default stays."""
    assert changed(spec, {"workspace.A.thread_layout": None}).schedule.workspace == {"A": Workspace("M")}
    assert changed(spec, {"tiler": None, "smem.A": None}).schedule == GemmSchedule(
        workspace={"A": Workspace("M", Layout((16, 16), (1, 16)))}
    )


def test_a_step_that_is_no_key_is_refused(spec: Spec) -> None:
    with pytest.raises(KeyError):
        changed(spec, {"mma.threads": 1})
