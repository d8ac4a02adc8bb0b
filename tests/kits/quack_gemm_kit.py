"""quack's gemm for Hopper as it is, compiled without a GPU. To import this needs quack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass_kit import TARGET
from quack.gemm_default_epi import GemmDefaultSm90
from quack.tile_scheduler import TileSchedulerOptions

from cutegen.emulator.host.builds import Build, build


def built(tile: tuple[int, int], cluster: tuple[int, int], pingpong: bool, majors: str) -> Build:
    """Its gemm of bf16 without what may overlap the kernel before; two clusters at once."""
    gemm = GemmDefaultSm90(cutlass.Float32, cutlass.BFloat16, tile, (*cluster, 1), pingpong=pingpong, use_pdl=False)

    @cute.jit  # type: ignore[misc]
    def launch(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor, stream: cuda.CUstream) -> None:
        order = TileSchedulerOptions(
            max_active_clusters=cutlass.Int32(2),
            raster_order=None,
            max_swizzle_size=cutlass.Int32(8),
            tile_count_semaphore=None,
        )
        gemm(mA, mB, mD, None, GemmDefaultSm90.EpilogueArguments(alpha=None, beta=None), order, None, stream)

    sizes = {mode: cute.sym_int() for mode in "MNKL"}

    def fake(modes: str, major: str) -> Any:
        shape = tuple(sizes[mode] for mode in modes)
        strides = tuple(1 if mode == major else cute.sym_int64(divisibility=8) for mode in modes)
        return make_fake_tensor(cutlass.BFloat16, shape, strides, assumed_align=16)

    def compile_for(arch: str, options: tuple[Any, ...] = ()) -> Any:
        operands = [fake(modes, major) for modes, major in zip(("LMK", "LNK", "LMN"), majors, strict=True)]
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        return cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)](launch, *operands, stream)

    return build(SimpleNamespace(compile_for=compile_for), TARGET)  # type: ignore[arg-type]
