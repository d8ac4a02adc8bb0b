"""Runs compiled PTX on the CPU: a parser, exact instruction semantics and a machine that checks every access.

`launch` runs one kernel of any PTX; `run` a generated module, launched as its own compiled host code would.

What it does not know it refuses by name (UnsupportedInstruction) before anything runs. Of PTX that is: atomics (atom,
red), fences and loads and stores with a scope (relaxed, acquire, release), .local memory, functions and calls, carries
(add.cc, addc), addresses of parameters, clocks; barriers but bar.sync and barrier.sync of a whole block (no bar.arrive,
bar.red, bar.warp.sync), mbarrier, clusters; activemask, match, elect; matrix instructions but ldmatrix, stmatrix and
mma.sync of m16n8 (no wgmma, no tcgen05); asynchronous copies but cp.async (no bulk copies, no tensor maps), and of that
and of other accesses ignore-src and cache policies. One thing that PTX allows is a fault here: threads of a warp that
meet at several shuffles or votes of one kind, in different branches (`converged`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutegen.emulator.capture import CaptureError, HostCode, Launch, TensorArgument
    from cutegen.emulator.faults import Fault, FaultError
    from cutegen.emulator.launching import Report, launch
    from cutegen.emulator.memory import BoundTensor, bind, place
    from cutegen.emulator.modules import Emulated, install, on_device, run
    from cutegen.emulator.types import PtxSyntaxError, UnsupportedInstruction

_HOMES = {
    "CaptureError": "capture",
    "HostCode": "capture",
    "Launch": "capture",
    "TensorArgument": "capture",
    "Fault": "faults",
    "FaultError": "faults",
    "Report": "launching",
    "launch": "launching",
    "BoundTensor": "memory",
    "bind": "memory",
    "place": "memory",
    "Emulated": "modules",
    "install": "modules",
    "on_device": "modules",
    "run": "modules",
    "PtxSyntaxError": "types",
    "UnsupportedInstruction": "types",
}
__all__ = [
    "BoundTensor",
    "CaptureError",
    "Emulated",
    "Fault",
    "FaultError",
    "HostCode",
    "Launch",
    "PtxSyntaxError",
    "Report",
    "TensorArgument",
    "UnsupportedInstruction",
    "bind",
    "install",
    "launch",
    "on_device",
    "place",
    "run",
]


def __getattr__(name: str) -> Any:
    """numpy is imported only once something is run."""
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
