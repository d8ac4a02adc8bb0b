"""The rules of its specs."""

from __future__ import annotations

from cutegen.lint.rule import Rule, Say
from toy_roles.memory import DEPTH
from toy_roles.op import names
from toy_roles.schedule import Spec


def units(spec: Spec) -> dict[str, int]:
    """The divisors of N and K: zeros beyond the end of B would count as scores."""
    _, _, b = (spec.tensor(name) for name in names(spec.compute))
    return dict(zip(b.shape, (spec.schedule.columns or 8, DEPTH), strict=True))


def whole_tiles(spec: Spec, say: Say) -> None:
    """N and K are fixed, and whole tiles."""
    for mode, unit in units(spec).items():
        size = spec.static.get(mode, 0)
        if size < 1 or size % unit:
            message = f"{mode} is {size or 'not fixed'}, and a tile has {unit} along it"
            notes = (f"{size} = {size // unit} * {unit} + {size % unit}",) * bool(size)
            help = f"write `static: {{{mode}: {max(1, -(-size // unit)) * unit}}}`"
            say(message, "static", mode, notes=notes, help=help)


def operands(spec: Spec, say: Say) -> None:
    """wgmma has a multiple of 8 columns, and tensor maps take steps of 16 bytes."""
    found = spec.schedule.columns or 8
    if found % 8:
        say(f"a product has {found} columns", "schedule", "columns", help=f"write `columns: {found // 8 * 8}`")
    for tensor in spec.inputs:
        if tensor.align is not None and tensor.align % 16:
            message = f"a tensor map loads `{tensor.name}`, which is aligned to {tensor.align} bytes"
            say(message, "tensors", tensor.name, "align", help="write `align: 16`")


RULES = (Rule("CG398", operands, basic=True), Rule("CG399", whole_tiles, basic=True))
