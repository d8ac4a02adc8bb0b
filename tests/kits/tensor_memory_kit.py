"""Small PTX kernels of tensor memory: blocks of some warps, each thread with a word of A (%rd11) and one of B (%rd12).

`START` allocates 64 columns, whose address is in %r8, with the lanes of the warp in %r9; the mbarrier at byte 512 of
shared memory counts one arrival. `END` frees the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from emulator_kit import fault, go, kernel, tensors

ADDRESSES = """
mov.u32 %r3, %ntid.x;
mad.lo.s32 %r2, %r1, %r3, %r0;
mul.wide.s32 %rd10, %r2, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
mov.b32 %r4, smem;
shr.u32 %r5, %r0, 5;
setp.eq.u32 %p1, %r0, 0;
setp.ne.u32 %p2, %r5, 0;
"""
ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], 64;\n"
START = f"""
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
@%p1 fence.mbarrier_init.release.cluster;
@%p2 bra ALLOCATED;
{ALLOCATE}
ALLOCATED:
bar.sync 0;
ld.shared.b32 %r8, [smem];
shl.b32 %r9, %r0, 16;
and.b32 %r9, %r9, 0x600000;
add.u32 %r9, %r9, %r8;
"""
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 64;\n"
END = f"""
bar.sync 0;
@%p2 bra FREED;
{FREE}
FREED:
"""


def tensor_kernel(body: str) -> str:
    """The PTX of a kernel for sm_100a with that body."""
    return kernel(ADDRESSES + body, shared=16384).replace("sm_80", "sm_100a").replace(".align 16", ".align 1024")


def image_kernel(words: int) -> str:
    """Instructions by which 128 threads copy A, so many words for each thread, to shared memory from byte 1024 on."""
    text = "mul.wide.u32 %rd30, %r0, 4;\nadd.s64 %rd30, %rd30, %rd0;\nshl.b32 %r10, %r0, 2;\nadd.u32 %r10, %r10, %r4;\n"
    for i in range(words):
        text += f"ld.global.b32 %r11, [%rd30+{512 * i}];\nst.shared.b32 [%r10+{1024 + 512 * i}], %r11;\n"
    return text + "fence.proxy.async;\nbar.sync 0;\n"


def bound(threads: int, words: int, role: str, a: np.ndarray | None = None) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """A, by default with numbers from 1000 on, and B, of `words` for each thread."""
    a = np.arange(1000, 1000 + threads * words, dtype=np.uint32) if a is None else a
    b = np.zeros(threads * words, np.uint32)
    return tensors((a, "in"), (b, role)), a, b  # type: ignore[arg-type]


def run(
    body: str, *, threads: int = 128, words: int = 1, seed: int = 0, a: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A and B after a kernel of that body, in one block."""
    given, a, b = bound(threads, words, "inout", a)
    report = go(tensor_kernel(body), given, grid=1, block=threads, seed=seed)
    assert report.ok, str(report)
    return a, b


def wrong(body: str, *, threads: int = 128, words: int = 1, seed: int = 0, a: np.ndarray | None = None) -> Any:
    """The fault of the same."""
    return fault(tensor_kernel(body), bound(threads, words, "inout", a)[0], grid=1, block=threads, seed=seed)
