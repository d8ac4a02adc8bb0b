"""The statements of `compute` as those of a function, by either printer: values that are used later have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutegen.codegen.expressions import Printer
from cutegen.codegen.variables import Variables
from cutegen.expressions.parsing import Cast, Expr, Local, Typed, walk
from cutegen.language.model import KernelSpec, Tensor


@dataclass(frozen=True)
class Stored:
    """An output with the statements that compute it and the variable that then holds it."""

    tensor: Tensor
    statements: tuple[str, ...]  # since the output before it, the last one `result = ...` if nothing held it before
    result: str  # the variable that then holds it
    value: Expr  # what `result` was printed from


def print_statements(
    spec: KernelSpec, statements: Sequence[Typed], printer: Printer, variables: Variables
) -> tuple[Stored, ...]:
    """Statements for every output, in the order of `compute`. What a single one holds is `result`.

    A local value has a variable of its own name; what an output's later readers mean, before it is rounded, is in a
    variable named for the output.
    """
    later = {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Local)}
    names = {typed.target: _variable(spec, typed, variables) for typed in statements if typed.target in later}
    outputs = [typed.target for typed in statements if typed.stored is not None]
    results = {name: "result" if len(outputs) == 1 else variables.free(f"result_{name}") for name in outputs}
    printer.taken = variables.taken
    found: list[Stored] = []
    lines: list[str] = []
    for typed in statements:
        stored = typed.stored
        if typed.target in names:
            lines += printer.keep(typed.value, typed.target, names[typed.target])
            stored = stored and _of_kept(typed)
        if stored is not None:
            target = results[typed.target]
            lines += printer.run(stored, target)
            found.append(Stored(spec.tensor(typed.target), tuple(lines), target, stored))
            lines = []
    return tuple(found)


def without_copy(stored: Stored) -> Stored:
    """The same output without a last statement that only gives a variable a second name."""
    held = stored.statements[-1].removeprefix(f"{stored.result} = ")
    return replace(stored, statements=stored.statements[:-1], result=held) if held.isidentifier() else stored


def _variable(spec: KernelSpec, typed: Typed, variables: Variables) -> str:
    if typed.stored is None:
        return variables.free(typed.target, f"{typed.target}_value")
    return variables.free(f"new_{spec.tensor(typed.target).argument}")


def _of_kept(typed: Typed) -> Expr:
    """The expression that is stored, read from the variable that keeps the value: that value, or
    the value converted.
    """
    stored, value = typed.stored, typed.value
    assert stored is not None
    kept = Local(typed.target, dtype=value.dtype, place=value.place)
    if stored is value:
        return kept
    return replace(stored, x=kept) if isinstance(stored, Cast) and stored.x is value else stored
