"""Errors about an expression, each with its place in the text and a help."""

from __future__ import annotations

from cutegen.errors import CutegenError
from cutegen.expressions.tree import Place


class ExpressionError(CutegenError):
    """Says what is wrong with the expression, where in its text, and what would work."""

    def __init__(self, message: str, place: Place, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.place, self.help = message, place, help
        self.statement = 0  # the number of the statement that holds the place


class NumberError(ExpressionError):
    """Says that a type cannot hold a number, written or computed from others."""


class UntransposedError(ExpressionError):
    """Says that the right side of `@` is not `B.T`; `names` are those of both sides, None where they are no names."""

    def __init__(self, place: Place, names: tuple[str, str] | None) -> None:
        help = "give B the shape [N, K], as CuTe does, and write `A @ B.T`"
        super().__init__("the right side of `@` must be a transposed tensor", place, help)
        self.names = names
