"""Layout algebra in CuTe's notation: expressions, their values, and how these are derived."""

from __future__ import annotations

from cutegen.algebra import show
from cutegen.algebra.evaluate import Evaluation, evaluate
from cutegen.algebra.registry import FUNCTIONS
from cutegen.algebra.syntax import AlgebraError
from cutegen.algebra.values import NotDefined


def functions_by_group() -> dict[str, list[tuple[str, str]]]:
    """(how it is called, what it computes) of every function, by group."""
    groups = ("algebra", "divides", "products", "tiles", "coordinates", "structure", "making", "questions")
    return {group: [(f.usage, f.summary) for f in FUNCTIONS.values() if f.group == group] for group in groups}


__all__ = ["AlgebraError", "Evaluation", "NotDefined", "evaluate", "functions_by_group", "show"]
