"""Helps with mappings: what one must have, in the words of the JSON schema, and text that YAML takes for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.language.kinds import Path


def with_meaning(key: str, node: Mapping[str, Any]) -> str:
    """A key that a mapping must have, and what the schema says of it."""
    says = node["properties"][key].get("description", "").rstrip(".")
    return f"`{key}`: {says[:1].lower()}{says[1:]}"


def mapping_help(path: Path, node: Mapping[str, Any]) -> str | None:
    """How a mapping is written that must have a key, or whose entries must; None for any other."""
    each = node.get("additionalProperties")
    entry = each if isinstance(each, Mapping) else node
    required: Sequence[str] = entry.get("required", ())
    if len(required) != 1 or not path:
        return None
    inside = f"{{{required[0]}: ...}}"
    inside = inside if entry is node else f"{{NAME: {inside}}}"
    return f"write `{path[-1]}: {inside}`, with {with_meaning(required[0], entry)}"


def unquoted(value: Any) -> str | None:
    """`{t}` without quotes is a mapping for YAML."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, inside),) = value.items()
        if inside is None:
            return f'quote it: "{{{key}}}"'
    return None
