"""How a module prints the predicates of A and B: one function for both operands, and what each of them takes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen.families.gemm.staged.load_text import LoadText


@dataclass(frozen=True)
class PredicateText:
    """The texts of the function `predicates`, and of its calls.

    For an operand X it makes tXpX, whether each access is in bounds along X's own mode, for operands that are masked
    there; and tXpX_first, the same with k for the first tile, where that tile has the residue of k.
    """

    loads: Sequence[LoadText]
    masked: bool  # whether any operand is masked along its own mode
    mixed: bool  # whether only one of them is
    residue: bool

    @property
    def parameters(self) -> list[str]:
        found = ["mX: cute.Tensor", "thr_copy", "coord: tuple", "proj: tuple"]
        if self.residue:
            found.append("residue")
        return [*found, "masked: bool"] if self.mixed and self.residue else found

    @property
    def returned(self) -> str:
        return ", ".join((["tXpX"] if self.masked else []) + (["tXpX_first"] if self.residue else []))

    @property
    def returned_type(self) -> str:
        return "tuple" if self.masked and self.residue else "cute.Tensor"

    @property
    def summary(self) -> str:
        """The function's docstring."""
        if not self.residue:
            return "tXpX: which accesses to a tile are in bounds; the same for every k, hence the stride of 0."
        if not self.masked:
            return "tXpX_first: which accesses to the first tile have a k that is in bounds, not below 0."
        return "tXpX: which accesses to a tile are in bounds, for every k; tXpX_first: those to the first."

    @property
    def what(self) -> str:
        """The comment above the calls."""
        if not self.residue:
            return "Which accesses to a tile are in bounds"
        return f"Which accesses to {'a tile, and to the first one' if self.masked else 'the first tile'}, are in bounds"

    @property
    def chosen(self) -> tuple[str, str]:
        """The predicates of a tile of the prologue, names and values; None where an operand needs none."""
        names = ", ".join(f"pred_{x.name}" for x in self.loads)
        first = ", ".join(f"t{x.name}p{x.name}_first" for x in self.loads)
        others = ", ".join(f"t{x.name}p{x.name}" if x.plan.masked else "None" for x in self.loads)
        return names, f"({others}) if k_tile else ({first})"

    def targets(self, x: LoadText) -> str:
        """The variables that a call for an operand assigns to."""
        names = [f"t{x.name}p{x.name}" if x.plan.masked else "_"] if self.masked else []
        return ", ".join(names + ([f"t{x.name}p{x.name}_first"] if self.residue else []))

    def arguments(self, x: LoadText) -> list[str]:
        found = [f"m{x.name}", f"thr_copy_{x.name}", "coord", x.proj]
        if self.residue:
            found.append("residue")
        return [*found, str(x.plan.masked)] if self.mixed and self.residue else found


def predicate_text(loads: Sequence[LoadText]) -> PredicateText | None:
    """The texts for both operands; None if neither needs predicates."""
    masked = [x.plan.masked for x in loads]
    residue = any(x.residue for x in loads)
    if not any(masked) and not residue:
        return None
    return PredicateText(loads, any(masked), any(masked) and not all(masked), residue)
