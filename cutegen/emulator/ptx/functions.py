"""Finds the functions of a PTX file, which kernels of it may call."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.lexer import Tokens
from cutegen.emulator.ptx.variables import read_parameters


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the names of what it returns and of its parameters, and where among the tokens its body begins."""

    name: str
    returned: tuple[str, ...]
    parameters: tuple[str, ...]
    body: int


def find_functions(tokens: Tokens) -> dict[str, Function]:
    """The functions of a PTX file that have a body, by their names. The position among the tokens stays as it is.

    Raises PtxSyntaxError, and UnsupportedInstruction for a parameter that is a register.
    """
    position, found = tokens.at, {}
    for start, token in enumerate(tokens.items):
        if token.kind == "directive" and token.text == ".func":
            tokens.at = start + 1
            while tokens.next.text not in ("{", ";"):
                tokens.take()
            body = tokens.at
            if tokens.next.text == "{":
                if any(item.text == ".reg" for item in tokens.items[start:body]):
                    raise UnsupportedInstruction(
                        ".func", token.line, tokens.text_of(token.line), "parameters in registers"
                    )
                tokens.at = start + 1
                returned = tuple(p.name for p in read_parameters(tokens))
                name = tokens.word().text
                found[name] = Function(name, returned, tuple(p.name for p in read_parameters(tokens)), body)
    tokens.at = position
    return found


def skip_function(tokens: Tokens) -> None:
    """Skips what follows .func: a declaration up to its semicolon, or a function up to its last brace."""
    while tokens.next.text not in ("{", ";"):
        tokens.take()
    depth = 0
    while True:
        text = tokens.take().text
        depth += (text == "{") - (text == "}")
        if depth == 0:
            return
