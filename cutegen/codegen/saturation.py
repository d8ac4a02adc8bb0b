"""Casts from floats to integers, as text on CuTeDSL's register tensors."""

from __future__ import annotations

from cutegen.codegen.casts import after, ends, holds_ends
from cutegen.codegen.texts import Text
from cutegen.codegen.whole_numbers import Words
from cutegen.expressions.tree import Cast


def saturated(printer: Words, node: Cast, x: Text) -> Text:
    """The text of a cast of what was printed as `x`: what is out of range becomes the nearest number of the type."""
    source, dtype = node.x.dtype, node.dtype
    assert source is not None and dtype is not None
    (low, high), (least, largest) = dtype.range, ends(dtype)
    x = printer.name(Text(printer.spread(node.x, x)))
    if source.compute is not source:
        x = printer.name(Text(f"{x.text}.to(cutlass.{source.compute.cutlass})"))

    def chosen(condition: str, otherwise: int | str) -> Text:
        return Text(f"cute.where({x.text} {condition}, {x.text}, cute.full_like({x.text}, {otherwise}))")

    asked = not printer.intervals.are_around(node.x, low)
    if asked:
        # Compilers leave out a comparison with a bound that all numbers keep, also for a NaN
        x = printer.name(chosen(f"== {x.text}", 0))
    if not asked and low < 0:
        below = f"cute.full_like({x.text}, {least}), cute.full_like({x.text}, 0)"
        below = printer.name(Text(f"cute.where({x.text} <= {least}, {below})")).text
        x = printer.name(Text(f"cute.where({x.text} > {least}, {x.text}, {below})"))
    else:  # what is not above becomes the bound, where that is 0 NaN among it
        x = printer.name(chosen(f"> {least}", least))
    to = f".to(cutlass.{dtype.cutlass})"
    if holds_ends(source, dtype):
        return Text(printer.name(chosen(f"< {high}", high)).text + to)
    # the float type holds no `high`, only the number after it
    full = printer.name(Text(f"cute.full_like({x.text}, {largest}, cutlass.{dtype.cutlass})"))
    return Text(f"cute.where({x.text} < {after(dtype)}, {x.text}{to}, {full.text})")
