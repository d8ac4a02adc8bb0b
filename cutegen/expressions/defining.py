"""The definitions of functions that are made of others, as trees."""

from __future__ import annotations

from functools import cache

from cutegen.expressions.functions import function_of
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse
from cutegen.expressions.tree import Compute, Expr


@cache
def definition(function: str) -> Expr | None:
    """The definition of a function as a tree, with a name for each of its parameters; None for a primitive."""
    text = function_of(function).definition
    if text is None:
        return None
    return (
        with_named_numbers(Compute((parse(f"_ = {text}", parts=True),)), function_of(function).parameters)
        .statements[0]
        .value
    )
