"""Printed expressions, with how strongly their outermost operator binds in Python."""

from __future__ import annotations

from dataclasses import dataclass

# Binding strength of Python's operators, weakest first.
COMPARE, OR, XOR, AND, SHIFT, SUM, PRODUCT, NEGATE, ATOM = range(9)
STRENGTH = {
    **{"or": OR, "|": OR, "^": XOR, "and": AND, "&": AND, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM},
    **dict.fromkeys(("*", "/", "//", "%"), PRODUCT),
}


@dataclass(frozen=True)
class Text:
    """Printed Python with the strength of its outermost operator."""

    text: str
    strength: int = ATOM

    def inside(self, strength: int) -> str:
        """The text as an operand of an operator of that strength, in parentheses if it needs them."""
        return self.text if self.strength >= strength else f"({self.text})"
