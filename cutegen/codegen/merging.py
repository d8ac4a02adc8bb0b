"""Several kernels in one module: what they define alike stands there once, what they define differently is numbered.

Each kernel's text is Python: definitions at its top level, with the marks of regions. Constants are definitions, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import NamedTuple

from cutegen.codegen.formatting import replaced
from cutegen.codegen.parts import Constant
from cutegen.codegen.regions import Region, marked, separate


@dataclass(frozen=True)
class Definition:
    """A function, or a constant: its name, its text without marks, and the regions in that, counted from its start."""

    name: str
    text: str
    regions: tuple[Region, ...] = ()
    constant: Constant | None = None

    @cached_property
    def used(self) -> frozenset[str]:
        """The names that it uses, its own among them, but for those of its arguments."""
        names = {one.name for one in _read(self.text).names}
        return frozenset({*names, self.name} - self.arguments)

    @cached_property
    def arguments(self) -> frozenset[str]:
        """The names of its arguments, and of those of functions in it."""
        return _read(self.text).arguments


class _Name(NamedTuple):
    """A name in a text: its line, and its column in bytes, both from 0 on. `loaded` says that it is only read."""

    name: str
    line: int
    column: int
    loaded: bool


class _Names(NamedTuple):
    """The names in the text of definitions, those of functions with the lines of their `def`, and of all arguments."""

    names: tuple[_Name, ...]
    functions: tuple[tuple[str, int], ...]
    arguments: frozenset[str]


@lru_cache(maxsize=1024)  # of one text it is asked several times, and kernels of one module have many texts alike
def _read(text: str) -> _Names:
    """The names in the text of definitions."""
    names, functions, arguments = [], [], set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            names.append(_Name(node.id, node.lineno - 1, node.col_offset, isinstance(node.ctx, ast.Load)))
        elif isinstance(node, ast.FunctionDef):
            functions.append((node.name, node.lineno - 1))
        elif isinstance(node, ast.arg):
            arguments.add(node.arg)
    return _Names(tuple(names), tuple(functions), frozenset(arguments))


def definitions(constants: Iterable[Constant], text: str) -> tuple[Definition, ...]:
    """The definitions of one kernel: its constants, then those of its text, which holds nothing else."""
    found = (Definition(one.name, f"{one.name} = {one.value}", constant=one) for one in constants)
    return (*found, *_functions(text))


@lru_cache(maxsize=64)  # kernels of one module have many texts alike
def _functions(text: str) -> tuple[Definition, ...]:
    """The functions that a text with the marks of regions defines."""
    found: list[Definition] = []
    plain, regions = separate(text)
    lines, last = plain.split("\n"), 0
    for node in ast.parse(plain).body:
        if not isinstance(node, ast.FunctionDef):
            raise ValueError(f"a kernel's text defines functions, and line {node.lineno} does not")
        end = node.end_lineno or node.lineno
        first = last + 1
        while not lines[first - 1].strip():
            first += 1
        found.append(Definition(node.name, "\n".join(lines[first - 1 : end]), _inside(regions, first, end)))
        last = end
    return tuple(found)


def _inside(regions: Iterable[Region], first: int, last: int) -> tuple[Region, ...]:
    """The parts of regions that lie in some lines, counted from the first of those."""
    return tuple(
        Region(max(r.first_line, first) - first + 1, min(r.last_line, last) - first + 1, r.path, r.name)
        for r in regions
        if r.first_line <= last and r.last_line >= first
    )


def numbered_names(
    kernels: Sequence[Sequence[Definition]],
    always: Iterable[str],
    taken: Iterable[str],
    groups: Sequence[int] | None = None,
) -> tuple[dict[str, str], ...]:
    """For each kernel, what names become in the module of all: one that kernels define differently gets a number, that
    of the first kernel, from 1 on, which defines it so. Those of `always` get one where all define them alike, too.

    A constant that some kernels have with another value is numbered for each of the others, too, so that all constants
    of a kernel have its number; but for kernels of one of the `groups`, which has its number from 0 on for each kernel.

    What becomes of them is not among the names that a kernel uses for something else, nor among those of `taken`.
    """
    always = frozenset(always)
    firsts = _first_alike(kernels, groups or range(len(kernels)))
    alike: dict[str, set[int]] = {}
    for (_, name), first in firsts.items():
        alike.setdefault(name, set()).add(first)
    different = {name for name, found in alike.items() if len(found) > 1 or name in always}
    used = {*taken, *(name for kernel in kernels for one in kernel for name in one.used | one.arguments)}
    found: tuple[dict[str, str], ...] = tuple({} for _ in kernels)
    for name in sorted(different, key=len, reverse=True):
        numbers = {kernel: first for (kernel, one), first in firsts.items() if one == name}
        stems = chain([name], (f"{name}_case{'_' * more}" for more in count()))
        stem = next(stem for stem in stems if not used & {f"{stem}_{first + 1}" for first in numbers.values()})
        for kernel, first in numbers.items():
            found[kernel][name] = f"{stem}_{first + 1}"
        used |= {found[kernel][name] for kernel in numbers}
    return found


def _first_alike(kernels: Sequence[Sequence[Definition]], groups: Sequence[int]) -> dict[tuple[int, str], int]:
    """For each kernel's definitions, by the number of the kernel and the name, the first kernel that defines the name
    alike: by the same text, in which each name is defined alike again. Constants are as in `numbered_names`.
    """
    defined = {(number, one.name): one for number, kernel in enumerate(kernels) for one in kernel}
    texts: dict[str, set[str]] = {}
    for (_, name), one in defined.items():
        texts.setdefault(name, set()).add(one.text)
    of_group = {place for place, one in defined.items() if one.constant is not None and len(texts[place[1]]) > 1}
    firsts = {place: groups.index(groups[place[0]]) if place in of_group else 0 for place in defined}
    while True:  # distinguish those that were taken for alike, until they are
        seen: dict[tuple[object, ...], int] = {}
        told: dict[tuple[int, str], int] = {}
        for (number, name), one in defined.items():
            uses = sorted((used, firsts[number, used]) for used in one.used if (number, used) in defined)
            told[number, name] = seen.setdefault((name, firsts[number, name], one.text, tuple(uses)), number)
        if told == firsts:
            return firsts
        firsts = told


def combined(
    kernels: Sequence[Sequence[Definition]], names: Sequence[Mapping[str, str]]
) -> tuple[tuple[Constant, ...], tuple[tuple[str, ...], ...]]:
    """The constants of all kernels, and for each kernel the texts of its functions, with marks: each under its name,
    and with the first kernel that has it.
    """
    constants: dict[str, Constant] = {}
    functions: list[tuple[str, ...]] = []
    there: set[str] = set()
    for kernel, own in zip(kernels, names, strict=True):
        texts = []
        for one in kernel:
            name = own.get(one.name, one.name)
            if one.constant is not None:
                constants.setdefault(name, _constant(one.constant, own))
            elif name not in there:
                texts.append(marked(replaced_names(one.text, own), one.regions))
            there.add(name)
        functions.append(tuple(texts))
    return tuple(constants.values()), tuple(functions)


def _constant(constant: Constant, names: Mapping[str, str]) -> Constant:
    return constant._replace(name=names.get(constant.name, constant.name), value=replaced(constant.value, names))


def replaced_names(text: str, names: Mapping[str, str]) -> str:
    """The text of definitions in which names are replaced where Python means them: not in attributes, arguments' names,
    texts or comments.

    Raises ValueError where a function has a variable of its own with one of the names.
    """
    lines, read = text.split("\n"), _read(text)
    places = []
    for one in read.names:
        if one.name in names:
            if not one.loaded:
                raise ValueError(f"`{one.name}` is a variable in line {one.line + 1}, and the name of a definition")
            places.append((one.line, one.column, one.name))
    for function, row in read.functions:
        if function in names:
            line = lines[row]
            places.append((row, len(line[: line.index(f"def {function}") + 4].encode()), function))
    for row, column, name in sorted(places, reverse=True):
        raw = lines[row].encode()  # columns of Python's trees count bytes
        lines[row] = (raw[:column] + names[name].encode() + raw[column + len(name) :]).decode()
    return "\n".join(lines)
