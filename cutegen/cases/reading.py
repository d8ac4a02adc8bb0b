"""Text to a schedule of several cases: each as a schedule of its own, with the conditions on which it is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.choosing.reading import read_choices
from cutegen.expressions.tree import Compute
from cutegen.language.asked import Op
from cutegen.language.cases import MAX_CASES, MAX_DIVISOR, OWN_KEYS, Case, Cases, Conditions, Relation, SizeIs
from cutegen.language.context import Context
from cutegen.language.kinds import MAX_INT
from cutegen.language.model import Tensor
from cutegen.language.names import shown
from cutegen.language.tuning import at_path

_BOUND = re.compile(r"\s*(==|<=|<|>=|>)?\s*([0-9]+)\s*\Z")
_MULTIPLE = re.compile(r"\s*%\s*([0-9]+)\s*==\s*0\s*\Z")
FORMS = "`<= 64`, `> 64`, `== 4096` or `% 8 == 0`"


def read_cases(
    ctx: Context, op: Op, tensors: Mapping[str, Tensor], modes: tuple[str, ...], compute: Compute | None
) -> Cases:
    """The cases as written; what is wrong with one of them is said at its place.

    Without `compute`, what depends on it is left unchecked: what is wrong with it has been said.
    """
    items: Sequence[Mapping[str, Any]] = ctx.data["schedule"]
    if op.unmeasured is not None:
        ctx.say("CG203", f"a {op.name} has one schedule", "schedule", key=True, help="write the keys of one of them")
        return Cases()
    if not items or len(items) > MAX_CASES:
        message = f"`schedule` must have from 1 to {MAX_CASES} cases, not {len(items)}"
        ctx.say("CG105", message, "schedule", key=True)
        return Cases()
    return Cases(tuple(_case(ctx, op, tensors, modes, compute, number) for number in range(len(items))))


def _case(
    ctx: Context,
    op: Op,
    tensors: Mapping[str, Tensor],
    modes: tuple[str, ...],
    compute: Compute | None,
    number: int,
) -> Case:
    item = dict(ctx.data["schedule"][number])
    conditions = _conditions(ctx, item.pop("for", {}), modes, number)
    own = Context(at_path(ctx.variant, ("schedule", number), ("schedule",), item))
    schedule, _ = read_choices(own, op.name, tensors, compute)
    ctx.found += own.found
    return Case(conditions, schedule)


def _conditions(ctx: Context, data: Mapping[str, Any], modes: tuple[str, ...], number: int) -> Conditions:
    """Reads the conditions in `for` of the case of that number; reports to `ctx` what is wrong with them."""
    where = ("schedule", number, "for")
    written = data.get("target", ())
    targets = (written,) if isinstance(written, str) else tuple(written)
    known = ctx.data.get("targets", targets)
    for target in targets:
        if target not in known:
            message = f"the case is for {target}, and the kernel is not"
            ctx.say("CG296", message, *where, "target", help=f"write one of {', '.join(known)}, or add it to `targets`")
    sizes: dict[str, tuple[SizeIs, ...]] = {}
    for mode, value in data.items():
        if mode in OWN_KEYS:
            continue
        if mode not in modes:
            ctx.unknown_mode(mode, (*modes, *OWN_KEYS), *where, mode)
            continue
        texts = value if isinstance(value, list) else [value]
        read = [_size_is(ctx, text, *where, mode) for text in texts]
        sizes[mode] = tuple(one for one in read if one is not None)
    return Conditions(targets, sizes, data.get("align", 1), "cost" in data)


def _size_is(ctx: Context, value: Any, *path: str | int) -> SizeIs | None:
    """One condition on a size; None where, once said, it cannot be read."""
    if isinstance(value, int):
        value = str(value)
    if match := _BOUND.match(value):
        relation: Relation = match[1] or "=="  # type: ignore[assignment]  # one of those in the expression
        if int(match[2]) <= MAX_INT:
            return SizeIs(relation, int(match[2]))
        ctx.say("CG137", f"a size is below 2**31, not {match[2]}", *path)
        return None
    if match := _MULTIPLE.match(value):
        if 1 < int(match[1]) <= MAX_DIVISOR:
            return SizeIs("%", int(match[1]))
        message = f"a condition divides by 2 to {MAX_DIVISOR}, not by {match[1]}"
        ctx.say("CG137", message, *path)
        return None
    ctx.say("CG137", f"`{shown(value)}` is not a condition on a size", *path, help=f"write {FORMS}")
    return None
