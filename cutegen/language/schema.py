"""The language's JSON Schema, and its errors as diagnostics with a place and a way out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import Path, Source
from cutegen.language.names import nearest, shown, suggestion

PLACEHOLDER_REF = {"$ref": "#/definitions/placeholder"}

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
    """The schema as it ships: JSON Schema draft 7, for editors and for `cutegen schema`."""
    return files("cutegen.language").joinpath("v1.schema.json").read_text(encoding="utf-8")


@cache
def schema() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(schema_text())
    return data


def known_targets() -> tuple[str, ...]:
    """Every architecture that `targets` can name."""
    return tuple(schema()["properties"]["targets"]["items"]["anyOf"][0]["enum"])


def check(data: Any, source: Source, *, expanded: bool = True) -> list[Diagnostic]:
    """Everything in the document that the schema does not allow.

    `expanded` data holds no placeholders any more, so that a typed value must be of its type.
    """
    if not isinstance(data, dict):
        help = "start with `cutegen: 1`, `kernel: NAME` and `op: elementwise`"
        return [
            source.diagnostic("CG103", f"a spec is a mapping, not {_kind(data)}", span=source.values[()], help=help)
        ]
    found: list[Diagnostic] = []
    for error in _validator(expanded).iter_errors(data):
        found += _diagnostics(error, source)
    return found


def check_matrix(data: Any, source: Source) -> list[Diagnostic]:
    """What keeps a document's `matrix` from being expanded."""
    found: list[Diagnostic] = []
    for error in _validator(False).evolve(schema=schema()["properties"]["matrix"]).iter_errors(data):
        found += _diagnostics(error, source, ("matrix",))
    return found


def mended(data: Any) -> Any | None:
    """The data with every mistake undone whose meaning is plain, or None where one is not.

    A misspelt key or value is read as the nearest known one, a number out of range as the bound. What is said about
    such data tells a reader of many mistakes more of them at once; no kernel is built from it.
    """
    data = copy.deepcopy(data)
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
            if near:
                error.instance.setdefault(near, value)
        return True
    path = list(error.absolute_path)
    better: Any = None
    if error.validator == "enum" and isinstance(error.instance, str):
        better = nearest(error.instance, [choice for choice in error.validator_value if isinstance(choice, str)])
    elif error.validator in ("minimum", "maximum"):
        better = error.validator_value
    if better is None or not path:
        return False
    parent = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = better
    return True


@cache
def _validator(expanded: bool) -> Any:
    import jsonschema  # late: an import that only reading a spec needs

    # JSON Schema calls 4.0 an integer; the model does not.
    checker = jsonschema.Draft7Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    kind: Any = jsonschema.validators.extend(jsonschema.Draft7Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    return kind(_without_placeholders(schema()) if expanded else schema())


def _without_placeholders(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_placeholders(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    plain = {key: _without_placeholders(value) for key, value in node.items() if key != "anyOf"}
    for choice in node.get("anyOf", ()):
        if choice != PLACEHOLDER_REF:
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


def _diagnostics(error: Any, source: Source, root: Path = ()) -> Iterator[Diagnostic]:
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
                        help=suggestion(key, known),
                    )
        case "required":
            known = list(error.schema.get("properties", ()))
            misspelt = {nearest(key, known) for key in value if key not in known}
            for key in limit:
                if key not in value and key not in misspelt:
                    inside = f" in {where}" if path else ""
                    yield source.diagnostic("CG102", f"the key `{key}` is missing{inside}", *path, key=True)
        case "type":
            wanted = " or ".join(_KINDS[kind] for kind in ([limit] if isinstance(limit, str) else limit))
            yield source.diagnostic(
                "CG103", f"{where} must be {wanted}, not {_kind(value)}", *path, help=_type_help(path, value)
            )
        case "enum":
            choices = [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in limit]
            code, what = "CG104", f"{where} cannot be {_kind(value)}"
            if path[:1] == ("targets",):
                code, what = "CG109", f"unknown target {_kind(value)}"
            notes = (f"known: {', '.join(choices)}",)
            near = nearest(str(value), choices) if isinstance(value, str) else None
            yield source.diagnostic(code, what, *path, notes=notes, help=f"did you mean `{near}`?" if near else None)
        case "const":
            message = f"language version {shown(value)} is not known; this cutegen reads version {limit}"
            yield source.diagnostic("CG106", message, *path)
        case "minimum" | "maximum":
            bound = "at least" if error.validator == "minimum" else "at most"
            yield source.diagnostic("CG105", f"{where} must be {bound} {limit}, not {shown(value)}", *path)
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
            yield source.diagnostic("CG105", f"{where} names {_kind(value[twice])} twice", *path, twice)
        case "pattern":
            help = "write a number, or a bound such as `>= 512`"
            yield source.diagnostic("CG119", f"{where} cannot be {_kind(value)}", *path, help=help)
        case "anyOf":  # a typed value that is no placeholder either; only where placeholders are still allowed
            for cause in error.context:
                if cause.validator in ("type", "enum", "minimum", "maximum"):
                    yield from _diagnostics(cause, source)
                    return
        case _:
            yield source.diagnostic("CG105", f"{where}: {error.message[:200]}", *path)


def _type_help(path: Path, value: Any) -> str | None:
    if len(path) >= 3 and path[0] == "tensors" and path[2] == "shape" and isinstance(value, int):
        return "name the mode, and fix its size under `static:`"
    if isinstance(value, str) and value and value.strip().lstrip("+-").replace("_", "").isdigit():
        return f"write it as a number: {value.strip().replace('_', '')}"
    return None
