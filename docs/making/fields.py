"""Every field of the language, from its schema: what it means, and what may stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cutegen.language.kinds import Integer, kind_at
from cutegen.language.schedule_schema import definition_name
from cutegen.language.schema import schema_text
from cutegen.registry import families

MOST = 2**31 - 1
_CASE = "_case"


@dataclass(frozen=True)
class Field:
    """A key of the language.

    `name` has the definition of the schema that it stands in, and its path there without the names of tensors and
    modes: `gemm_schedule.copies.bits`. `shown` is the path as a spec has it, `NAME` for such a name. `holds` says
    whether it is a mapping of other fields.
    """

    name: str
    shown: str
    says: str
    takes: str
    required: bool
    holds: bool

    @property
    def group(self) -> str:
        """The definition that it stands in; empty for the spec itself."""
        return self.name.split(".")[0] if self.name.split(".")[0] in definitions() else ""


@cache
def schema() -> dict[str, Any]:
    """The language's schema, with references of names to definitions as they are."""
    found: dict[str, Any] = json.loads(schema_text())
    return found


@cache
def definitions() -> tuple[str, ...]:
    """The groups of fields besides those of a spec itself, in the schema's order; `case` for all cases."""
    names = [name for name in schema()["definitions"] if name != "placeholder" and not name.endswith(_CASE)]
    return (*names, "case")


@cache
def fields() -> dict[str, Field]:
    """All fields by name, in the order of the language."""
    found = list(_fields(schema(), "", ""))
    for name, node in schema()["definitions"].items():
        where = "schedule." if name.endswith("_schedule") else f"{name}s.NAME."
        if not name.endswith(_CASE):
            found += _fields(node, f"{name}.", where)
    one = next(node for name, node in schema()["definitions"].items() if name.endswith(_CASE))
    own = {"properties": {"for": one["properties"]["for"]}}
    found += _fields(own, "case.", "schedule.")
    return {field.name: _narrowed(field) for field in found}


def _narrowed(field: Field) -> Field:
    """A field with the bounds that a rule holds it to, where these are narrower than the schema's."""
    for family in families():
        if definition_name(family) == field.group:
            kind = kind_at(family.schedule, tuple(field.shown.split(".")[1:]))
            if isinstance(kind, Integer) and kind.told:
                return replace(field, takes=_bounds("a whole number", *kind.told[:2]))
    return field


def _fields(node: Mapping[str, Any], prefix: str, shown: str) -> Iterator[Field]:
    """The fields of an object of the schema, with those of the objects in it."""
    for name, value in node.get("properties", {}).items():
        inner = value.get("additionalProperties")
        named = isinstance(inner, Mapping) and "properties" in inner
        yield Field(
            f"{prefix}{name}",
            f"{shown}{name}",
            value.get("description", ""),
            takes(value),
            name in node.get("required", ()),
            named or "properties" in value,
        )
        yield from _fields(value, f"{prefix}{name}.", f"{shown}{name}.")
        if named:
            yield from _fields(inner, f"{prefix}{name}.", f"{shown}{name}.NAME.")


def takes(node: Mapping[str, Any]) -> str:
    """The values that a place accepts, in words."""
    if "anyOf" in node:  # a value, or what stands for one of a matrix
        return takes(node["anyOf"][0])
    if "then" in node:  # one, or several
        return f"{takes(node['else'])}, or {takes(node['then'])}"
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return (
            f"one of {', '.join(f'`{one}`' for one in node['enum'])}"
            if len(node["enum"]) > 1
            else f"`{node['enum'][0]}`"
        )
    match node.get("type"):
        case "integer":
            return _bounds("a whole number", node.get("minimum"), node.get("maximum"))
        case "number":
            return _bounds("a number", node.get("minimum"), node.get("maximum"))
        case "string":
            return _bounds("a text", None, node.get("maxLength"), " characters")
        case "array":
            each = takes(node["items"]) if "items" in node else "any value"
            return f"a list; each of it {each}"
        case "object":
            return _mapping(node)
        case ["string", "integer"]:
            return "a layout in CuTe's notation" if "CuTe" in node.get("description", "") else "a number, or a text"
        case ["integer", "string"]:
            word = re.fullmatch(r"\^(\w+)\$", node.get("pattern", ""))
            if word is not None:
                return _bounds("a whole number", node.get("minimum"), node.get("maximum")) + f", or `{word[1]}`"
            return "a number, or a bound on one"
        case ["string", "array"]:
            return "a text, or a list of texts"
        case ["object", "array"]:
            return "a mapping, or a list of cases"
        case list() as several:
            return " or ".join(several)
    return "a value"


def _mapping(node: Mapping[str, Any]) -> str:
    inner = node.get("additionalProperties")
    if not isinstance(inner, Mapping):
        return "a mapping of the keys below"
    if "$ref" in inner or "properties" in inner:
        return "a mapping from names to the keys below"
    own = f"the keys below, and {'from other names' if node.get('properties') else 'from names'}"
    return f"a mapping {own if node.get('properties') else 'from names'} to {takes(inner)}"


def _bounds(what: str, low: int | None, high: int | None, unit: str = "") -> str:
    """A kind of value with its bounds."""
    if high is None or high >= MOST:
        return what if low is None else f"{what} from {low} on"
    return f"{what} of at most {high}{unit}" if low is None else f"{what} from {low} to {high}"
