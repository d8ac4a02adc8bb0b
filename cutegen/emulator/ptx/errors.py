"""Errors raised for text that is not PTX, and for PTX that the emulator does not run."""

from __future__ import annotations

from cutegen.errors import CutegenError


class UnsupportedInstruction(CutegenError):
    """Raised for an opcode, modifier, operand or directive that is not emulated.

    `name` says which, `line` counts from 1 in the PTX, and `text` is that line.
    """

    def __init__(self, name: str, line: int, text: str, why: str = "") -> None:
        """`name` is the instruction with its modifiers, or the directive; `why` says what about it is not emulated."""
        super().__init__(f"PTX line {line}: {name} is not emulated{': ' + why if why else ''}: {text}")
        self.name = name
        self.line = line
        self.text = text


class UnlikeRounds(CutegenError):
    """Raised for a loop of more rounds than can be run, which are not so alike that most of them could be left out."""


class PtxSyntaxError(CutegenError):
    """Raised for text that is not PTX as the parser knows it. `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"PTX line {line}: {message}")
        self.line = line
