# mypy: ignore-errors
"""A kernel that does nothing but fp32 multiply-adds on registers: how fast a GPU's CUDA cores are.

Each thread turns PAIRS pairs of numbers: x += s * y, y -= s * x. Such a rotation neither grows nor settles (Minsky's
circle, HAKMEM item 149), so that the registers keep changing as they do in a matrix product, and the chains are
independent of each other, so that no multiply-add waits for the one before it. Their mean is stored.
"""

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

PAIRS = 16  # of a thread: 32 independent numbers
UNROLL = 16  # turns of all pairs in a pass of the loop
THREADS = 256  # of a block
BLOCKS = 4  # an SM: all of them run at a time
PER_PASS = 2 * PAIRS * UNROLL  # multiply-adds of a thread in a pass of the loop


@cute.kernel
def fma_kernel(mX: cute.Tensor, passes: cutlass.Int32, s: cutlass.Float32):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    x = cute.make_rmem_tensor((PAIRS,), cutlass.Float32)
    y = cute.make_rmem_tensor((PAIRS,), cutlass.Float32)
    seed = mX[bidx * THREADS + tidx]
    for i in cutlass.range_constexpr(PAIRS):
        x[i] = seed + cutlass.Float32(0.37 * i)
        y[i] = seed - cutlass.Float32(0.73 * i)
    minus = -s
    for _ in cutlass.range(passes, unroll=1):
        for _ in cutlass.range_constexpr(UNROLL):
            for i in cutlass.range_constexpr(PAIRS):
                x[i] = cute.math.fma(s, y[i], x[i])
            for i in cutlass.range_constexpr(PAIRS):
                y[i] = cute.math.fma(minus, x[i], y[i])
    total = cutlass.Float32(0.0)
    for i in cutlass.range_constexpr(PAIRS):
        total += x[i] + y[i]
    mX[bidx * THREADS + tidx] = total * cutlass.Float32(0.5 / PAIRS)


@cute.jit
def launch(mX: cute.Tensor, passes: cutlass.Int32, s: cutlass.Float32, stream: cuda.CUstream):
    grid = cute.size(mX) // THREADS
    fma_kernel(mX, passes, s).launch(grid=[grid, 1, 1], block=[THREADS, 1, 1], stream=stream)


def compile_for(arch: str, options: tuple = ()):
    """The compiled `launch` for an architecture; needs no GPU."""
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(divisibility=THREADS),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    compiler = cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)]
    return compiler(launch, x, cutlass.Int32(1), cutlass.Float32(1.0), stream)


def reference(x: torch.Tensor, passes: int, s: float) -> torch.Tensor:
    """Computes in float64 the values that `launch` leaves in `x`."""
    start, turn = x.double(), float(torch.tensor(s, dtype=torch.float32))
    total = torch.zeros_like(start)
    for i in range(PAIRS):
        a, b = start + 0.37 * i, start - 0.73 * i
        for _ in range(passes * UNROLL):
            a = a + turn * b
            b = b - turn * a
        total += a + b
    return total / (2 * PAIRS)
