"""The text of a module's argument checks, except those that are the same in every module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutegen.codegen.formatting import WIDTH, call, chain, python_tuple, width_of
from cutegen.codegen.padding import ends
from cutegen.codegen.parts import KernelParts
from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec, Scalar, Tensor


def checks_context(spec: KernelSpec, parts: KernelParts, makeable: Sequence[Tensor]) -> dict[str, Any]:
    """The context of `call.j2` and `checks.j2` for these checks; a call may leave out the outputs in `makeable`."""
    return {
        "makeable": bool(makeable),
        "given": _given(spec, makeable),
        "scalar_checks": _scalar_checks(spec) if spec.scalars else [],
        "unchecked": _unchecked(spec, parts),
        "refusal": _refusal(spec, parts),
    }


def _given(spec: KernelSpec, makeable: Sequence[Tensor]) -> str:
    """The arguments of a call by name, without outputs that it did not come to make: an expression."""
    if not makeable:
        return "dict(zip(TENSORS, arguments))"
    all_made = len(makeable) == len(spec.outputs)
    names = "OUTPUTS" if all_made else python_tuple(tuple(f'"{t.argument}"' for t in makeable))
    parts = ["n: x", "for n, x in zip(TENSORS, arguments)", f"if x is not None or n not in {names}"]
    flat, head = " ".join(parts), "    given = {}"
    if len(head) + len(flat) <= WIDTH:
        return f"{{{flat}}}"
    return "{\n" + "".join(f"        {one}\n" for one in ([flat] if 8 + len(flat) <= WIDTH else parts)) + "    }"


def _scalar_checks(spec: KernelSpec) -> list[str]:
    """The statements that refuse numbers of another kind, or that their bits do not hold, behind the tensors of a call.

    Scalars have no variables of their names, which variables of the same function may have.
    """
    if all(s.dtype.is_float for s in spec.scalars):
        names = python_tuple(tuple(f'"{s.argument}"' for s in spec.scalars))
        check = '_expect(isinstance(x, numbers.Real), name, "a float", type(x).__name__, TypeError)'
        return [call("for name, x in zip(", [names, "arguments[len(TENSORS) :]"], "):", 4), f"    {check}"]
    return [line for i, scalar in enumerate(spec.scalars, len(spec.tensors)) for line in _scalar_check(scalar, i)]


def _scalar_check(scalar: Scalar, place: int) -> list[str]:
    """The same for one scalar, at its place in a call."""
    name, whole = scalar.argument, not scalar.dtype.is_float
    accepted, wanted = ("numbers.Integral", "an int") if whole else ("numbers.Real", "a float")
    items = [f"isinstance(x, {accepted})", f'"{name}"', f'"{wanted}"', "type(x).__name__", "TypeError"]
    lines = [f"x = arguments[{place}]", call("_expect(", items, ")", 4)]
    if whole:
        bits = scalar.dtype.bits
        inside = f"-(2**{bits - 1}) <= x < 2**{bits - 1}"
        lines.append(call("_expect(", [inside, f'"{name}"', f'"{bits} bits"', "x"], ")", 4))
    return lines


def _unchecked(spec: KernelSpec, parts: KernelParts) -> list[str]:
    """The statement that asks whether arguments are wrong though the compiled function takes them."""
    # It takes signed for unsigned integers and the other way round
    conditions = [f"{t.argument}.dtype is not torch.{t.dtype.torch}" for t in spec.tensors if not t.dtype.is_float]
    # And of a number the low 64 bits
    conditions += [f"not -(2**63) <= {s.argument} < 2**63" for s in spec.scalars if s.dtype is Dtype.i64]
    conditions += ends(spec, parts)
    followed = _gradients(spec)
    if not followed:
        return [chain("if ", conditions, " or ", 8, ":")]
    follows = f"({' or '.join(followed)})" if len(followed) > 1 else followed[0]
    asked = f"{follows} and torch.is_grad_enabled()"
    flat = " or ".join([*conditions, f"({asked})"]) if conditions else asked
    if 12 + width_of(flat) <= WIDTH:
        return [f"if {flat}:"]
    asked = "wants_gradient and torch.is_grad_enabled()"
    terms = [*conditions, f"({asked})"] if conditions else [asked]
    return [chain("wants_gradient = ", followed, " or ", 8), chain("if ", terms, " or ", 8, ":")]


def _refusal(spec: KernelSpec, parts: KernelParts) -> str:
    """The message of the ValueError that is raised where a condition of `_unchecked` holds."""
    wrong = ["a tensor has another type"] * any(not t.dtype.is_float for t in spec.tensors)
    if any(s.dtype is Dtype.i64 for s in spec.scalars):
        return "an argument does not fit"
    wrong += ["rows end elsewhere than whole accesses"] * bool(ends(spec, parts))
    return " or ".join([*wrong, *(["no gradient is computed"] if _gradients(spec) else [])])


def _gradients(spec: KernelSpec) -> list[str]:
    """The conditions under which autograd follows an argument: integers have no gradients."""
    return [f"{t.argument}.requires_grad" for t in spec.tensors if t.dtype.is_float]
