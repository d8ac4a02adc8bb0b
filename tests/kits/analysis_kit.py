"""The actual accesses of the compiled PTX of a generated module, address by address, and their cost counted by hand.

`Recording` runs one block of a module's kernel in the emulator and notes every access of its threads to global and
shared memory. Sizes are the least that fill the tile of that block.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cutegen.dtypes import Dtype
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.gemm.staged.plan import GemmPlan, WorkspacePlan
from cutegen.families.probe.plan import ProbePlan
from cutegen.language.model import Tensor
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.emulator.host.builds import Build

WARP, LINE = 32, 128
KINDS: dict[Dtype, tuple[str, int, type]] = {
    Dtype.bf16: ("V", 16, np.uint16),
    Dtype.f16: ("f", 16, np.float16),
    Dtype.f8e4m3: ("e4m3fn", 8, np.uint8),
    Dtype.f8e5m2: ("e5m2", 8, np.uint8),
}


# --------------------------------------------------------------------------------------------- counting by hand


def flat(value: Any) -> list[int]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [int(value)]


def image(shape: Any, stride: Any) -> np.ndarray:
    """The values of a layout at 0, 1, ..., first mode fastest."""
    found = np.zeros(1, np.int64)
    for extent, step in zip(flat(shape), flat(stride), strict=True):
        found = (np.arange(extent)[:, None] * step + found[None, :]).reshape(-1)
    return found


def sectors_of(addresses: Sequence[int], width: int) -> int:
    """32-byte pieces of memory that accesses of `width` bytes touch."""
    return len({byte // 32 for address in addresses for byte in range(address, address + width)})


def bank_passes(by_lane: Mapping[int, int], width: int) -> list[list[dict[int, int]]]:
    """Of one instruction of one warp, lane -> byte address: for each pass, for each bank, word -> a lane that wants it.

    A pass moves 128 bytes: the whole warp's for accesses of up to 4 bytes, a half's for 8, a quarter's for 16.
    """
    lanes = WARP // max(1, width // 4)
    passes = []
    for start in range(0, WARP, lanes):
        banks: list[dict[int, int]] = [{} for _ in range(32)]
        for lane in range(start, start + lanes):
            if lane in by_lane:
                for byte in range(by_lane[lane], by_lane[lane] + width):
                    banks[byte // 4 % 32].setdefault(byte // 4, lane)
        if any(banks):
            passes.append(banks)
    return passes


def ways_of(by_lane: Mapping[int, int], width: int) -> list[int]:
    """Of each pass: the most words that one bank is asked for."""
    return [max(len(words) for words in banks) for banks in bank_passes(by_lane, width)]


# --------------------------------------------------------------------------------------------------- recording


@dataclass(frozen=True)
class Event:
    """One instruction, executed by some threads of the block: the byte address of each."""

    space: str
    kind: str  # read, write
    instruction: int  # its line in the PTX
    width: int  # bytes
    addresses: Mapping[int, int]  # thread -> address

    def of_warp(self, warp: int) -> dict[int, int]:
        return {t % WARP: a for t, a in self.addresses.items() if t // WARP == warp}


@dataclass
class Recording:
    """`events` in the order of execution; `bases` has each tensor's address, `strides` its elements' strides.

    `fills` is the workspace of a gemm that the kernel fills, None for the kernel that writes the output.
    """

    plan: Plan
    sizes: Mapping[str, int]
    fills: WorkspacePlan | None = None
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)  # bytes
    events: list[Event] = field(default_factory=list)
    shared: int = 0
    threads: int = 0

    def tensor_of(self, event: Event) -> str:
        address = next(iter(event.addresses.values()))
        return next(name for name, base in self.bases.items() if 0 <= address - base < self.spans[name])

    def of_tensor(self, name: str, kind: str) -> list[Event]:
        """Accesses to a tensor in global memory."""
        return [e for e in self.events if e.space == "global" and e.kind == kind and self.tensor_of(e) == name]

    def of_shared(self, start: int, end: int, kind: str) -> list[Event]:
        """Accesses to these bytes of shared memory."""
        found = [e for e in self.events if e.space == "shared" and e.kind == kind]
        return [e for e in found if start <= next(iter(e.addresses.values())) < end]


def full_sizes(plan: Plan, fills: WorkspacePlan | None = None) -> dict[str, int]:
    """Sizes for which the first block has a whole tile; those that the spec fixes as they are."""
    spec = plan.spec
    if isinstance(plan, ProbePlan):
        return dict(spec.static)
    sizes = dict.fromkeys(spec.output.shape, 1) | dict(plan.tile)  # of a batch, which has no tile, one matrix
    if isinstance(plan, ElementwisePlan) and plan.partition == "inner":
        left = plan.threads
        for i in plan.tile_order:
            mode = spec.output.shape[i]
            tiles = -(-spec.static[mode] // plan.tiler[i]) if mode in spec.static else left
            sizes[mode], left = tiles * plan.tiler[i], -(-left // tiles)
    if fills is not None:
        sizes |= dict(zip((fills.mode, fills.k), fills.tile, strict=True))
    for mode, divisor in spec.divisible.items():
        sizes[mode] = -(-sizes[mode] // divisor) * divisor
    return sizes | dict(spec.static)


def strides_apart(tensor: Tensor, sizes: Mapping[str, int], static: Mapping[str, int]) -> tuple[int, ...]:
    """In elements: 1 along the contiguous mode, whole cache lines and one more along the others; where the sizes of all
    modes inside are fixed, no more than the alignment demands."""
    line, unit = LINE // tensor.dtype.bytes, max(1, (tensor.align or 1) // tensor.dtype.bytes)
    strides, step, packed = {}, 1, True
    for mode in [tensor.major, *(m for m in reversed(tensor.shape) if m != tensor.major)]:
        strides[mode] = step
        packed = packed and mode in static
        step *= sizes[mode]
        step = -(-step // unit) * unit if packed else -(-step // line) * line + line
    return tuple(strides[mode] for mode in tensor.shape)


def workspace_of(x: WorkspacePlan) -> str:
    """The name under which its accesses are recorded."""
    return f"{x.tensor.name}'s workspace"


@lru_cache(maxsize=1)
def _built(path: Path, text: str, target: str) -> Build:
    """A module's code, once for all the kernels that it has."""
    from cutegen.emulator.host.builds import build
    from cutegen.verification.executor import load_module

    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    module = load_module(path)
    made = build(module, target, lines=False)
    del sys.modules[module.__name__]
    return made


def record(
    plan: Plan, folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, fills: WorkspacePlan | None = None
) -> Recording:
    """Compiles a module of the plan for its first target and runs it on one block's worth of data: of the kernel that
    `fills` a workspace, or of the one that writes the output."""
    from cutegen.emulator import TensorArgument, bind, launch, place

    spec = plan.spec
    made = _built(folder / f"{spec.kernel}.py", text, spec.targets[0])
    found = Recording(plan, full_sizes(plan, fills), fills)
    bound, arguments = [], []
    spaces = {workspace_of(x): x for x in plan.workspaces} if isinstance(plan, GemmPlan) else {}
    for number, name in enumerate((*(t.name for t in spec.tensors), *spaces)):
        tensor = spaces[name].tensor if name in spaces else spec.tensor(name)
        shape = tuple(found.sizes[mode] for mode in tensor.shape)
        strides = strides_apart(tensor, found.sizes, spec.static)
        if name in spaces:
            shape = (-(-shape[0] // spaces[name].write) * spaces[name].write, shape[1])
            strides = (1, shape[0])
        kind, bits, dtype = KINDS.get(tensor.dtype) or ("f" if tensor.dtype.is_float else "i", tensor.dtype.bits, None)
        dtype = np.dtype(dtype or f"{kind}{bits // 8}")
        elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        data = np.zeros(elements * dtype.itemsize + 2 * LINE, np.uint8)
        data = data[-data.ctypes.data % LINE :][: elements * dtype.itemsize].view(dtype)
        view = np.lib.stride_tricks.as_strided(data, shape, tuple(s * dtype.itemsize for s in strides))
        bound.append(bind(view, name, "inout", place(view.ctypes.data, number)))
        arguments.append(TensorArgument(bound[-1].at, shape, strides, kind, bits))
        found.strides[name], found.bases[name] = strides, bound[-1].at
        found.spans[name] = bound[-1].span
    tensors = len(spec.tensors)
    scalars = (1.0 if s.dtype.is_float else 1 for s in spec.scalars)
    spare = (0 for _ in {*re.findall(r"\bspare_\w+(?=:)", text)})  # no memory for copies, which none of these needs
    launches = made.host(*arguments[:tensors], *scalars, *spare, *arguments[tensors:])
    assert len(launches) == len(spaces) + 1
    wanted = launches[-1] if fills is None else launches[[x.tensor for x in spaces.values()].index(fills.tensor)]
    for asked in launches:
        with monkeypatch.context() as patched:
            if asked is wanted:
                found.shared, found.threads = asked.shared, prod(asked.block)
                _note_accesses(found, patched)
            report = launch(
                *(made.ptx, asked.kernel, asked.grid, asked.block, asked.parameters, bound, asked.shared),
                cluster=asked.cluster,
                early=asked.early,
            )
        report.check()
    return found


def _note_accesses(found: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes every access of the block with number 0 to the emulator's memories."""
    from cutegen.emulator.memory.global_access import GlobalAccess
    from cutegen.emulator.memory.shared_memory import BASE, SharedMemory
    from cutegen.emulator.operations.shared_loads import SharedLoads

    def one_by_one(loads: SharedLoads, *lanes: Any) -> None:
        for one in loads.each:
            one(*lanes)

    monkeypatch.setattr(SharedLoads, "__call__", one_by_one)  # as each of which they are noted
    inside = [0]  # accesses that an access makes, of its parts

    def watch(memory: type, method: str, space: str, kind: str, opcode: str = "") -> None:
        original = getattr(memory, method)
        signature = inspect.signature(original)

        def watched(*args: Any, **more: Any) -> Any:
            given = signature.bind(*args, **more).arguments
            if not inside[0] and opcode in ("", given["instruction"].opcode):
                count = len(given["values"]) if "values" in given and method == "store" else given.get("count", 1)
                at = np.asarray(given["address"]).astype(np.int64) + given["offset"]
                if space == "shared":
                    at = at - BASE
                _note(found, space, kind, given["instruction"], given["size"] * count, at, given["mask"], given["self"])
            inside[0] += 1
            try:
                return original(*args, **more)
            finally:
                inside[0] -= 1

        monkeypatch.setattr(memory, method, watched)

    watch(GlobalAccess, "load", "global", "read")
    watch(GlobalAccess, "store", "global", "write")
    watch(SharedMemory, "load", "shared", "read")
    watch(SharedMemory, "store", "shared", "write")
    watch(SharedMemory, "copy", "shared", "write")
    watch(SharedMemory, "access", "shared", "write", "stmatrix")  # which stores the rows of whole warps at once


def _note(
    found: Recording, space: str, kind: str, instruction: Any, width: int, at: Any, mask: Any, memory: Any
) -> None:
    shape = memory.shape
    at = np.broadcast_to(at.reshape((1,) * (2 - at.ndim) + at.shape), shape)[:, 0]
    active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    threads = np.flatnonzero(active[:, 0])
    if space == "global" and memory.hazards.lanes[0, 0] != 0:
        return  # another block comes first in this batch
    if len(threads):
        found.events.append(Event(space, kind, instruction.line, width, {int(t): int(at[t]) for t in threads}))
