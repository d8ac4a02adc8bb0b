"""Paths as people and shells see them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def shown(path: Path) -> str:
    r"""A path as people see it: relative to the current folder where it lies under that, else absolute.

    Bytes that are no text show as `\xff`.
    """
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed
        return readable(str(path))
    return readable(path.relative_to(here).as_posix() or "." if path.is_relative_to(here) else str(path))


def readable(text: str) -> str:
    """A text that every output can hold.

    Lone surrogates, which stand for bytes of a path that are not UTF-8, show as those bytes.
    """
    try:
        return os.fsencode(text).decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def quoted(path: Path | str) -> str:
    """A path as a suggested command names it, in quotes where a shell would take it apart."""
    return shlex.quote(shown(path) if isinstance(path, Path) else readable(path))
