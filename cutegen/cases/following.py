"""Constants of cases that follow from others by a formula: functions have it once, or the class of the cases has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from cutegen.codegen.merging import Definition
from cutegen.codegen.parts import Constant

_RANKS = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.FloorDiv: 2, ast.Mod: 2}


def following(kernels: Sequence[Sequence[Constant]]) -> dict[str, str]:
    """The formulas by which constants follow from others, of those that have the same one in all kernels."""
    first = {one.name: one.value for one in kernels[0] if names_in(one.value)}
    values = [{one.name: one.value for one in kernel} for kernel in kernels]
    return {name: text for name, text in first.items() if all(own.get(name) == text for own in values)}


def names_in(formula: str) -> set[str]:
    """The constants that a formula has; none in a number or a string."""
    return {node.id for node in ast.walk(ast.parse(formula, mode="eval")) if isinstance(node, ast.Name)}


def needed(used: Iterable[str], formulas: Mapping[str, str]) -> set[str]:
    """Names that are used, and those that the formulas of these have."""
    found, new = set(used), set(used)
    while new:
        new = {name for one in new if one in formulas for name in names_in(formulas[one])} - found
        found |= new
    return found


def in_place(name: str, formula: str, functions: Iterable[Definition]) -> str | None:
    """The formula as functions have it, in brackets where it needs them, if they have the constant in one place; else
    None.
    """
    places = [place for one in functions for place in _places(one.text).get(name, ())]
    if len(places) != 1:
        return None
    return f"({formula})" if _needs_brackets(ast.parse(formula, mode="eval").body, *places[0]) else formula


@lru_cache(maxsize=64)
def _places(text: str) -> Mapping[str, Sequence[tuple[ast.AST, bool]]]:
    """Where a text has each name: what it is an operand of, and whether others are before it there."""
    found: dict[str, list[tuple[ast.AST, bool]]] = {}
    for node in ast.walk(ast.parse(text)):
        for field, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, []).append((node, field == "right"))
    return found


def _needs_brackets(formula: ast.expr, of: ast.AST, behind: bool) -> bool:
    if isinstance(of, ast.BinOp) and isinstance(formula, ast.BinOp):
        own, outer = _RANKS.get(type(formula.op), 0), _RANKS.get(type(of.op), 3)
        return own < outer or (own == outer and behind)
    return not isinstance(of, ast.Call | ast.List | ast.Tuple | ast.Assign | ast.keyword)


def with_owner(formula: str, owner: str, names: Iterable[str]) -> str:
    """A formula in which some names are attributes of `owner`."""
    alternatives = "|".join(map(re.escape, sorted(names)))
    return re.sub(rf"\b({alternatives})\b", lambda found: f"{owner}.{found[1]}", formula) if alternatives else formula
