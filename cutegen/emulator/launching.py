"""The public face: run one kernel's PTX, or a whole generated module, on the CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from cutegen.emulator.allocation import keep_freed_memory
from cutegen.emulator.faults import Fault, FaultError, located
from cutegen.emulator.lanes import Stop
from cutegen.emulator.machine import Machine, Triple
from cutegen.emulator.memory import BoundTensor, GlobalMemory, Role
from cutegen.emulator.program import Program, build
from cutegen.emulator.ptx import parse
from cutegen.emulator.shared import BASE
from cutegen.emulator.types import Module

_LEAST_LIMIT, _PER_ELEMENT = 100_000, 64  # instructions of a thread
_VARIABLES = 1 << 58  # address of the first variable of the module


@dataclass(frozen=True)
class Report:
    """What a launch did. `faults` is empty if nothing was wrong; a launch stops at its first fault.

    `instructions` counts them for every thread and order; `approximate` names those of the kernel whose result PTX only
    bounds. `seed` to `seed + orders - 1` are the orders in which warps and blocks ran.
    """

    kernel: str
    grid: Triple
    block: Triple
    shared: int
    seed: int
    orders: int
    faults: tuple[Fault, ...]
    instructions: int
    seconds: float
    approximate: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults

    def check(self) -> None:
        """Raises FaultError for the first fault."""
        if self.faults:
            raise FaultError(self.faults[0])

    def __str__(self) -> str:
        head = (
            f"{'ok' if self.ok else 'FAULT'}: {self.kernel[:60]} {self.grid} x {self.block}, "
            f"{self.instructions} instructions in {self.seconds:.3f} s"
        )
        return "\n".join((head, *map(str, self.faults)))


_keep_memory = lru_cache(maxsize=1)(keep_freed_memory)


@lru_cache(maxsize=64)
def module_of(ptx: str) -> Module:
    """The parsed PTX. Raises PtxSyntaxError or UnsupportedInstruction."""
    return parse(ptx)


@lru_cache(maxsize=64)
def program_of(ptx: str, kernel: str | None) -> Program:
    """The kernel made ready to run; kept for the next launch. Raises UnsupportedInstruction, KeyError."""
    module = module_of(ptx)
    return build(module, module.kernel(kernel))


def launch(
    ptx: str,
    kernel: str | None,
    grid: Triple | int,
    block: Triple | int,
    parameters: bytes,
    tensors: Sequence[BoundTensor],
    shared: int = 0,
    *,
    seed: int = 0,
    orders: int = 1,
    limit: int | None = None,
    source_file: str | None = None,
) -> Report:
    """Runs one kernel and writes its results to the tensors.

    `kernel` may be None if the PTX has only one. `parameters` is the parameter space as bytes; pointers in it are
    addresses of `tensors` (`BoundTensor.at`), which are all the memory that there is. `shared` is dynamic shared memory
    in bytes. `seed` 0 runs blocks and warps in their order, any other number in a random one; with `orders` above 1 the
    seeds that follow run too, on the same data, and must give the same bits. `limit` bounds the instructions of a
    thread; by default it follows from the tensors' sizes. `source_file` is where PTX line information points (by
    default the file that the PTX names).

    After a fault the tensors hold what was written until then. Raises PtxSyntaxError, UnsupportedInstruction (before
    anything runs), KeyError for an unknown kernel, ValueError for a launch that no device takes.
    """
    start = time.perf_counter()
    _keep_memory()
    program = program_of(ptx, kernel)
    grid, block = _triple(grid), _triple(block)
    _check_launch(program, grid, block, parameters, tensors)
    module = module_of(ptx)
    names, extra = _variables(module, program)
    symbols = names | {name: BASE + offset for name, offset in program.symbols.items()}
    if limit is None:
        limit = _LEAST_LIMIT + _PER_ELEMENT * sum(t.elements for t in tensors)
    file = source_file or source_of(ptx)
    first: GlobalMemory | None = None
    faults: list[Fault] = []
    instructions = 0
    for order in range(seed, seed + orders):
        memory = GlobalMemory([*tensors, *extra], program.unit)
        machine = Machine(program, grid, block, parameters, memory, shared, symbols, seed=order, limit=limit)
        try:
            machine.run()
        except Stop as stop:
            faults.append(_fault(stop, machine, program, file))
        else:
            faults += _unwritten(memory, program)
        instructions += machine.counters.instructions
        if first is None:
            first = memory
        elif not faults:
            faults += _differences(first, memory, program, order)
        if faults:
            break
    assert first is not None
    for arena in first.arenas:
        arena.copy_back()
    return Report(
        program.kernel.name,
        grid,
        block,
        program.dynamic_start + shared,
        seed,
        orders,
        tuple(faults),
        instructions,
        time.perf_counter() - start,
        tuple(dict.fromkeys(i.name for i in program.approximate)),
    )


def source_of(ptx: str) -> str | None:
    """The first file that the PTX names as its source."""
    for line in reversed(ptx.splitlines()):
        if line.lstrip().startswith(".file"):
            parts = line.split('"')
            if len(parts) > 1:
                return parts[1]
    return None


def _triple(sizes: Triple | int) -> Triple:
    return (sizes, 1, 1) if isinstance(sizes, int) else sizes


def _check_launch(
    program: Program, grid: Triple, block: Triple, parameters: bytes, tensors: Sequence[BoundTensor]
) -> None:
    wanted = program.kernel.max_threads
    if min(*grid, *block) < 1 or prod(block) > 1024:
        raise ValueError(f"no device takes grid {grid}, block {block}")
    if wanted is not None and prod(block) > prod(wanted):
        raise ValueError(f"the kernel is compiled for blocks of {wanted} threads, got {block}")
    size = max((p.offset + p.size for p in program.kernel.parameters), default=0)
    if len(parameters) != size:
        raise ValueError(f"the kernel has {size} bytes of parameters, got {len(parameters)}")
    spans = sorted((t.at, t.at + t.span, t.name) for t in tensors)
    for (_, end, first), (start, _, second) in zip(spans, spans[1:], strict=False):
        if start < end:
            raise ValueError(
                f"{first} and {second} share addresses; give each tensor its own, with emulator.place, so that an "
                "access that leaves one cannot look like one of the other"
            )


def _variables(module: Module, program: Program) -> tuple[dict[str, int], list[BoundTensor]]:
    """The module's variables in global and constant memory."""
    names: dict[str, int] = {}
    tensors = []
    for number, variable in enumerate((*module.variables, *program.kernel.variables)):
        if variable.space == "shared":
            continue
        data = np.frombuffer((variable.data or b"").ljust(variable.size, b"\0"), np.uint8).copy()
        names[variable.name] = _VARIABLES + (number << 40)
        role: Role = "in" if variable.space == "const" else "inout"
        tensors.append(
            BoundTensor(
                variable.name, int(data.ctypes.data), (variable.size,), (1,), 1, role, names[variable.name], data
            )
        )
    return names, tensors


def _fault(stop: Stop, machine: Machine, program: Program, file: str | None) -> Fault:
    block = thread = None
    if stop.lane is not None:
        block, thread = machine.place(stop.lane)
    fault = Fault(
        stop.kind,
        stop.explanation,
        block=block,
        thread=thread,
        address=stop.address,
        tensor=stop.tensor,
        element=stop.element,
    )
    return located(fault, program.kernel.name, stop.instruction, file)


def _unwritten(memory: GlobalMemory, program: Program) -> list[Fault]:
    faults = []
    for arena in memory.arenas:
        if arena.role != "out":
            continue
        count, offset = arena.unwritten()
        if count:
            address = arena.tensor.at + offset
            faults.append(
                Fault(
                    "output-not-written",
                    f"{count} of {arena.tensor.elements} elements of {arena.name} were never written",
                    program.kernel.name,
                    address=address,
                    tensor=arena.name,
                    element=arena.element(address),
                )
            )
    return faults


def _differences(first: GlobalMemory, second: GlobalMemory, program: Program, seed: int) -> list[Fault]:
    """Outputs in which two orders of the same launch disagree."""
    for one, other in zip(first.arenas, second.arenas, strict=True):
        different = one.bytes != other.bytes
        if different.any():
            address = one.start + int(different.argmax())
            text = f"{one.name} is another one when warps and blocks run in the order of seed {seed}"
            name = program.kernel.name
            return [
                Fault("order-dependent", text, name, address=address, tensor=one.name, element=one.element(address))
            ]
    return []


__all__ = ["Report", "launch", "module_of", "program_of", "source_of"]
