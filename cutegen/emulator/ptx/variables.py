"""Reads the declarations of variables, with their initial values, and of a kernel's parameters."""

from __future__ import annotations

import struct
from typing import cast, get_args

from cutegen.emulator.ptx.errors import PtxSyntaxError, UnsupportedInstruction
from cutegen.emulator.ptx.lexer import Tokens, read_number
from cutegen.emulator.ptx.model import Parameter, Space, Variable

TYPE_BYTES = {f".{kind}{8 * size}": size for kind in "bsuf" for size in (1, 2, 4, 8) if (kind, size) != ("f", 1)}
"""The scalar types of registers and variables -> how many bytes each has."""
_LINKING = (".visible", ".extern", ".weak", ".common")


def _unsupported(tokens: Tokens, what: str, why: str = "") -> UnsupportedInstruction:
    """The error for a directive in the line of the next token."""
    line = tokens.next.line
    return UnsupportedInstruction(what, line, tokens.text_of(line), why)


def read_variable(tokens: Tokens) -> Variable:
    """Reads a declaration such as `.shared .align 16 .b8 name[4096];`, with the linking directives before it.

    Raises PtxSyntaxError, and UnsupportedInstruction for state spaces, types and attributes that are not emulated.
    """
    external = False
    while tokens.next.text in _LINKING:
        external |= tokens.take().text == ".extern"
    space = tokens.take().text.lstrip(".")
    if space not in get_args(Space):
        raise _unsupported(tokens, f".{space}", "this state space")
    align = 0
    vector = 1
    while tokens.next.text in (".align", ".v2", ".v4", ".attribute"):
        word = tokens.take().text
        if word == ".align":
            align = tokens.integer()
        elif word == ".attribute":
            raise _unsupported(tokens, word)
        else:
            vector = int(word[2:])
    kind = tokens.take().text
    if kind not in TYPE_BYTES:
        raise _unsupported(tokens, f".{space} {kind}", "this type")
    name = tokens.word().text
    element = TYPE_BYTES[kind] * vector
    count, open_ended = 1, False
    while tokens.accept("["):
        if tokens.accept("]"):
            open_ended = True
            continue
        count *= tokens.integer()
        tokens.expect("]")
    data = None
    if tokens.accept("="):
        data = _initial(tokens, kind)
        if open_ended:
            count, open_ended = len(data) // element, False
        if len(data) > count * element:
            raise PtxSyntaxError(f"{name} has more initial values than room", tokens.next.line)
        data += bytes(count * element - len(data))
    tokens.expect(";")
    if space in ("global", "const") and data is None and not external:
        data = bytes(count * element)
    size = 0 if open_ended else count * element
    return Variable(
        name,
        cast(Space, space),
        size,
        align or element,
        open_ended and external,
        data,
    )


def _initial(tokens: Tokens, kind: str) -> bytes:
    """Reads the initial value of a variable of the type `kind`, or a list of them in braces, as bytes."""
    size = TYPE_BYTES[kind]
    if tokens.accept("{"):
        data = b""
        while not tokens.accept("}"):
            data += _initial(tokens, kind)
            tokens.accept(",")
        return data
    negative = tokens.accept("-")
    token = tokens.take()
    if token.kind != "number":
        raise UnsupportedInstruction("initial value", token.line, tokens.text_of(token.line), f"{token.text}")
    value = read_number(token, negative)
    if kind[1] == "f" and value.width is not None and value.width != 8 * size:
        if (size, value.width) != (4, 64):
            raise UnsupportedInstruction("initial value", token.line, tokens.text_of(token.line), f"{token.text}")
        return struct.pack("<f", struct.unpack("<d", value.bits.to_bytes(8, "little"))[0])
    return (value.bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def read_parameters(tokens: Tokens) -> tuple[Parameter, ...]:
    """Reads the list of a kernel's parameters in parentheses, if there is one.

    The offset of each follows from the sizes and alignments of those before it.
    """
    found: list[Parameter] = []
    offset = 0
    if not tokens.accept("("):
        return ()
    while not tokens.accept(")"):
        parameter = _parameter(tokens, offset)
        offset = parameter.offset + parameter.size
        found.append(parameter)
        tokens.accept(",")
    return tuple(found)


def _parameter(tokens: Tokens, offset: int) -> Parameter:
    """Reads one parameter, which comes at `offset` or at the next offset that its alignment allows."""
    tokens.expect(".param")
    align, kind, pointer = 0, "", False
    while tokens.next.kind == "directive":
        word = tokens.take().text
        if word == ".align":
            # After .ptr it is the alignment of what the parameter points to.
            value = tokens.integer()
            align = align if pointer else value
        elif word == ".ptr":
            pointer = True
        elif word in TYPE_BYTES:
            kind = word
        elif word not in (".global", ".shared", ".const", ".local"):
            raise _unsupported(tokens, f".param {word}")
    if not kind:
        raise _unsupported(tokens, ".param", "no type")
    name = tokens.word().text
    size = TYPE_BYTES[kind]
    align = align or size
    if tokens.accept("["):
        size *= tokens.integer()
        tokens.expect("]")
    return Parameter(name, -(-offset // align) * align, size, align)


def register_width(kind: str) -> int | None:
    """The width in bits of registers of a type, given with its dot, or None for what is no type of registers."""
    if kind in (".pred", ".b128"):
        return 1 if kind == ".pred" else 128
    return max(8 * TYPE_BYTES[kind], 16) if kind in TYPE_BYTES else None
