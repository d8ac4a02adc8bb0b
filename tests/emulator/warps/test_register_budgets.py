"""setmaxnreg: the warps of a block have no more registers together than it got at its launch."""

from __future__ import annotations

import pytest
from emulator_kit import fault, go, in_and_out, indexed

ROLES = """
setp.lt.u32 %p1, %r0, 128;
@%p1 bra LOADS;
setmaxnreg.inc.sync.aligned.u32 {};
bra ON;
LOADS:
setmaxnreg.dec.sync.aligned.u32 {};
ON:
bar.sync 0;
st.global.b32 [%rd12], %r0;
"""


@pytest.mark.parametrize(
    ("warpgroups", "more", "less"), [(2, 256, 256), (3, 232, 40), (3, 240, 24), (4, 160, 32)], ids=str
)
def test_shares_that_fit_and_those_that_do_not(warpgroups: int, more: int, less: int) -> None:
    threads = 128 * warpgroups
    bound = in_and_out(threads, "out")
    assert go(indexed(ROLES.format(more, less)), bound, block=threads).ok
    if more < 256:
        for wrong in ((more + 8, less), (more, less + 8 * (warpgroups - 1))):
            found = fault(indexed(ROLES.format(*wrong)), bound, block=threads)
            assert found.kind == "deadlock" and "registers together" in found.explanation
