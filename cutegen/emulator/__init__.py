"""Runs compiled PTX on the CPU: a parser, exact instruction semantics and a machine that checks every access.

`launch` runs one kernel of any PTX; `run` a generated module, launched as its own compiled host code would.
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
