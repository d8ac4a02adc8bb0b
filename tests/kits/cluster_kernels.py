"""Small CuTeDSL kernels that use bulk copies and large clusters, for the emulator to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

THREADS = 64


def compiled(launch: Any, arch: str, options: tuple[Any, ...], element: Any) -> Any:
    """The compiled `launch` of a kernel from x to y, both of two modes, rows of 16 bytes each; needs no GPU."""
    rows, columns = cute.sym_int(), cute.sym_int(divisibility=4)
    strides = cute.sym_int64(divisibility=4), 1
    x, y = (make_fake_tensor(element, (rows, columns), strides, assumed_align=16) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)](launch, x, y, stream)


@dataclass(frozen=True)
class Doubled:
    """Y = 2 * X. A block takes a row in `tiles` tiles of `size`, through `stages` places in shared memory."""

    size: int = 256
    tiles: int = 5
    stages: int = 2

    TARGETS: ClassVar[tuple[str, ...]] = ("sm_90a",)

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled `launch`."""
        return compiled(self.launch, arch, options, Float32)

    @cute.jit
    def launch(self, mX: cute.Tensor, mY: cute.Tensor, stream: Any):
        self.kernel(mX, mY).launch(grid=[mX.shape[0], 1, 1], block=[THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(Float32, cute.make_layout((self.size, self.stages)), 16)
        sY = smem.allocate_tensor(Float32, cute.make_layout((self.size, self.stages)), 16)
        full = smem.allocate_array(Int64, self.stages)
        gX = cute.local_tile(mX[row, None], (self.size,), (None,))
        gY = cute.local_tile(mY[row, None], (self.size,), (None,))
        fetch = cute.make_copy_atom(cpasync.CopyBulkG2SOp(), Float32)
        bring = cute.make_copy_atom(cpasync.CopyBulkS2GOp(), Float32)
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        if warp == 0:
            with cute.arch.elect_one():
                for stage in cutlass.range_constexpr(self.stages):
                    cute.arch.mbarrier_init(full + stage, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        for tile in cutlass.range_constexpr(self.stages):
            self.fetch(fetch, gX, sX, full, tile, warp)
        for tile in cutlass.range_constexpr(self.tiles):
            stage = tile % self.stages
            cute.arch.mbarrier_wait(full + stage, tile // self.stages % 2)
            if cutlass.const_expr(tile >= self.stages):
                if warp == 0:
                    with cute.arch.elect_one():
                        cute.arch.cp_async_bulk_wait_group(self.stages - 1, read=True)
                cute.arch.sync_threads()
            for i in cutlass.range_constexpr(self.size // THREADS):
                sY[i * THREADS + tidx, stage] = sX[i * THREADS + tidx, stage] * 2
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.sync_threads()
            if warp == 0:
                with cute.arch.elect_one():
                    cute.copy(bring, sY[None, stage], gY[None, tile])
                    cute.arch.cp_async_bulk_commit_group()
            if cutlass.const_expr(tile + self.stages < self.tiles):
                self.fetch(fetch, gX, sX, full, tile + self.stages, warp)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.cp_async_bulk_wait_group(0, read=True)

    @cute.jit
    def fetch(
        self,
        atom: cute.CopyAtom,
        gX: cute.Tensor,
        sX: cute.Tensor,
        full: cute.Pointer,
        tile: cutlass.Constexpr[int],
        warp: Int32,
    ):
        stage = tile % self.stages
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, self.size * 4)
                cute.copy(atom, gX[None, tile], sX[None, stage], mbar_ptr=full + stage)


@dataclass(frozen=True)
class Ranks:
    """Y has the rank of the block that writes it, in clusters of `shape` blocks."""

    shape: tuple[int, int, int]

    TARGETS: ClassVar[tuple[str, ...]] = ("sm_90a",)

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled `launch`."""
        return compiled(self.launch, arch, options, Int32)

    @cute.jit
    def launch(self, mX: cute.Tensor, mY: cute.Tensor, stream: Any):
        grid = [mY.shape[0], mY.shape[1], 1]
        self.kernel(mX, mY).launch(grid=grid, block=[1, 1, 1], cluster=list(self.shape), stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor):
        x, y, _ = cute.arch.block_idx()
        mY[x, y] = cute.arch.block_idx_in_cluster()


@dataclass(frozen=True)
class Twice:
    """Y = 4 * X by two launches, each of which doubles; a block takes a row, whose first `THREADS` elements it has.

    With `early` the launches need not wait for what is ahead of them to end.
    """

    early: bool = True

    TARGETS: ClassVar[tuple[str, ...]] = ("sm_90a",)

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled `launch`."""
        return compiled(self.launch, arch, options, Float32)

    @cute.jit
    def launch(self, mX: cute.Tensor, mY: cute.Tensor, stream: Any):
        grid, block = [mX.shape[0], 1, 1], [THREADS, 1, 1]
        self.kernel(mX, mY).launch(grid=grid, block=block, stream=stream, use_pdl=self.early)
        self.kernel(mY, mY).launch(grid=grid, block=block, stream=stream, use_pdl=self.early)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        cute.arch.griddepcontrol_wait()
        mY[row, tidx] = mX[row, tidx] * 2
        cute.arch.griddepcontrol_launch_dependents()
