"""Conversions and products of floats of 8 bits, which not every target has."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import Cast, Expr, Local, Name, Place, Typed, walk
from cutegen.language.model import KernelSpec
from cutegen.planning.asked import family_of


def f8_conversion(spec: KernelSpec) -> tuple[str, int, Place] | None:
    """The first conversion from or to a float of 8 bits: in words, with the number of its statement and its place
    there. None where there is none, as where such floats are only moved.
    """
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    for number, typed in enumerate(annotate(spec.compute, types, family_of(spec).accumulator(spec))):
        for node in walk(typed.value if typed.stored is None else typed.stored):
            if isinstance(node, Cast) and node.dtype and node.x.dtype and (node.dtype.is_f8 or node.x.dtype.is_f8):
                return f"{node.x.dtype.value} to {node.dtype.value}", number, node.place
    return None


def multiplies_f8(spec: KernelSpec) -> bool:
    """Whether a product of matrices has factors of 8-bit floats."""
    product = spec.compute.matmul
    return product is not None and spec.tensor(product.a).dtype.is_f8


def converted_names(statements: Sequence[Typed]) -> frozenset[str]:
    """The tensors of floats of 8 bits whose values statements convert, as all do that compute with them."""
    meant: dict[str, Expr] = {}  # what a name stands for in later statements
    found = set()
    for typed in statements:
        for node in walk(typed.value if typed.stored is None else typed.stored):
            x = node.x if isinstance(node, Cast) else node
            while isinstance(x, Local):
                x = meant[x.id]
            if isinstance(node, Cast) and isinstance(x, Name) and x.dtype is not None and x.dtype.is_f8:
                found.add(x.id)
        meant[typed.target] = typed.value
    return frozenset(found)
