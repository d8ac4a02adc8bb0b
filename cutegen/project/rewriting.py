"""Specs that a verb writes to a file, and writes again there: as long as nobody edited what it wrote."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from cutegen.project.editors import HEADER, SCHEMA_NAME, write_schema
from cutegen.project.paths import readable, shown
from cutegen.project.starter import Starter, StarterError, write_new
from cutegen.project.write import write_all

_MARK = "# `cutegen grad` wrote this, and writes it again as long as nobody edits it: sha256 "
_MARKED = re.compile(rf"{re.escape(HEADER)}{re.escape(_MARK)}([0-9a-f]{{64}})\n")


def marked(text: str) -> str:
    """A spec's text with lines before it by which it is known again: the schema, and a digest of the text."""
    return f"{HEADER}{_MARK}{_digest(text)}\n{text}"


def write_again(path: Path, text: str) -> Starter:
    """Writes a spec to a file that is not there yet, or that holds what this function wrote there.

    Raises StarterError for any other file, and for what the disk refuses.
    """
    try:
        there = path.read_bytes()
    except FileNotFoundError:
        return write_new(path, marked(text))
    except OSError as error:
        raise StarterError(f"{readable(str(path))} cannot be read: {error.strerror}") from error
    known = _MARKED.match(there.decode("utf-8", errors="replace").replace("\r\n", "\n"))
    if known is None:
        message = f"{shown(path.absolute())} already exists, and `cutegen grad` did not write it"
        raise StarterError(message, "choose another name or --out FILE")
    body = there.decode("utf-8", errors="replace").replace("\r\n", "\n")[known.end() :]
    if _digest(body) != known[1]:
        message = f"{shown(path.absolute())} was edited since `cutegen grad` wrote it"
        raise StarterError(message, "choose another name, or remove the file to lose what was edited")
    try:
        write_all({path.resolve(): marked(text).encode()})
        write_schema(path.parent)
    except OSError as error:
        raise StarterError(f"{readable(str(error.filename or path))} cannot be written: {error.strerror}") from error
    return Starter(path, path.parent / SCHEMA_NAME)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
