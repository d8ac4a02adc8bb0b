"""Measures the GPU's own limits in the same process: memory by torch's own kernels, arithmetic by `fma`.

The rates of its tensor cores are not measured; they are those of its data sheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutegen.analysis.roofline import arithmetic
from cutegen.atoms.gpus import CUDA_F32, tensor_rate
from cutegen.errors import CutegenError, plain
from cutegen.language.model import KernelSpec
from cutegen.measuring.asked import op_of
from cutegen.measuring.clock import Contender, Stopwatch, interleaved, prepare
from cutegen.measuring.model import L2, SPREAD_LIMIT, Limits, Timing
from cutegen.planning.plan import Plan

BUFFER = 1 << 31  # bytes, and two of them; less where the GPU has not four times that
ROUNDS = 15
TURN = 0.618  # of a pair: any below 2 keeps it bounded
_PASSES = 2000  # of the multiply-add's loop: a few milliseconds


class LimitError(CutegenError):
    """Says that the GPU's limits could not be measured."""


def measure_limits(watch: Stopwatch[Any], arch: str | None, sms: int, memory_bytes: int) -> Limits:
    """Measures copy, fill and read on buffers that are far larger than the L2, and multiply-adds if `arch` is known.

    Raises LimitError where one of them varies too much, or does not run.
    """
    import torch

    size = min(BUFFER, memory_bytes // 8) // 4096 * 4096
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    total = torch.empty((), device="cuda")
    contenders = [
        Contender("copy", [lambda: target.copy_(source)]),
        Contender("fill", [lambda: target.fill_(1.5)]),
        Contender("read", [lambda: torch.sum(source, (0,), out=total)]),
    ]
    prepared = [prepare(contender, watch) for contender in contenders]
    timings = _steady(interleaved(prepared, watch, ROUNDS))
    fma = None if arch is None else _fma(watch, arch, sms)
    gbs = {name: size / timing.us / 1e3 for name, timing in timings.items()}
    return Limits(copy=2 * gbs["copy"], fill=gbs["fill"], read=gbs["read"], fma=fma)


def _fma(watch: Stopwatch[Any], arch: str, sms: int) -> float:
    """Measures fp32 multiply-adds, in TFLOP/s. Raises LimitError where the kernel does not run, or not rightly."""
    import torch

    from cutegen.measuring import fma

    try:
        compiled = fma.compile_for(arch)
        x = torch.randn(sms * fma.BLOCKS * fma.THREADS, device="cuda")
        wanted = fma.reference(x, 2, TURN)
        compiled(x, 2, TURN)
        torch.cuda.synchronize()
    except Exception as error:
        raise LimitError(
            f"the multiply-add kernel does not run: {type(error).__name__}: {plain(str(error))}"
        ) from error
    if not torch.allclose(x.double(), wanted, rtol=1e-4, atol=1e-3):
        raise LimitError("the multiply-add kernel computes something else")
    start = x.clone()
    turning = Contender("fma", [lambda: compiled(x, _PASSES, TURN)], lambda: x.copy_(start))
    prepared = prepare(turning, watch)
    timing = _steady(interleaved([prepared], watch, ROUNDS))["fma"]
    return 2 * x.numel() * _PASSES * fma.PER_PASS / timing.us / 1e6


def _steady(timings: dict[str, Timing]) -> dict[str, Timing]:
    for name, timing in timings.items():
        if timing.spread > SPREAD_LIMIT:
            raise LimitError(
                f"{name} varies by {timing.spread:.1%} from round to round, and {SPREAD_LIMIT:.0%} is let pass"
            )
    return timings


def work_of(plan: Plan, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The work of a call: bytes, each tensor moved once, and operations, a multiply-add counting as two."""
    found = op_of(plan.spec).work(plan.spec, sizes)
    return found.bytes, found.operations


def products_us(spec: KernelSpec, operations: int, gpu: str) -> float | None:
    """The least time in microseconds of so many operations of a resolved kernel on the tensor cores of a GPU, by its
    data sheet.

    None where they are made elsewhere, and where nothing is known of the GPU of that name.
    """
    rate = tensor_rate(gpu, arithmetic(spec))
    return operations / rate * 1e6 if rate and operations else None


def limit_us(
    plan: Plan, sizes: Mapping[str, int], limits: Limits, l2: L2, l2_bytes: int, gpu: str = ""
) -> float | None:
    """The least time in microseconds that a call takes at the GPU's limits of memory and arithmetic.

    It is the larger of what the two need. Memory counts at the rate of what the kernel does with it (reads, writes,
    both), and not at all where everything may stay in a warm L2. Arithmetic counts where it is in f32, which is what
    was measured, and on tensor cores where the data sheet of the `gpu` is known. None where neither counts.
    """
    spec = plan.spec
    moved, operations = work_of(plan, sizes)
    reads, writes = any(t.reads for t in spec.tensors), any(t.writes for t in spec.tensors)
    rate = limits.copy if reads and writes else limits.read if reads else limits.fill
    found = []
    if l2 == "cold" or moved > l2_bytes:
        found.append(moved / rate / 1e3)
    if operations and arithmetic(spec) == CUDA_F32 and limits.fma:
        found.append(operations / limits.fma / 1e6)
    if (products := products_us(spec, operations, gpu)) is not None:
        found.append(products)
    return max(found, default=None)
