"""The value of a plain scalar by YAML 1.2's core schema: null, a bool, a number, or else a text."""

from __future__ import annotations

import re

Plain = None | bool | int | float | str
NULL = frozenset(("", "~", "null", "Null", "NULL"))
BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER = re.compile(r"[-+]?[0-9]+\Z")
PREFIXED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
MAX_DIGITS = 400  # of a number; far above any that has a meaning here, far below what makes `int` slow


def resolve(text: str) -> Plain:
    """A plain scalar's value by YAML 1.2's core schema.

    Raises `ValueError` for a number of more than 400 characters.
    """
    if text in NULL:
        return None
    if text in BOOLEAN:
        return BOOLEAN[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    if SPECIAL.match(text):
        return float(text.replace(".", "").lower())
    for pattern in (INTEGER, PREFIXED, FLOAT):
        if pattern.match(text):
            if len(text) > MAX_DIGITS:
                raise ValueError(f"the number has {len(text)} characters; at most {MAX_DIGITS} are read")
            return float(text) if pattern is FLOAT else int(text, 0 if pattern is PREFIXED else 10)
    return text
