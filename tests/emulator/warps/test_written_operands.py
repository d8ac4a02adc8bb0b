"""wgmma whose operands threads have written: that takes a fence of the async proxy, and a barrier behind it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulator_kit import kernel, tensors

from cutegen.emulator import Report, launch

THREADS, ACCUMULATORS = 128, "{%f0, %f1, %f2, %f3}"
# A of 64 x 16 and B of 8 x 16 without a swizzle: blocks of 8 rows of 16 bytes, two along k, then the next rows
DESCRIPTOR = 128 >> 4 << 16 | 256 >> 4 << 32
WRITE = """
.reg .f32 %f<4>;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 4;
add.s32 %r6, %r4, %r5;
mov.b32 %r7, 0x3F803F80;
st.shared.v4.b32 [%r6], {%r7, %r7, %r7, %r7};
setp.lt.u32 %p1, %r0, 16;
@%p1 st.shared.v4.b32 [%r6+2048], {%r7, %r7, %r7, %r7};
"""
FENCE, BARRIER = "fence.proxy.async.shared::cta;\n", "bar.sync 0;\n"
PRODUCT = f"""
and.b32 %r8, %r4, 0x3FFFF;
shr.u32 %r8, %r8, 4;
cvt.u64.u32 %rd4, %r8;
or.b64 %rd5, %rd4, {DESCRIPTOR};
add.s64 %rd6, %rd5, 128;
setp.ne.u32 %p2, %r0, %r0;
mov.f32 %f0, 0f00000000;
mov.f32 %f1, 0f00000000;
mov.f32 %f2, 0f00000000;
mov.f32 %f3, 0f00000000;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {ACCUMULATORS}, %rd5, %rd6, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
"""
STORE = f"""
cvt.u64.u32 %rd7, %r5;
add.s64 %rd8, %rd0, %rd7;
st.global.v4.f32 [%rd8], {ACCUMULATORS};
"""


def ran(body: str) -> tuple[Report, np.ndarray]:
    """The report of a kernel, and the accumulators of its threads."""
    found = np.zeros(4 * THREADS, np.float32)
    bound = tensors((found, "out"))
    ptx = kernel(body, parameters=1, shared=2048 + 256, threads=THREADS).replace("sm_80", "sm_90a")
    return launch(ptx, "k", 1, THREADS, struct.pack("<Q", bound[0].told), bound), found


def test_a_product_of_what_threads_have_written() -> None:
    report, found = ran(WRITE + FENCE + BARRIER + PRODUCT + STORE)
    report.check()
    assert (found == 16).all()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (WRITE + BARRIER, "proxy"),  # no fence
        (WRITE + BARRIER + FENCE.replace("fence", "@%p1 fence"), "proxy"),  # of some threads, of which none waits
        (WRITE + FENCE, "race"),  # no barrier
        (WRITE.replace("%r0, 16;", "%r0, 15;") + FENCE + BARRIER, "never-written"),
    ],
)
def test_a_mistake_before_it(before: str, expected: str) -> None:
    report, _ = ran(before + PRODUCT + STORE)
    assert [fault.kind for fault in report.faults] == [expected], str(report)
