"""Plain data as the text of a spec, in one of the ways in which somebody would write it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from cutegen.yaml12.scalars import resolve
from tests.fuzz.chance import Chance

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_(][ -~]*\Z")


def text_of(data: Any, chance: Chance | None = None) -> str:
    """The text; without `chance` always the same way."""
    if not isinstance(data, dict):
        return _flow(data) + "\n"
    lines: list[str] = []
    for key, value in data.items():
        lines += _entry(str(key), value, "", chance)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, margin: str, chance: Chance | None) -> list[str]:
    """A key and its value, in block style where chance, or the lack of it, says so."""
    block = chance is None or chance.odds(0.5)
    if block and isinstance(value, dict) and value and len(margin) < 6:
        inner = [line for k, v in value.items() for line in _entry(str(k), v, margin + "  ", chance)]
        return [f"{margin}{_word(key)}:", *inner]
    if block and isinstance(value, list) and value and margin == "":
        return [f"{margin}{_word(key)}:", *(f"{margin}  - {_leaf(item, plain=True)}" for item in value)]
    return [f"{margin}{_word(key)}: {_leaf(value, plain=block)}"]


def _leaf(value: Any, plain: bool) -> str:
    """A value on one line; as a `plain` scalar where that reads back as the same text."""
    if not plain or not isinstance(value, str) or not _PLAIN.match(value):
        return _flow(value)
    safe = ": " not in value and " #" not in value and not value.endswith((":", " "))
    return value if safe and value == _resolved(value) else _flow(value)


def _flow(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_word(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return repr(value) if math.isfinite(value) else f"{'-' * (value < 0)}.{'nan' if value != value else 'inf'}"
        case int():
            return str(value)
    return _word(str(value))


def _word(text: str) -> str:
    return text if _WORD.match(text) and text == _resolved(text) else json.dumps(text, ensure_ascii=False)


def _resolved(text: str) -> object:
    try:
        return resolve(text)
    except ValueError:  # a number that is too long to be one
        return None
