"""wgmma of shared memory that nothing has written: sums of it mean nothing, and others are what they are."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulator_kit import kernel, tensors

from cutegen.emulator import Report, launch
from cutegen.emulator.native.building import SWITCH
from cutegen.emulator.warps.product_reads import ProductReads

THREADS, ACCUMULATORS = 128, "{%f0, %f1, %f2, %f3}"
# A of 64 x 16 and two Bs of 8 x 16 without a swizzle: blocks of 8 rows of 16 bytes, two along k, then the next rows
DESCRIPTOR, OF_A, SIZE = 128 >> 4 << 16 | 256 >> 4 << 32, 2048, 2048 + 2 * 256
START = f"""
.reg .f32 %f<4>;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 4;
add.s32 %r6, %r4, %r5;
mov.b32 %r7, 0x3F803F80;
and.b32 %r8, %r4, 0x3FFFF;
shr.u32 %r8, %r8, 4;
cvt.u64.u32 %rd4, %r8;
or.b64 %rd5, %rd4, {DESCRIPTOR};
add.s64 %rd6, %rd5, {OF_A >> 4};
add.s64 %rd7, %rd6, {256 >> 4};
setp.ne.u32 %p2, %r0, %r0;
setp.eq.u32 %p3, %r0, %r0;
setp.lt.u32 %p4, %r0, 16;
setp.lt.u32 %p5, %r0, 15;
setp.ne.u32 %p6, %r0, 9;
setp.eq.u32 %p7, %r0, 15;
@%p4 st.shared.v4.b32 [%r6+{OF_A + 256}], {{%r7, %r7, %r7, %r7}};
"""
A, B = (f"st.shared.v4.b32 [%r6{place}], {{%r7, %r7, %r7, %r7}};\n" for place in ("", f"+{OF_A}"))
ALL = f"{A}@%p4 {B}"
NO_COLUMN = f"{A}@%p5 {B}"  # of B the last one has no second half
NO_ROW = f"@%p6 {A}@%p4 {B}"  # of A the second one has no second half
# Of B all but the last byte
NO_BYTE = f"""{NO_COLUMN}
@%p7 st.shared.v2.b32 [%r6+{OF_A}], {{%r7, %r7}};
@%p7 st.shared.b32 [%r6+{OF_A + 8}], %r7;
mov.b16 %rs1, 0x3F80;
@%p7 st.shared.b16 [%r6+{OF_A + 12}], %rs1;
@%p7 st.shared.b8 [%r6+{OF_A + 14}], %rs1;
"""
SEEN = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
ZEROS = "".join(f"mov.f32 %f{number}, 0f00000000;\n" for number in range(4))
# The last of 8 columns is in every fourth lane, and the second of 8 rows in four lanes of each warp
LAST_COLUMN = "and.b32 %r9, %r0, 3;\nsetp.eq.u32 %p8, %r9, 3;\n" + "".join(
    f"@%p8 mov.f32 %f{number}, 0f00000000;\n" for number in (1, 3)
)
SECOND_ROW = "shr.u32 %r9, %r0, 2;\nsetp.eq.u32 %p8, %r9, 1;\n" + "".join(
    f"@%p8 mov.f32 %f{number}, 0f00000000;\n" for number in (0, 1)
)
STORE = f"""
cvt.u64.u32 %rd8, %r5;
add.s64 %rd9, %rd0, %rd8;
st.global.v4.f32 [%rd9], {ACCUMULATORS};
"""


def times(b: int, *, adds: bool) -> str:
    """A product of A with one of the Bs, of which the second is whole."""
    of = f"{ACCUMULATORS}, %rd5, %rd{6 + b}, %p{3 if adds else 2}, 1, 1, 0, 0;\n"
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {of}"


LOST, WHOLE, ADD_LOST, ADD_WHOLE = (times(b, adds=adds) for adds in (False, True) for b in (0, 1))


@pytest.fixture(params=["numpy", "core", "each matrix"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By numpy, by the compiled core, or as where the units together do not tell that nothing is wrong."""
    monkeypatch.setenv(SWITCH, "0" if request.param == "numpy" else "1")
    if request.param == "each matrix":
        monkeypatch.setattr(ProductReads, "written", lambda *_: None)


def ran(written: str, *groups: str, end: str = "") -> tuple[Report, np.ndarray]:
    """The report of groups of products, each waited for, and the accumulators of threads after the `end`."""
    found = np.zeros(4 * THREADS, np.float32)
    bound = tensors((found, "out"))
    body = "".join(f"{FENCE}{group}{COMMIT}{WAIT}" for group in groups)
    ptx = kernel(f"{START}{written}{SEEN}{ZEROS}{body}{end}{STORE}", parameters=1, shared=SIZE, threads=THREADS)
    return launch(ptx.replace("sm_80", "sm_90a"), "k", 1, THREADS, struct.pack("<Q", bound[0].told), bound), found


def faults(written: str, *groups: str, end: str = "") -> list[str]:
    return [fault.kind for fault in ran(written, *groups, end=end)[0].faults]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("written", "left_out", "lost"),
    [(NO_COLUMN, LAST_COLUMN, 64), (NO_ROW, SECOND_ROW, 8), (NO_BYTE, LAST_COLUMN, 64)],
    ids=["a column", "a row", "a byte"],
)
def test_what_is_not_made_of_it_is_right(written: str, left_out: str, lost: int) -> None:
    report, found = ran(written, LOST, end=left_out)
    report.check()
    assert (found == 16).sum() == len(found) - lost and (found == 0).sum() == lost
    assert faults(written, LOST) == ["never-written"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("groups", [[LOST], [LOST, ADD_LOST], [LOST + ADD_LOST]], ids=["one", "two", "in flight"])
def test_of_nothing_that_was_written(groups: list[str]) -> None:
    ran("", *groups, end=ZEROS)[0].check()
    assert faults("", *groups) == ["never-written"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "groups",
    [[LOST + ADD_WHOLE], [LOST, ADD_WHOLE], [WHOLE + ADD_LOST], [WHOLE, ADD_LOST], [LOST, ADD_LOST]],
    ids=["in flight", "waited for", "added in flight", "added", "twice"],
)
def test_a_sum_with_it_means_nothing(groups: list[str]) -> None:
    report, found = ran(NO_COLUMN, *groups, end=LAST_COLUMN)
    report.check()
    assert (found == 32).sum() == len(found) - 64
    assert faults(NO_COLUMN, *groups) == ["never-written"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("groups", [[LOST + WHOLE], [LOST, WHOLE], [LOST, LOST, WHOLE]])
def test_a_sum_that_starts_anew_is_right(groups: list[str]) -> None:
    report, found = ran(NO_COLUMN, *groups)
    report.check()
    assert (found == 16).all()


@pytest.mark.usefixtures("engine")
def test_registers_that_are_written_afterwards_mean_something() -> None:
    ran(NO_COLUMN, LOST, end=ZEROS)[0].check()
    report, found = ran(ALL, LOST)
    report.check()
    assert (found == 16).all()
