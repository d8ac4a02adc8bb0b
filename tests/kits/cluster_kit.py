"""Small PTX kernels for clusters: each thread has a word in A, in B and in shared memory, and the word of its peer."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulator_kit import fault, go, kernel, tensors

from cutegen.emulator import Report

THREADS = 64
# Of each thread: its word in A (%rd11), in B (%rd12) and in shared memory (%r6), its rank (%r10), the next rank (%r11),
# and that one's word, to read it by an address in the cluster's window (%r12) or a generic one (%rd13)
START = """
mad.lo.s32 %r2, %r1, 64, %r0;
mul.wide.s32 %rd10, %r2, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
mov.u32 %r10, %cluster_ctarank;
mov.u32 %r13, %cluster_nctarank;
add.u32 %r11, %r10, 1;
rem.u32 %r11, %r11, %r13;
mapa.shared::cluster.u32 %r12, %r6, %r11;
cvt.u64.u32 %rd14, %r6;
cvta.shared.u64 %rd14, %rd14;
mapa.u64 %rd13, %rd14, %r11;
setp.eq.u32 %p1, %r0, 0;
setp.eq.u32 %p2, %r10, 0;
"""
ARRIVE, WAIT = "barrier.cluster.arrive;\n", "barrier.cluster.wait;\n"
BOTH = ARRIVE + WAIT
OWN = "st.shared.b32 [%r6], %r2;\n"
SHOW = "st.global.b32 [%rd12], %r20;\n"


def cluster_kernel(body: str, shared: int = 1024) -> str:
    """The PTX of a kernel for sm_90a that starts with `START`."""
    return kernel(START + body, shared=shared).replace("sm_80", "sm_90a")


def bound(blocks: int, role: str = "out") -> tuple[list[Any], np.ndarray]:
    """An input A of a number for each thread, and an output B, which is returned beside the two."""
    out = np.zeros(blocks * THREADS, np.uint32)
    given = np.arange(blocks * THREADS, dtype=np.uint32)
    return tensors((given, "in"), (out, role)), out  # type: ignore[arg-type]


def run(body: str, *, blocks: int = 4, cluster: Any = 2, role: str = "out", **more: Any) -> tuple[Report, np.ndarray]:
    """Runs a kernel of that body, and returns the report and B."""
    given, out = bound(blocks, role)
    return go(cluster_kernel(body), given, grid=blocks, block=THREADS, cluster=cluster, **more), out


def wrong(body: str, *, blocks: int = 4, cluster: Any = 2, **more: Any) -> Any:
    """The fault of a kernel of that body, which need not write B."""
    return fault(cluster_kernel(body), bound(blocks, "inout")[0], grid=blocks, block=THREADS, cluster=cluster, **more)
