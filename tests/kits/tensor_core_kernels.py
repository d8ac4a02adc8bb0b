"""Small kernels on Ampere's tensor cores, for the emulator to run: C = A @ B.T with A (M, K), B (N, K), C (M, N).

Tiles go from global to shared memory by cp.async, two stages of them, to swizzled places; from there to registers by
ldmatrix, as many matrices at once as asked; and through mma.sync to C.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Any, ClassVar

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

BLK = 32  # of M and of N
STAGES = 2
WARPS = (2, 1, 1)
THREADS = 64


@dataclass(frozen=True)
class Gemm:
    """One kernel. Like a generated module it has `TARGETS` and `compile`, which the emulator asks for.

    `shape_k` is the instruction's, `matrices` how many ldmatrix loads at once for A and for B (0: plain loads), `bits`
    the size of a cp.async. The contiguous mode of A and of B must be a multiple of `bits` long.
    """

    element: Any
    accumulator: Any
    shape_k: int
    a_major: str = "K"
    b_major: str = "K"
    matrices: tuple[int, int] = (4, 4)
    bits: int = 128

    TARGETS: ClassVar[tuple[str, ...]] = ("sm_80",)

    @property
    def blk_k(self) -> int:
        """64 bytes of A."""
        return 64 * 8 // self.element.width

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled `launch`; needs no GPU."""
        vector = self.bits // self.element.width
        m, n, k = cute.sym_int(), cute.sym_int(), cute.sym_int()

        def tensor(rows: Any, columns: Any, element: Any, column_major: bool, divisible: int) -> Any:
            stride = cute.sym_int64(divisibility=divisible)
            strides = (1, stride) if column_major else (stride, 1)
            return make_fake_tensor(element, (rows, columns), strides, assumed_align=element.width // 8 * divisible)

        a = tensor(m, k, self.element, self.a_major == "M", vector)
        b = tensor(n, k, self.element, self.b_major == "N", vector)
        c = tensor(m, n, self.accumulator, False, 1)
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        compiler = cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)]
        return compiler(self.launch, a, b, c, stream)

    def smem_layout(self, k_major: bool) -> tuple[Any, Any]:
        """Of one operand's tiles, and the swizzle of its rows' 16-byte units."""
        run = self.blk_k if k_major else BLK
        stride = (self.blk_k, 1, BLK * self.blk_k) if k_major else (1, BLK, BLK * self.blk_k)
        swizzle = cute.make_swizzle(int(log2(run * self.element.width // 128)), 4, 3)  # of addresses in bytes
        return cute.make_layout((BLK, self.blk_k, STAGES), stride=stride), swizzle

    def copy_atom(self) -> Any:
        """cp.async, past the first cache where that is possible and A is not read along M."""
        past = self.bits == 128 and self.a_major == "K"
        mode = cute.nvgpu.LoadCacheMode.GLOBAL if past else cute.nvgpu.LoadCacheMode.ALWAYS
        return cute.make_copy_atom(cpasync.CopyG2SOp(cache_mode=mode), self.element, num_bits_per_copy=self.bits)

    def tiled_copy(self, k_major: bool) -> Any:
        """From global to shared memory, neighbouring threads along the contiguous mode."""
        vector = self.bits // self.element.width
        across = (self.blk_k if k_major else BLK) // vector
        if k_major:
            threads = cute.make_layout((THREADS // across, across), stride=(across, 1))
            return cute.make_tiled_copy_tv(self.copy_atom(), threads, cute.make_layout((1, vector)))
        threads = cute.make_layout((across, THREADS // across), stride=(1, across))
        return cute.make_tiled_copy_tv(self.copy_atom(), threads, cute.make_layout((vector, 1)))

    def matrix_atom(self, k_major: bool, matrices: int, element: Any) -> Any:
        """From shared memory to registers."""
        if matrices == 0:
            return cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), element, num_bits_per_copy=element.width)
        return cute.make_copy_atom(warp.LdMatrix8x8x16bOp(not k_major, matrices), element)

    @cute.jit
    def launch(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: Any):
        shape = (16, 8, self.shape_k)
        if cutlass.const_expr(self.element is cutlass.Float32):
            op = warp.MmaTF32Op(shape)
        else:
            op = warp.MmaF16BF16Op(self.element, self.accumulator, shape)
        # Two atoms along N for a warp, which gives ldmatrix four matrices of B
        tiled_mma = cute.make_tiled_mma(op, WARPS, permutation_mnk=(16 * WARPS[0], 8 * WARPS[1] * 2, self.shape_k))
        self.kernel(mA, mB, mC, tiled_mma).launch(
            grid=[*cute.ceil_div(mC.shape, (BLK, BLK)), 1], block=[THREADS, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiled_mma: cute.TiledMma):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, bidy, _ = cute.arch.block_idx()
        tiler, coord = (BLK, BLK, self.blk_k), (bidx, bidy, None)
        a_k, b_k = self.a_major == "K", self.b_major == "K"
        gA = cute.local_tile(mA, tiler, coord, proj=(1, None, 1))
        gB = cute.local_tile(mB, tiler, coord, proj=(None, 1, 1))
        gC = cute.local_tile(mC, tiler, coord, proj=(1, 1, None))
        cA = cute.local_tile(cute.make_identity_tensor(mA.shape), tiler, coord, proj=(1, None, 1))
        cB = cute.local_tile(cute.make_identity_tensor(mB.shape), tiler, coord, proj=(None, 1, 1))
        cC = cute.local_tile(cute.make_identity_tensor(mC.shape), tiler, coord, proj=(1, 1, None))

        smem = cutlass.memory.SmemAllocator()
        a_layout, a_swizzle = self.smem_layout(a_k)
        b_layout, b_swizzle = self.smem_layout(b_k)
        sA = smem.allocate_tensor(self.element, a_layout, 1024, a_swizzle)
        sB = smem.allocate_tensor(self.element, b_layout, 1024, b_swizzle)
        copy_A = self.tiled_copy(a_k).get_slice(tidx)
        copy_B = self.tiled_copy(b_k).get_slice(tidx)
        tAgA, tAsA, tAcA = copy_A.partition_S(gA), copy_A.partition_D(sA), copy_A.partition_S(cA)
        tBgB, tBsB, tBcB = copy_B.partition_S(gB), copy_B.partition_D(sB), copy_B.partition_S(cB)

        if cutlass.const_expr(self.element is cutlass.Float32):
            # recast_tensor would drop the swizzle
            sA = cute.make_tensor(cute.recast_ptr(sA.iterator, a_swizzle, cutlass.TFloat32), a_layout)
            sB = cute.make_tensor(cute.recast_ptr(sB.iterator, b_swizzle, cutlass.TFloat32), b_layout)
        thr_mma = tiled_mma.get_slice(tidx)
        tCrA = tiled_mma.make_fragment_A(thr_mma.partition_A(sA)[None, None, None, 0])
        tCrB = tiled_mma.make_fragment_B(thr_mma.partition_B(sB)[None, None, None, 0])
        tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)
        tCrC = tiled_mma.make_fragment_C(tCgC)
        tCrC.fill(0)
        load_A = cute.make_tiled_copy_A(self.matrix_atom(a_k, self.matrices[0], sA.element_type), tiled_mma)
        load_B = cute.make_tiled_copy_B(self.matrix_atom(b_k, self.matrices[1], sB.element_type), tiled_mma)
        tCsA, tCrA_view = load_A.get_slice(tidx).partition_S(sA), load_A.retile(tCrA)
        tCsB, tCrB_view = load_B.get_slice(tidx).partition_S(sB), load_B.retile(tCrB)

        k_tiles = cute.size(gA, mode=[2])
        self.fetch(tAgA, tAsA, tAcA, mA.shape, 0, 0)
        self.fetch(tBgB, tBsB, tBcB, mB.shape, 0, 0)
        cute.arch.cp_async_commit_group()
        for k_tile in range(k_tiles):
            stage = k_tile % STAGES
            if k_tile + 1 < k_tiles:
                self.fetch(tAgA, tAsA, tAcA, mA.shape, k_tile + 1, 1 - stage)
                self.fetch(tBgB, tBsB, tBcB, mB.shape, k_tile + 1, 1 - stage)
            cute.arch.cp_async_commit_group()
            cute.arch.cp_async_wait_group(1)
            cute.arch.sync_threads()
            cute.copy(load_A, tCsA[None, None, None, stage], tCrA_view)
            cute.copy(load_B, tCsB[None, None, None, stage], tCrB_view)
            for k_block in cutlass.range_constexpr(self.blk_k // self.shape_k):
                cute.gemm(tiled_mma, tCrC, tCrA[None, None, k_block], tCrB[None, None, k_block], tCrC)
            cute.arch.sync_threads()
        for i in cutlass.range_constexpr(cute.size(tCrC)):
            if cute.elem_less(tCcC[i], mC.shape):
                tCgC[i] = tCrC[i]

    @cute.jit
    def fetch(self, source: cute.Tensor, target: cute.Tensor, coords: cute.Tensor, shape: Any, tile: Any, stage: Any):
        """This thread's part of a tile: copies of what is in bounds, zeros for the rest."""
        atom = self.copy_atom()
        for i in cutlass.range_constexpr(cute.size(source, mode=[1])):
            for j in cutlass.range_constexpr(cute.size(source, mode=[2])):
                if cute.elem_less(coords[0, i, j, tile], shape):
                    cute.copy(atom, source[None, i, j, tile], target[None, i, j, stage])
                else:
                    target[None, i, j, stage].fill(0)
