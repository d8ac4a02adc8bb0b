"""The instructions that nvdisasm printed, and their number by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.compiling.artefact import INSTRUCTION

# By opcode, which is what stands before the first dot; one of the uniform datapath is as it is without its U.
# From the instruction sets in NVIDIA's "CUDA Binary Utilities".
_OPCODES: Mapping[str, str] = {
    "global loads": "LDG LDGMC LD",
    "global stores": "STG ST",
    "async copies": "LDGSTS BLKCP BLKPF BLKRED TMACCTL TMACMDFLUSH TMALDG TMAPF TMAREDG TMASTG",
    "shared loads": "LDS LDSM",
    "shared stores": "STS STSM STAS",
    "local loads": "LDL",
    "local stores": "STL",
    "constant loads": "LDC LDCU",
    "atomics": "ATOM ATOMG ATOMS RED REDG REDAS",
    "tensor cores": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA TCHMMA TCIMMA TCQMMA TCOMMA TCMXQMMA",
    "tensor memory": "LDT LDTM STT STTM TCCP TCSHIFT TCATOMSWS TCSTSWS",
    "fp32 arithmetic": "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP "
    "FSWZADD",
    "fp64 arithmetic": "DADD DFMA DMUL DMNMX DSETP",
    "fp16 arithmetic": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2",
    "special functions": "MUFU",
    "conversions": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "integers and addresses": "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMNMX IMUL IMUL32I ISCADD "
    "ISCADD32I ISETP LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX "
    "VIMNMX3",
    "predicates": "MATCH P2R P2UR PLOP3 PSETP R2P R2UP VOTE VOTEU",
    "moves": "CREDUX CS2R MOV MOV32I MOVM PRMT R2UR REDUX S2R S2UR SEL SHFL",
    "barriers and waits": "ARRIVES BAR CCTL CCTLL CCTLT CGABAR_ARV CGABAR_WAIT CGAERRBAR DEPBAR ERRBAR FENCE LDGDEPBAR "
    "MEMBAR SYNCS TCBAR WARPGROUP WARPSYNC",
    "control": "ACQBULK BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL ELECT ENDCOLLECTIVE EXIT JMP JMX JMXU KILL LEPC "
    "NANOSLEEP PREEXIT RET RPCMOV SETMAXREG YIELD",
    "no operation": "NOP",
}
_KINDS = {opcode: kind for kind, opcodes in _OPCODES.items() for opcode in opcodes.split()}
OTHER = "other"
KINDS = (*_OPCODES, OTHER)
# A move in all but name: 0 * 0 + x, which the integer and the half-precision units do for the move unit
_MOVES = re.compile(
    r"(IMAD(\.MOV)?(\.U32)?\s+\w+, RZ, RZ,|UIMAD(\.U32)?\s+\w+, URZ, URZ,|HFMA2(\.MMA)?\s+\w+, -RZ, RZ,)"
)
_BRANCHES = ("BRA", "JMP")
_INDIRECT = ("BRX", "JMX")  # to a place that a register names
_TARGET = re.compile(r"`\(([^)]*)\)")
_LABEL = re.compile(r"^(?P<name>[.$\w]+):\s*$")


@dataclass(frozen=True)
class Instruction:
    """One instruction. `kind` is one of `KINDS`; `target` is where it may lead besides to the next one, or where
    threads meet again: an index into its function's instructions.
    """

    address: int
    mnemonic: str  # with its modifiers, `LDG.E.128`
    kind: str
    target: int | None = None
    operands: str = ""
    guarded: bool = False  # whether a predicate decides if it is done

    @property
    def opcode(self) -> str:
        return self.mnemonic.partition(".")[0]

    @property
    def branches(self) -> bool:
        """Whether it is a branch to a place that the code names."""
        return self.mnemonic.startswith(_BRANCHES) and not self.mnemonic.startswith(_INDIRECT)


@dataclass(frozen=True)
class Function:
    """One function's instructions. `padding` counts what the assembler put behind the last one that can be reached."""

    name: str
    instructions: tuple[Instruction, ...]
    padding: int


def kind_of(mnemonic: str) -> str:
    opcode = mnemonic.partition(".")[0]
    return _KINDS.get(opcode) or _KINDS.get(opcode.removeprefix("U"), OTHER)


def parse(sass: str) -> tuple[Function, ...]:
    """Reads the functions in what `nvdisasm -c` printed."""
    found = (_function(name, lines) for name, lines in _sections(sass.splitlines()))
    return tuple(function for function in found if function.instructions)


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    name, found = "", list[str]()
    for line in lines:
        label = _LABEL.match(line)
        if label and label["name"].startswith(".text."):
            yield name, found
            name, found = label["name"].removeprefix(".text."), []
        elif label or INSTRUCTION.match(line):
            found.append(line)
    yield name, found


def _function(name: str, lines: Sequence[str]) -> Function:
    labels: dict[str, int] = {}
    matches: list[re.Match[str]] = []
    for line in lines:
        label = _LABEL.match(line)
        if label:
            labels[label["name"]] = len(matches)
        elif match := INSTRUCTION.match(line):
            matches.append(match)
    found = []
    for match in matches:
        mnemonic, text = match["mnemonic"], match["mnemonic"] + match["operands"]
        named = _TARGET.search(text)
        kind = "moves" if _MOVES.match(text) else kind_of(mnemonic)
        target = labels.get(named[1]) if named else None
        guarded = "@" in match[0]
        found.append(Instruction(int(match["address"], 16), mnemonic, kind, target, match["operands"], guarded))
    end = len(found)
    # `BRA` to itself, then `NOP`: never reached, there for instruction prefetch
    while end and (found[end - 1].mnemonic == "NOP" or found[end - 1].target == end - 1):
        end -= 1
    return Function(name, tuple(found[:end]), len(found) - end)


def histogram(instructions: Sequence[Instruction]) -> dict[str, dict[str, int]]:
    """Counts instructions by kind and mnemonic: kinds in the order of `KINDS`, mnemonics the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    for instruction in instructions:
        counts.setdefault(instruction.kind, Counter())[instruction.mnemonic] += 1
    return {
        kind: dict(sorted(counts[kind].items(), key=lambda item: (-item[1], item[0])))
        for kind in KINDS
        if kind in counts
    }
