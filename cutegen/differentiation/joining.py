"""Modes that a kernel only reduces along all together: in sums of products they are one mode.

A sum along C and HW is one sum: a factor that differs only along C cannot be moved out, as it could with sums along one
mode after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from math import prod

from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.sums import Atom, Sum, of
from cutegen.expressions.tree import Coord, Expr, Name, Reduce
from cutegen.language.model import KernelSpec, Tensor
from cutegen.ops.op import op_of


@dataclass(frozen=True)
class Joint:
    """The modes that are one, and what that is called; none of them where a kernel reduces along one at a time."""

    parts: tuple[str, ...] = ()
    mode: str = ""

    @staticmethod
    def of(spec: KernelSpec, wanted: Iterable[Tensor]) -> Joint:
        """That of a kernel, with a name that nothing else of it has.

        None where a gradient is wanted of a tensor that has some of the modes only, since it is a sum along the others.
        """
        parts = op_of(spec).reduced_together(spec)
        has = [sum(part in tensor.modes for part in parts) for tensor in wanted]
        if len(parts) < 2 or any(0 < number < len(parts) for number in has):
            return Joint()
        taken = {*spec.modes, *spec.compute.names(), *spec.compute.targets, *(t.name for t in spec.tensors)}
        wanted_name = "_".join(parts)
        numbered = (f"{wanted_name}_{number}" for number in count(1))
        return Joint(parts, next(name for name in chain([wanted_name], numbered) if name not in taken))

    def modes(self, modes: Iterable[str]) -> tuple[str, ...]:
        """Some modes with the one for those that it is made of."""
        return tuple(dict.fromkeys(self.mode if mode in self.parts else mode for mode in modes))

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes that are fixed, with that of the one mode."""
        known = self.parts and all(part in sizes for part in self.parts)
        return {**sizes, **({self.mode: prod(sizes[part] for part in self.parts)} if known else {})}

    @property
    def coordinates(self) -> dict[str, Sum]:
        """The meanings, as sums, of the names that replace coordinates along the modes in a joined expression."""
        modes = frozenset([self.mode])
        return {f"coord {part}": of(Atom("coord", part, modes=modes)) for part in self.parts}

    def joined(self, x: Expr) -> Expr:
        """An expression that reduces along the one mode."""
        if isinstance(x, Reduce) and len(self.parts) > 1 and {one.mode for one in x.nested} == {*self.parts}:
            return Reduce(x.function, self.joined(x.nested[-1].x), self.mode)
        if isinstance(x, Coord) and x.mode in self.parts:
            return Name(f"coord {x.mode}")
        return rebuilt(x, self.joined)

    def apart(self, x: Expr) -> Expr:
        """An expression that reduces along the modes as they are written."""
        if isinstance(x, Reduce) and x.mode == self.mode:
            inner = self.apart(x.x)
            for part in reversed(self.parts):
                inner = Reduce(x.function, inner, part)
            return inner
        return rebuilt(x, self.apart)
