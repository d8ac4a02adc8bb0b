"""Reductions that need the result of another one, and are found in the same walk all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.expressions.tree import Binary, Call, Cast, Expr, Literal_, Local, Name
from cutegen.families.rowwise.walks import Reduction


@dataclass(frozen=True)
class Seen:
    """The statements of a row so far: reductions, and by name the values of the whole row and those of each element.

    `size` is that of the mode `row`, None if it is not fixed.
    """

    reductions: tuple[Reduction, ...]
    rows: Mapping[str, Expr]
    elements: Mapping[str, Expr]
    row: str
    size: int | None

    def largest_below(self, value: Expr) -> Reduction | None:
        """The largest of the values above which `value` is the exponential: that of A, of `exp(A - max(A))`."""
        value = self.meant(value)
        below = self._below(value.arguments[0]) if isinstance(value, Call) and value.function == "exp" else None
        for one in self.reductions:
            if below is not None and one.name == below[1].id and one.function == "max":
                return one if self.meant(one.value) == below[0] else None
        return None

    def mean_below(self, value: Expr) -> Reduction | None:
        """The sum of the values around whose mean `value` is squared: that of A, of `(A - mean(A)) ** 2`."""
        value = self.meant(value)
        if not isinstance(value, Binary):
            return None
        squared = value.op == "**" and isinstance(value.right, Literal_) and value.right.value == 2
        if not squared and not (value.op == "*" and self.meant(value.left) == self.meant(value.right)):
            return None
        below = self._below(value.left)
        mean = None if below is None else self.rows.get(below[1].id)
        while isinstance(mean, Local):
            mean = self.rows.get(mean.id)
        if below is None or not isinstance(mean, Binary) or mean.op != "/" or not self._is_size(mean.right):
            return None
        for one in self.reductions:
            if isinstance(mean.left, Local) and one.name == mean.left.id:
                plain = one.function == "sum" and one.above is None and one.around is None
                alike = one.dtype is value.dtype and self.meant(one.value) == below[0]
                return one if plain and alike else None
        return None

    def meant(self, value: Expr) -> Expr:
        """Resolves names that earlier statements gave to values of each element; returns other values unchanged."""
        while isinstance(value, Local) and value.id in self.elements:
            value = self.elements[value.id]
        return value

    def _below(self, value: Expr) -> tuple[Expr, Local] | None:
        """Both sides of a difference whose right side has a name."""
        value = self.meant(value)
        if isinstance(value, Binary) and value.op == "-" and isinstance(value.right, Local):
            return self.meant(value.left), value.right
        return None

    def _is_size(self, value: Expr) -> bool:
        """Whether it is the number of a row's elements."""
        if isinstance(value, Literal_):
            return self.size is not None and value.value == self.size
        return isinstance(value, Cast) and isinstance(value.x, Name) and value.x.id == self.row
