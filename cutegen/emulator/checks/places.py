"""Which line of a kernel's source an instruction comes from, so that a fault shows one that its reader wrote."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from cutegen.emulator.checks.faults import Place
from cutegen.emulator.ptx.model import Instruction

_DSL = {"nvidia_cutlass_dsl"}  # the folder that CuTeDSL is installed in


def place_of(instruction: Instruction, instructions: Sequence[Instruction], source_file: str | None) -> Place:
    """The place of one of the `instructions` of a kernel, whose source lines are of `source_file`.

    Code of another file has its line there. Code of CuTeDSL has no line in either, and some instructions have one of
    the function that launches the kernel. Then the line is that of the instruction nearest before it, or else after it,
    that has one of the kernel.
    """
    if source_file is None or all(i.source_line is None for i in instructions):
        return Place(instruction.line, instruction.text)
    if instruction.elsewhere is not None and not _DSL & set(Path(instruction.elsewhere[0]).parts):
        file, number = instruction.elsewhere
        if text := linecache.getline(file, number).strip():
            return Place(instruction.line, instruction.text, file, number, text)
    number = next((n for n, i in enumerate(instructions) if i.line == instruction.line), 0)
    before, after = reversed(instructions[:number]), instructions[number + 1 :]
    for candidate in (instruction, *before, *after):
        line = candidate.source_line
        if line and _in_kernel(source_file, line):
            text = linecache.getline(source_file, line).strip()
            near = candidate is not instruction
            return Place(instruction.line, instruction.text, source_file, line, text, near)
    return Place(instruction.line, instruction.text)


def _in_kernel(source_file: str, line: int) -> bool:
    """Whether a line of a Python file may be of a kernel: the innermost function that it is in launches none."""
    around = [found for found in _functions("".join(linecache.getlines(source_file))) if found[0] <= line <= found[1]]
    return not around or not max(around)[2]


@lru_cache(maxsize=32)
def _functions(text: str) -> tuple[tuple[int, int, bool], ...]:
    """The first and last line of each function, its decorators included, and whether it launches kernels itself.

    What is no Python has none.
    """
    try:
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (
            min([f.lineno, *(d.lineno for d in f.decorator_list)]),
            f.end_lineno or f.lineno,
            any(isinstance(node, ast.Attribute) and node.attr == "launch" for node in _own(f)),
        )
        for f in functions
    )


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside of it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)
