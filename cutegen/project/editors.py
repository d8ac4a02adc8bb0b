"""Editor support for the language: a schema beside the specs, and a line in each spec that names it.

Editors that run yaml-language-server, such as VS Code with its YAML extension, follow that line without further setup.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen.errors import CutegenError
from cutegen.language.schema import schema_text
from cutegen.project.paths import shown
from cutegen.project.write import write_all

SCHEMA_NAME = ".cutegen.schema.json"
HEADER = f"# yaml-language-server: $schema={SCHEMA_NAME}\n"  # the line that tells editors
_NAMED = re.compile(rb"^#\s*yaml-language-server\s*:", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Connected:
    """The schemas and the specs that were written, without those that were current already."""

    schemas: tuple[Path, ...]
    specs: tuple[Path, ...]


def connect(specs: Sequence[Path]) -> Connected:
    """Writes the schema into each folder that has one of the specs, and the line that names it into each spec without
    such a line, all of them or none.

    Raises CutegenError for a file of others where the schema goes, and OSError for what the disk refuses.
    """
    changes: dict[Path, bytes | None] = {}
    for path in dict.fromkeys(spec.parent / SCHEMA_NAME for spec in specs):
        if os.path.lexists(path) and not _is_ours(path):
            raise CutegenError(f"{shown(path)} exists and is not a schema of cutegen", "move it away")
        if not path.exists() or path.read_bytes() != schema_text().encode():
            changes[path] = schema_text().encode()
    schemas = tuple(changes)
    for path in specs:
        data = path.read_bytes()
        if _NAMED.search(data) is None:
            line = HEADER.encode().replace(b"\n", b"\r\n" if b"\r\n" in data else b"\n")
            mark, rest = (_BOM, data[len(_BOM) :]) if data.startswith(_BOM) else (b"", data)
            changes[path] = mark + line + rest
    write_all(changes)
    return Connected(schemas, tuple(path for path in changes if path not in schemas))


def write_schema(folder: Path) -> None:
    """Writes the schema of this version of cutegen into a folder. It replaces that of another version, and nothing
    else.
    """
    path = folder / SCHEMA_NAME
    if not os.path.lexists(path) or _is_ours(path):
        path.write_text(schema_text(), encoding="utf-8", newline="\n")


def _is_ours(path: Path) -> bool:
    """Whether a file is a schema of cutegen, of any version."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["title"]).startswith("cutegen kernel spec")
    except (OSError, ValueError, KeyError, TypeError):
        return False
