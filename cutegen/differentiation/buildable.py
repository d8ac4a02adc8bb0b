"""The backward of a kernel, as far as cutegen builds one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutegen.differentiation.backward import Backward, backward
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import resolve
from cutegen.planning.report import Report


@dataclass(frozen=True)
class Buildable:
    """A backward that builds, and of the tensors whose gradients would not: the error that says why, by name."""

    made: Backward
    refused: Mapping[str, Diagnostic] = field(default_factory=dict)


def buildable(spec: KernelSpec, wrt: Sequence[str] = (), of_outputs: Sequence[str] = ()) -> Buildable:
    """The backward of a kernel, without the gradients that no kernel of cutegen computes.

    As sums over only some of the rows' modes: a rope's cos of `[T, D]` broadcasts over heads, and its gradient is a sum
    over these alone. Raises DifferentiationError as `backward` does, where one of `wrt` is refused, and where all are.
    """
    made = backward(spec, wrt, of_outputs)
    error = _error_in(made)
    if error is None:
        return Buildable(made)
    able = [tensor.name for tensor in spec.tensors if tensor.reads and tensor.dtype.is_float]
    refused: dict[str, Diagnostic] = {}
    taken: list[str] = []
    for name in (name for name in able if name not in made.without and name in (wrt or able)):
        alone = _error_in(backward(spec, [name], of_outputs))
        if alone is None:
            taken.append(name)
        else:
            refused[name] = alone
    if taken and not wrt:
        less = backward(spec, taken, of_outputs)
        error = _error_in(less)
        if error is None:
            return Buildable(Backward(less.spec, made.without), refused)
    names = " and ".join(f"`{name}`" for name in refused) or "all of them in one kernel"
    help = f"these alone are built: `--wrt {','.join(taken)}`" if taken and refused else None
    help = f"one at a time is built: `--wrt {taken[0]}`" if taken and not refused else help
    message = f"no kernel of cutegen computes the gradients of {names}: {error.code}, {error.message}"
    raise DifferentiationError(message, help)


def _error_in(made: Backward) -> Diagnostic | None:
    """The first error of the spec that would be written, read as a user's; None where there is none."""
    try:
        spec = read_specs(write_spec(made.spec))[0]
    except SpecError as refused:
        return next(d for d in refused.diagnostics if d.severity == "error")
    report = Report(spec.source)
    resolved = resolve(spec, report)
    if not report.failed:
        check(resolved, report, advise=False)
    return next((d for d in report.diagnostics if d.severity == "error"), None)
