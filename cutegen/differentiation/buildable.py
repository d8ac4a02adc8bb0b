"""The backward of a kernel, as far as cutegen builds one."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.differentiation.asking import Backward, Buildable
from cutegen.differentiation.backward import backward
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.differentiation.trial import error_in
from cutegen.differentiation.walk_specs import backward_of_walk
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec
from cutegen.ops.op import op_of


def buildable(spec: KernelSpec, wrt: Sequence[str] = (), of_outputs: Sequence[str] = ()) -> Buildable:
    """The backward of a kernel, without the gradients that no kernel of cutegen computes.

    As sums over only some of the rows' modes: a rope's cos of `[T, D]` broadcasts over heads, and its gradient is a sum
    over these alone. Raises DifferentiationError as `backward` does, where one of `wrt` is refused, and where all are.
    """
    if op_of(spec).walks:
        return backward_of_walk(spec, wrt, of_outputs)
    made = backward(spec, wrt, of_outputs)
    error = error_in(made.spec)
    if error is None:
        return Buildable(made)
    able = [tensor.name for tensor in spec.tensors if tensor.reads and tensor.dtype.is_float]
    refused: dict[str, Diagnostic] = {}
    taken: list[str] = []
    for name in (name for name in able if name not in made.without and name in (wrt or able)):
        alone = error_in(backward(spec, [name], of_outputs).spec)
        if alone is None:
            taken.append(name)
        else:
            refused[name] = alone
    if taken and not wrt:
        less = backward(spec, taken, of_outputs)
        error = error_in(less.spec)
        if error is None:
            return Buildable(Backward(less.specs, made.without), refused)
    names = " and ".join(f"`{name}`" for name in refused) or "all of them in one kernel"
    help = f"these alone are built: `--wrt {','.join(taken)}`" if taken and refused else None
    help = f"one at a time is built: `--wrt {taken[0]}`" if taken and not refused else help
    message = f"no kernel of cutegen computes the gradients of {names}: {error.code}, {error.message}"
    raise DifferentiationError(message, help)
