"""Conversions that not every target has."""

from __future__ import annotations

from cutegen.expressions.parsing import Cast, Place, annotate, walk
from cutegen.language.model import KernelSpec


def f8_conversion(spec: KernelSpec) -> tuple[str, int, Place] | None:
    """The first conversion from or to a float of 8 bits: in words, with the number of its statement and its place
    there. None where there is none, as where such floats are only moved.
    """
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    for number, typed in enumerate(annotate(spec.compute, types)):
        for node in walk(typed.value if typed.stored is None else typed.stored):
            if isinstance(node, Cast) and node.dtype and node.x.dtype and (node.dtype.is_f8 or node.x.dtype.is_f8):
                return f"{node.x.dtype.value} to {node.dtype.value}", number, node.place
    return None
