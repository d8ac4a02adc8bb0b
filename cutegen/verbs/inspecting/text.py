"""Text of an inspection: its facts, and its instructions by kind."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cutegen.console import print_table
from cutegen.verbs.inspecting.inspection import Code, Inspection, RoleCode, mainloop, total

_WORK = ("HGMMA", "QGMMA", "IGMMA", "UTMALDG", "UTMASTG")  # opcodes that say what warps of a role are for
_MOST_NAMED = 6  # mnemonics of a kind in a row


def facts(inspection: Inspection) -> list[tuple[str, str]]:
    """The facts of an inspection: lines of a name and a text."""
    of, code, where = inspection.resources, inspection.code, _local_accesses(inspection)
    lines = [
        ("registers", f"{_number(of['registers'])} a thread{' at its start' if inspection.roles else ''}"),
        *((role.name, _role(role)) for role in inspection.roles),
        *_budgets(inspection),
        ("shared memory", f"{_number(of['static_smem'])} B static, {_number(of['dynamic_smem'])} B dynamic a block"),
        ("spills", f"{_number(of['spill_stores'])} B stored, {_number(of['spill_loads'])} B loaded a thread{where}"),
        ("stack", f"{_number(of['stack'])} B a thread"),
        ("occupancy", "?" if inspection.occupancy is None else inspection.occupancy.text),
        ("PTX", f"version {inspection.ptx_version or '?'}"),
    ]
    if len(inspection.kernels) > 1:
        each = ", ".join(f"{name} with {count} instructions" for name, count in inspection.kernels.items())
        lines.append(("kernels", f"{each}: spills and instructions are sums, the rest is the most of one"))
    padding = f", and {inspection.padding} of padding" if inspection.padding else ""
    lines.append(("instructions", "?" if code is None else f"{code.instructions}{padding}"))
    if code is not None:
        lines.append(("loops", _loops(inspection)))
    if inspection.banks is not None and inspection.banks.ffma:
        lines.append(("bank clashes", str(inspection.banks)))
    for judgement in inspection.expect:
        verdict = "holds" if judgement.holds else "FAILS"
        lines.append(("expect", f"{verdict}: {judgement.key}: wanted {judgement.wanted}, found {judgement.found}"))
        if judgement.hint:
            lines.append(("", judgement.hint))
    return lines + [("note", why) for why in inspection.missing]


def print_inspection(inspection: Inspection, spec: str) -> None:
    """Prints an inspection: its facts, and a table of instructions by kind."""
    print(f"{inspection.kernel} for {inspection.target} ({spec})")
    lines = facts(inspection)
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"  {name:{width}}  {text}")
    if inspection.code is not None:
        print()
        print_table(*histogram_table(inspection))


def _loops(inspection: Inspection) -> str:
    """The innermost loops of a kernel, in words."""
    if inspection.loops is None:
        return "what they repeat does not stand in one piece"
    loop = mainloop(inspection)
    if loop is None:
        return "none"
    if len(inspection.loops) == 1:
        return _loop(loop)
    loading = [other for other in inspection.loops if other is not loop and _of(other, "UTMALDG")]
    loads = "".join(f"; the loads' {_loop(other)}" for other in loading)
    which = "the mainloop" if total(loop, "tensor cores") else "the longest"
    return f"{len(inspection.loops)} innermost; {which} {_loop(loop)}{loads}"


def _loop(loop: Code) -> str:
    """Where a loop stands, and what is most of its work."""
    work = [f"{name} x {count}" for opcode in _WORK for name, count in _of(loop, opcode).items()]
    done = f" ({', '.join(work)})" if work else ""
    return f"0x{loop.first:04x} to 0x{loop.last:04x}, {loop.instructions} instructions a pass{done}"


def _role(role: RoleCode) -> str:
    """The registers of a role's threads, and what its warps do that others do not."""
    used = f"R0 to R{role.used - 1} used" if role.used else "none used"
    work = "".join(f", {opcode} x {sum(found.values())}" for opcode in _WORK if (found := _of(role.code, opcode)))
    return f"{role.registers} registers a thread, {used}; {role.code.instructions} instructions{work}"


def _budgets(inspection: Inspection) -> list[tuple[str, str]]:
    """A line on budgets of registers that the PTX asks for, where the assembler left them out."""
    asked = dict.fromkeys(re.findall(r"setmaxnreg\S*\s+(\d+)", inspection.ptx or ""))
    if not asked or inspection.roles or inspection.code is None:
        return []
    return [("", f"for all: the assembler left out what the PTX asks for by role ({', '.join(asked)})")]


def _of(code: Code, opcode: str) -> Mapping[str, int]:
    """The mnemonics of an opcode, with their numbers."""
    found = (item for names in code.kinds.values() for item in names.items())
    return {name: count for name, count in found if name.partition(".")[0] == opcode}


def _local_accesses(inspection: Inspection) -> str:
    """How many accesses to local memory there are, by spills or of arrays, and how many of them the mainloop has."""
    loop, code = mainloop(inspection), inspection.code
    if code is None or loop is None:
        return ""
    name = "mainloop" if total(loop, "tensor cores") else "longest loop"
    parts = []
    for kind, opcode in (("local stores", "STL"), ("local loads", "LDL")):
        if count := total(code, kind):
            parts.append(f"{opcode} x {count}, {total(loop, kind) or 'none'} of them in the {name}")
    return f" ({'; '.join(parts)})" if parts else ""


def histogram_table(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of the table of instructions.

    Each row has a kind with its number, its share of the kernel and of its mainloop, and its mnemonics.
    """
    code, loop = inspection.code, mainloop(inspection)
    assert code is not None
    columns = ["kind", "kernel", "share"] + (["loop", "share"] if loop else []) + ["instructions"]
    rows = []
    for kind, names in sorted(code.kinds.items(), key=lambda item: -sum(item[1].values())):
        row = [kind, *_share(names, code)]
        if loop is not None:
            row += _share(loop.kinds.get(kind, {}), loop)
        rows.append([*row, _named(names)])
    return columns, rows


def _share(names: Mapping[str, int], code: Code) -> list[str]:
    """The number of a kind's instructions and its share of the code, as two cells."""
    count = sum(names.values())
    return [f"{count:>6}", f"{100 * count / code.instructions:>5.1f} %"] if count else [f"{'-':>6}", f"{'-':>7}"]


def _named(names: Mapping[str, int]) -> str:
    """The most frequent mnemonics of a kind with their numbers."""
    shown = [f"{name} x {count}" for name, count in list(names.items())[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _number(value: int | None) -> str:
    """A number, or `?` for one that is not known."""
    return "?" if value is None else str(value)
