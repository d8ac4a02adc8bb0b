"""The base of what cutegen raises for people: a message, and help where something is known to work."""

from __future__ import annotations

from cutegen.exits import BROKEN


class CutegenError(Exception):
    """Something that was asked for cannot be done. `message` says what and why, `help` what would work instead.

    The command line prints both, and ends with `exit_code`.
    """

    exit_code = BROKEN

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.help = message, help
