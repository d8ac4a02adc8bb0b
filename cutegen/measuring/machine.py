"""Describes the GPU that measurements run on, its driver and the software around it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cutegen.atoms.targets import TARGETS
from cutegen.measuring.model import Machine
from cutegen.peers.given import PACKAGES
from cutegen.version import __version__

_DRIVER = Path("/proc/driver/nvidia/version")
_PACKAGES = ("torch", "nvidia-cutlass-dsl", "apache-tvm-ffi", "triton", *PACKAGES.values())
_CLOCKS = {"clocks.sm": "sm", "clocks.mem": "memory", "clocks.max.sm": "sm_max", "clocks.max.mem": "memory_max"}
# By compute capability: the target whose code runs on such a device
ARCHITECTURES: Mapping[str, str] = {f"{t.number // 10}.{t.number % 10}": t.name for t in TARGETS.values()}


def this_machine() -> Machine:
    """Looks at the current CUDA device, with the clocks that it has now; without its limits."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    asked = _ask_driver(str(getattr(properties, "uuid", "")))
    return Machine(
        gpu=properties.name,
        capability=f"{properties.major}.{properties.minor}",
        driver=asked.pop("driver_version", "") or _driver_file(),
        versions=_versions(torch.version.cuda or ""),
        sms=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
        clocks={_CLOCKS[key]: int(value) for key, value in asked.items() if value.isdigit()},
    )


def _versions(cuda: str) -> dict[str, str]:
    found = {"cutegen": __version__, "python": platform.python_version(), "cuda": cuda}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _ask_driver(uuid: str) -> dict[str, str]:
    """Asks nvidia-smi for the driver's version and the clocks in MHz; gives nothing where it does not answer."""
    keys = ["driver_version", *_CLOCKS]
    command = ["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader,nounits"]
    if uuid:
        command.append(f"--id={uuid if uuid.startswith('GPU-') else f'GPU-{uuid}'}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in (done.stdout.splitlines() or [""])[0].split(",")]
    return dict(zip(keys, values, strict=True)) if len(values) == len(keys) else {}


def _driver_file() -> str:
    try:
        found = re.search(r"\b(\d{3}\.\d+(\.\d+)*)\b", _DRIVER.read_text())
    except OSError:
        return ""
    return found[1] if found else ""
