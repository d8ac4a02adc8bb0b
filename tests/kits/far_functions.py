"""A function of CuTeDSL that adds one to rows, with offsets of 64 bits or of 32, and rows that lie far apart."""

from __future__ import annotations

import cutlass
import torch
from cutlass import cute

FAR = 2**31 + 8
"""Elements from row to row."""


@cute.kernel  # type: ignore[misc]
def plus_one_kernel(x: cute.Tensor, out: cute.Tensor, stride: cutlass.Int64) -> None:
    row, column = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    cute.make_tensor(out.iterator + (row * stride + column), cute.make_layout(1))[0] = x[row, column] + 1


@cute.jit  # type: ignore[misc]
def plus_one(x: cute.Tensor, out: cute.Tensor) -> None:
    stride = cutlass.Int64(out.stride[0])
    plus_one_kernel(x, out, stride).launch(grid=[out.shape[0], 1, 1], block=[32, 1, 1])


@cute.jit  # type: ignore[misc]
def plus_one_of_32_bits(x: cute.Tensor, out: cute.Tensor) -> None:
    stride = cutlass.Int32(out.stride[0])
    plus_one_kernel(x, out, stride).launch(grid=[out.shape[0], 1, 1], block=[32, 1, 1])


def untouched(rows: int, columns: int, stride: int = FAR) -> torch.Tensor:
    """A tensor with rows that far apart, which takes memory only where it is touched."""
    return torch.empty((rows - 1) * stride + columns).as_strided((rows, columns), (stride, 1))
