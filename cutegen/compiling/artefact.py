"""The compiled form of a module: PTX, cubin, SASS, and the resources that one thread and one block take.

The disassembler takes longer to start than ptxas for a small kernel, so it only runs where the SASS is wanted or the
spills depend on it.

Spill figures are static, as ptxas reports them: bytes in the code's spill instructions, each counted once however
often a loop runs it. Code whose threads have neither a stack nor local memory spills nothing. In other code they are
counted in the SASS (`STL`, `LDL` times their width), which is exact as long as the PTX declares no local array. When it
does, the two share those instructions; then ptxas itself has to be asked (`spills=` of `extract`), and without its
answer the figures are unknown rather than guessed.
"""

from __future__ import annotations

import base64
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cutegen.compiling.tools import ToolError, find_tool, tool_version


@dataclass(frozen=True)
class Resources:
    """Static resources of a kernel: of several kernels in one cubin the largest, of spills the sum. What is None is not
    known.
    """

    registers: int | None  # a thread
    spill_stores: int | None  # bytes a thread
    spill_loads: int | None  # bytes a thread
    stack: int | None  # bytes a thread: spilled registers, local arrays and call frames
    static_smem: int | None  # bytes a block; dynamic shared memory is not in the cubin


@dataclass(frozen=True)
class Artefact:
    """The result of compiling one kernel for one target. `missing` says why a part is None, one sentence each.

    `host` is its host code, from `host_code`: it launches the PTX on the CPU emulator. Where it is not `disassembled`,
    its SASS has not been requested yet: `with_sass` adds it.
    """

    kernel: str
    target: str
    ptx: str
    cubin: bytes
    sass: str | None
    resources: Resources
    missing: tuple[str, ...] = ()  # why a part is None, one sentence each
    host: bytes = b""
    disassembled: bool = True

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), **{name: _text(getattr(self, name)) for name in ("cubin", "host")}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Artefact:
        """Reads what `as_json` made. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            kernel=data["kernel"],
            target=data["target"],
            ptx=data["ptx"],
            cubin=base64.b64decode(data["cubin"], validate=True),
            host=base64.b64decode(data["host"], validate=True),
            sass=data["sass"],
            resources=Resources(**data["resources"]),
            missing=tuple(data["missing"]),
            disassembled=data["disassembled"],
        )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


Spills = tuple[int, int]  # bytes stored, bytes loaded

# `/*0a10*/  @!P0 LDG.E.128 R4, desc[UR6][R2.64] ;`, with or without the braces of paired instructions
INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-fA-F]{4,})\*/\s+(?:\{\s*)?(?:@!?U?P(?:\d+|T)\s+)?"
    r"(?P<mnemonic>[A-Z][^\s;,{}]*)(?P<operands>[^;\n]*)",
    re.MULTILINE,
)
_WIDTH = re.compile(r"\.[US]?(8|16|32|64|128)(?=\.|$)")
_LOCAL_ARRAY = re.compile(r"^\s*\.local\s", re.MULTILINE)
_PTX_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_USAGE = re.compile(r"\b(REG|STACK|SHARED|LOCAL):(\d+)")


def mnemonics(sass: str) -> Counter[str]:
    """Occurrences of every full dotted mnemonic (`LDG.E.128`), predicates left out, in what nvdisasm printed."""
    return Counter(match["mnemonic"] for match in INSTRUCTION.finditer(sass))


def ptx_target(ptx: str) -> str | None:
    """The architecture that the PTX was made for, `sm_90a`."""
    match = _PTX_TARGET.search(ptx)
    return match[1] if match else None


def local_traffic(counts: Counter[str]) -> Spills:
    """Bytes of local memory that the instructions store and load, each instruction counted once."""
    stored = loaded = 0
    for mnemonic, count in counts.items():
        opcode = mnemonic.partition(".")[0]
        if opcode in ("STL", "LDL"):
            width = _WIDTH.search(mnemonic)
            size = count * (int(width[1]) // 8 if width else 4)
            stored, loaded = (stored + size, loaded) if opcode == "STL" else (stored, loaded + size)
    return stored, loaded


def spilled(ptx: str, sass: str, ask: Callable[[], Spills | None] | None = None) -> Spills | None:
    """Bytes stored and loaded by spilling. `ask` is called when only ptxas can know; None when nobody could say."""
    traffic = local_traffic(mnemonics(sass))
    if traffic == (0, 0) or not _LOCAL_ARRAY.search(ptx):
        return traffic
    return ask() if ask else None


def extract(
    kernel: str,
    target: str,
    ptx: str,
    cubin: bytes,
    spills: Callable[[], Spills | None] | None = None,
    host: bytes = b"",
    sass: bool = True,
) -> Artefact:
    """Takes apart a cubin. What a missing or failing tool would have told is None, and `missing` says why.

    Without `sass` it is not disassembled, unless its spills depend on that or there is no disassembler.
    """
    usage: dict[str, int] = {}
    no_usage: list[str] = []
    try:
        with _file(cubin) as path:
            for name, number in _USAGE.findall(find_tool("cuobjdump").run("-res-usage", str(path))):
                usage[name] = max(usage.get(name, 0), int(number))
    except ToolError as problem:
        no_usage.append(f"registers, stack and shared memory are unknown: {problem}")
    else:
        if not usage:
            no_usage.append("registers, stack and shared memory are unknown: cuobjdump -res-usage named no kernel")
    missing: list[str] = []
    text: str | None = None
    bytes_spilled: Spills | None = None
    later = not sass and usage.get("STACK") == 0 == usage.get("LOCAL") and tool_version("nvdisasm") != "missing"
    if later:
        bytes_spilled = (0, 0)
    else:
        try:
            text = _disassembled(cubin)
        except ToolError as problem:
            missing.append(f"SASS and spills are unknown: {problem}")
    missing += no_usage
    if text is not None:
        bytes_spilled = spilled(ptx, text, spills)
        if bytes_spilled is None:
            missing.append(
                "spills are unknown: the kernel keeps an array in local memory and ptxas did not report its spills"
            )
    stores, loads = bytes_spilled or (None, None)
    shared = own_shared(target, usage["SHARED"]) if "SHARED" in usage else None
    resources = Resources(usage.get("REG"), stores, loads, usage.get("STACK"), shared)
    return Artefact(kernel, target, ptx, cubin, text, resources, tuple(missing), host, not later)


def with_sass(artefact: Artefact) -> Artefact:
    """The artefact with its SASS, which is asked for now if nobody has before."""
    if artefact.disassembled:
        return artefact
    try:
        return replace(artefact, sass=_disassembled(artefact.cubin), disassembled=True)
    except ToolError as problem:
        return replace(artefact, missing=(*artefact.missing, f"SASS is unknown: {problem}"), disassembled=True)


@contextmanager
def _file(cubin: bytes) -> Iterator[Path]:
    """A cubin in a file."""
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        yield path


def own_shared(target: str, counted: int) -> int:
    """Static shared memory of a kernel's own, in bytes, of the bytes that its cubin counts.

    From sm_90 on, the shared memory of a kernel begins with what the system keeps for itself.
    """
    from cutegen.atoms.targets import TARGETS

    if target not in TARGETS or int("".join(filter(str.isdigit, target))) < 90:
        return counted
    return max(0, counted - TARGETS[target].smem_reserved)


def _disassembled(cubin: bytes) -> str:
    """The SASS of a cubin. Raises ToolError."""
    tool = find_tool("nvdisasm")
    with _file(cubin) as path:
        # Its data-flow analysis only adds comments, and can fail on valid code
        sass = tool.run("-c", "-ndf", str(path))
    if not mnemonics(sass):
        raise ToolError(f"{tool.version} printed no instruction in a known form")
    return sass
