"""Compiled kernels: resources, instructions by kind, loops, and whether they are as the spec expects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutegen.analysis.occupancy import Occupancy, as_json, occupancy
from cutegen.compiling import Artefact, Compiled, Outcome, with_sass
from cutegen.language.model import Expect
from cutegen.project.sources import Unit
from cutegen.sass.banks import BankClashes, bank_clashes
from cutegen.sass.control_flow import loops
from cutegen.sass.expectations import Judgement, judge
from cutegen.sass.instructions import Instruction, histogram, parse
from cutegen.sass.roles import roles

NUMBER = r"(?:_case_*)?(?:_[0-9]+)?"  # of a case, behind the name of its kernel
_PTX_VERSION = re.compile(r"^\s*\.version\s+(\S+)", re.MULTILINE)

Kinds = Mapping[str, Mapping[str, int]]  # kind -> mnemonic -> how many


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel or of a part of it, each counted once. `first` and `last` are addresses."""

    instructions: int
    kinds: Kinds
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class RoleCode:
    """The code of the warps of one role, `producer` or `consumers`. `registers` is what each thread has, and `used` how
    many of them the code uses.
    """

    name: str
    registers: int
    used: int
    code: Code


@dataclass(frozen=True)
class Inspection:
    """One kernel compiled for one target. A field that is None is unknown, and `missing` says why, one sentence each.

    `resources` are `registers`, `spill_stores`, `spill_loads` and `stack` of a thread, `static_smem` and `dynamic_smem`
    of a block; all but the registers in bytes. `loops` are the innermost ones, None where they cannot be found in the
    code. `kernels` has the number of instructions of each kernel that a call launches: all other figures are of all of
    them together.
    """

    kernel: str
    target: str
    resources: Mapping[str, int | None]
    ptx_version: str | None
    code: Code | None
    padding: int  # instructions behind the last one that can be reached
    loops: tuple[Code, ...] | None
    expect: tuple[Judgement, ...] = ()
    missing: tuple[str, ...] = ()
    ptx: str | None = None
    sass: str | None = None
    banks: BankClashes | None = None
    occupancy: Occupancy | None = None  # None where there is no plan, or the resources are not known
    kernels: Mapping[str, int] = field(default_factory=dict)
    roles: tuple[RoleCode, ...] = ()  # of warps that set their registers themselves


def inspect(artefact: Artefact, dynamic_smem: int | None, expect: Expect | None) -> Inspection:
    """Reads from an artefact what its kernel compiled to, and disassembles it if nobody has.

    `dynamic_smem` is the plan's, in bytes, None where there is no plan; without `expect` nothing is judged.
    """
    artefact = with_sass(artefact)
    version = _PTX_VERSION.search(artefact.ptx)
    code: Code | None = None
    padding = 0
    found: tuple[Code, ...] | None = None
    kernels: dict[str, int] = {}
    parts: tuple[RoleCode, ...] = ()
    if artefact.sass is not None:
        functions = parse(artefact.sass)
        kernels = {_as_written(f.name, artefact.kernel): len(f.instructions) for f in functions}
        if len(kernels) < len(functions):
            kernels = {f.name: len(f.instructions) for f in functions}
        instructions = [i for function in functions for i in function.instructions]
        code = Code(len(instructions), histogram(instructions))
        padding = sum(function.padding for function in functions)
        by_function = [loops(function) for function in functions]
        if None not in by_function:
            found = tuple(_code(loop.instructions) for some in by_function for loop in some or ())
        parts = tuple(
            RoleCode(role.name, role.registers, role.used, _code(role.instructions))
            for function in functions
            for role in roles(function)
        )
    return Inspection(
        artefact.kernel,
        artefact.target,
        {**vars(artefact.resources), "dynamic_smem": dynamic_smem},
        version[1] if version else None,
        code,
        padding,
        found,
        tuple(judge(expect, artefact)) if expect is not None else (),
        artefact.missing,
        artefact.ptx,
        artefact.sass,
        None if artefact.sass is None else bank_clashes(artefact.sass),
        kernels=kernels,
        roles=parts,
    )


def _code(instructions: Sequence[Instruction]) -> Code:
    """A part of a kernel, in the order of the code."""
    return Code(len(instructions), histogram(instructions), instructions[0].address, instructions[-1].address)


def _as_written(symbol: str, kernel: str) -> str:
    """The name that the module gives a function, to whose symbol the compiler appends the types of its arguments."""
    found = re.match(rf"kernel_cutlass_({re.escape(kernel)}(?:_workspace_\w+?)?_kernel{NUMBER})_", symbol)
    return found[1] if found else symbol


def inspect_unit(unit: Unit, outcomes: Mapping[str, Outcome]) -> list[Inspection]:
    """Inspects a unit for each target that it compiled for."""
    plan, expect = unit.module.plan, unit.module.spec.expect
    artefacts = [outcome.artefact for outcome in outcomes.values() if isinstance(outcome, Compiled)]
    found = [inspect(artefact, plan.smem_on(artefact.target), expect) for artefact in artefacts]
    return [replace(one, occupancy=_occupancy(one, plan.threads_on(one.target))) for one in found]


def _occupancy(inspection: Inspection, threads: int) -> Occupancy | None:
    """How many blocks of `threads` threads fit a multiprocessor; None where the resources are not known."""
    registers, static, dynamic = (inspection.resources[x] for x in ("registers", "static_smem", "dynamic_smem"))
    if registers is None or static is None or dynamic is None:
        return None
    return occupancy(inspection.target, threads, static + dynamic, registers)


def mainloop(inspection: Inspection) -> Code | None:
    """The innermost loop with the most instructions of the tensor cores, and then with the most of any kind: in a
    gemm, where it multiplies.

    None where there is no loop, or none is known.
    """
    found = inspection.loops or ()
    return max(found, key=lambda loop: (total(loop, "tensor cores"), loop.instructions), default=None)


def total(code: Code, kind: str) -> int:
    """How many instructions of a kind there are."""
    return sum(code.kinds.get(kind, {}).values())


# JSON


def inspection_json(inspection: Inspection, *, ptx: bool, sass: bool) -> dict[str, Any]:
    """An inspection as JSON: `{target, resources, ptx_version, kernels: {name: instructions}, instructions, padding,
    kinds, loops: [{first, last, instructions, kinds}], mainloop, roles: [{name, registers, used, instructions, kinds}],
    bank_clashes: {clashes, ffma}, expect: [{key, wanted, found, holds, hint}], occupancy, missing}`, and the texts that
    were asked for. `mainloop` is the place of that one among the loops.
    """
    main = mainloop(inspection)
    code, repeated = inspection.code, inspection.loops
    texts = {"ptx": inspection.ptx} if ptx else {}
    texts |= {"sass": inspection.sass} if sass else {}
    return {
        "target": inspection.target,
        "resources": dict(inspection.resources),
        "ptx_version": inspection.ptx_version,
        "kernels": dict(inspection.kernels),
        "instructions": None if code is None else code.instructions,
        "padding": inspection.padding,
        "kinds": None if code is None else code.kinds,
        "loops": None if repeated is None else [vars(loop) for loop in repeated],
        "mainloop": None if main is None or repeated is None else repeated.index(main),
        "roles": [
            {
                "name": role.name,
                "registers": role.registers,
                "used": role.used,
                "instructions": role.code.instructions,
                "kinds": role.code.kinds,
            }
            for role in inspection.roles
        ],
        "bank_clashes": None if inspection.banks is None else vars(inspection.banks),
        "expect": [
            {"key": j.key, "wanted": j.wanted, "found": j.found, "holds": j.holds, "hint": j.hint}
            for j in inspection.expect
        ],
        "occupancy": None if inspection.occupancy is None else as_json(inspection.occupancy),
        "missing": list(inspection.missing),
        **texts,
    }


def inspection_from_json(kernel: str, data: Mapping[str, Any]) -> Inspection:
    """Reads an inspection from what `inspection_json` made, without its expectations.

    Raises KeyError, TypeError, ValueError or AttributeError for anything else.
    """
    code = None
    if data["kinds"] is not None:
        code = Code(int(data["instructions"]), _kinds(data["kinds"]))
    repeated = data["loops"]
    if repeated is not None:
        repeated = tuple(
            Code(int(loop["instructions"]), _kinds(loop["kinds"]), int(loop["first"]), int(loop["last"]))
            for loop in repeated
        )
    clashing = data.get("bank_clashes")  # which those of earlier versions do not have
    return Inspection(
        kernel,
        str(data["target"]),
        {str(name): None if n is None else int(n) for name, n in data["resources"].items()},
        data["ptx_version"],
        code,
        int(data["padding"]),
        repeated,
        ptx=data.get("ptx"),
        sass=data.get("sass"),
        roles=tuple(
            RoleCode(
                str(role["name"]),
                int(role["registers"]),
                int(role["used"]),
                Code(int(role["instructions"]), _kinds(role["kinds"])),
            )
            for role in data.get("roles", ())
        ),
        kernels={str(name): int(count) for name, count in data.get("kernels", {}).items()},
        banks=None if clashing is None else BankClashes(int(clashing["clashes"]), int(clashing["ffma"])),
    )


def _kinds(data: Mapping[str, Mapping[str, int]]) -> Kinds:
    """The numbers of instructions by kind and mnemonic, read from JSON."""
    return {str(kind): {str(name): int(n) for name, n in names.items()} for kind, names in data.items()}
