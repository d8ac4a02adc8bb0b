"""The base of what cutegen raises for people, and what makes the text of others fit for reports."""

from __future__ import annotations

import re

from cutegen.exits import BROKEN


class CutegenError(Exception):
    """Something that was asked for cannot be done. `message` says what and why, `help` what would work instead.

    The command line prints both, and ends with `exit_code`.
    """

    exit_code = BROKEN

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.help = message, help


_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)  # escape sequences (ECMA-48: CSI, OSC, others) and control characters that begin none; tabs and ends of lines stay


def plain(text: str) -> str:
    """The text of a compiler, a library or a process, without colours and other orders to a terminal."""
    return _TERMINAL.sub("", text)
