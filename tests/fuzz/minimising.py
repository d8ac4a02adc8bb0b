"""A smaller spec with the same finding: parts are left out, and values made plain, as long as it stays."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

from cutegen.language.document import parse_documents, plain
from tests.fuzz.spoiling import places
from tests.fuzz.writing import text_of

Holds = Callable[[bytes], bool]


def minimise(raw: bytes, holds: Holds, seconds: float = 30.0) -> bytes:
    """The smallest spec that is found in that time and for which `holds` is true, as it is for this one."""
    deadline = time.monotonic() + seconds
    data = _data_of(raw)
    if data is not None and holds(written := text_of(data).encode("utf-8", "replace")):
        raw = written
        while time.monotonic() < deadline and (smaller := _smaller(data, holds, deadline)) is not None:
            data = smaller
            raw = text_of(data).encode("utf-8", "replace")
        return raw
    return _fewer_parts(_fewer_parts(raw, b"\n", holds, deadline), b"", holds, deadline)


def _data_of(raw: bytes) -> dict[str, Any] | None:
    """The first document as data; None where it is none."""
    try:
        documents, _ = parse_documents(raw.decode())
        data = plain(documents[0])
    except (UnicodeDecodeError, IndexError):
        return None
    return data if isinstance(data, dict) else None


def _smaller(data: dict[str, Any], holds: Holds, deadline: float) -> dict[str, Any] | None:
    """The data after one change that makes it smaller; None where no change leaves `holds` true."""
    for index in range(len(places(data))):
        for change in (_left_out, _made_plain):
            if time.monotonic() > deadline:
                return None
            tried = copy.deepcopy(data)
            node, key = places(tried)[index]
            if change(node, key) and holds(text_of(tried).encode("utf-8", "replace")):
                return tried
    return None


def _left_out(node: Any, key: Any) -> bool:
    del node[key]
    return True


def _made_plain(node: Any, key: Any) -> bool:
    """Puts what is simpler in the place of a value; says whether that changed it."""
    old = node[key]
    if isinstance(old, list) and len(old) == 1 and key == "compute":
        node[key] = old[0]
    elif isinstance(old, str) and key == "dtype" and old != "f32":
        node[key] = "f32"
    else:
        return False
    return True


def _fewer_parts(raw: bytes, between: bytes, holds: Holds, deadline: float) -> bytes:
    """The bytes with lines, or single bytes, left out: runs of them first, then ever shorter ones."""
    parts = raw.split(between) if between else [bytes([byte]) for byte in raw]
    length = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(parts) and time.monotonic() < deadline:
            tried = parts[:at] + parts[at + length :]
            if holds(between.join(tried)):
                parts = tried
            else:
                at += length
        if length == 1:
            return between.join(parts)
        length //= 2
