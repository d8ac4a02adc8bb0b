"""Parses PTX files: from their text to a `Module`.

Source lines come from .loc, which CuTeDSL writes when a kernel is compiled with the option
`cute.GenerateLineInfo(True)`: one `.loc file line column` before the instructions of a place, and one
`.file number "path"` for each file at the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cutegen.emulator.ptx.errors import PtxSyntaxError, UnsupportedInstruction
from cutegen.emulator.ptx.functions import Function, find_functions, skip_function
from cutegen.emulator.ptx.kernel_body import Body
from cutegen.emulator.ptx.lexer import Tokens
from cutegen.emulator.ptx.model import Kernel, Module, Variable
from cutegen.emulator.ptx.variables import read_parameters, read_variable

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".shared", ".global", ".const")
_HINTS = (".maxnreg", ".minnctapersm", ".maxnctapersm")


def parse(text: str) -> Module:
    """Parses the text of a PTX file.

    Only lines of the source file with the lowest number count as source lines: that is the one that was compiled, the
    others are libraries. Raises PtxSyntaxError for what is not PTX, and UnsupportedInstruction for directives that are
    not emulated.
    """
    tokens = Tokens(text.rstrip("\0"))
    files = {int(number): path for number, path in _FILE.findall(text)}
    version = target = ""
    variables: list[Variable] = []
    kernels: list[Kernel] = []
    functions = find_functions(tokens)
    while tokens.next.text:
        token = tokens.next
        if token.text == ".version":
            tokens.take()
            version = tokens.take().text
        elif token.text == ".target":
            tokens.take()
            target = tokens.word().text
            while tokens.accept(","):
                tokens.word()
        elif token.text == ".address_size":
            tokens.take()
            if tokens.integer() != 64:
                raise UnsupportedInstruction(".address_size", token.line, tokens.text_of(token.line), "not 64")
        elif token.text == ".file":
            _skip_file(tokens)
        elif token.text == ".section":
            _skip_section(tokens)
        elif token.text in (*_LINKING, *_SPACES, ".entry", ".func"):
            _declaration(tokens, variables, kernels, files, functions)
        elif token.text == ".pragma":
            while not tokens.accept(";"):
                tokens.take()
        elif not tokens.accept(";"):
            raise UnsupportedInstruction(token.text, token.line, tokens.text_of(token.line))
    if not target or not version:
        raise PtxSyntaxError("no .version or no .target", 1)
    return Module(target, version, tuple(kernels), tuple(variables), files[min(files)] if files else None)


def _declaration(
    tokens: Tokens,
    variables: list[Variable],
    kernels: list[Kernel],
    files: Mapping[int, str],
    functions: Mapping[str, Function],
) -> None:
    """Reads a variable or a kernel, with the linking directives before it, and adds it to its list.

    A function is skipped: it is read where it is called.
    """
    start = tokens.at
    while tokens.next.text in _LINKING:
        tokens.take()
    if tokens.accept(".entry"):
        kernels.append(_kernel(tokens, {v.name for v in variables}, files, functions))
    elif tokens.accept(".func"):
        skip_function(tokens)
    else:
        tokens.at = start
        variables.append(read_variable(tokens))


def _skip_file(tokens: Tokens) -> None:
    """Skips a .file directive: a number, a path, and perhaps a timestamp and a size."""
    tokens.take()
    tokens.integer()
    tokens.take()
    while tokens.accept(","):
        tokens.integer()


def _skip_section(tokens: Tokens) -> None:
    """Skips a .section of debugging data: braces with anything but braces inside."""
    tokens.take()
    while tokens.take().text != "{":
        pass
    while tokens.take().text != "}":
        pass


def _kernel(tokens: Tokens, outer: set[str], files: Mapping[int, str], functions: Mapping[str, Function]) -> Kernel:
    """Reads a kernel from its name on.

    `outer` are the names of the variables around it, and `functions` are what it may call.
    """
    name = tokens.word().text
    parameters = read_parameters(tokens)
    threads: dict[str, tuple[int, int, int]] = {}
    while tokens.next.kind == "directive":
        token = tokens.take()
        if token.text in (".reqntid", ".maxntid"):
            sizes = [tokens.integer()]
            while tokens.accept(","):
                sizes.append(tokens.integer())
            x, y, z = (*sizes, 1, 1)[:3]
            threads[token.text] = (x, y, z)
        elif token.text in _HINTS:
            tokens.integer()
        elif token.text == ".pragma":
            while not tokens.accept(";"):
                tokens.take()
        else:
            raise UnsupportedInstruction(token.text, token.line, tokens.text_of(token.line), "on a kernel")
    required, most = threads.get(".reqntid"), threads.get(".maxntid")
    if tokens.accept(";"):
        return Kernel(name, parameters, {}, (), (), {}, required, most)
    body = Body(tokens, outer | {p.name for p in parameters}, files, functions)
    return Kernel(
        name, parameters, body.registers, tuple(body.variables), tuple(body.instructions), body.labels, required, most
    )
