"""The language's JSON Schema, and its errors as diagnostics with a place and a way out."""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from cutegen.atoms.targets import TARGETS
from cutegen.dtypes import Dtype
from cutegen.language.asked import Family, choices
from cutegen.language.choices import choice_help, near_choice
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.kinds import PLACEHOLDER, Integer, Path, Record, keys_of, kind_at
from cutegen.language.mappings import mapping_help, unquoted, with_meaning
from cutegen.language.matrix import OF_ALL_KERNELS
from cutegen.language.model import LANGUAGE, KernelSpec, Source, Tensor
from cutegen.language.modes import Mode
from cutegen.language.names import nearest, shown, suggestion
from cutegen.language.schedule_schema import case_name, definition_name, of_family, schema_of_case
from cutegen.registry import families, ops

_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}


def schema_text() -> str:
    """The schema as it is published: JSON Schema draft 7, for editors and for `cutegen schema`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> Mapping[str, Any]:
    """The language's JSON Schema, made of the model's fields and of those of every family's schedule."""
    return _schema_of(families())


@cache
def _schema_of(of: tuple[Family, ...]) -> Mapping[str, Any]:
    own = keys_of(KernelSpec)
    says = f"Version of this language: {LANGUAGE}."
    properties = {"cutegen": {"description": says, "type": "integer", "const": LANGUAGE}}
    for name, field in own.items():
        properties[name] = field.kind.schema(field.says)
        if name == "summary":
            properties |= {key: kind.schema(text) for key, (kind, text) in OF_ALL_KERNELS.items()}
    definitions: dict[str, Any] = {
        "placeholder": {
            "description": "A value of the matrix.",
            "type": "string",
            "pattern": "^\\{[A-Za-z_][A-Za-z0-9_]*\\}$",
        },
        "tensor": _tensor(),
        "mode": Record(Mode).schema("What one mode is to another."),
    }
    for family in of:
        says = inspect.cleandoc(family.schedule.__doc__ or "").partition("\n")[0]
        own_keys = Record(family.schedule).schema(says)
        definitions[definition_name(family)] = own_keys
        definitions[case_name(family)] = schema_of_case(own_keys, tuple(TARGETS))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"cutegen kernel spec, version {LANGUAGE}",
        "description": "A kernel in CuTe's own vocabulary. Everything left out is inferred; `cutegen explain` prints "
        "what was inferred.",
        "type": "object",
        "additionalProperties": False,
        "required": ["cutegen", *(name for name, field in own.items() if field.required)],
        "properties": properties,
        "allOf": [of_family(family, of) for family in of],
        "definitions": definitions,
    }


def _tensor() -> dict[str, Any]:
    """The schema of one tensor, which has a shape and a type unless it is a view."""
    own = Record(Tensor).schema("One tensor.")
    keys = ("shape", "dtype")
    says = {key: {"description": own["properties"][key]["description"]} for key in keys}
    return {**own, "if": {"not": {"required": ["view"]}}, "then": {"properties": says, "required": [*keys]}}


def schedule_schema(op: str, schedule: Any) -> Mapping[str, Any]:
    """The schema of a spec's schedule; empty for an unknown op."""
    family = _family(op, schedule)
    found: Mapping[str, Any] = schema()["definitions"][definition_name(family)] if family else {}
    return found


def _family(op: Any, schedule: Any) -> Family | None:
    try:
        return choices().families_meant(op, schedule if isinstance(schedule, Mapping) else {})[0]
    except (KeyError, TypeError):  # an op that there is not
        return None


def known_targets() -> tuple[str, ...]:
    """Every architecture that `targets` can name."""
    return tuple(TARGETS)


def check(data: Any, source: Source, *, expanded: bool = True) -> list[Diagnostic]:
    """Everything in the document that the schema does not allow.

    `expanded` data holds no placeholders any more, so that a typed value must be of its type.
    """
    if not isinstance(data, dict):
        help = "start with `cutegen: 1`, `kernel: NAME` and `op: elementwise`"
        return [
            source.diagnostic("CG103", f"a spec is a mapping, not {_kind(data)}", span=source.values[()], help=help)
        ]
    meant, misspelt = choices().with_known_atoms(data)
    errors = [*_validator(expanded).iter_errors(meant)]
    if misspelt:
        errors += [e for e in _validator(expanded).iter_errors(data) if tuple(e.absolute_path) in misspelt]
    found: list[Diagnostic] = []
    for error in errors:
        for diagnostic in _diagnostics(error, source, data=meant):
            said = [d.span for d in found if d.code == "CG103"]
            if diagnostic.code != "CG103" or diagnostic.span not in said:  # what has two types lacks both
                found.append(diagnostic)
    return found


def check_of_all(data: Any, key: str, source: Source) -> list[Diagnostic]:
    """Everything that the schema does not allow at a key that is of all kernels of a document."""
    found: list[Diagnostic] = []
    for error in _validator(False).evolve(schema=schema()["properties"][key]).iter_errors(data[key]):
        found += _diagnostics(error, source, (key,))
    return found


def mended(data: Any) -> Any | None:
    """The data with every mistake undone whose meaning is plain, or None where one is not.

    A misspelt key or value is read as the nearest known one, a number out of range as the bound. What is said about
    such data tells a reader of many mistakes more of them at once; no kernel is built from it.
    """
    data = copy.deepcopy(choices().with_known_atoms(data)[0])
    for _ in range(6):  # a renamed key may show what is wrong inside it
        errors = list(_validator(True).iter_errors(data))
        if not errors:
            return data
        unknown = [error for error in errors if error.validator == "additionalProperties"]
        for error in unknown or errors:
            if not _mend(data, error):
                return None
    return None


def _mend(data: Any, error: Any) -> bool:
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        for key in [key for key in error.instance if key not in known]:
            value, near = error.instance.pop(key), nearest(key, known)
            if near and not _foreign(tuple(error.absolute_path), key, data):
                error.instance.setdefault(near, value)
        return True
    path = list(error.absolute_path)
    better: Any = None
    if error.validator == "enum" and isinstance(error.instance, str):
        better = near_choice(error.instance, [choice for choice in error.validator_value if isinstance(choice, str)])
    elif error.validator in ("minimum", "maximum"):
        better = error.validator_value
    if better is None or not path:
        return False
    parent = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = better
    return True


def _validator(expanded: bool) -> Any:
    return _validator_of(expanded, families())


@cache
def _validator_of(expanded: bool, of: tuple[Family, ...]) -> Any:
    import jsonschema  # late: an import that only reading a spec needs

    # JSON Schema calls 4.0 an integer; the model does not.
    checker = jsonschema.Draft7Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    kind: Any = jsonschema.validators.extend(jsonschema.Draft7Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    return kind(_without_placeholders(_schema_of(of)) if expanded else _schema_of(of))


def _without_placeholders(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_placeholders(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    typed = PLACEHOLDER in (choices := node.get("anyOf", ()))
    plain = {key: _without_placeholders(value) for key, value in node.items() if key != "anyOf" or not typed}
    for choice in (choice for choice in choices if typed and choice != PLACEHOLDER):
        plain |= _without_placeholders(choice)
    return plain


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number `{value}`"
        case str():
            return f"the text `{shown(value)}`"
        case list():
            return "a list"
    return "a mapping"


def _dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "the spec"


def _diagnostics(error: Any, source: Source, root: Path = (), data: Any = None) -> Iterator[Diagnostic]:
    path: Path = (*root, *error.absolute_path)
    where, value, limit = f"`{_dotted(path)}`", error.instance, error.validator_value
    match error.validator:
        case "additionalProperties":
            known = list(error.schema["properties"])
            for key in value:
                if key not in known:
                    yield source.diagnostic(
                        "CG101",
                        f"unknown key `{shown(key)}` in {where}" if path else f"unknown key `{shown(key)}`",
                        *path,
                        key,
                        key=True,
                        help=_foreign(path, key, data) or suggestion(key, known),
                    )
        case "required":
            known = list(error.schema.get("properties", ()))
            misspelt = {nearest(key, known) for key in value if key not in known}
            for key in limit:
                if key not in value and key not in misspelt:
                    inside = f" in {where}" if path else ""
                    help = f"write {with_meaning(key, error.schema)}" if path or key == "cutegen" else None
                    message = f"the key `{key}` is missing{inside}"
                    yield source.diagnostic("CG102", message, *path, key=True, help=help)
        case "type":
            wanted = " or ".join(_KINDS[kind] for kind in ([limit] if isinstance(limit, str) else limit))
            help = _type_help(path, value, data) or mapping_help(path, error.schema)
            yield source.diagnostic("CG103", f"{where} must be {wanted}, not {_kind(value)}", *path, help=help)
        case "enum":
            choices = [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in limit]
            if path[:1] == ("schedule",) and path[-2:] == ("mma", "atom"):  # any family's of the op
                choices = [atom for family in families() if family.op.name == data["op"] for atom in family.atoms]
            code, what = "CG104", f"{where} cannot be {_kind(value)}"
            if path[:1] == ("targets",):
                code, what = "CG109", f"{where} must be the name of a target, not {_kind(value)}"
                if isinstance(value, str):
                    what = f"unknown target `{shown(value)}`"
            notes = (f"known: {', '.join(choices)}",)
            help = choice_help(value, choices) or unquoted(value)
            if type(value) in (int, float) and all(type(choice) is int for choice in limit):
                help = f"write `{path[-1]}: {min(limit, key=lambda choice: (abs(choice - value), -choice))}`"
            if help is None and isinstance(value, str) and value in Dtype.__members__:
                help = f"write {' or '.join(f'`{choice}`' for choice in choices)}"
            yield source.diagnostic(code, what, *path, notes=notes, help=help)
        case "const":
            if type(value) is not type(limit):  # that it is not even a number is said by its own error
                return
            message = f"language version {shown(value)} is not known; this cutegen reads version {limit}"
            yield source.diagnostic("CG106", message, *path, help=f"write `{path[-1]}: {limit}`")
        case "minimum" | "maximum":
            family = _family(data["op"], data.get("schedule")) if path[:1] == ("schedule",) else None
            deep = 2 if len(path) > 1 and isinstance(path[1], int) else 1  # inside of a case, or of the one schedule
            kind = kind_at(family.schedule, path[deep:]) if family else None
            told = kind.told if isinstance(kind, Integer) else None
            bound = f"{'at least' if error.validator == 'minimum' else 'at most'} {limit}"
            bound = f"from {told[0]} to {told[1]}" if told else bound
            help = f"write `{path[-1]}: {told[2]}`" if told else None
            if path[:1] + path[2:3] == ("tensors", "shape"):
                help = "name the mode, and fix its size under `static:`"
            yield source.diagnostic("CG105", f"{where} must be {bound}, not {shown(value)}", *path, help=help)
        case "minItems" | "minProperties" | "maxItems" | "maxProperties":
            bound = "at least" if error.validator.startswith("min") else "at most"
            message = f"{where} must have {bound} {limit} {'entry' if limit == 1 else 'entries'}, not {len(value)}"
            yield source.diagnostic("CG105", message, *path)
        case "minLength" | "maxLength":
            bound = "at least" if error.validator == "minLength" else "at most"
            message = f"{where} must have {bound} {limit} character{'s' * (limit != 1)}, not {len(value)}"
            yield source.diagnostic("CG105", message, *path)
        case "uniqueItems":
            twice = next(i for i, item in enumerate(value) if item in value[:i])
            yield source.diagnostic("CG105", f"{where} names `{shown(value[twice])}` twice", *path, twice)
        case "pattern":
            help = "write a number, or a bound such as `>= 512`"
            yield source.diagnostic("CG119", f"{where} cannot be {_kind(value)}", *path, help=help)
        case "anyOf":  # a typed value that is no placeholder either; only where placeholders are still allowed
            for cause in error.context:
                if cause.validator in ("type", "enum", "minimum", "maximum"):
                    yield from _diagnostics(cause, source, data=data)
                    return
        case _:
            yield source.diagnostic("CG105", f"{where}: {error.message[:200]}", *path)


def _homes(key: str) -> tuple[tuple[Family, str], ...]:
    """Where a key of some family's schedule belongs: the family, and the path of the mapping that holds it."""
    found: list[tuple[Family, str]] = []

    def look(family: Family, node: Any, path: str) -> None:
        for name, field in node.get("properties", {}).items():
            if name == key:
                found.append((family, path))
            look(family, field, f"{path}.{name}")
        if isinstance(node.get("additionalProperties"), Mapping):
            look(family, node["additionalProperties"], f"{path}.NAME")

    for family in families():
        look(family, schema()["definitions"][definition_name(family)], "schedule")
    return tuple(found)


def _foreign(path: Path, key: str, data: Any) -> str | None:
    """Where a key belongs that exists, but not here."""
    if path == ("schedule",) and key == "for":
        return "`for` says when a case is taken: write `schedule` as a list of cases, each behind a `-`"
    if path[:1] not in ((), ("schedule",)):
        return None
    kind = data.get("op") if isinstance(data, Mapping) else None
    family = _family(kind, data.get("schedule")) if isinstance(data, Mapping) else None
    homes = _homes(key)
    if own := dict.fromkeys(place for of, place in homes if of is family):
        return f"`{key}` belongs under {' or '.join(f'`{place}`' for place in own)}"
    if atoms := [atom for of, _ in dict.fromkeys(homes) if of.op.name == kind for atom in of.atoms]:
        return (
            f"`{key}` is a word of schedules with {' or '.join(f'`mma: {{atom: {a}}}`' for a in dict.fromkeys(atoms))}"
        )
    others = dict.fromkeys(of.op.name for of, _ in homes)
    if not others:
        return None
    known = ", ".join(schedule_schema(str(kind), data.get("schedule")).get("properties", ()))
    takes = f"; the schedule of `op: {kind}` has {known}" if known else ""
    return f"`{key}` belongs to {' and '.join(f'`op: {op}`' for op in others)}{takes}"


def _modes(data: Any) -> list[str]:
    """The modes that a tiler of the document most likely has, its output's first; M, N, K where it does not tell."""
    try:
        tensors = list(data["tensors"].values())
        found = dict.fromkeys(m for t in tensors if t.get("role") in ("out", "inout") for m in t["shape"])
        if any(op.has_product for op in ops() if op.name == data["op"]):
            found |= dict.fromkeys(m for t in tensors for m in t["shape"])
        return list(map(str, found)) or ["M", "N", "K"]
    except (AttributeError, KeyError, TypeError):
        return ["M", "N", "K"]


def _type_help(path: Path, value: Any, data: Any) -> str | None:
    if path[:1] == ("schedule",) and any(isinstance(step, int) for step in path[1:2]):
        path = ("schedule", *path[2:])  # of a case as of the one schedule
    if help := unquoted(value):
        return help
    if path in (("targets",), ("modules",)) and isinstance(value, str):
        return f"write `{path[0]}: [{shown(value)}]`"
    if path[:1] == ("tune",) and len(path) == 2:
        if isinstance(value, (int, float)):
            return f"write `[{shown(str(value).lower())}]`"
        return f'write `["{shown(value)}"]`' if isinstance(value, str) else "write a list of such values"
    if path == ("schedule", "tiler") and isinstance(value, (list, str, int)):
        numbers = re.findall(r"[0-9]+", str(value)) if isinstance(value, (str, int)) else [str(v) for v in value]
        modes = _modes(data)
        if 0 < len(numbers) <= len(modes) and all(n.isdigit() and len(n) < 11 for n in numbers):
            pairs = ", ".join(f"{mode}: {n}" for mode, n in zip(modes, numbers, strict=False))
            return f"name the modes: `tiler: {{{pairs}}}`"
    if path == ("schedule", "predication") and value in ("none", "mask"):
        guards = {mode: str(value) for mode in _modes(data)}
        known = schedule_schema(str(data.get("op")), data.get("schedule"))["properties"]["predication"]
        if value == "mask" and len(guards) == 3 and "residue_first" in str(known):
            guards[list(guards)[2]] = "residue_first"  # the summed mode knows no mask
        return f"name the modes: `predication: {{{', '.join(f'{mode}: {guard}' for mode, guard in guards.items())}}}`"
    if isinstance(value, str) and value and value.strip().lstrip("+-").replace("_", "").isdigit():
        return f"write it as a number: {value.strip().replace('_', '')}"
    return None
