"""Promises about arguments that follow from those that a kernel needs of their views."""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor
from cutegen.planning.report import Report
from cutegen.views.cuts import Cut, aligned, argument_of, cuts


def with_packed(spec: KernelSpec, report: Report) -> KernelSpec:
    """The resolved spec, whose views are aligned as their arguments let them be: others are reported.

    Why the tensors of an argument are aligned and contiguous as they are is noted for the argument, too.
    """
    arguments = {argument.name: argument for argument in spec.by_argument.tensors}
    for view in (tensor for tensor in spec.tensors if tensor.view is not None):
        argument = arguments[argument_of(view)]
        for key in ("major", "align"):
            written = ("tensors", argument.name, key) in spec.source.values
            if not written and (why := report.inferred.get(("tensors", view.name, key))) is not None:
                report.inferred.setdefault(("tensors", argument.name, key), why)
        if view.dense:
            of, modes = argument_of(view), " and ".join(view.dense)
            message = f"rows along {modes} are taken as one, and those of `{view.name}` may have gaps in `{of}`"
            help = f"declare `{view.name}` as an argument of its own, and pass a view of torch: it is not copied"
            report.say("CG145", message, "tensors", view.name, "view", help=help)
        if aligned(argument, view, spec.static, spec.divisible) < (view.align or 1):
            _say_misaligned(spec, argument, view, report)
    return spec


def _say_misaligned(spec: KernelSpec, argument: Tensor, view: Tensor, report: Report) -> None:
    found = cuts(argument, view, spec.static)
    free = [mode for mode in _modes(found) if mode not in spec.static]
    start = " and ".join(f"{cut.start.text()} along {cut.item}" for cut in found if cut.start.terms) or "0"
    unit = (view.align or 1) // view.dtype.bytes
    message = f"accesses to `{view.name}` need {view.align}-byte alignment, and its elements may lie elsewhere"
    notes = (f"it is {view.view}, which starts at {start}; {view.align} bytes are {unit} elements",)
    promised = {**spec.divisible, **dict.fromkeys(free, unit)}
    promise = ", ".join(f"{mode}: {promised[mode]}" for mode in free)
    helps = aligned(argument, view, spec.static, promised) >= (view.align or 1)
    help = f"write `divisible: {{{promise}}}`, or " if helps else "write "
    help += "`fallback: narrow` in the schedule's `copy`"
    report.say("CG145", message, "tensors", view.name, "view", notes=notes, help=help)


def _modes(found: tuple[Cut, ...]) -> tuple[str, ...]:
    """The modes that say where a view starts, and how far its elements lie from each other."""
    starts = (mode for cut in found for mode in cut.start.modes)
    return tuple(dict.fromkeys((*starts, *(mode for cut in found for mode in cut.modes[1:]))))
