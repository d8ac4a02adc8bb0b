"""A gemm of Blackwell's units, written by hand: a warp that loads, one that multiplies, and four that store.

`BlackwellGemm` builds it for types, majornesses and a tile, and runs it, or PTX that was made of it, on the emulator.
The block, or pair of blocks, of each tile of rows computes all tiles of columns, with two accumulators in turn.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from cutegen.emulator import on_device
from cutegen.emulator.host.builds import Build, build
from cutegen.emulator.host.emulated import Emulated

TARGET = "sm_100a"
F8 = {"Float8E4M3FN": torch.float8_e4m3fn, "Float8E5M2": torch.float8_e5m2}
TYPES = {"BFloat16": torch.bfloat16, "Float16": torch.float16, "TFloat32": torch.float32, **F8}
TEXT = """
import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, make_tiled_tma_atom_A, make_tiled_tma_atom_B, tcgen05
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass.utils import blackwell_helpers as helpers

TILER, STAGES, SLOTS = ({bm}, {bn}, {bk}), 3, 2
COLUMNS, BLOCKS = {columns}, {blocks}
BOTH = (1 << BLOCKS) - 1
BYTES = (TILER[0] + TILER[1]) * TILER[2] * {width}
MULTIPLIER, LOADER, THREADS = 4, 5, 192


@cute.kernel
def gemm_kernel(
    tma_a: cute.CopyAtom,
    mA: cute.Tensor,
    tma_b: cute.CopyAtom,
    mB: cute.Tensor,
    mC: cute.Tensor,
    tiled_mma: cute.TiledMma,
    sA_layout: cute.ComposedLayout,
    sB_layout: cute.ComposedLayout,
):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    m_tile, rank = block // BLOCKS, block % BLOCKS
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(cutlass.{memory_a}, sA_layout.outer, byte_alignment=1024, swizzle=sA_layout.inner)
    sB = smem.allocate_tensor(cutlass.{memory_b}, sB_layout.outer, byte_alignment=1024, swizzle=sB_layout.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    ready = smem.allocate_array(cutlass.Int64, SLOTS)
    free = smem.allocate_array(cutlass.Int64, SLOTS)
    held = smem.allocate_array(cutlass.Int32, 1)
    if tidx == 0:
        for i in cutlass.range_constexpr(STAGES):
            cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(empty + i, 1)
        for i in cutlass.range_constexpr(SLOTS):
            cute.arch.mbarrier_init(ready + i, 1)
            cute.arch.mbarrier_init(free + i, 128 * BLOCKS)
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(BLOCKS == 2):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    if warp == MULTIPLIER:
        cute.arch.alloc_tmem(COLUMNS, held, is_two_cta=BLOCKS == 2)
    cute.arch.sync_threads()
    tmem = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, held)
    thr_mma = tiled_mma.get_slice(rank)
    gA = thr_mma.partition_A(cute.local_tile(mA, (TILER[0], TILER[2]), (m_tile, None)))
    gB = thr_mma.partition_B(cute.local_tile(mB, (TILER[1], TILER[2]), (None, None)))
    tCrA = tiled_mma.make_fragment_A(sA)
    tCrB = tiled_mma.make_fragment_B(sB)
    acc_shape = cute.append(tiled_mma.partition_shape_C(TILER[:2]), SLOTS)
    tCtC = cute.make_tensor(tmem, tiled_mma.make_fragment_C(acc_shape).layout)
    k_tiles = cute.ceil_div(mA.shape[1], TILER[2])
    n_tiles = cute.ceil_div(mB.shape[0], TILER[1])
    if warp == LOADER:
        one = cute.make_layout(1)
        tAsA, tAgA = cpasync.tma_partition(tma_a, 0, one, cute.group_modes(sA, 0, 3), cute.group_modes(gA, 0, 3))
        tBsB, tBgB = cpasync.tma_partition(tma_b, 0, one, cute.group_modes(sB, 0, 3), cute.group_modes(gB, 0, 3))
        for step in cutlass.range(n_tiles * k_tiles, unroll=1):
            n, k, stage, turn = step // k_tiles, step % k_tiles, step % STAGES, step // STAGES
            cute.arch.mbarrier_wait(empty + stage, (turn + 1) % 2)
            if rank == 0:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, BYTES)
            cute.copy(tma_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
            cute.copy(tma_b, tBgB[None, n, k], tBsB[None, stage], tma_bar_ptr=full + stage)
    if warp == MULTIPLIER and rank == 0:
        for n in cutlass.range(n_tiles, unroll=1):
            slot = n % SLOTS
            acc = tCtC[None, None, None, slot]
            cute.arch.mbarrier_wait(free + slot, (n // SLOTS + 1) % 2)
            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = (n * k_tiles + k) % STAGES, (n * k_tiles + k) // STAGES
                cute.arch.mbarrier_wait(full + stage, turn % 2)
                for step in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                    a, b = tCrA[None, None, step, stage], tCrB[None, None, step, stage]
                    cute.gemm(tiled_mma, acc, a, b, acc)
                    tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    commit(empty + stage)
            with cute.arch.elect_one():
                commit(ready + slot)
    if warp < MULTIPLIER:
        load = cute.make_copy_atom(tcgen05.{load}(tcgen05.Repetition.{repeats}), cutlass.Float32)
        copy = tcgen05.make_tmem_copy(load, tCtC[(None, None), 0, 0, 0]).get_slice(tidx)
        tTR = copy.partition_S(tCtC[(None, None), 0, 0, None])
        gC = thr_mma.partition_C(cute.local_tile(mC, TILER[:2], (m_tile, None)))[(None, None), 0, 0, None]
        places = cute.local_tile(cute.make_identity_tensor(mC.shape), TILER[:2], (m_tile, None))
        places = thr_mma.partition_C(places)[(None, None), 0, 0, None]
        for n in cutlass.range(n_tiles, unroll=1):
            slot = n % SLOTS
            tDgC, tDcC = copy.partition_D(gC[None, None, n]), copy.partition_D(places[None, None, n])
            values = cute.make_rmem_tensor(tDgC.shape, cutlass.Float32)
            cute.arch.mbarrier_wait(ready + slot, n // SLOTS % 2)
            cute.copy(copy, tTR[None, None, None, slot], values)
            cute.arch.fence_view_async_tmem_load()
            if cutlass.const_expr(BLOCKS == 2):
                cute.arch.mbarrier_arrive(free + slot, 0)
            else:
                cute.arch.mbarrier_arrive(free + slot)
            rounded = cute.make_fragment_like(tDgC)
            rounded.store(values.load().to(mC.element_type))
            for i in cutlass.range_constexpr(cute.size(rounded)):
                if cute.elem_less(tDcC[i], mC.shape):
                    tDgC[i] = rounded[i]
    cute.arch.sync_threads()
    if cutlass.const_expr(BLOCKS == 2):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    if warp == MULTIPLIER:
        cute.arch.relinquish_tmem_alloc_permit(is_two_cta=BLOCKS == 2)
        cute.arch.dealloc_tmem(tmem, COLUMNS, is_two_cta=BLOCKS == 2)


@cute.jit
def commit(mbarrier: cute.Pointer):
    if cutlass.const_expr(BLOCKS == 2):
        tcgen05.commit(mbarrier, BOTH, tcgen05.CtaGroup.TWO)
    else:
        tcgen05.commit(mbarrier)


@cute.jit
def launch(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: cuda.CUstream):
    op = tcgen05.{op}(
        {types}
        (TILER[0], TILER[1], 32 // {width}),
        tcgen05.CtaGroup.{group},
        tcgen05.OperandSource.SMEM,
        OperandMajorMode.{major_a},
        OperandMajorMode.{major_b},
    )
    tiled_mma = cute.make_tiled_mma(op)
    sA_layout = helpers.make_smem_layout_a(tiled_mma, TILER, cutlass.{type_a}, STAGES)
    sB_layout = helpers.make_smem_layout_b(tiled_mma, TILER, cutlass.{type_b}, STAGES)
    load, stage = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.{group}), (None, None, None, 0)
    kinds = {{}} if cutlass.{type_a} == cutlass.{memory_a} else {{"internal_type": cutlass.{type_a}}}
    pairs = cute.tiled_divide(cute.make_layout((BLOCKS, 1, 1)), (tiled_mma.thr_id.shape,)).shape
    tma_a, tA = make_tiled_tma_atom_A(load, mA, cute.slice_(sA_layout, stage), TILER, tiled_mma, pairs, **kinds)
    tma_b, tB = make_tiled_tma_atom_B(load, mB, cute.slice_(sB_layout, stage), TILER, tiled_mma, pairs, **kinds)
    gemm_kernel(tma_a, tA, tma_b, tB, mC, tiled_mma, sA_layout, sB_layout).launch(
        grid=[BLOCKS * cute.ceil_div(mC.shape[0], TILER[0]), 1, 1],
        block=[THREADS, 1, 1],
        cluster=[BLOCKS, 1, 1],
        stream=stream,
    )


def compile_for(arch: str, options: tuple = ()):
    sizes = {{"M": cute.sym_int(), "N": cute.sym_int(), "K": cute.sym_int()}}

    def fake(dtype, modes: str, major: str):
        strides = tuple(1 if mode == major else cute.sym_int64(divisibility=128 // dtype.width) for mode in modes)
        return make_fake_tensor(dtype, tuple(sizes[m] for m in modes), strides, assumed_align=16)

    a = fake(cutlass.{memory_a}, "MK", "{a}")
    b = fake(cutlass.{memory_b}, "NK", "{b}")
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)](
        launch, a, b, fake(cutlass.Float32, "MN", "N"), stream
    )
"""


@dataclass(frozen=True)
class BlackwellGemm:
    """The gemm with A contiguous along the mode `a`, B along `b`, of CuTeDSL's type `dtype`, in tiles of `tile`.

    `dtype` may be `A B`, of two types of 8 bits.

    A tile is one of a single block, or of a pair of `blocks`. Each warp loads accumulators by the instruction that
    CuTeDSL calls `load`, repeated so often as `repeats` says.
    """

    tile: tuple[int, int, int] = (128, 32, 64)
    a: str = "K"
    b: str = "K"
    dtype: str = "BFloat16"
    load: str = "Ld32x32bOp"
    repeats: str = "x32"
    blocks: int = 1

    @property
    def types(self) -> tuple[str, str]:
        """The types of A and of B."""
        return self.dtype.split()[0], self.dtype.split()[-1]

    def text(self) -> str:
        """The module."""
        bm, bn, bk = self.tile
        type_a, type_b = self.types
        memory_a, memory_b = ("Float32" if kind == "TFloat32" else kind for kind in self.types)
        op, named = "MmaF16BF16Op", f"cutlass.{type_a}, cutlass.Float32,"
        if type_a == "TFloat32":
            op, named = "MmaTF32Op", ""
        elif type_a in F8:
            op, named = "MmaF8F6F4Op", f"cutlass.{type_a}, cutlass.{type_b}, cutlass.Float32,"
        return TEXT.format(
            bm=bm, bn=bn, bk=bk, blocks=self.blocks, group="TWO" if self.blocks == 2 else "ONE",
            columns=max(32, 2 * bn), width=TYPES[type_a].itemsize,
            op=op, types=named, type_a=type_a, type_b=type_b, memory_a=memory_a, memory_b=memory_b,
            major_a="K" if self.a == "K" else "MN", major_b="K" if self.b == "K" else "MN",
            a=self.a, b=self.b, load=self.load, repeats=self.repeats,
        )  # fmt: skip

    def built(self, folder: Path, old: str = "", new: str = "") -> Build:
        """The compiled module, with another text where an old one stands once."""
        path, text = folder / "blackwell_gemm.py", self.text()
        assert not old or text.count(old) == 1
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("blackwell_gemm", path)
        assert spec is not None and spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return build(module, TARGET, lines=False)

    def run(self, made: Build, sizes: tuple[int, int, int], **more: int) -> bool:
        """Whether the result for (M, N, K) is right to the bit. `more` is as for `Emulated`. Raises FaultError."""
        m, n, k = sizes
        kinds = [TYPES[kind] for kind in self.types]
        left, right = matrix(m, k, kinds[0], by_rows=self.a == "K"), matrix(n, k, kinds[1], by_rows=self.b == "K")
        result = matrix(m, n, torch.float32)
        emulated = Emulated([made], ["a", "b", "c"], {"a": "in", "b": "in", "c": "out"}, **more)
        emulated(*map(on_device, (left, right, result)))
        return torch.equal(result, (left.double() @ right.double().T).float())


def matrix(rows: int, columns: int, dtype: torch.dtype, *, by_rows: bool = True) -> torch.Tensor:
    """Small whole numbers, with rows, or columns, that are a multiple of 16 bytes apart and further than they need."""
    if not by_rows:
        return matrix(columns, rows, dtype).T
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    step = 16 // dtype.itemsize
    return torch.randint(-4, 5, (rows, columns // step * step + 2 * step), generator=generator).to(dtype)[:, :columns]
