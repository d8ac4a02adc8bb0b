"""How the modes of a kernel's tensors fit those that it walks, which its outputs or a leading tensor have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.expressions.places import ONE
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.language.tensor import element_modes


def has_names(ctx: Context, tensor: Tensor) -> bool:
    """Whether a tensor has modes, and names for all of them; says to `ctx` how not.

    A 1 in a shape has no name, and a kernel goes nowhere along it.
    """
    if tensor.shape and tensor.modes == tensor.shape:
        return True
    message, help = f"`{tensor.name}` has a 1 in its shape, and the kernel walks the modes of this tensor", None
    if tensor.shape.count(ONE) == 1:
        named = ", ".join("U" if mode == ONE else mode for mode in tensor.shape)
        help = f"name that mode, as in `shape: [{named}]`, and fix its size: `static: {{U: 1}}`"
    if not tensor.shape:
        message = f"`{tensor.name}` has no modes, and the kernel walks the modes of this tensor"
    notes = ("only other inputs broadcast, along a 1 and along modes that they lack",)
    ctx.say("CG129", message, "tensors", tensor.name, "shape", notes=notes, help=help)
    return False


def check_alike(ctx: Context, outputs: Sequence[Tensor]) -> bool:
    """Whether all outputs have the modes of the first; says which have not."""
    first, wrong = outputs[0], [other for other in outputs if other.shape != outputs[0].shape]
    for other in wrong:
        message = f"`{other.name}` is [{', '.join(other.shape)}], and `{first.name}` [{', '.join(first.shape)}]"
        notes = ("one kernel writes all its outputs element by element: they have the same modes",)
        help = f"write `shape: [{', '.join(first.shape)}]`, or a kernel for each"
        ctx.say("CG129", message, "tensors", other.name, "shape", notes=notes, help=help)
    return not wrong


def check_fits(
    ctx: Context,
    tensor: Tensor,
    output: Tensor,
    written: Mapping[str, Tensor] | None = None,
    kept: tuple[str, ...] = (),
) -> None:
    """A tensor lies along the output's modes, in their order; those that it lacks are broadcast. Behind them may be
    modes of what is `kept` of rows.

    `written` has all tensors as the spec has them, where these two have the elements of those taken at places.
    """
    modes, out = list(tensor.modes), [*output.shape, *kept]
    path: tuple[str | int, ...] = ("tensors", tensor.name, "shape")
    own = written[tensor.name] if written else tensor
    notes = [
        f"{output.name}{' at its places' * bool(written and written[output.name].at)} is [{', '.join(output.shape)}]"
    ]
    if kept and {*modes} & {*kept}:
        notes.append(f"{' and '.join(kept)}, of what is kept of a row, stand behind these")
    if own.at:
        notes.insert(0, f"at its places {tensor.name} is [{', '.join(tensor.shape)}]")
    extra = [mode for mode in modes if mode not in out]
    if extra:
        message = f"`{tensor.name}` has the mode `{extra[0]}`, which the output `{output.name}` lacks"
        notes[-1] += "; a tensor broadcasts along the modes that it lacks itself"
        known = extra[0] in own.shape  # else it is one of the places
        path = (*path, own.shape.index(extra[0])) if known else ("tensors", tensor.name, "at")
        ctx.say("CG129", message, *path, notes=tuple(notes))
    elif modes != [mode for mode in out if mode in modes]:
        what = "the output " if output.writes else ""
        message = f"the modes of `{tensor.name}` are in another order than those of {what}`{output.name}`"
        good = _in_order(own, out, written or {})
        help = f"write `shape: [{', '.join(good)}]` and say which mode is contiguous with `major:`" if good else None
        ctx.say("CG129", message, *path, notes=tuple(notes), help=help)


def _in_order(tensor: Tensor, out: Sequence[str], written: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The modes of a tensor in memory such that its elements have their modes in the order of `out`; empty if none is,
    because places lie along modes in another order.
    """
    at, every = dict(tensor.at), tuple(written.values())
    first = {mode: written[at[mode]].shape[0] if mode in at else mode for mode in tensor.modes}
    shape = tuple(sorted(tensor.modes, key=lambda mode: out.index(first[mode])))
    found = element_modes(replace(tensor, shape=shape), every)
    return shape if list(found) == [mode for mode in out if mode in found] else ()
