"""The part of the language's JSON Schema that is about schedules: one, or a list of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutegen.language.asked import Family
from cutegen.language.cases import LEAST
from cutegen.language.kinds import Choice, Items, keys_of
from cutegen.registry import families


def of_family(family: Family, of: tuple[Family, ...]) -> dict[str, Any]:
    """That the specs of a family have its schedule: those of its op, and of its mma atoms if another has the op too.

    Those that name no atom stand with the op's first family, and have the words of any.
    """
    condition: dict[str, Any] = {"properties": {"op": {"const": family.op.name}}, "required": ["op"]}
    others = [other for other in of if other.op is family.op and other is not family]
    first = next(other for other in of if other.op is family.op)
    if family is not first:
        condition["properties"]["schedule"] = _names_one_of(family.atoms)
        condition["required"] = ["op", "schedule"]
    elif others:
        atoms = [atom for other in others for atom in other.atoms]
        condition["not"] = {"properties": {"schedule": _names_one_of(atoms)}, "required": ["schedule"]}
    schedule = {
        "properties": {
            "schedule": {
                "description": "How the kernel does it: the keys of one schedule, or a list of cases with `for`.",
                "if": {"type": "array"},
                "then": {"items": _case_of(family, of)},
                "else": _words_of(family, others if family is first else [], definition_name),
            }
        }
    }
    needs = any(field.required for field in keys_of(family.schedule).values())
    return {"if": condition, "then": {"required": ["schedule"], **schedule} if needs else schedule}


def _names_one_of(atoms: Sequence[str]) -> dict[str, Any]:
    """That a schedule names one of some mma atoms."""
    mma = {"properties": {"atom": {"enum": list(atoms)}}, "required": ["atom"], "type": "object"}
    return {"properties": {"mma": mma}, "required": ["mma"], "type": "object"}


def _case_of(family: Family, of: tuple[Family, ...]) -> dict[str, Any]:
    """The schema of one case in a list: that of its mma atom's family, where several families have the op."""
    own = [other for other in of if other.op is family.op]
    refs = {other.name: {"$ref": f"#/definitions/{case_name(other)}"} for other in own}
    if len(own) == 1:
        return refs[family.name]
    atoms = {other.name: {"atom": {"enum": list(other.atoms)}} for other in own[1:]}
    found: dict[str, Any] = _words_of(own[0], own[1:], case_name)
    for other in own[1:]:
        mma = {"properties": atoms[other.name], "required": ["atom"]}
        condition = {"properties": {"mma": mma}, "required": ["mma"]}
        found = {"if": condition, "then": refs[other.name], "else": found}
    return found


def _words_of(first: Family, others: Sequence[Family], name: Callable[[Family], str]) -> dict[str, Any]:
    """The words of a family's schedule, or, where no mma atom is named, of one of several families'."""
    refs = [{"$ref": f"#/definitions/{name(family)}"} for family in (first, *others)]
    if not others:
        return refs[0]
    named = {"properties": {"mma": {"required": ["atom"]}}, "required": ["mma"]}
    return {"if": named, "then": refs[0], "else": {"anyOf": refs}}


def case_name(family: Family) -> str:
    """The name of the definition of a case with a family's schedule."""
    return definition_name(family).replace("_schedule", "_case")


def definition_name(family: Family) -> str:
    """The name of a family's schedule among the schema's definitions: that of the op for the op's first family."""
    first = next(other for other in families() if other.op is family.op)
    return f"{family.op.name if family is first else family.name}_schedule"


def schema_of_case(schedule: Mapping[str, Any], targets: Sequence[str]) -> dict[str, Any]:
    """The JSON Schema of one case, from that of a schedule."""
    one = Choice(tuple(targets)).schema("An architecture of CUDA.")
    several = Items(Choice(tuple(targets)), least=1, different=True).schema("Some of them.")
    condition = {
        "description": "A bound on the size of this mode, such as `<= 64` or `== 4096`, or a divisor, "
        "`% 8 == 0`; of a list, all must hold.",
        "type": ["string", "integer", "array"],
        "minimum": 0,
        "items": {"type": ["string", "integer"]},
        "minItems": 1,
    }
    conditions = {
        "description": "Conditions of this case: all must hold, and no earlier case may match. The last case leaves "
        "them out.",
        "type": "object",
        "minProperties": 1,
        "properties": {
            "target": {
                "description": "The architecture that it is compiled for, or a list of architectures.",
                "if": {"type": "array"},
                "then": several,
                "else": one,
            },
            "align": {
                "description": "Alignment in bytes of every tensor's address and strides: a power of two.",
                "enum": [2**i for i in range(1, 11)],
            },
            "cost": {
                "description": "`least`: among all such cases, a call takes the one with the lowest estimated "
                "time for its sizes.",
                "enum": [LEAST],
            },
        },
        "additionalProperties": condition,
    }
    return {**schedule, "properties": {"for": conditions, **schedule.get("properties", {})}}
