"""Cuts PTX text into tokens, and reads numbers."""

from __future__ import annotations

import re
from typing import NamedTuple

from cutegen.emulator.ptx.errors import PtxSyntaxError
from cutegen.emulator.ptx.model import Immediate

_TOKEN = re.compile(
    r"""
    (?P<word>[A-Za-z_$%][\w$]*(?:(?:\.|::)\w+)*)
  | (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)
  | (?P<directive>\.[A-Za-z_]\w*)
  | (?P<mark>[-+{}\[\](),;:|!@<>=*&~^?/%.])
    """,
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(rf"[ \t]*({re.sub(r'[?]P<[a-z]+>', '?:', _TOKEN.pattern)} | .)", _TOKEN.flags)
"""Matches blanks and the piece after them: a token, white space or a comment, or a character that begins none."""
_new = tuple.__new__


class Token(NamedTuple):
    """A token. `line` counts from 1.

    `kind` is string, number, directive (`.reg`), word (a name, or an opcode with its modifiers) or mark.
    """

    kind: str
    text: str
    line: int


class Tokens:
    """The tokens of a text, and a position among them; `lines` are the lines of the text.

    Taking a token moves the position behind it. Raises PtxSyntaxError for text that has no tokens, and if a token is
    not the expected one.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.items = list(_scan(text))
        self.at = 0

    @property
    def next(self) -> Token:
        """The token at the position; at the end of the text it is a mark without text."""
        return self.items[self.at]

    def peek(self, ahead: int = 1) -> Token:
        """The token that comes `ahead` tokens after the one at the position."""
        return self.items[min(self.at + ahead, len(self.items) - 1)]

    def take(self) -> Token:
        """Takes the next token, which must not be the end of the text."""
        token = self.next
        if token.text == "" and token.kind == "mark":
            raise PtxSyntaxError("the text ends too early", token.line)
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Takes the next token if it is the mark, word or directive `text`; says whether it was."""
        token = self.items[self.at]
        if token.text == text and token.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Takes the next token, which must be `text`."""
        token = self.take()
        if token.text != text:
            raise PtxSyntaxError(f"{text!r} was expected, not {token.text!r}", token.line)
        return token

    def word(self) -> Token:
        """Takes the next token, which must be a name or an opcode."""
        token = self.take()
        if token.kind != "word":
            raise PtxSyntaxError(f"a name was expected, not {token.text!r}", token.line)
        return token

    def integer(self) -> int:
        """Takes a whole number with an optional sign."""
        negative = self.accept("-") or (self.accept("+") and False)
        token = self.take()
        value = read_number(token)
        if value.width is not None:
            raise PtxSyntaxError(f"a whole number was expected, not {token.text!r}", token.line)
        return -value.bits if negative else value.bits

    def text_of(self, line: int) -> str:
        """The line of the text with that number, without blanks around it."""
        return self.lines[line - 1].strip()


def _scan(text: str) -> list[Token]:
    """The tokens of a text, with the mark at its end. Raises PtxSyntaxError for a character that begins none."""
    texts: list[str] = []
    lines: list[int] = []
    line = 1
    for piece in _PIECE.findall(text):
        if piece.isspace() or piece[:2] in ("//", "/*"):  # nothing else goes beyond a line
            line += piece.count("\n")
        else:
            texts.append(piece)
            lines.append(line)
    kinds = {piece: _kind(piece) for piece in set(texts)}
    if None in kinds.values():
        place = next(i for i, piece in enumerate(texts) if kinds[piece] is None)
        raise PtxSyntaxError(f"unexpected {texts[place]!r}", lines[place])
    tokens = [_new(Token, told) for told in zip(map(kinds.__getitem__, texts), texts, lines, strict=True)]
    tokens.append(Token("mark", "", line))
    return tokens


def _kind(piece: str) -> str | None:
    """The kind of a token, or None for a character that begins none."""
    found = _TOKEN.match(piece)
    return None if found is None else found.lastgroup


def read_number(token: Token, negative: bool = False) -> Immediate:
    """The value of a number (PTX ISA 9.1, section 4.5); `negative` says that a minus sign stands before it.

    Raises PtxSyntaxError for another token, and for a float written as its bits with a minus sign.
    """
    text = token.text
    if token.kind != "number" or (negative and text[:2] in ("0f", "0F", "0d", "0D")):
        raise PtxSyntaxError(f"a number was expected, not {text!r}", token.line)
    if text[:2] in ("0f", "0F", "0d", "0D"):
        return Immediate(int(text[2:], 16), 32 if text[1] in "fF" else 64)
    if "." in text or ("e" in text.lower() and text[:2].lower() != "0x"):
        import struct

        value = -float(text) if negative else float(text)
        return Immediate(int.from_bytes(struct.pack("<d", value), "little"), 64)
    digits = text.rstrip("U")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    integer = int(digits, 8) if octal else int(digits, 0)
    return Immediate((-integer if negative else integer) & ((1 << 64) - 1), None)
