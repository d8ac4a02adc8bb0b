"""A gemm of Hopper's units, written by hand: loads by tensor maps, a producer warp, and warpgroups that multiply.

`module_text` gives it for majornesses, types, a tile and a swizzle; `run` runs it, or PTX that was made of it, on the
emulator.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from cutegen.emulator import on_device
from cutegen.emulator.host.builds import Build, build
from cutegen.emulator.host.emulated import Emulated

TARGET = "sm_90a"
F8 = {"Float8E4M3FN": torch.float8_e4m3fn, "Float8E5M2": torch.float8_e5m2}
TYPES = {"BFloat16": torch.bfloat16, "Float16": torch.float16, **F8}
TEXT = """
import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

TILER, STAGES, CONSUMERS = ({bm}, {bn}, {bk}), {stages}, {consumers}
THREADS = 128 * (1 + CONSUMERS)
BYTES = (TILER[0] + TILER[1]) * TILER[2] * {width}


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
    m_tile, n_tile, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(cutlass.{type_a}, sA_layout.outer, byte_alignment=1024, swizzle=sA_layout.inner)
    sB = smem.allocate_tensor(cutlass.{type_b}, sB_layout.outer, byte_alignment=1024, swizzle=sB_layout.inner)
    full = smem.allocate_array(cutlass.Int64, STAGES)
    empty = smem.allocate_array(cutlass.Int64, STAGES)
    if tidx == 0:
        for i in cutlass.range_constexpr(STAGES):
            cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(empty + i, CONSUMERS)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    k_tiles = cute.ceil_div(mA.shape[1], TILER[2])
    if warp < 4:
        cute.arch.setmaxregister_decrease(40)
        if warp == 0:
            gA = cute.local_tile(mA, (TILER[0], TILER[2]), (m_tile, None))
            gB = cute.local_tile(mB, (TILER[1], TILER[2]), (n_tile, None))
            one = cute.make_layout(1)
            tAsA, tAgA = cpasync.tma_partition(tma_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
            tBsB, tBgB = cpasync.tma_partition(tma_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
            for k in cutlass.range(k_tiles, unroll=1):
                stage, turn = k % STAGES, k // STAGES
                cute.arch.mbarrier_wait(empty + stage, (turn + 1) % 2)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full + stage, BYTES)
                cute.copy(tma_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
                cute.copy(tma_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
    else:
        cute.arch.setmaxregister_increase(232)
        thr_mma = tiled_mma.get_slice(tidx - 128)
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA))
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB))
        tCgC = thr_mma.partition_C(cute.local_tile(mC, TILER[:2], (m_tile, n_tile)))
        places = cute.local_tile(cute.make_identity_tensor(mC.shape), TILER[:2], (m_tile, n_tile))
        tCcC = thr_mma.partition_C(places)
        acc = cute.make_rmem_tensor(tCgC.shape, cutlass.Float32)
        tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(k_tiles, unroll=1):
            stage, turn = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(full + stage, turn % 2)
            warpgroup.fence()
            for step in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                a, b = tCrA[None, None, step, stage], tCrB[None, None, step, stage]
                cute.gemm(tiled_mma, acc, a, b, acc)
                tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            if tidx % 128 == 0:
                cute.arch.mbarrier_arrive(empty + stage)
        tCrC = cute.make_fragment_like(tCgC)
        tCrC.store(acc.load().to(mC.element_type))
        for i in cutlass.range_constexpr(cute.size(tCrC)):
            if cute.elem_less(tCcC[i], mC.shape):
                tCgC[i] = tCrC[i]


def _smem_layout(kind: str, dtype: type, shape: tuple, order: tuple):
    kind = getattr(warpgroup.SmemLayoutAtomKind, kind)
    return cute.tile_to_shape(warpgroup.make_smem_layout_atom(kind, dtype), shape, order=order)


@cute.jit
def launch(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: cuda.CUstream):
    op = warpgroup.{op}(
        {types},
        cutlass.Float32,
        (64, TILER[1], 32 // {width}),
        warpgroup.OperandSource.SMEM,
        OperandMajorMode.{major_a},
        OperandMajorMode.{major_b},
    )
    tiled_mma = cute.make_tiled_mma(op, (CONSUMERS, 1, 1))
    sA_layout = _smem_layout("{major_a}_SW{swizzle}", cutlass.{type_a}, (TILER[0], TILER[2], STAGES), {order_a})
    sB_layout = _smem_layout("{major_b}_SW{swizzle}", cutlass.{type_b}, (TILER[1], TILER[2], STAGES), {order_b})
    load, stage = cpasync.CopyBulkTensorTileG2SOp(), (None, None, 0)
    tma_a, tA = cpasync.make_tiled_tma_atom(load, mA, cute.slice_(sA_layout, stage), (TILER[0], TILER[2]))
    tma_b, tB = cpasync.make_tiled_tma_atom(load, mB, cute.slice_(sB_layout, stage), (TILER[1], TILER[2]))
    tiles = cute.ceil_div(mC.shape, TILER[:2])
    gemm_kernel(tma_a, tA, tma_b, tB, mC, tiled_mma, sA_layout, sB_layout).launch(
        grid=[tiles[0], tiles[1], 1], block=[THREADS, 1, 1], stream=stream
    )


def compile_for(arch: str, options: tuple = ()):
    sizes = {{"M": cute.sym_int(), "N": cute.sym_int(), "K": cute.sym_int()}}

    def fake(dtype, modes: str, major: str):
        strides = tuple(1 if mode == major else cute.sym_int64(divisibility=128 // dtype.width) for mode in modes)
        return make_fake_tensor(dtype, tuple(sizes[m] for m in modes), strides, assumed_align=16)

    a = fake(cutlass.{type_a}, "MK", "{a}")
    b = fake(cutlass.{type_b}, "NK", "{b}")
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)](
        launch, a, b, fake(cutlass.BFloat16, "MN", "N"), stream
    )
"""


def module_text(
    a: str = "K", b: str = "K", dtype: str = "BFloat16", tile: tuple[int, int, int] = (128, 64, 64), swizzle: int = 128
) -> str:
    """The module with A contiguous along the mode `a`, B along `b`, and tiles of `tile`, which lie in shared memory
    with a swizzle over so many bytes.

    `dtype` is CuTeDSL's name of the type of A and B; or `A B`, of two types of 8 bits.
    """
    bm, bn, bk = tile
    type_a, type_b = dtype.split()[0], dtype.split()[-1]
    of_8_bits = type_a in F8
    types = f"cutlass.{type_a}, cutlass.{type_b}" if of_8_bits else f"cutlass.{type_a}"
    k_major, mn_major = (0, 1, 2), (1, 0, 2)
    return TEXT.format(
        bm=bm, bn=bn, bk=bk, stages=3, consumers=bm // 64, swizzle=swizzle, a=a, b=b,
        type_a=type_a, type_b=type_b, types=types, width=1 if of_8_bits else 2,
        op="MmaF8Op" if of_8_bits else "MmaF16BF16Op",
        major_a="K" if a == "K" else "MN", major_b="K" if b == "K" else "MN",
        order_a=k_major if a == "K" else mn_major, order_b=k_major if b == "K" else mn_major,
    )  # fmt: skip


def built(text: str, folder: Path) -> Build:
    """The compiled module of that text."""
    path = folder / "hopper_gemm.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("hopper_gemm", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return build(module, TARGET, lines=False)


def matrix(rows: int, columns: int, dtype: torch.dtype, *, by_rows: bool = True) -> torch.Tensor:
    """Small whole numbers, with rows, or columns, that are a multiple of 16 bytes apart and further than they need."""
    if not by_rows:
        return matrix(columns, rows, dtype).T
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    step = 16 // dtype.itemsize
    return torch.randint(-4, 5, (rows, columns // step * step + 2 * step), generator=generator).to(dtype)[:, :columns]


def run(
    made: Build, sizes: tuple[int, int, int], a: str = "K", b: str = "K", dtype: str = "BFloat16", **more: int
) -> bool:
    """Whether the result is right to the bit. `more` is as for `Emulated`. Raises FaultError."""
    m, n, k = sizes
    kinds = [TYPES[dtype.split()[i]] for i in (0, -1)]
    left, right = matrix(m, k, kinds[0], by_rows=a == "K"), matrix(n, k, kinds[1], by_rows=b == "K")
    return torch.equal(product(made, left, right, **more), (left.double() @ right.double().T).to(torch.bfloat16))


def product(made: Build, left: torch.Tensor, right: torch.Tensor, **more: int) -> torch.Tensor:
    """The product of two matrices. `more` is as for `Emulated`. Raises FaultError."""
    result = matrix(len(left), len(right), torch.bfloat16)
    emulated = Emulated([made], ["a", "b", "c"], {"a": "in", "b": "in", "c": "out"}, **more)
    emulated(*map(on_device, (left, right, result)))
    return result


def changed(made: Build, old: str, new: str) -> Build:
    """A build whose PTX has another text at the one place where a text stands."""
    assert made.ptx.count(old) == 1, (old, made.ptx.count(old))
    return replace(made, ptx=made.ptx.replace(old, new))
