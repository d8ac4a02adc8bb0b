"""Known computations, and which of them a spec computes, whatever it calls its tensors, modes and statements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations

from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import Compute, Literal_, walk
from cutegen.language.model import KernelSpec, Tensor
from cutegen.measuring.normal_form import Form, Forms, NoForm, number


@dataclass(frozen=True)
class Formula:
    """A computation under names of our own.

    `inputs` and `outputs` have the modes of each tensor, a letter each, by its name; `spare` are outputs that a spec
    need not ask for. `scalars` are numbers, which a spec may have as scalars or write out.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    statements: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    spare: frozenset[str] = frozenset()

    @cached_property
    def compute(self) -> Compute:
        return parse_compute(self.statements)


@dataclass(frozen=True)
class Recognised:
    """A formula in a spec: the formula's names with the spec's, or with the numbers that stand for scalars.

    Of the outputs it has those that the spec asks for.
    """

    formula: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    scalars: Mapping[str, str | float] = field(default_factory=dict)


FORMULAS = (
    Formula("softmax", {"X": "MN"}, {"Y": "MN"}, ("e = exp(X - max(X, N))", "Y = e / sum(e, N)")),
    Formula("softmax_bwd", {"dY": "MN", "Y": "MN"}, {"dX": "MN"}, ("dX = Y * (dY - sum(dY * Y, N))",)),
    Formula(
        "rms_norm",
        {"X": "MN", "W": "N"},
        {"Y": "MN", "rstd": "M"},
        ("rstd = rsqrt(mean(X * X, N) + eps)", "Y = X * rstd * W"),
        ("eps",),
        frozenset({"rstd"}),
    ),
    Formula(
        "rms_norm_bwd",
        {"dY": "MN", "X": "MN", "W": "N", "rstd": "M"},
        {"dX": "MN", "dW": "N"},
        ("x = X * rstd", "g = dY * W", "dX = (g - x * mean(g * x, N)) * rstd", "dW = sum(dY * x, M)"),
    ),
    Formula(
        "add_rms_norm",
        {"X": "MN", "R": "MN", "W": "N"},
        {"S": "MN", "Y": "MN", "rstd": "M"},
        ("S = X + R", "rstd = rsqrt(mean(S * S, N) + eps)", "Y = S * rstd * W"),
        ("eps",),
        frozenset({"rstd"}),
    ),
    Formula(
        "add_rms_norm_bwd",
        {"dY": "MN", "dS": "MN", "S": "MN", "W": "N", "rstd": "M"},
        {"dX": "MN", "dW": "N"},
        ("x = S * rstd", "g = dY * W", "dX = dS + (g - x * mean(g * x, N)) * rstd", "dW = sum(dY * x, M)"),
    ),
    Formula(
        "layer_norm",
        {"X": "MN", "W": "N", "B": "N"},
        {"Y": "MN", "mu": "M", "rstd": "M"},
        ("mu = mean(X, N)", "x = X - mu", "rstd = rsqrt(mean(x * x, N) + eps)", "Y = x * rstd * W + B"),
        ("eps",),
        frozenset({"mu", "rstd"}),
    ),
    Formula(
        "layer_norm_bwd",
        {"dY": "MN", "X": "MN", "W": "N", "mu": "M", "rstd": "M"},
        {"dX": "MN", "dW": "N", "dB": "N"},
        (
            "x = (X - mu) * rstd",
            "g = dY * W",
            "dX = (g - mean(g, N) - x * mean(g * x, N)) * rstd",
            "dW = sum(dY * x, M)",
            "dB = sum(dY, M)",
        ),
    ),
    Formula("swiglu", {"G": "MN", "U": "MN"}, {"Y": "MN"}, ("Y = silu(G) * U",)),
    Formula("geglu", {"G": "MN", "U": "MN"}, {"Y": "MN"}, ("Y = gelu_tanh(G) * U",)),
    Formula(  # its backward is the same with the halves exchanged
        "rope",
        {"X1": "THD", "X2": "THD", "COS": "TD", "SIN": "TD"},
        {"Y1": "THD", "Y2": "THD"},
        ("Y1 = X1 * COS - X2 * SIN", "Y2 = X2 * COS + X1 * SIN"),
    ),
)


def recognise(spec: KernelSpec) -> Recognised | None:
    """The formula that a spec computes, if it is a known one, of floats in tensors whose last mode is contiguous.

    It is known by its outputs, each of which must be equal to one of the formula's for all numbers, not by names.
    """
    if any(not t.dtype.is_float or t.major not in (None, t.shape[-1]) for t in spec.tensors):
        return None
    forms = Forms()
    try:
        wanted = forms.of(spec.compute)
    except NoForm:
        return None
    return next((found for formula in FORMULAS for found in _readings(formula, spec, forms, wanted)), None)


def _readings(formula: Formula, spec: KernelSpec, forms: Forms, wanted: Mapping[str, Form]) -> Iterator[Recognised]:
    """The ways in which a spec computes a formula; `wanted` is what its targets hold."""
    read = [tensor for tensor in spec.tensors if tensor.reads]
    if len(read) != len(formula.inputs):
        return
    for chosen in permutations(read):
        modes = _modes(formula.inputs.values(), chosen)
        if modes is None:
            continue
        inputs = {name: tensor.name for name, tensor in zip(formula.inputs, chosen, strict=True)}
        for scalars in _scalars(formula, spec):
            names = {name: forms.name(tensor) for name, tensor in inputs.items()}
            names |= {n: forms.name(v) if isinstance(v, str) else number(v) for n, v in scalars.items()}
            computed = forms.of(formula.compute, names, modes)
            outputs = _outputs(formula, spec, computed, wanted, modes)
            if outputs is not None:
                yield Recognised(formula.name, inputs, outputs, scalars)


def _modes(shapes: Iterable[str], tensors: Sequence[Tensor]) -> dict[str, str] | None:
    """The spec's modes by the formula's, as the shapes have them; None where the tensors have other shapes."""
    modes: dict[str, str] = {}
    for shape, tensor in zip(shapes, tensors, strict=True):
        if len(shape) != len(tensor.shape):
            return None
        if any(modes.setdefault(letter, mode) != mode for letter, mode in zip(shape, tensor.shape, strict=True)):
            return None
    return modes if len(set(modes.values())) == len(modes) else None


def _scalars(formula: Formula, spec: KernelSpec) -> Iterator[dict[str, str | float]]:
    """The ways to take the formula's scalars for the spec's, or for numbers that it has in its statements."""
    written = (node.value for value in spec.compute.values for node in walk(value) if isinstance(node, Literal_))
    found: list[str | float] = [scalar.name for scalar in spec.scalars]
    found += dict.fromkeys(float(value) for value in written if math.isfinite(value))
    for chosen in permutations(found, len(formula.scalars)):
        yield dict(zip(formula.scalars, chosen, strict=True))


def _outputs(
    formula: Formula,
    spec: KernelSpec,
    computed: Mapping[str, Form],
    wanted: Mapping[str, Form],
    modes: Mapping[str, str],
) -> dict[str, str] | None:
    """The spec's outputs by the formula's that are equal to them; None unless each one has its counterpart."""
    found: dict[str, str] = {}
    for tensor in spec.outputs:
        for name, shape in formula.outputs.items():
            same_shape = tuple(modes[letter] for letter in shape) == tensor.shape
            if name not in found and same_shape and computed[name] == wanted[tensor.name]:
                found[name] = tensor.name
                break
        else:
            return None
    return found if formula.outputs.keys() - formula.spare <= found.keys() else None
