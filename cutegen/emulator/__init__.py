"""Runs compiled PTX on the CPU: a parser, exact instruction semantics and a machine that checks every access.

`call` runs any function that launches kernels of CuTeDSL, with tensors of the CPU, and `emulating` is what it does it
in, a context for larger pieces of code; `tensor` says what a function may assume of a tensor. `launch` runs one kernel
of any PTX, `run` a generated module, launched as its own compiled host code would. What is wrong with a kernel raises
`FaultError`.

Its folders, each of which imports from those above it only:
    ptx           the text of a PTX file, parsed to data
    arithmetic    exact rounding, floating-point formats, fused multiply-add
    instructions  what each instruction on registers computes
    lanes.py      the threads that run at once, as arrays
    checks        faults, and what finds them: poison, races, clocks, reads in flight
    memory        tensors in global memory, shared memory, asynchronous copies
    synchronisation   barriers of warps, blocks and clusters, mbarriers, and who may reach whose shared memory
    operations    the state of the lanes, and instructions as functions that change it
    warps         what the threads of a warp do together: shuffles, votes, matrix products
    machine       programs, and running their blocks and warps in some order
    host          launches, compiled host code, generated modules
    calls         functions of anyone: what CuTeDSL compiles while they run, and a GPU that torch takes to be there

What is not emulated is refused by name (UnsupportedInstruction) before anything runs. Of PTX that is: atomics (atom,
red); loads and stores with a scope (relaxed, acquire, release), and fences but fence.acq_rel of the cluster or wider,
fence.mbarrier_init and fence.proxy.async; generic addresses of local memory; calls of functions through a register,
recursive ones, and of functions that the PTX does not have; clocks; bar.red, and barriers whose count is in a register,
or whose number is and that have no count; mbarrier.arrive_drop and mbarrier.pending_count; cluster sizes that the PTX
itself asks for; activemask; matrix instructions but ldmatrix, stmatrix, mma.sync of m16n8 and wgmma of bf16, f16, tf32,
e4m3 and e5m2, A in registers too, with sums in f32; of tcgen05 shift, ld with reductions, cp of 4x256b or from another
format, and products of integers, sparse and weight-stationary ones; asynchronous copies but cp.async, st.async,
cp.async.bulk and tiles by cp.async.bulk.tensor, which may be loaded, to several blocks too, stored and prefetched (no
reductions, im2col, gather or scatter, and tensor maps in the kernel's parameters only), and of those but the last and
of other accesses ignore-src and cache policies.

Where blocks of a cluster, threads at an mbarrier or some warps of a block meet, vector clocks say what is ordered
(`checks.clocks`); elsewhere the barriers of whole blocks do. Some things that PTX allows are faults here: threads of a
warp that meet at several shuffles or votes of one kind, in different branches (fault kind `converged`); different
stores by tensor maps of several threads of a warp at once; and to rely on an asynchronous store or copy for the order
of anything but its own bytes. In a launch by programmatic stream serialization (use_pdl), a thread that touches a
tensor must have executed griddepcontrol.wait, or be ordered after a thread of its block or cluster that has, also for
what no earlier kernel writes (fault kind `early`). Some that PTX does not allow are not seen: an mbarrier instruction
whose scope is too small, as each is taken to be as wide as the cluster; a bulk copy that reads global memory which the
kernel has written without a proxy fence; a try of an mbarrier whose answer the kernel does not look at, if the phase
had ended in every order that ran; zeros that are written to accumulators behind the fence that ought to follow; and
missing tcgen05.fence and tcgen05.wait::ld.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutegen.emulator.calls.call import Called, call
    from cutegen.emulator.calls.emulating import CompileError, emulating
    from cutegen.emulator.calls.emulation import Emulation
    from cutegen.emulator.calls.marked import tensor
    from cutegen.emulator.checks.faults import Fault, FaultError
    from cutegen.emulator.host.capture import CaptureError, HostCode, Launch
    from cutegen.emulator.host.device_tensors import on_device
    from cutegen.emulator.host.emulated import Emulated, FixedGrid
    from cutegen.emulator.host.launching import Report, launch
    from cutegen.emulator.host.modules import install, run
    from cutegen.emulator.host.packing import TensorArgument
    from cutegen.emulator.memory.bound_tensors import BoundTensor, bind, place
    from cutegen.emulator.ptx.errors import PtxSyntaxError, UnlikeRounds, UnsupportedInstruction

_HOMES = {
    "Called": "calls.call",
    "CompileError": "calls.emulating",
    "Emulation": "calls.emulation",
    "call": "calls.call",
    "emulating": "calls.emulating",
    "tensor": "calls.marked",
    "CaptureError": "host.capture",
    "HostCode": "host.capture",
    "Launch": "host.capture",
    "TensorArgument": "host.packing",
    "Fault": "checks.faults",
    "FaultError": "checks.faults",
    "Report": "host.launching",
    "launch": "host.launching",
    "BoundTensor": "memory.bound_tensors",
    "bind": "memory.bound_tensors",
    "place": "memory.bound_tensors",
    "Emulated": "host.emulated",
    "FixedGrid": "host.emulated",
    "install": "host.modules",
    "on_device": "host.device_tensors",
    "run": "host.modules",
    "PtxSyntaxError": "ptx.errors",
    "UnlikeRounds": "ptx.errors",
    "UnsupportedInstruction": "ptx.errors",
}
__all__ = [
    "BoundTensor",
    "Called",
    "CaptureError",
    "CompileError",
    "Emulated",
    "Emulation",
    "Fault",
    "FaultError",
    "FixedGrid",
    "HostCode",
    "Launch",
    "PtxSyntaxError",
    "Report",
    "TensorArgument",
    "UnlikeRounds",
    "UnsupportedInstruction",
    "bind",
    "call",
    "emulating",
    "install",
    "launch",
    "on_device",
    "place",
    "run",
    "tensor",
]


def __getattr__(name: str) -> Any:
    """Imports the module that a public name is defined in when the name is first used.

    So importing this package imports neither numpy nor the rest of the emulator. Raises AttributeError for other names.
    """
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
