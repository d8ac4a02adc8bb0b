"""Modules that keep the contract of generated ones with plain torch on the CPU, and an executor for them.

`BUG` at the top of a module's text breaks it in one way; the kernels work on tiles as real ones do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from cutegen.contract import as_called
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.families.gemm.staged.plan import WorkspacePlan
from cutegen.families.gemm.staged.schedule import GemmSchedule, Mma
from cutegen.language.model import KernelSpec, Scalar, Tensor, Tolerance, Verify
from cutegen.planning.plan import Plan
from cutegen.verification.costs import LARGEST_TENSOR
from cutegen.verification.executor import Ran, no_judge
from cutegen.verification.programs import Program

Judge = Callable[[str], None]


class CpuExecutor:
    name, device = "cpu (plain torch)", "cpu"
    generated = chooses_blocks = False
    element_limit: int | None = LARGEST_TENSOR

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: object,
    ) -> Ran:
        places, named = as_called(spec, args)
        result = getattr(module, spec.kernel)(*places, **named)
        judge("")
        return Ran(1, result if isinstance(result, tuple) else (result,))

    def prepare(self, module: ModuleType, spec: KernelSpec) -> None:
        pass

    def explains(self) -> bool:
        return False

    @contextmanager
    def known(self, module: ModuleType, spec: KernelSpec) -> Iterator[None]:
        yield

    def beside(self, module: ModuleType, spec: KernelSpec) -> CpuExecutor:
        return self

    def elsewhere(self, view: torch.Tensor) -> Sequence[tuple[str, torch.Tensor]]:
        return [("meta", torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device="meta"))]

    def untouched(self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor | None:
        return None

    def far_apart(self, view: torch.Tensor, mode: int, stride: int) -> torch.Tensor | None:
        return None

    def for_targets(self, targets: Sequence[str]) -> CpuExecutor:
        return self

    def has_code_for(self, targets: Sequence[str]) -> bool:
        return True

    def launched(self, module: ModuleType, spec: KernelSpec, args: Sequence[object]) -> Sequence[Any]:
        raise AssertionError("nothing is launched here")

    def program(self, module: ModuleType, spec: KernelSpec, flags: Sequence[str], broken: bool = False) -> Program:
        raise AssertionError("these modules are no programs")

    def synchronize(self) -> None:
        pass

    def alive(self) -> bool:
        return True


ADD_TILE = {"M": 4, "N": 16}
GEMM_TILE = {"M": 8, "N": 8, "K": 4}


@dataclass(frozen=True, kw_only=True)
class HandPlan(Plan):
    """A plan of a spec that nothing was inferred for, with as much of any family's plan as verification asks for."""

    partition: str | None = None
    workspaces: tuple[WorkspacePlan, ...] = ()
    swizzle: int = 1
    largest: tuple[str, int] | None = None
    most_tiles: int | None = None


def plan_of(spec: KernelSpec, tile: Mapping[str, int], stages: int | None = None, **more: Any) -> HandPlan:
    return HandPlan(
        spec=spec, threads=getattr(spec.schedule, "threads", None) or 1 << 20, tile=tile, stages=stages, **more
    )


def add_plan() -> HandPlan:
    return plan_of(add_spec(), ADD_TILE)


def add_spec(dtype: Dtype = Dtype.f32, divisible: dict[str, int] | None = None) -> KernelSpec:
    tensors = (
        Tensor("X", ("M", "N"), dtype, "N", 16),
        Tensor("b", ("N",), dtype, "N", 16),
        Tensor("D", ("M", "N"), dtype, "N", 16, "out"),
    )
    return KernelSpec(
        kernel="add",
        op="elementwise",
        tensors=tensors,
        compute=parse_compute("D = X + b"),
        schedule=ElementwiseSchedule(),
        divisible=divisible or {},
    )


def less_spec() -> KernelSpec:
    x, b, d = add_spec().tensors
    return replace(
        add_spec(), kernel="less", tensors=(x, b, replace(d, dtype=Dtype.bool)), compute=parse_compute("D = X < b")
    )


def both_spec() -> KernelSpec:
    """Two outputs, of two types, from one local value."""
    x, b, d = add_spec().tensors
    e = Tensor("E", ("M", "N"), Dtype.i32, "N", 16, "out")
    statements = parse_compute(["t = X + b", "D = 2 * t", "E = cast(t > D, i32) + coord(N)"])
    return replace(add_spec(), kernel="both", tensors=(x, b, d, e), compute=statements)


def gemm_spec(static: dict[str, int] | None = None, divisible: dict[str, int] | None = None) -> KernelSpec:
    tensors = (
        Tensor("A", ("M", "K"), Dtype.f32, "M", 16),
        Tensor("B", ("N", "K"), Dtype.f32, "K", 16),
        Tensor("C", ("M", "N"), Dtype.f32, "N", 8, "inout"),
    )
    return KernelSpec(
        kernel="gemm",
        op="gemm",
        tensors=tensors,
        compute=parse_compute("C = alpha * (A @ B.T) + beta * C"),
        schedule=GemmSchedule(mma=Mma(accumulator=Dtype.f32)),
        scalars=(Scalar("alpha", Dtype.f32), Scalar("beta", Dtype.f32)),
        static=static or {},
        divisible=divisible or {},
        verify=Verify(({"M": 16, "N": 16, "K": 16}, {"M": 10**4, "N": 10**4, "K": 16}), Tolerance(1e-4, 1e-4)),
    )


CHECKS = """
import torch

def span(t):
    return (t.data_ptr(), t.data_ptr() + (sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1) * t.element_size())

def new(name, size):
    shape, dtype, major, _ = WANTED[name]
    order = sorted(range(len(shape)), key=lambda i: shape[i] == major)
    padded = [*(size[i] for i in order[:-1]), -(-size[order[-1]] // 64) * 64]
    x = torch.empty(padded, dtype=getattr(torch, dtype))[..., : size[order[-1]]]
    return x.permute([order.index(i) for i in range(len(shape))])

def places(t):
    at = torch.tensor(t.data_ptr())
    for n, s in zip(t.shape, t.stride()):
        at = at[..., None] + torch.arange(n) * (s * t.element_size())
    return set((at[..., None] + torch.arange(t.element_size())).flatten().tolist())

def check(tensors):
    sizes, device = {}, None
    for name, t in tensors.items():
        shape, dtype, major, align = WANTED[name]
        if t.dtype != getattr(torch, dtype) and BUG != "no dtype check":
            raise TypeError(f"{name} must be {dtype}, is {t.dtype}")
        if t.device.type != "cpu" and BUG != "no device check":
            raise (RuntimeError if BUG == "wrong error" else ValueError)(f"{name} must be on the CPU")
        if t.requires_grad and torch.is_grad_enabled() and BUG != "no gradient check":
            raise ValueError(f"{name} must not want a gradient")
        if t.dim() != len(shape) and BUG != "no rank check":
            who = name if BUG != "no name" else "a tensor"
            raise ValueError(f"{who} must have {len(shape)} modes")
        for i, mode in enumerate(shape):
            if sizes.setdefault(mode, t.shape[i]) != t.shape[i] and BUG != "no size check":
                raise ValueError(f"{name} has {t.shape[i]} for {mode}, not {sizes[mode]}")
            if mode in STATIC and t.shape[i] != STATIC[mode] and BUG != "no static check":
                raise ValueError(f"{name}: {mode} is fixed at {STATIC[mode]}")
            if t.shape[i] % DIVISIBLE.get(mode, 1) and BUG != "no divisible check":
                raise ValueError(f"{name}: {DIVISIBLE[mode]} must divide {mode}")
            if t.shape[i] == 1 or not t.numel():
                continue
            if mode == major and t.stride(i) != 1 and BUG not in ("no major check", "no strides check"):
                raise ValueError(f"{name} must be {major}-major")
            odd = mode != major and t.stride(i) * t.element_size() % align
            if odd and BUG not in ("no stride check", "no strides check"):
                raise ValueError(f"{name}: strides must be multiples of {align} bytes")
        if t.data_ptr() % align and BUG != "no base check":
            raise ValueError(f"{name} must be aligned to {align} bytes")

def check_alias(out, tensors):
    reach = 1
    for s, n in sorted((s, n) for n, s in zip(tensors[out].shape, tensors[out].stride()) if n > 1):
        reach = reach + s * (n - 1) if reach and s >= reach else 0
    if BUG != "no distinct check" and not reach:
        raise ValueError(f"{out} has elements that share memory")
    for name, t in tensors.items():
        if BUG == "alias by address only":
            bad = t.data_ptr() == tensors[out].data_ptr()
        elif BUG == "alias one way":
            bad = span(t)[0] <= span(tensors[out])[0] < span(t)[1]
        elif BUG == "alias by storage":
            bad = t.untyped_storage().data_ptr() == tensors[out].untyped_storage().data_ptr()
        else:
            bad = span(t)[0] < span(tensors[out])[1] and span(tensors[out])[0] < span(t)[1]
            bad = bad and (BUG == "alias by span" or bool(places(t) & places(tensors[out])))
        if name != out and t.numel() and tensors[out].numel() and bad and BUG != "no alias check":
            raise ValueError(f"{out} overlaps {name}")

def store(d, result, tile):
    m, n = d.shape
    if BUG == "tail":
        m, n = m - m % tile[0], n - n % tile[1]
    if BUG == "rounding":
        result = torch.nextafter(result, torch.full_like(result, torch.inf))
    if BUG == "one element" and result.numel() > 200:
        result[m // 2, n // 3] += 1e-4
    if BUG == "unwritten" and m * n > 1:
        keep = d[-1, -1].clone()
    d[:m, :n] = result[:m, :n]
    if BUG == "unwritten" and m * n > 1:
        d[-1, -1] = keep
    if BUG == "gap" and d.stride(0) > n:
        d.as_strided((m, n + 1), d.stride())[:, n] = 0
    if BUG == "past the end":
        d.as_strided((m + 1, n), d.stride())[m] = 0
    if BUG == "before the start":
        d.as_strided((1,), (1,), d.storage_offset() - 3)[0] = 0
    if BUG == "offset base" and d.data_ptr() % 32:
        d[0] += 1
"""

ADD = """
def kernel(x, b, *, d=None):
    if d is None:
        d = x if BUG == "makes its input" else new("d", x.shape)
    tensors = {"x": x, "b": b, "d": d}
    check(tensors)
    if BUG == "alias late":
        d[...] = 0
    check_alias("d", tensors)
    if d.numel() == 0 and BUG != "empty":
        return d
    if BUG == "empty":
        d.as_strided((1,), (1,))[0] = 0
    if BUG == "crash" and x.shape == (3, 16):
        import os, signal
        os.kill(os.getpid(), signal.SIGBUS)  # of SIGSEGV, TVM FFI would print a stack first, for a second
    if BUG == "hang" and x.shape == (3, 16):
        import time
        time.sleep(1000)
    if BUG == "raises" and x.shape[0] == 1:
        raise RuntimeError("no tile of 1")
    if BUG == "raises once" and x.shape == (3, 16) and not RAISED:
        RAISED.append(True)
        raise RuntimeError("stale state")
    store(d, OP(x, b), (4, 16))
    if BUG == "input":
        x[0, 0] += 1
    if BUG == "input sign":
        x.copy_(torch.where(x == 0, -x, x))
    return d

def reference(x, b, *, d=None):
    if BUG == "reference raises":
        raise KeyError("x")
    if BUG == "reference view":
        return d
    if BUG == "reference dtype":
        return OP(x, b).double()
    if BUG == "reference value":
        return OP(x, b) * 1.000001
    if BUG == "reference writes":
        x[0] = 0
    return OP(x, b)
"""

GEMM = """
def product(a, b):
    a, b = a.contiguous(), b.contiguous()
    if BUG == "k residue":
        k = a.shape[1] - a.shape[1] % 4
        a, b = a[:, :k], b[:, :k]
    if BUG == "k residue twice" and a.shape[1] > 4 and a.shape[1] % 4:
        a, b = torch.cat([a, a[:, :1]], 1), torch.cat([b, b[:, :1]], 1)
    if BUG == "last stage" and a.shape[1] > 12:
        a, b = torch.cat([a[:, :-4], a[:, :4]], 1), b
    if BUG == "narrow":
        return (a.bfloat16() @ b.bfloat16().T).float()
    return a @ b.T

def kernel(a, b, c, alpha, beta):
    tensors = {"a": a, "b": b, "c": c}
    check(tensors)
    check_alias("c", tensors)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, (int, float)) and BUG != "no scalar check":
            raise TypeError(f"{name} must be a number")
    if c.numel() == 0:
        return c
    if BUG == "no k, no epilogue" and a.shape[1] == 0:
        return c
    store(c, alpha * product(a, b) + (0 if BUG == "no beta" else beta) * c, (8, 8))
    return c

def reference(a, b, c, alpha, beta):
    return alpha * (a @ b.T) + beta * c
"""


BOTH = """
def kernel(x, b, *, d=None, e=None):
    d = new("d", x.shape) if d is None else d
    e = new("e", x.shape) if e is None else e
    tensors = {"x": x, "b": b, "d": d, "e": e}
    check(tensors)
    for out in ("d", "e") if BUG != "second not apart" else ("d",):
        check_alias(out, {n: t for n, t in tensors.items() if BUG != "outputs not apart" or n in ("x", "b", out)})
    if d.numel() == 0:
        return d, e
    first, second = results(x, b)
    if BUG == "second wrong":
        second[-1, -1] += 1
    if BUG == "first wrong":
        first[-1, -1] += 1
    if BUG == "second past the end":
        e.as_strided((e.shape[0] + 1, e.shape[1]), e.stride())[e.shape[0]] = 0
    store(d, first, (4, 16))
    if BUG != "second unwritten":
        store(e, second, (4, 16))
    return d, e

def results(x, b):
    t = x + b
    return 2 * t, (t > 2 * t).int() + torch.arange(t.shape[1], dtype=torch.int32)

def reference(x, b, *, d=None, e=None):
    first, second = results(x, b)
    if BUG == "reference alone":
        return first
    if BUG == "reference of three":
        return first, second, second
    if BUG == "reference swapped":
        return second, first
    if BUG == "reference view of the second":
        return first, e
    if BUG == "reference second wrong":
        return first, second + 1
    if BUG == "reference second numbers":
        return first, 1
    if BUG == "reference writes the second":
        e[...] = 0
    return first, second
"""


INPUTS = """
def make_inputs(device, seed, **sizes):
    generator = torch.Generator().manual_seed(0 if BUG == "one seed" else seed)
    return (*(filled(name, generator, sizes) for name in WANTED if name not in NAMED), *SCALARS)

def make_outputs(device, seed, **sizes):
    generator = torch.Generator().manual_seed(seed)
    return {name: filled(name, generator, sizes) for name in NAMED}

def filled(name, generator, sizes):
    x = new(name, [(sizes | STATIC)[mode] for mode in WANTED[name][0]])
    return x.copy_(torch.randn(x.shape, generator=generator) * 4)
"""


def write_module(folder: Path, spec: KernelSpec, bug: str = "") -> Path:
    wanted = {t.argument: (t.shape, t.dtype.torch, t.major, t.align) for t in spec.tensors}
    named = [t.argument for t in spec.named]
    head = f"BUG = {bug!r}\nRAISED = []\nWANTED = {wanted!r}\nNAMED = {named!r}\n"
    head += f"STATIC = {dict(spec.static)!r}\nDIVISIBLE = {dict(spec.divisible)!r}\n"
    body = GEMM if spec.op == "gemm" else BOTH if spec.kernel == "both" else ADD
    operation = f"\nOP = torch.{'lt' if spec.kernel == 'less' else 'add'}\n"
    scalars = tuple(0.5 for _ in spec.scalars)
    tail = INPUTS.replace("SCALARS", repr(scalars))
    if bug != "no compile":
        tail += "\ndef compile_for(arch=None):\n    pass\n"
    path = folder / f"{spec.kernel}.py"
    path.write_text(head + CHECKS + operation + body.replace("def kernel(", f"def {spec.kernel}(") + tail)
    return path
