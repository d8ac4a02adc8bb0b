"""Softmax kernels whose rows are shared by the blocks of a cluster, for the emulator to run: Y = softmax(X), f32.

Each block has a part of a row, a few elements a thread. Every warp's maximum, and later its sum, goes to all blocks.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

THREADS, WARPS = 64, 2


@cute.jit
def peer_value(pointer: cute.Pointer, rank: Int32) -> Float32:
    """The f32 at the same place in the shared memory of the block of that rank."""
    mapped = cute.arch.map_dsmem_ptr(pointer, rank)  # CuTe tensors cannot read through such a pointer
    address = cute.make_ptr(Float32, mapped.toint(), cute.AddressSpace.smem, assumed_align=4)
    return cute.arch.load(address, Float32, ss="cluster")


@dataclass(frozen=True)
class Softmax:
    """One kernel. Like a generated module it has `TARGETS` and `compile_for`, which the emulator asks for.

    A row has `blocks * THREADS * each` elements. With `messages`, values are sent by st.async, which an mbarrier in
    each block counts; else peers read them, between barriers of the cluster.
    """

    blocks: int
    messages: bool
    each: int = 2

    TARGETS: ClassVar[tuple[str, ...]] = ("sm_90a",)

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled `launch`; needs no GPU."""
        rows = cute.sym_int()
        x, y = (make_fake_tensor(Float32, (rows, cute.sym_int()), (cute.sym_int64(), 1)) for _ in range(2))
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        compiler = cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)]
        return compiler(self.launch, x, y, stream)

    @cute.jit
    def launch(self, mX: cute.Tensor, mY: cute.Tensor, stream: Any):
        grid, cluster = [self.blocks, mX.shape[0], 1], [self.blocks, 1, 1]
        self.kernel(mX, mY).launch(grid=grid, block=[THREADS, 1, 1], cluster=cluster, stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, row, _ = cute.arch.block_idx()
        smem = cutlass.memory.SmemAllocator()
        partial = smem.allocate_tensor(Float32, cute.make_layout((self.blocks * WARPS, 2)), 16)
        mbar = smem.allocate_array(Int64, 2)
        if cutlass.const_expr(self.messages):
            if tidx == 0:
                for step in cutlass.range_constexpr(2):
                    cute.arch.mbarrier_init(mbar + step, 1)
                cute.arch.mbarrier_init_fence()
                for step in cutlass.range_constexpr(2):
                    cute.arch.mbarrier_arrive_and_expect_tx(mbar + step, self.blocks * WARPS * 4)
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()
        values = cute.make_rmem_tensor(self.each, Float32)
        for i in cutlass.range_constexpr(self.each):
            values[i] = mX[row, (bidx * self.each + i) * THREADS + tidx]
        largest = values.load().reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
        largest = self.over_cluster(cute.arch.warp_reduction_max(largest), partial, mbar, 0)
        powers = cute.math.exp(values.load() - largest, fastmath=True)
        total = cute.arch.warp_reduction_sum(powers.reduce(cute.ReductionOp.ADD, Float32(0.0), 0))
        values.store(powers / self.over_cluster(total, partial, mbar, 1))
        for i in cutlass.range_constexpr(self.each):
            mY[row, (bidx * self.each + i) * THREADS + tidx] = values[i]
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

    @cute.jit
    def over_cluster(
        self, value: Float32, partial: cute.Tensor, mbar: cute.Pointer, step: cutlass.Constexpr[int]
    ) -> Float32:
        """The maximum (in step 0) or the sum (in step 1) of the values that all warps of the cluster have."""
        rank, lane, warp = cute.arch.block_idx_in_cluster(), cute.arch.lane_idx(), cute.arch.warp_idx()
        mine = partial.iterator + (rank * WARPS + warp + step * self.blocks * WARPS)
        if cutlass.const_expr(self.messages):
            if lane < self.blocks:
                cute.arch.store_async_dsmem(mine, value.bitcast(Int32), mbar + step, lane)
            cute.arch.mbarrier_wait(mbar + step, 0)
        else:
            if lane == 0:
                partial[rank * WARPS + warp, step] = value
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        operation = cute.arch.fmax if step == 0 else operator.add
        result = Float32(0.0) if step else -Float32.inf
        for peer in cutlass.range_constexpr(self.blocks):
            for warp_of_peer in cutlass.range_constexpr(WARPS):
                at = peer * WARPS + warp_of_peer
                if cutlass.const_expr(self.messages):
                    result = operation(result, partial[at, step])
                else:
                    result = operation(result, peer_value(partial.iterator + (at + step * self.blocks * WARPS), peer))
        return result
