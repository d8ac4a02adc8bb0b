"""Launches one kernel of PTX on the CPU: checks the launch, runs it in one order or several, and reports faults."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from operator import index
from typing import Any

import numpy as np

from cutegen.atoms.targets import TARGETS
from cutegen.emulator.checks.faults import Fault, FaultError, Note, Stop, Witness, triple
from cutegen.emulator.checks.journal import Journal
from cutegen.emulator.checks.places import place_of
from cutegen.emulator.host.differing_orders import differences, in_tensor, with_accesses
from cutegen.emulator.host.freed_memory import keep_freed_memory
from cutegen.emulator.host.limits import LARGEST_CLUSTER, refused_cluster, refused_sizes
from cutegen.emulator.lanes import WARP
from cutegen.emulator.machine.joined_blocks import Undecided
from cutegen.emulator.machine.machine import Machine, Triple, clusters_of
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.program_builder import build_program
from cutegen.emulator.memory.arenas import GlobalMemory
from cutegen.emulator.memory.bound_tensors import BoundTensor, Role
from cutegen.emulator.ptx.errors import UnlikeRounds
from cutegen.emulator.ptx.model import Instruction, Module
from cutegen.emulator.ptx.parser import parse

_LEAST_LIMIT, _PER_ELEMENT = 100_000, 256  # instructions of a thread: one may have all rows, of an element each
_TRACED = 200_000  # the same, where each instruction is watched
_SHARED = max(target.smem_per_block for target in TARGETS.values())  # of a target that is not in that table


@dataclass(frozen=True)
class Report:
    """The outcome of a launch. `faults` is empty if nothing was wrong; a launch stops at its first fault.

    `shared` is the shared memory of a block in bytes. `seed` to `seed + orders - 1` are the orders of blocks and warps
    that ran. `instructions` counts the instructions that all threads executed in all orders, and `seconds` is the time
    that it took. `approximate` names the instructions of the kernel whose results PTX only bounds, and `contractible`
    the float products and sums that PTX lets the assembler fuse into one instruction that rounds once; the emulator
    does not fuse them.
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
    contractible: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    @property
    def exact(self) -> bool:
        """Whether PTX says every bit of the result."""
        return not self.approximate and not self.contractible

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


class RefusedLaunch(ValueError):
    """A launch that no device takes, or that the kernel is not compiled for; the message says which size it is."""


Chosen = Sequence[int] | None  # the numbers of the blocks that run, x fastest; None: all of a grid

JOINED = "joined"
"""The key in `Program.kept` whose presence says that the program's basic blocks must not be joined."""

_keep_memory = lru_cache(maxsize=1)(keep_freed_memory)


@lru_cache(maxsize=64)
def module_of(ptx: str) -> Module:
    """The parsed PTX, kept for the next call. Raises PtxSyntaxError or UnsupportedInstruction."""
    return parse(ptx)


@lru_cache(maxsize=64)
def program_of(ptx: str, kernel: str | None) -> Program:
    """The program of a kernel, or with None of the only one, kept for the next call.

    Raises what `module_of` raises, UnsupportedInstruction, and KeyError if there is no such kernel.
    """
    module = module_of(ptx)
    return build_program(module, module.kernel(kernel))


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
    blocks: Chosen = None,
    cluster: Triple | int = 1,
    early: bool = False,
    any_grid: bool = False,
    limit: int | None = None,
    source_file: str | None = None,
) -> Report:
    """Runs one kernel and writes its results to the tensors.

        ptx = r'''
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry twice(.param .u64 x) {
        .reg .b32 %r<3>; .reg .b64 %rd<4>;
        ld.param.u64 %rd0, [x];       mov.u32 %r0, %tid.x;
        mul.wide.u32 %rd1, %r0, 4;    add.s64 %rd2, %rd0, %rd1;
        ld.global.b32 %r1, [%rd2];    add.s32 %r2, %r1, %r1;
        st.global.b32 [%rd2], %r2;    ret; }'''
        x = numpy.arange(64, dtype="int32")
        tensor = bind(x, "x", "inout", place(x.ctypes.data, 0))
        print(launch(ptx, "twice", 1, 64, struct.pack("<Q", tensor.at), [tensor]))

    `kernel` may be None if the PTX has only one. `grid`, `block` and `cluster`, the blocks of a cluster, are three
    numbers each, or the first of them. `parameters` is the parameter space as bytes; pointers in it are addresses of
    `tensors` (`BoundTensor.at`), which are all the memory that there is. `shared` is dynamic shared memory in bytes.
    `limit` bounds the instructions of a thread; by default it follows from the tensors' sizes. Of the grid's blocks all
    run, or those with the numbers `blocks`, x fastest, in whole clusters. `early` says that the launch may start before
    what is ahead of it in its stream has ended (programmatic stream serialization). Then a thread must not touch any
    tensor before griddepcontrol.wait. With `any_grid` the grid may have more blocks than a device takes; then only some
    can run here. `source_file` is where PTX line information points (by default the file that the PTX names).

    `seed` is the order in which blocks and warps run: 0 is that of their numbers, any other number a random one, always
    the same. With `orders` above 1 the seeds that follow run too, on the same data, and must give the same bits. Races
    are found in any one order, so this is a second net behind them, of another make.

    After a fault the tensors hold what the first order has written, until the fault if it is that order's. Raises
    PtxSyntaxError, UnsupportedInstruction (before anything runs), KeyError for an unknown kernel, TypeError for
    tensors that are not bound, RefusedLaunch, a ValueError, for a launch that no device takes, and UnlikeRounds, which
    only tensors with a `Fold.elsewhere` bring about. The first call makes
    this process keep memory that it has freed (`keep_freed_memory`), for speed.
    """
    if seed < 0 or orders < 1:
        raise ValueError(f"no orders: seed {seed}, {orders} of them")
    start = time.perf_counter()
    _keep_memory()
    program = program_of(ptx, kernel)
    module = module_of(ptx)
    grid, block, cluster = _triple("grid", grid), _triple("block", block), _triple("cluster", cluster)
    check_launch(ptx, kernel, grid, block, shared, cluster, blocks, any_grid)
    _check_arguments(program, parameters, tensors)
    extra = _variables(program)
    if limit is None:
        limit = _LEAST_LIMIT + _PER_ELEMENT * sum(max(t.elements, *t.shape, 1) for t in tensors)
    file = source_file or module.source
    first: GlobalMemory | None = None
    faults: list[Fault] = []
    instructions = 0

    def machine(memory: GlobalMemory, order: int, limit: int = limit, **more: bool) -> Machine:
        own: dict[str, Any] = {"blocks": blocks, "cluster": cluster, "early": early, **more}
        return Machine(program, grid, block, parameters, memory, shared, seed=order, limit=limit, **own)

    def again(order: int, journal: Journal) -> Machine:
        made = machine(GlobalMemory([*tensors, *extra], program.unit, journal=journal), order)
        made.run()
        return made

    for order in range(seed, seed + orders):
        memory = GlobalMemory([*tensors, *extra], program.unit)
        running = machine(memory, order, joined=JOINED not in program.kept)
        try:
            try:
                running.run()
            except (Stop, Undecided) as why:
                if not running.joined:
                    raise
                if isinstance(why, Undecided):
                    program.kept[JOINED] = False
                memory = GlobalMemory([*tensors, *extra], program.unit)
                running = machine(memory, order)
                running.run()
        except Stop as stop:
            traced = GlobalMemory([*tensors, *extra], program.unit, traced=True)
            slow = machine(traced, order, min(limit, _TRACED), traced=True)
            faults.append(_fault(*_explained(stop, running, slow), program, file))
        else:
            faults += _unwritten(memory, program.kernel.name)
        instructions += running.instructions
        if first is None:
            first = memory
        elif not faults:
            found = differences(first, memory, program.kernel.name)
            faults += [with_accesses(one, again, (seed, order), program.kernel, file) for one in found]
        if faults:
            break
    assert first is not None
    for arena in first.arenas:
        arena.copy_back()
    return Report(
        program.kernel.name,
        grid,
        block,
        program.placement.static + shared,
        seed,
        order - seed + 1,
        tuple(replace(fault, seed=order, target=module.target) for fault in faults),
        instructions,
        time.perf_counter() - start,
        tuple(dict.fromkeys(i.name for i in program.approximate)),
        tuple(dict.fromkeys(i.name for i in program.contractible)),
    )


def _triple(name: str, sizes: Triple | int) -> Triple:
    """Sizes as three whole numbers; `name` is what the ValueError for anything else calls them."""
    try:
        x, y, z = map(index, sizes if isinstance(sizes, Iterable) else (sizes, 1, 1))
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected one whole number or three, got {sizes}") from None
    return x, y, z


def check_launch(
    ptx: str,
    name: str | None,
    grid: Triple,
    block: Triple,
    shared: int,
    cluster: Triple,
    blocks: Chosen = None,
    any_grid: bool = False,
) -> None:
    """Raises RefusedLaunch for a launch that no device takes, or that the kernel is not compiled for; with `any_grid`
    not for a grid of too many blocks.

    Raises ValueError where `blocks` has a part of a cluster, and what `program_of` raises.
    """
    program, target = program_of(ptx, name), module_of(ptx).target
    _check_clusters(target, grid, cluster, blocks)
    if refusal := refused_sizes((1, 1, 1) if any_grid else grid, block):
        raise RefusedLaunch(refusal)
    kernel, total = program.kernel, program.placement.static + shared
    if kernel.required_threads not in (None, block):
        raise RefusedLaunch(f"block {block}: the kernel is compiled for {kernel.required_threads}")
    if kernel.max_threads is not None and prod(block) > prod(kernel.max_threads):
        raise RefusedLaunch(f"block {block}: the kernel is compiled for {prod(kernel.max_threads)} threads at most")
    room = TARGETS[target].smem_per_block if target in TARGETS else _SHARED
    if shared < 0 or total > room:
        raise RefusedLaunch(f"{total} bytes of shared memory: a block has from 0 to {room} on {target}")


def _check_clusters(target: str, grid: Triple, cluster: Triple, blocks: Chosen) -> None:
    """Raises RefusedLaunch for clusters that no device takes, and ValueError where `blocks` has a part of one."""
    if prod(cluster) == 1:
        return
    if target in TARGETS and TARGETS[target].cluster == 1:
        raise RefusedLaunch(f"cluster {cluster}: {target} has no clusters")
    if refusal := refused_cluster(grid, cluster, LARGEST_CLUSTER):
        raise RefusedLaunch(refusal)
    if blocks is not None and clusters_of(grid, cluster, blocks).size != len(set(blocks)):
        raise ValueError(f"blocks: expected whole clusters {cluster}, got a part of one")


def _check_arguments(program: Program, parameters: bytes, tensors: Sequence[BoundTensor]) -> None:
    """Raises TypeError for tensors that are not bound, ValueError for wrong parameters and for shared addresses."""
    strange = next((t for t in tensors if not isinstance(t, BoundTensor)), None)
    if strange is not None:
        raise TypeError(f"tensors: expected what `bind` returns, got {type(strange).__name__}")
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


def _variables(program: Program) -> list[BoundTensor]:
    """The variables in global and constant memory as tensors, with the values that they have at first."""
    tensors = []
    for name, place in program.placement.places.items():
        variable = place.variable
        if variable.space in ("shared", "local", "param"):
            continue
        data = np.frombuffer((variable.data or b"").ljust(variable.size, b"\0"), np.uint8).copy()
        role: Role = "in" if variable.space == "const" else "inout"
        tensors.append(
            BoundTensor(name, int(data.ctypes.data), (variable.size,), (1,), 1, role, place.address, owner=data)
        )
    return tensors


def _explained(stop: Stop, machine: Machine, again: Machine) -> tuple[Stop, Machine]:
    """The fault that stopped a launch, with the origin of a value or who else took part, and the machine that saw it.

    `again` runs the launch once more and keeps all that is left out at first for speed. If a block reads memory before
    anything has written it, and another lane writes it later, the fault is an access that nothing orders.
    """
    if stop.kind not in ("never-written", "unordered"):
        return stop, machine
    found: Stop | None = None
    try:
        again.run()
    except Stop as second:
        found = second
    except UnlikeRounds:  # which takes fewer instructions to find out here
        pass
    if found is not None and found.kind == "unordered" and (stop.kind == "unordered" or found.tensor == again.origin):
        return found, again
    if stop.kind == "never-written":
        if again.first is not None:
            return again.first, again
        if found is not None and found.kind == stop.kind:
            return found, again
    return stop, machine


def _fault(stop: Stop, machine: Machine, program: Program, file: str | None) -> Fault:
    """The fault that a lane has seen, with the lane's block and thread, and the place in the PTX and in the file."""
    block = thread = None
    if stop.lane is not None:
        block, thread = stop.at or machine.coordinates(stop.lane)
    instructions = program.kernel.instructions
    fault = Fault(
        stop.kind,
        stop.explanation,
        program.kernel.name,
        block=block,
        thread=thread,
        address=stop.address,
        tensor=stop.tensor,
        element=stop.element,
        notes=tuple(_note(witness, machine, instructions, file) for witness in stop.witnesses),
    )
    if stop.instruction is None:
        return fault
    at = place_of(stop.instruction, instructions, file)
    return replace(
        fault,
        line=at.line,
        text=at.text,
        source_file=at.source_file,
        source_line=at.source_line,
        source_text=at.source_text,
        near=at.near,
    )


def _note(witness: Witness, machine: Machine, instructions: Sequence[Instruction], file: str | None) -> Note:
    """The note of a fault about an instruction that had a part in it."""
    text = witness.text
    if witness.lane is not None:
        block, thread = machine.numbered(witness.lane)
        text += f" by block {triple(block)}, thread {triple(thread)} (warp {witness.lane % machine.threads // WARP})"
    found = next((i for i in instructions if i.line == witness.line), None)
    return Note(text, None if found is None else place_of(found, instructions, file))


def _unwritten(memory: GlobalMemory, kernel: str) -> list[Fault]:
    """A fault for each output with elements that were never written."""
    faults = []
    for arena in memory.arenas:
        count, offset = arena.unwritten() if arena.role == "out" else (0, 0)
        if count:
            text = f"{count} of {arena.tensor.elements} elements of {arena.name} were never written"
            faults.append(in_tensor("output-not-written", text, kernel, arena, arena.tensor.at + offset))
    return faults
