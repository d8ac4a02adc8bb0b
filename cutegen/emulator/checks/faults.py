"""Faults: what the emulator finds wrong with a kernel, as data, as text and as exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cutegen.emulator.ptx.model import Instruction
from cutegen.errors import CutegenError

Kind = Literal[
    "out-of-bounds",  # a global or shared access outside of what the tensor or the block owns
    "misaligned",  # an address that is not a multiple of the access's size
    "write-to-input",
    "never-written",  # an uninitialised value, or one that PTX leaves open, decides an address, a branch or a result
    "output-not-written",
    "in-flight",  # bytes that a copy still has to deliver are read or written, or written that it still has to read
    "race",  # two threads, one shared word, one of them writes, no barrier between
    "unordered",  # the same for global memory
    "non-coherent",  # ld.global.nc of what the kernel writes
    "early",  # global memory before griddepcontrol.wait, in a launch that may start before those ahead of it have ended
    "barrier",  # not every thread reaches it, or a thread arrives that it does not expect
    "mbarrier",  # one that is not there, or not known to be; too many arrivals; a phase that parity cannot tell
    "cluster",  # shared memory of a peer that is not known to have started, or may have exited; a rank without block
    "tensor-map",  # one that is not in the parameters, is no such thing, or does not fit what is asked of it
    "wgmma",  # registers of a product in flight that are touched, or without the fence; descriptors that do not fit
    "tcgen05",  # tensor memory not allocated so, or never freed; lanes of another warp; wrong descriptors
    "proxy",  # a bulk copy of what ordinary stores wrote, without the fence that shows it to the async proxy
    "deadlock",
    "runaway",  # more instructions than any loop over the tensors needs
    "converged",  # a warp-wide instruction without all the threads that it names, at this one place of the code
    "trap",
    "launch",  # sizes, or shared memory, that no device takes, or that the kernel is not compiled for
    "stream",  # a launch on another stream than the current one, so that nothing orders it with the caller's work
    "other-target",  # code for another target than was asked for
    "order-dependent",  # another order of blocks and warps gives another result: a race that no detector has seen
    "target-dependent",  # the code for another target gives another result, though PTX says every bit of both
]


@dataclass(frozen=True)
class Place:
    """An instruction: `line` and `text` of the PTX, and the line of the kernel that led to it, where that is known.

    `near` says that the instruction is of a library or of the host's part, and the line is the nearest one of the
    kernel.
    """

    line: int
    text: str
    source_file: str | None = None
    source_line: int | None = None
    source_text: str = ""
    near: bool = False

    def lines(self) -> list[str]:
        """The lines of text that show it."""
        found = [f"{self.source_line:>6} | {self.source_text}"] if self.source_text else []
        return [*found, f"   ptx | {self.line}: {self.text}"]


@dataclass(frozen=True)
class Note:
    """A further fact about a fault, with the place of the instruction that it concerns, where that is known."""

    text: str
    place: Place | None = None


@dataclass(frozen=True)
class Fault:
    """One fault, and where it was seen. What is not known is None or empty.

    `line` and `text` are of the PTX; `source_file`, `source_line` and `source_text` are of the module that the PTX was
    generated from, if it carries line information. `block` and `thread` are (x, y, z). `address` is a byte address in
    the global space, or a byte's offset in shared memory; `element` is the index into `tensor` that it means. `seed` is
    the order of blocks and warps in which the fault showed: a launch with that seed, in one order, runs the same.
    `target` is the one that the code is for, such as sm_80. `notes` say where a value comes from, or who else had a
    part in it; `near` is as for `Place`.
    """

    kind: Kind
    explanation: str
    kernel: str = ""
    line: int | None = None
    text: str = ""
    source_file: str | None = None
    source_line: int | None = None
    source_text: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None
    tensor: str | None = None
    element: tuple[int, ...] | None = None
    seed: int = 0
    target: str = ""
    near: bool = False
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        where = "ptx"
        if self.source_file and self.source_line:
            where = f"{'near ' * self.near}{self.source_file}:{self.source_line}"
        elif self.line:
            where = f"ptx:{self.line}"
        lines = [f"{where}: fault[{self.kind}]: {self.explanation}"]
        if self.source_text:
            lines.append(f"{self.source_line:>6} | {self.source_text}")
        if self.line is not None:
            lines.append(f"   ptx | {self.line}: {self.text}")
        at = []
        if self.block is not None:
            at.append(f"block {triple(self.block)}")
        if self.thread is not None:
            at.append(f"thread {triple(self.thread)}")
        if self.address is not None:
            at.append(f"address {self.address:#x}")
        if self.tensor is not None:
            index = "" if self.element is None else str(list(self.element))
            at.append(f"{self.tensor}{index}")
        if self.seed:
            at.append(f"in the order of seed {self.seed}")
        if at:
            lines.append(f"       = {', '.join(at)}")
        for note in self.notes:
            lines += [f"  note: {note.text}", *(note.place.lines() if note.place else ())]
        code = f"code for {self.target}" if self.target else ""
        kernel = self.kernel if len(self.kernel) < 80 else self.kernel[:77] + "..."
        if code or kernel:
            lines.append(f"       = {', '.join(filter(None, (code, f'kernel {kernel}' * bool(kernel))))}")
        return "\n".join(lines)


class FaultError(CutegenError):
    """A kernel that was run did something wrong; `fault` says what.

    Deliberately no RuntimeError: generated functions take those for arguments that do not fit.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class Witness:
    """An instruction that had a part in a fault: what is said of it, its PTX line, and who executed it.

    `lane` is the number of the lane over the whole grid, and None where it is not known or they are several.
    """

    text: str
    line: int
    lane: int | None = None


class Stop(Exception):
    """A fault as a lane (thread, block) of a batch sees it; `host.launching` makes a `Fault` of it.

    The other arguments are as the fields of `Fault`. Where `instruction` is None, the schedule adds it. `witnesses`
    become notes. `at` is the lane's block and thread, once they are known.
    """

    def __init__(
        self,
        kind: Kind,
        explanation: str,
        instruction: Instruction | None = None,
        lane: tuple[int, int] | None = None,
        *,
        address: int | None = None,
        tensor: str | None = None,
        element: tuple[int, ...] | None = None,
        witnesses: tuple[Witness, ...] = (),
    ) -> None:
        super().__init__(explanation)
        self.kind, self.explanation, self.instruction, self.lane = kind, explanation, instruction, lane
        self.address, self.tensor, self.element, self.witnesses = address, tensor, element, witnesses
        self.at: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None


def triple(at: tuple[int, int, int]) -> str:
    """Three numbers without spaces: `(1,2,3)`."""
    return f"({at[0]},{at[1]},{at[2]})"
