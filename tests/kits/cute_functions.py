"""Small functions of CuTeDSL, right and wrong ones, as users write them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import cuda.bindings.driver as cuda
import cutlass
import torch
from cute_helpers import element_behind
from cutlass import cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor, make_ptr

THREADS = 32


@dataclasses.dataclass
class Scale:
    by: cutlass.Float32


class Pair(NamedTuple):
    first: cute.Tensor
    second: cute.Tensor


@cute.kernel  # type: ignore[misc]
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, by: cutlass.Float32, plus: cutlass.Constexpr) -> None:
    i = cute.arch.block_idx()[0] * THREADS + cute.arch.thread_idx()[0]
    if i < c.shape[0]:
        c[i] = (a[i] + b[i]) * by + plus


@cute.jit  # type: ignore[misc]
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor) -> None:
    grid = [cute.ceil_div(c.shape[0], THREADS), 1, 1]
    add_kernel(a, b, c, cutlass.Float32(1.0), 0.0).launch(grid=grid, block=[THREADS, 1, 1])


@cute.jit  # type: ignore[misc]
def add_of_parts(
    pair: Pair, c: cute.Tensor, scale: Scale, nothing: Any, plus: cutlass.Constexpr, stream: cuda.CUstream
) -> None:
    grid = [cute.ceil_div(c.shape[0], THREADS), 1, 1]
    add_kernel(pair.first, pair.second, c, scale.by, plus).launch(grid=grid, block=[THREADS, 1, 1], stream=stream)


@cute.jit  # type: ignore[misc]
def one_block_too_few(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor) -> None:
    grid = [c.shape[0] // THREADS, 1, 1]
    add_kernel(a, b, c, cutlass.Float32(1.0), 0.0).launch(grid=grid, block=[THREADS, 1, 1])


@cute.kernel  # type: ignore[misc]
def without_predicate_kernel(a: cute.Tensor, c: cute.Tensor) -> None:
    i = cute.arch.block_idx()[0] * THREADS + cute.arch.thread_idx()[0]
    c[i] = a[i]


@cute.jit  # type: ignore[misc]
def without_predicate(a: cute.Tensor, c: cute.Tensor) -> None:
    without_predicate_kernel(a, c).launch(grid=[cute.ceil_div(c.shape[0], THREADS), 1, 1], block=[THREADS, 1, 1])


@cute.kernel  # type: ignore[misc]
def shift_kernel(a: cute.Tensor, c: cute.Tensor) -> None:
    i = cute.arch.block_idx()[0] * THREADS + cute.arch.thread_idx()[0]
    if i < c.shape[0]:
        c[i] = element_behind(a, i)


@cute.jit  # type: ignore[misc]
def shift(a: cute.Tensor, c: cute.Tensor) -> None:
    shift_kernel(a, c).launch(grid=[cute.ceil_div(c.shape[0], THREADS), 1, 1], block=[THREADS, 1, 1])


@cute.jit  # type: ignore[misc]
def copy_of_pointers(a: cute.Pointer, c: cute.Pointer, n: cutlass.Int32) -> None:
    without_predicate(cute.make_tensor(a, cute.make_layout((n,))), cute.make_tensor(c, cute.make_layout((n,))))


def copy_by_pointers(a: torch.Tensor, c: torch.Tensor, n: int) -> None:
    copy_of_pointers(*(make_ptr(cutlass.Float32, t.data_ptr(), cute.AddressSpace.gmem) for t in (a, c)), n)


@cute.jit  # type: ignore[misc]
def copy_of_fours(a: cute.Tensor, c: cute.Tensor) -> None:
    """A thread copies four elements at once, where it may."""
    tiles = [cute.zipped_divide(t, (4 * THREADS,)) for t in (a, c)]
    fours_kernel(*tiles).launch(grid=[cute.size(tiles[0], mode=[1]), 1, 1], block=[THREADS, 1, 1])


@cute.kernel  # type: ignore[misc]
def fours_kernel(a: cute.Tensor, c: cute.Tensor) -> None:
    block, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    of_thread = [cute.zipped_divide(t[((None,), block)], (4,))[(None,), thread] for t in (a, c)]
    cute.autovec_copy(of_thread[0], of_thread[1])


@cute.kernel  # type: ignore[misc]
def talking_kernel(a: cute.Tensor) -> None:
    cute.printf("{}", a[0])


@cute.jit  # type: ignore[misc]
def talking(a: cute.Tensor) -> None:
    talking_kernel(a).launch(grid=[1, 1, 1], block=[1, 1, 1])


@cute.jit  # type: ignore[misc]
def not_compiling(a: cute.Tensor) -> None:
    raise TypeError("a is of no use")


def compiled_add() -> Any:
    """`add` for vectors of any one size, as a library compiles it."""
    size = cute.sym_int()
    fakes = [make_fake_tensor(cutlass.Float32, (size,), (1,)) for _ in range(3)]
    return cute.compile(add, *fakes, options="--enable-tvm-ffi")


def compiled_on_a_stream() -> Any:
    """`add_of_parts` with the stream that is torch's current one at each call."""
    size = cute.sym_int()
    a, b, c = (make_fake_tensor(cutlass.Float32, (size,), (1,)) for _ in range(3))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    scale = Scale(cutlass.Float32(1.0))
    return cute.compile[cute.EnableTVMFFI](add_of_parts, Pair(a, b), c, scale, None, 1.0, stream)


@torch.library.custom_op("cutegen_tests::add", mutates_args={"c"}, device_types="cuda")
def add_op(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    between = torch.empty(a.shape, device=a.device)
    add(a, b, between)
    c.copy_(between)


class Doubled(torch.autograd.Function):
    """Twice a vector, by a kernel in both directions, into memory that is made for it."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        out = torch.empty(a.shape, device=a.device)
        add(a, a, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        out = torch.empty(gradient.shape, device=gradient.device)
        add(gradient, gradient, out)
        return out


def twice_the_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Through memory that torch makes, and nothing has written before."""
    between = torch.empty_like(a)
    out = torch.empty(a.shape, device=a.device)
    add(a, b, between)
    add(between, between, out)
    return out


def sum_with_nothing(a: torch.Tensor, zeros: bool) -> torch.Tensor:
    between, out = torch.empty_like(a), torch.empty_like(a)
    if zeros:
        between.zero_()
    add(a, between, out)
    return out


def all_but_the_last(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(a) + 1, device="cuda")
    add(a, b, out[:-1])
    return out


def keeps_quiet(a: torch.Tensor) -> torch.Tensor:
    """Catches what is wrong, and returns something else."""
    try:
        return sum_with_nothing(a, zeros=False)
    except Exception:
        return a


def make_inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(100), torch.randn(100), torch.zeros(100)


def expected(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a.double() + b.double()


def expected_in_place(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c.copy_(a + b)


def expected_otherwise(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, torch.Tensor]:
    wanted = a + b
    wanted[3] += 0.5
    return {"c": wanted}


def made_without_predicate() -> Any:
    """A function whose kernel stands in the function that makes both, as those of factories do."""

    @cute.kernel  # type: ignore[misc]
    def kernel(a: cute.Tensor, c: cute.Tensor) -> None:
        i = cute.arch.block_idx()[0] * THREADS + cute.arch.thread_idx()[0]
        c[i] = a[i] + 1

    @cute.jit  # type: ignore[misc]
    def launching(a: cute.Tensor, c: cute.Tensor) -> None:
        kernel(a, c).launch(grid=[cute.ceil_div(c.shape[0], THREADS), 1, 1], block=[THREADS, 1, 1])

    return launching
