"""How many threads an inferred thread-value layout has along each mode: fixed sizes leave few of them idle."""

from __future__ import annotations

import pytest

from cutegen.language.reader import read_specs
from cutegen.layouts import mode_sizes
from cutegen.planning import resolve
from cutegen.planning.report import Report

SPEC = """\
cutegen: 1
kernel: scaled
op: elementwise
tensors:
  X: {shape: [B, H, D], dtype: bf16}
  Y: {shape: [B, H, D], dtype: bf16, role: out}
compute: Y = X * 2
"""


@pytest.mark.parametrize(
    ("static", "threads"),
    [
        ("{}", (1, 8, 32)),
        ("{D: 4096}", (1, 8, 32)),
        ("{D: 128}", (1, 16, 16)),
        ("{H: 8, D: 128}", (8, 2, 16)),
        ("{H: 6, D: 64}", (16, 2, 8)),
        ("{B: 1, H: 1, D: 8}", (1, 1, 32)),
    ],
)
def test_threads_follow_fixed_sizes(static: str, threads: tuple[int, ...]) -> None:
    (spec,) = read_specs(f"{SPEC}static: {static}\n", "specs/scaled.yaml")
    resolved = resolve(spec, Report(spec.source))
    assert tuple(mode_sizes(resolved.schedule.thread_layout)) == threads
