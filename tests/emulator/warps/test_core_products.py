"""Products of warpgroups that the C core starts in one call leave what they leave step by step, and are as wrong."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from emulator_kit import kernel, native_core, tensors
from hopper_kit import built, matrix, module_text, product
from sweep_kit import sampled

from cutegen.emulator import FaultError, launch
from cutegen.emulator.host.builds import Build
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.warps.core_products import CoreProducts

THREADS, ACCUMULATORS = 128, "{%f0, %f1, %f2, %f3}"
DESCRIPTOR, OF_A, SIZE = 128 >> 4 << 16 | 256 >> 4 << 32, 2048, 2048 + 2 * 256 + 16
# A of 64 x 16 and two Bs of 8 x 16 without a swizzle, which bulk copies bring: so many bytes of each
START = f"""
.reg .f32 %f<4>;
mov.b32 %r4, smem;
and.b32 %r8, %r4, 0x3FFFF;
shr.u32 %r8, %r8, 4;
cvt.u64.u32 %rd4, %r8;
or.b64 %rd5, %rd4, {DESCRIPTOR};
add.s64 %rd6, %rd5, {OF_A >> 4};
add.s64 %rd7, %rd6, {256 >> 4};
setp.ne.u32 %p2, %r0, %r0;
setp.eq.u32 %p3, %r0, %r0;
setp.eq.u32 %p4, %r0, 0;
@%p4 mbarrier.init.shared.b64 [smem+{SIZE - 16}], 1;
fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p4 mbarrier.arrive.expect_tx.shared.b64 _, [smem+{SIZE - 16}], ALL_BYTES;
"""
COPY = "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
ARRIVED = f"W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+{SIZE - 16}], 0;\n@!%p5 bra W;\n"
FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
ZEROS = "".join(f"mov.f32 %f{number}, 0f00000000;\n" for number in range(4))
STORE = f"""
shl.b32 %r5, %r0, 4;
cvt.u64.u32 %rd8, %r5;
add.s64 %rd9, %rd1, %rd8;
st.global.v4.f32 [%rd9], {ACCUMULATORS};
"""


def times(b: int, adds: bool) -> str:
    """A product of A with one of the Bs."""
    of = f"{ACCUMULATORS}, %rd5, %rd{6 + b}, %p{3 if adds else 2}, 1, 1, 0, 0;\n"
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {of}"


GROUPS = [[(0, False)], [(1, False)], [(0, False), (1, True)], [(1, False), (0, True)], [(0, True)], [(1, True)]]


def outcome(bytes_of: tuple[int, ...], groups: list[list[tuple[int, bool]]], start: str = ZEROS) -> tuple[Any, ...]:
    """The faults of a run of groups of products, and the bits of the accumulators after them."""
    given, found = np.random.default_rng(0).integers(-3, 4, 1280).astype(np.float32), np.zeros(4 * THREADS, np.float32)
    bound = tensors((torch.from_numpy(given).bfloat16().view(torch.int16).numpy(), "in"), (found, "inout"))
    copies = ""
    for at, size in zip((0, OF_A, OF_A + 256), bytes_of, strict=True):
        if size:
            copies += f"add.s64 %rd10, %rd0, {at};\n{COPY}[smem+{at}], [%rd10], {size}, [smem+{SIZE - 16}];\n"
    body = "".join(FENCE + "".join(times(*one) for one in group) + COMMIT + WAIT for group in groups)
    body = START.replace("ALL_BYTES", str(sum(bytes_of))) + copies + ARRIVED + start + body + STORE
    ptx = kernel(body, shared=SIZE, threads=THREADS).replace("sm_80", "sm_90a")
    report = launch(ptx, "k", 1, THREADS, struct.pack("<QQ", *(one.told for one in bound)), bound)
    return tuple(str(fault) for fault in report.faults), found.tobytes()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the core has started products, each time that it was to."""
    native_core()
    found: list[bool] = []
    real = CoreProducts.start

    def start(self: CoreProducts, *given: Any) -> bool:
        found.append(real(self, *given))
        return found[-1]

    monkeypatch.setattr(CoreProducts, "start", start)
    return found


@pytest.mark.parametrize(
    "bytes_of", [(2048, 256, 256), (2048, 240, 256), (1920, 256, 256), (2048, 256, 0), (0, 0, 256)]
)
@pytest.mark.parametrize("start", [ZEROS, "", ZEROS.replace("0f00000000", "0f3F800000")], ids=["zeros", "none", "ones"])
def test_what_nothing_has_written_is_as_lost(
    bytes_of: tuple[int, int, int], start: str, started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [[one] for one in GROUPS] + [[one, other] for one in GROUPS for other in GROUPS]
    found = [outcome(bytes_of, run, start) for run in runs]
    assert started.count(True) > len(runs) // 2
    monkeypatch.setattr(CoreProducts, "start", lambda *_: False)
    assert [outcome(bytes_of, run, start) for run in runs] == found
    whole = sum(not faults for faults, _ in found)
    assert whole or bytes_of != (2048, 256, 256) or not start


@lru_cache(maxsize=1)
def gemm(folder: Path) -> Build:
    return built(module_text(), folder)


CHANGES = {
    "nothing": ("", ""),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ""),
    "no group": (r"wgmma\.commit_group\.sync\.aligned;", ""),
    "no wait for the product": (r"wgmma\.wait_group\.sync\.aligned\s+0;", ""),
    "a wait that leaves the last product": (r"(wgmma\.wait_group\.sync\.aligned\s+)0;", r"\g<1>1;"),
    "operands that may not have come": (r"mbarrier\.try_wait\.parity\.shared\.b64 P1, .*;", "setp.eq.u32 P1, 0, 0;"),
    "too few bytes": (r"(mbarrier\.arrive\.expect_tx\S+ \S+ \S+) \S+;", r"\g<1> 16384;"),
    "an accumulator that changes": (r"(wgmma\.fence\.sync\.aligned;)", r"\1\nmov.b32 ACCUMULATOR, 7;"),
    "one that becomes zero": (r"(wgmma\.fence\.sync\.aligned;)", r"\1\nmov.b32 ACCUMULATOR, 0;"),
    "one that changes in flight": (r"(wgmma\.commit_group\.sync\.aligned;)", r"mov.b32 ACCUMULATOR, 0;\n\1"),
}


@pytest.mark.parametrize("accumulators", ["{%f0, %f1, %f2, %f3}", "{%f0, %f1, %f1, %f3}"])
def test_where_loops_are_watched_the_core_starts_what_it_counts_once(
    accumulators: str, started: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SharedMemory.__init__

    def watched(self: SharedMemory, *given: Any) -> None:
        made(self, *given)
        self.touched = []

    monkeypatch.setattr(SharedMemory, "__init__", watched)
    monkeypatch.setitem(globals(), "ACCUMULATORS", accumulators)
    found = outcome((2048, 256, 256), GROUPS)
    assert started and any(started) == ("%f2" in accumulators)
    monkeypatch.setattr(CoreProducts, "start", lambda *_: False)
    assert outcome((2048, 256, 256), GROUPS) == found


@pytest.mark.parametrize("change", sampled(CHANGES))
def test_a_gemm_is_as_right_or_wrong(
    change: str, started: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = gemm(tmp_path_factory.getbasetemp())
    accumulator = re.search(r"wgmma\.mma_async\S+ \{(%r\d+),", made.ptx)
    assert accumulator is not None
    pattern, text = CHANGES[change]
    ptx, count = re.subn(pattern, text.replace("ACCUMULATOR", accumulator[1]), made.ptx) if pattern else (made.ptx, 1)
    assert count

    def seen(seed: int) -> object:
        left, right = matrix(130, 200, torch.bfloat16), matrix(70, 200, torch.bfloat16)
        try:
            return product(replace(made, ptx=ptx), left, right, seed=seed).tolist()
        except FaultError as error:
            return str(error)

    found = [seen(seed) for seed in range(2)]
    early = "fence" in change or change in ("too few bytes", "operands that may not have come")  # a fault comes first
    assert any(started) or early
    monkeypatch.setattr(CoreProducts, "start", lambda *_: False)
    assert [seen(seed) for seed in range(2)] == found
