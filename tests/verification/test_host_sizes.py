"""The sizes of calls that try a module's host code stay small, whatever a spec's rank, types and alignments are."""

from __future__ import annotations

from math import prod

import pytest

from cutegen.codegen import generate
from cutegen.hostchecks.sizes import small
from cutegen.verification.cases import strides_for

SPEC = """
cutegen: 1
kernel: k
op: elementwise
tensors:
  X: {{shape: [{modes}], dtype: u8, major: {major}, align: {align}}}
  Y: {{shape: [{modes}], dtype: f32, role: out}}
compute: Y = X
{more}
targets: [sm_80]
"""


@pytest.mark.parametrize("align", [1, 16, 128])
@pytest.mark.parametrize("major", ["first", "last"])
@pytest.mark.parametrize("rank", [1, 2, 4, 5])
@pytest.mark.parametrize("more", ["", "divisible: {E: 24}", "static: {E: 7}"])
def test_calls_are_small_and_tell_modes_apart(rank: int, major: str, align: int, more: str) -> None:
    modes = "ABCDE"[-rank:]
    text = SPEC.format(modes=", ".join(modes), major=modes[0 if major == "first" else -1], align=align, more=more)
    spec = generate(text, "specs/k.yaml").modules[0].plan.spec
    sizes = small(spec)
    assert prod(sizes.values()) <= 1 << 16 and len(set(sizes.values())) == rank and min(sizes.values()) > 1
    assert all(size % spec.divisible.get(mode, 1) == 0 for mode, size in sizes.items())
    assert all(spec.static.get(mode, size) == size for mode, size in sizes.items())
    for tensor in spec.tensors:
        strides = strides_for(tensor, sizes, "padded")
        assert (
            sum((sizes[m] - 1) * s for m, s in zip(tensor.shape, strides, strict=True)) * tensor.dtype.bytes < 1 << 24
        )
    x = spec.tensors[0]
    if rank < 4 and x.major not in spec.static:
        assert sizes[str(x.major)] * x.dtype.bytes > (x.align or 1), "a row is longer than its alignment"
