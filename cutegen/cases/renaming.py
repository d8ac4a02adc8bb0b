"""The text of a kernel in which some names stand for others, in what is said of them, too."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from cutegen.codegen.formatting import replaced
from cutegen.codegen.parts import KernelParts
from cutegen.codegen.regions import marked, separate


def in_other_words(text: str, names: Mapping[str, str]) -> str:
    """The functions of a kernel, with the marks of regions: names are replaced in code, comments and documentation. The
    parameters of `launch` stay as they are.
    """
    return _in_other_words(text, tuple(names.items()))


@lru_cache(maxsize=64)  # cases that differ in constants alone have one text
def _in_other_words(text: str, items: tuple[tuple[str, str], ...]) -> str:
    names = dict(items)
    plain, regions = separate(text)
    lines, kept = plain.split("\n"), _parameters_of_launch(plain)
    places: list[tuple[int, int, int, str]] = []
    before, attribute = tokenize.NEWLINE, False
    for token in tokenize.generate_tokens(io.StringIO(plain).readline):
        (first, column), (last, end) = token.start, token.end
        said = token.type == tokenize.COMMENT or (token.type == tokenize.STRING and before in _STARTS)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
        if said:
            for row in range(first, last + 1):
                line = lines[row - 1]
                start, stop = column if row == first else 0, end if row == last else len(line)
                places.append((row, start, stop, _words(line[start:stop], names)))
        elif token.type == tokenize.NAME and token.string in names and first not in kept and not attribute:
            places.append((first, column, end, names[token.string]))
        attribute = token.string == "."
    for row, start, stop, new in sorted(places, reverse=True):
        lines[row - 1] = lines[row - 1][:start] + new + lines[row - 1][stop:]
    return marked("\n".join(lines), regions)


_STARTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def _words(text: str, names: Mapping[str, str]) -> str:
    """A comment or docstring with its names replaced; an `A` that begins a sentence is the article, not a name."""
    return re.sub(r"(?<![#.] )(?<!^)\b\w+|\b(?!A )\w+", lambda found: names.get(found[0], found[0]), text)


def _parameters_of_launch(text: str) -> range:
    """The lines in which `launch` begins."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "launch":
            return range(
                node.lineno, node.body[0].lineno - 1 if node.body[0].lineno > node.lineno + 1 else node.lineno + 1
            )
    return range(0)


def parts_in_other_words(parts: KernelParts, names: Mapping[str, str]) -> KernelParts:
    """The constants, and what the host asks of them."""
    own = {name: other for name, other in names.items() if name in {one.name for one in parts.constants}}
    constants = tuple(
        one._replace(
            name=own.get(one.name, one.name), value=replaced(one.value, own), comment=_words(one.comment, names)
        )
        for one in parts.constants
    )
    limits = tuple(
        replace(limit, tiles=tuple(replaced(text, own) for text in limit.tiles), wanted=replaced(limit.wanted, own))
        for limit in parts.limits
    )
    largest = {mode: replaced(text, own) for mode, text in parts.largest.items()}
    return replace(parts, constants=constants, limits=limits, largest=largest)
