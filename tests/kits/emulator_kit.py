"""Small PTX kernels and the tensors to run them on, and a module of two kernels that compiles soon."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cutegen.emulator import BoundTensor, Report, bind, launch, place
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.memory.bound_tensors import Role
from cutegen.emulator.native.building import compiler, core_folder
from cutegen.emulator.native.library import Core, load

THROUGH_A_WORKSPACE = """
cutegen: 1
kernel: through_a_workspace
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K}
  B: {shape: [N, K], dtype: f32, major: K}
  C: {shape: [M, N], dtype: f32, align: 4, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 32, N: 32, K: 8}
  mma: {thread_layout: "(8,8,1)"}
  workspace: {B: {major: N, thread_layout: "(4,8)"}}
divisible: {K: 4}
"""
HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n"


def kernel(body: str, parameters: int = 2, shared: int = 0, threads: int | None = None) -> str:
    """A kernel `k` with 64-bit parameters p0, p1, ... in %rd0, %rd1, ..., %tid.x in %r0 and %ctaid.x in %r1."""
    declared = ",\n".join(f".param .u64 k_p{i}" for i in range(parameters))
    loads = "\n".join(f"ld.param.u64 %rd{i}, [k_p{i}];" for i in range(parameters))
    memory = f".shared .align 16 .b8 smem[{shared}];" if shared else ""
    bound = f".reqntid {threads}, 1, 1" if threads else ""
    return f"""{HEAD}
.visible .entry k({declared})
{bound}
{{
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<40>;
{memory}
{loads}
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
{body}
ret;
}}
"""


def tensors(*arrays: tuple[np.ndarray, Role]) -> list[BoundTensor]:
    """Bound under the names A, B, C, ..., far apart."""
    return [bind(a, "ABCDEFG"[i], role, place(a.ctypes.data, i)) for i, (a, role) in enumerate(arrays)]


def go(
    ptx: str, bound: list[BoundTensor], *, grid: Any = 1, block: Any = 32, extra: bytes = b"", **more: Any
) -> Report:
    """Runs `k` with the tensors' addresses as its first parameters."""
    parameters = b"".join(struct.pack("<Q", t.told) for t in bound) + extra
    return launch(ptx, "k", grid, block, parameters, bound, **more)


def fault(ptx: str, bound: list[BoundTensor], **more: Any) -> Any:
    """The one fault of a run."""
    report = go(ptx, bound, **more)
    assert len(report.faults) == 1, str(report)
    return report.faults[0]


ELEMENTS = """
mad.lo.s32 %r2, %r1, 32, %r0;
mul.wide.s32 %rd10, %r2, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
"""


def indexed(body: str, shared: int = 256) -> str:
    """A kernel whose threads, 32 a block, have the address of a word each: in p0 %rd11, in p1 %rd12, in smem %r6."""
    return kernel(ELEMENTS + body, shared=shared)


def numbers(n: int = 32) -> np.ndarray:
    """0, 1, ... as words."""
    return np.arange(n, dtype=np.uint32)


def in_and_out(n: int = 32, role: Role = "out") -> list[BoundTensor]:
    """An input A of `n` numbers, and B of `n` zeros."""
    return tensors((numbers(n), "in"), (np.zeros(n, np.uint32), role))


def native_core() -> Core:
    """The compiled core; the test is skipped on a machine without a C compiler."""
    if compiler() is None:
        pytest.skip("needs a C compiler")
    found = load(core_folder())
    assert isinstance(found, Core), found
    return found


def said(act: Callable[[], object]) -> object:
    """The result of something, as bytes where it is an array, or the fault that it raises, in words."""
    try:
        found = act()
    except Stop as stop:
        return f"{stop} {stop.lane} {stop.witnesses}"
    return found.tobytes() if isinstance(found, np.ndarray) else found
