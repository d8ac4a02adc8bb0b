"""Kernels of wgmma with A in registers: threads load their part of A, copy B to shared memory, and store the sums."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from emulator_kit import kernel, tensors

from cutegen.emulator import Report, launch

FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
SIZES = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}
DEPTH = 32  # bytes that a product has along k, of each type
WARPGROUP = 128


@dataclass(frozen=True)
class Products:
    """So many products along k, by warpgroups with 64 rows each and `columns` columns, of two types.

    `signs` are those of A and B; `transposed` says that the elements of B along n are neighbours in shared memory, and
    `by_threads` that threads write B there instead of one bulk copy.
    """

    kinds: tuple[str, str] = ("bf16", "bf16")
    columns: int = 8
    steps: int = 2
    warpgroups: int = 1
    signs: tuple[int, int] = (1, 1)
    transposed: bool = False
    by_threads: bool = False

    @property
    def threads(self) -> int:
        return WARPGROUP * self.warpgroups

    @property
    def slots(self) -> int:
        """Accumulators of a thread."""
        return self.columns // 2

    @property
    def per(self) -> int:
        """Elements in a register."""
        return 4 // SIZES[self.kinds[0]]

    def multiply(self, step: int, a: str = "", accumulators: str = "f", *, adds: bool = True) -> str:
        """One of the products; `a` are the registers of A, where these are not its own."""
        depth = DEPTH // SIZES[self.kinds[0]]
        sums = ", ".join(f"%{accumulators}{i}" for i in range(self.slots))
        own = ", ".join(f"%a{4 * step + i}" for i in range(4))
        more = f", {int(self.transposed)}" if SIZES[self.kinds[0]] == 2 else ""
        name = f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{depth}.f32.{'.'.join(self.kinds)}"
        of = f"{{{sums}}}, {{{a or own}}}, %rd{20 + step}, %p{2 + adds}, {self.signs[0]}, {self.signs[1]}{more}"
        return f"{name} {of};\n"

    def load(self, step: int) -> str:
        """The thread's part of A for one of the products."""
        own = ", ".join(f"%a{4 * step + i}" for i in range(4))
        return f"ld.global.v4.b32 {{{own}}}, [%rd9+{16 * step * self.threads}];\n"

    @property
    def loads(self) -> str:
        return "".join(map(self.load, range(self.steps)))

    @property
    def group(self) -> str:
        """All products, the first one of which starts the sum, with a fence, and the wait."""
        return FENCE + "".join(self.multiply(i, adds=i > 0) for i in range(self.steps)) + COMMIT + WAIT

    def store(self, guard: str = "", accumulators: str = "f") -> str:
        """All sums; in a guard, HALF stands for the half of 16 rows that a sum is of, 0 or 1."""
        guards = [guard.replace("HALF", str(i // 2 % 2)) for i in range(self.slots)]
        places = [f"[%rd12+{4 * i * self.threads}]" for i in range(self.slots)]
        return "".join(f"{guards[i]} st.global.f32 {places[i]}, %{accumulators}{i};\n" for i in range(self.slots))

    def _by_threads(self, size: int) -> str:
        """Copies so many bytes of B, four by each thread at a time."""
        copies, words = "", size // 4
        for at in range(0, words, self.threads):
            if words - at < self.threads:
                copies += f"setp.lt.u32 %p4, %r0, {words - at};\n"
            on = "@%p4 " if words - at < self.threads else ""
            copies += f"{on}ld.global.b32 %r6, [%rd10+{4 * at}];\n{on}st.shared.b32 [%r7+{4 * at}], %r6;\n"
        return copies + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"

    def ptx(self, body: str) -> str:
        """A kernel whose `body` is behind the copies of B."""
        size = self.columns * DEPTH * self.steps
        copies = self._by_threads(size) if self.by_threads else _by_bulk_copy(size)
        told = "".join(f"add.s64 %rd{20 + i}, %rd6, {self.columns * DEPTH * i >> 4};\n" for i in range(self.steps))
        start = f"""
.reg .f32 %f<{self.slots}>;
.reg .f32 %g<{self.slots}>;
.reg .b32 %a<{4 * self.steps}>;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r7, %r4, %r5;
mul.wide.u32 %rd7, %r0, 16;
mul.wide.u32 %rd8, %r0, 4;
add.s64 %rd9, %rd0, %rd7;
add.s64 %rd10, %rd1, %rd8;
add.s64 %rd12, %rd2, %rd8;
and.b32 %r8, %r4, 0x3FFFF;
shr.u32 %r8, %r8, 4;
cvt.u64.u32 %rd4, %r8;
or.b64 %rd6, %rd4, {128 >> 4 << 16 | 256 >> 4 << 32};
{told}
setp.ne.u32 %p2, %r0, %r0;
setp.eq.u32 %p3, %r0, %r0;
{copies}
"""
        text = kernel(start + body, parameters=4, shared=size + 16, threads=self.threads)
        return text.replace("sm_80", "sm_90a")


def _by_bulk_copy(size: int) -> str:
    """Copies so many bytes of B at once."""
    barrier = f"[smem+{size}]"
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return f"""
setp.eq.u32 %p4, %r0, 0;
@%p4 mbarrier.init.shared.b64 {barrier}, 1;
fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p4 mbarrier.arrive.expect_tx.shared.b64 _, {barrier}, {size};
@%p4 {copy} [smem], [%rd1], {size}, {barrier};
ARRIVED: mbarrier.try_wait.parity.shared.b64 %p4, {barrier}, 0;
@!%p4 bra ARRIVED;
"""


def elements(kind: str, shape: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a type, as bits and as float64, whose products and sums float64 holds exactly."""
    random = np.random.default_rng(seed)
    if kind == "tf32":  # with bits that do not count
        bits = (random.integers(-999, 1000, shape) / 64).astype(np.float32).view(np.uint32)
        return bits | random.integers(0, 1 << 13, shape, np.uint32), bits.view(np.float32).astype(np.float64)
    wide = random.integers(-4, 5, shape) if SIZES[kind] == 1 else random.integers(-99, 100, shape) / 64
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
    given = torch.from_numpy(wide.astype(np.float32)).to(dtype)
    whole = given.view(torch.uint8 if SIZES[kind] == 1 else torch.int16).numpy()
    return whole.view(f"u{SIZES[kind]}"), given.double().numpy()


def in_registers(of: Products, bits: np.ndarray) -> np.ndarray:
    """A of a product as its threads hold it: words of shape (threads, 4), as the PTX ISA shows it."""
    found = np.zeros((of.threads, 4, of.per), bits.dtype)
    for thread in range(of.threads):
        lane, first = thread % 32, 16 * (thread // 32)
        for register in range(4):
            for i in range(of.per):
                row, column = lane // 4 + 8 * (register % 2), of.per * (4 * (register // 2) + lane % 4) + i
                found[thread, register, i] = bits[first + row, column]
    return found.view(np.uint32).reshape(of.threads, 4)


def in_shared_memory(of: Products, bits: np.ndarray) -> np.ndarray:
    """B of a product, shape (columns, depth), as bytes: without a swizzle, in blocks of 8 by 16 bytes."""
    size = bits.itemsize
    found = np.zeros(of.columns * DEPTH // size, bits.dtype)
    for n in range(of.columns):
        for k in range(bits.shape[1]):
            if of.transposed:
                place = n % 8 * size + n // 8 * 256 + k % 8 * 16 + k // 8 * 128
            else:
                place = n % 8 * 16 + n // 8 * 256 + k * size % 16 + k * size // 16 * 128
            found[place // size] = bits[n, k]
    return found.view(np.uint8)


def sums(of: Products, found: np.ndarray) -> np.ndarray:
    """The sums of shape (rows, columns) from those that threads have stored, shape (slots, threads)."""
    made = np.zeros((64 * of.warpgroups, of.columns), found.dtype)
    for slot in range(of.slots):
        for thread in range(of.threads):
            lane, first = thread % 32, 16 * (thread // 32)
            row, column = lane // 4 + 8 * (slot // 2 % 2), 8 * (slot // 4) + 2 * (lane % 4) + slot % 2
            made[first + row, column] = found[slot, thread]
    return made


def ran(of: Products, body: str, more: Sequence[int] = ()) -> tuple[Report, np.ndarray, np.ndarray]:
    """The report of a run, the sums stored, and those of float64, rounded to float32 after each product.

    `more` are words of the fourth parameter, one for each thread.
    """
    depth = DEPTH // SIZES[of.kinds[0]]
    a, wide_a = elements(of.kinds[0], (64 * of.warpgroups, of.steps * depth), 1)
    b, wide_b = elements(of.kinds[1], (of.columns, of.steps * depth), 2)
    parts = [slice(i * depth, (i + 1) * depth) for i in range(of.steps)]
    expected = np.zeros((64 * of.warpgroups, of.columns), np.float32)
    for part in parts:
        added = of.signs[0] * of.signs[1] * (wide_a[:, part] @ wide_b[:, part].T)
        expected = (expected.astype(np.float64) + added).astype(np.float32)
    given = np.concatenate([in_registers(of, a[:, part]) for part in parts])
    shared = np.concatenate([in_shared_memory(of, b[:, part]) for part in parts])
    found = np.zeros((of.slots, of.threads), np.float32)
    words = np.asarray(more or [0] * of.threads, np.uint32)
    bound = tensors((given, "in"), (shared.view(np.uint32), "in"), (found, "inout"), (words, "in"))
    parameters = struct.pack("<QQQQ", *(one.told for one in bound))
    return launch(of.ptx(body), "k", 1, of.threads, parameters, bound), sums(of, found), expected
