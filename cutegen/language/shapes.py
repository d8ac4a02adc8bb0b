"""Shapes that a spec lists, to verify the kernel on and to measure it at, checked against modes and promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.expressions.constants import limits
from cutegen.language.asked import op_named
from cutegen.language.context import Context
from cutegen.language.kinds import Record
from cutegen.language.model import Bench, Scalar, Tensor
from cutegen.language.names import shown, suggestion
from cutegen.language.taken import lacking, modes_at

MAX_ELEMENTS = 2**40  # of a tensor
MAX_VERIFIED = 2**40  # multiply-adds of a shape to verify on: on a CPU, hours
MAX_MEASURED = 2**46  # of a shape to measure at: on a GPU, seconds


@dataclass(frozen=True)
class Promises:
    """Constraints on sizes: all modes, those with one size, divisors, those fixed by the schedule; and the tensors."""

    modes: tuple[str, ...]
    static: Mapping[str, int]
    divisible: Mapping[str, int]
    derived: tuple[str, ...]
    tensors: tuple[Tensor, ...]


def bench(ctx: Context, promises: Promises, scalars: tuple[Scalar, ...]) -> Bench:
    """The spec's `bench`; what is wrong with it is said to `ctx`."""
    data = ctx.data.get("bench", {})
    if data and op_named(ctx.data["op"]).unmeasured is not None:
        ctx.say("CG203", f"`bench` does not apply to a {ctx.data['op']}", "bench", key=True, help="remove `bench`")
        return Bench()
    read: Bench = Record(Bench).read(data, ctx, ("bench",))
    check_shapes(ctx, "bench", read.shapes, promises, MAX_MEASURED)
    types = {scalar.name: scalar.dtype for scalar in scalars}
    for name, value in read.scalars.items():
        where = ("bench", "scalars", name)
        if (dtype := types.get(name)) is None:
            message = f"`{shown(name)}` is not a scalar of this kernel"
            ctx.say("CG121", message, *where, key=True, help=suggestion(name, types, "scalars"))
            continue
        low, high = limits(dtype)
        inside = low <= value <= high
        fits = inside or not math.isfinite(value) if dtype.is_float else inside and value.is_integer()
        if not fits:
            span = f"number from {low:.7g} to {high:.7g}" if dtype.is_float else f"whole number from {low} to {high}"
            ctx.say("CG105", f"`{name}` is {dtype.value}, which has no {value:g}", *where, help=f"write a {span}")
    return read


def check_shapes(
    ctx: Context,
    key: str,
    shapes: tuple[Mapping[str, int], ...],
    promises: Promises,
    most_work: int,
    may_be_empty: tuple[str, ...] = (),
) -> None:
    """Says what is wrong with the shapes of `key`: a mode too few or too many, a size that a promise rules out, more
    multiply-adds than `most_work`."""
    modes, static, divisible = promises.modes, promises.static, promises.divisible
    for i, shape in enumerate(shapes):
        where = (key, "shapes", i)
        missing = [mode for mode in modes if mode not in shape and mode not in static and mode not in promises.derived]
        if missing:
            message = f"the shape lacks a size for {', '.join(f'`{mode}`' for mode in missing)}"
            ctx.say("CG132", message, *where, help=f"the modes are {', '.join(modes)}")
        for mode, size in shape.items():
            if mode not in modes:
                ctx.unknown_mode(mode, modes, *where, mode)
            elif mode in promises.derived:
                message = f"`{mode}` follows from the thread-value layout"
                ctx.say("CG131", message, *where, mode, help=f"remove `{mode}`")
            elif mode in static and size != static[mode]:
                ctx.say("CG131", f"`{mode}` is {size}, and static says {static[mode]}", *where, mode)
            elif size == 0 and mode not in may_be_empty:
                only = f"; only `{may_be_empty[0]}` may be 0" if may_be_empty else ""
                ctx.say("CG105", f"`{mode}` must be at least 1{only}", *where, mode)
            elif mode in divisible and size % divisible[mode]:
                step = divisible[mode]
                notes = (f"{size} = {size // step} * {step} + {size % step}",)
                help = f"write {-(-size // step) * step}"
                message = f"`{mode}` is {size}, and divisible promises a multiple of {step}"
                ctx.say("CG131", message, *where, mode, notes=notes, help=help)
        _check_work(ctx, key, i, {**shape, **static}, promises.tensors, most_work)
        check_places(ctx, promises.tensors, {**shape, **static}, *where)


def check_places(ctx: Context, tensors: tuple[Tensor, ...], sizes: Mapping[str, int], *path: str | int) -> None:
    """Sizes, written at `path`, with which elements would be written at the places of others (CG143).

    Tensors are left out if one of the modes that say so has no size among them.
    """
    shapes = {t.name: t.shape for t in tensors}
    asked = {t.name: {*dict(t.at), *(mode for _, index in t.at for mode in shapes.get(index, ("",)))} for t in tensors}
    having = tuple(t for t in tensors if asked[t.name] <= {*sizes} or not t.at)
    if (found := lacking(having, sizes)) is None or not found[0].writes:
        return
    tensor, there, count = found
    together = dict.fromkeys(index for _, index in tensor.at)
    own = " * ".join(min(modes_at(having, index), key=lambda mode: sizes[mode]) for index in together)
    message = f"`{tensor.name}` is written at {count} places, and there are {there} along {own}"
    notes = ("no two elements are written at one place",)
    ctx.say("CG143", message, *path, notes=notes, help=f"give {own} at least {count}, or write at fewer")


def _check_work(
    ctx: Context, key: str, i: int, sizes: Mapping[str, int], declared: tuple[Tensor, ...], most_work: int
) -> None:
    """A tensor, or a gemm's multiply-adds, that no machine has the memory or the time for."""
    parts = [(f"elements of {tensor.name}", tensor.shape, MAX_ELEMENTS) for tensor in declared]
    if op_named(ctx.data["op"]).has_product:
        every = tuple(dict.fromkeys(mode for tensor in declared for mode in tensor.shape))
        parts.append(("multiply-adds", every, most_work))
    purpose = {"verify": "verify on", "bench": "measure"}[key]
    for what, modes, most in parts:
        if all(mode in sizes for mode in modes) and (count := math.prod(sizes[mode] for mode in modes)) > most:
            power = f"2**{most.bit_length() - 1}"
            notes = (f"{' * '.join(str(sizes[mode]) for mode in modes)} = {count} > {power}",)
            message = f"the shape has {count} {what}; the limit is {power} to {purpose}"
            help = f"{purpose} a smaller shape"
            ctx.say("CG136", message, key, "shapes", i, notes=notes, help=help)
            return
