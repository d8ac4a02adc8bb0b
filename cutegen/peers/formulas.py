"""Known computations, and the one that a spec computes, independent of the names of tensors, modes and statements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Literal

from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.sums import NoForm, Sum, inside, named, number, of, size
from cutegen.expressions.tree import Compute, Literal_, Unary, walk
from cutegen.language.model import KernelSpec, Tensor
from cutegen.peers.normal_form import NormalForms

Meaning = Literal["probabilities", "log-probabilities", "coordinates"]
"""The meaning of a tensor's elements where they cannot be arbitrary floats: each row is a distribution, or the
logarithms of one, or they are coordinates along a row, which are whole numbers."""


@dataclass(frozen=True)
class Formula:
    """A computation under names of our own.

    `inputs` and `outputs` have the modes of each tensor, a letter each, by its name; `spare` are outputs that a spec
    need not ask for. `scalars` are numbers, which a spec may have as scalars or write out; `size_N` in a statement is
    the size of mode N. `meanings` are those of inputs that are not any floats, and `at` has the scalars that must have
    one value for other functions to compute the same. Where there is a function for some types only, these have `bits`.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    statements: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    spare: frozenset[str] = frozenset()
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    at: Mapping[str, float] = field(default_factory=dict)
    bits: int | None = None

    @cached_property
    def compute(self) -> Compute:
        return parse_compute(self.statements)


@dataclass(frozen=True)
class Recognised:
    """A formula in a spec: the formula's names with the spec's, or with the numbers that stand for scalars.

    Of the outputs it has those that the spec asks for. `meanings` and `at` are the formula's, by the spec's tensors and
    scalars.
    """

    formula: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    scalars: Mapping[str, str | float] = field(default_factory=dict)
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    at: Mapping[str, float] = field(default_factory=dict)


_CROSS_ENTROPY = ("z = X - max(X, N)", "e = exp(z)", "s = sum(e, N)", "hit = coord(N) == target")
_GATED_BWD = {"dY": "MN", "G": "MN", "U": "MN"}, {"dG": "MN", "dU": "MN"}
FORMULAS = (
    Formula("matrix_product", {"A": "MK", "B": "NK"}, {"C": "MN"}, ("C = A @ B.T",), bits=16),
    Formula("softmax", {"X": "MN"}, {"Y": "MN"}, ("e = exp(X - max(X, N))", "Y = e / sum(e, N)")),
    Formula(
        "softmax_bwd",
        {"dY": "MN", "Y": "MN"},
        {"dX": "MN"},
        ("dX = Y * (dY - sum(dY * Y, N))",),
        meanings={"Y": "probabilities"},
    ),
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
    Formula(  # the gradient is that of the sum of the losses
        "cross_entropy",
        {"X": "MN", "target": "M"},
        {"loss": "M", "dX": "MN"},
        (
            *_CROSS_ENTROPY,
            "loss = where(target == ignored, 0, log(s) - sum(where(hit, z, 0), N))",
            "dX = where(target == ignored, 0, (e / s - where(hit, 1, 0)) * scale)",
        ),
        ("scale", "ignored"),
        meanings={"target": "coordinates"},
        at={"scale": 1},
    ),
    Formula(
        "smoothed_cross_entropy",
        {"X": "MN", "target": "M"},
        {"loss": "M", "dX": "MN"},
        (
            *_CROSS_ENTROPY,
            "own = log(s) - sum(where(hit, z, 0), N)",
            "all_equal = where(smoothing > 0, smoothing * (log(s) - mean(z, N)), 0)",
            "loss = where(target == ignored, 0, (1 - smoothing) * own + all_equal)",
            "p = e / s - where(hit, 1 - smoothing, 0) - smoothing / size_N",
            "dX = where(target == ignored, 0, p * scale)",
        ),
        ("scale", "smoothing", "ignored"),
        meanings={"target": "coordinates"},
        at={"scale": 1},
    ),
    Formula(
        "kl_div",
        {"L": "MN", "P": "MN"},
        {"loss": "M", "dL": "MN"},
        ("loss = sum(where(P > 0, P * (log(P) - L), 0), N)", "dL = -P * scale"),
        ("scale",),
        meanings={"L": "log-probabilities", "P": "probabilities"},
        at={"scale": 1},
    ),
    Formula(
        "jsd",
        {"LQ": "MN", "LP": "MN"},
        {"loss": "M", "dLQ": "MN"},
        (
            "p = beta * exp(LP)",
            "q = (1 - beta) * exp(LQ)",
            "lm = log(maximum(p + q, 1e-37))",
            "loss = sum(p * (LP - lm) + q * (LQ - lm), N)",
            "dLQ = q * (LQ - lm) * scale",
        ),
        ("beta", "scale"),
        meanings={"LQ": "log-probabilities", "LP": "log-probabilities"},
        at={"scale": 1},
    ),
    Formula("swiglu", {"G": "MN", "U": "MN"}, {"Y": "MN"}, ("Y = silu(G) * U",)),
    Formula("geglu", {"G": "MN", "U": "MN"}, {"Y": "MN"}, ("Y = gelu_tanh(G) * U",)),
    Formula(
        "swiglu_bwd",
        *_GATED_BWD,
        ("s = sigmoid(G)", "dG = dY * U * s * (1 + G * (1 - s))", "dU = dY * G * s"),
    ),
    Formula(  # gelu_tanh(G) is G * sigmoid(2 * sqrt(2 / pi) * (G + 0.044715 * G ** 3))
        "geglu_bwd",
        *_GATED_BWD,
        (
            "s = sigmoid(G * (1.5957691216057308 + 0.07135481627260025 * G * G))",
            "dG = dY * U * s * (1 + G * (1 - s) * (1.5957691216057308 + 0.21406444881780076 * G * G))",
            "dU = dY * G * s",
        ),
    ),
    Formula(  # its backward is the same with the halves exchanged
        "rope",
        {"X1": "THD", "X2": "THD", "COS": "TD", "SIN": "TD"},
        {"Y1": "THD", "Y2": "THD"},
        ("Y1 = X1 * COS - X2 * SIN", "Y2 = X2 * COS + X1 * SIN"),
    ),
)


def recognise(spec: KernelSpec) -> Recognised | None:
    """The formula that a spec computes, if it is a known one, in tensors whose last mode is contiguous.

    It is known by its outputs, each of which must be equal to one of the formula's for all numbers, not by names.
    """
    if spec.by_view.arguments:
        return None  # no library has arguments that are packed so
    if any(t.major not in (None, *t.shape[-1:]) for t in spec.tensors) or any(
        not t.dtype.is_float for t in spec.outputs
    ):
        return None
    fitting = [formula for formula in FORMULAS if _fits(formula, spec)]
    if not fitting:
        return None
    forms = NormalForms(spec.static)
    values = {tensor.name: of(named(tensor.name, tensor.modes)) for tensor in spec.tensors if tensor.reads}
    values |= {scalar.name: of(named(scalar.name)) for scalar in spec.scalars}
    try:
        wanted = dict(forms.of(spec.compute, values))
        return next((found for formula in fitting for found in _readings(formula, spec, forms, values, wanted)), None)
    except NoForm:
        return None


def _fits(formula: Formula, spec: KernelSpec) -> bool:
    """Whether a spec has as many tensors as a formula, and of its types."""
    most = len(formula.outputs)
    if formula.bits is not None and any(tensor.dtype.bits != formula.bits for tensor in spec.tensors):
        return False
    read = sum(tensor.reads for tensor in spec.tensors)
    return read == len(formula.inputs) and most - len(formula.spare) <= len(spec.outputs) <= most


def _readings(
    formula: Formula, spec: KernelSpec, forms: NormalForms, values: Mapping[str, Sum], wanted: Mapping[str, Sum]
) -> Iterator[Recognised]:
    """The ways in which a spec computes a formula; `values` are those of its names, `wanted` what its targets hold."""
    wholes = (wanted[tensor.name] for tensor in spec.outputs)
    needed = frozenset(atom.name for whole in wholes for atom in inside(whole) if atom.kind == "name")
    for chosen in permutations(tensor for tensor in spec.tensors if tensor.reads):
        tensors = dict(zip(formula.inputs, chosen, strict=True))
        modes = _modes(formula.inputs.values(), chosen)
        if modes is None or not all(_can_be(t, formula.meanings.get(name)) for name, t in tensors.items()):
            continue
        inputs = {name: tensor.name for name, tensor in tensors.items()}
        own = {name: values[tensor] for name, tensor in inputs.items()}
        own |= {f"size_{letter}": of(size(mode)) for letter, mode in modes.items()}
        for scalars in _scalars(formula, spec, needed):
            own |= {n: values[v] if isinstance(v, str) else number(v) for n, v in scalars.items()}
            outputs = _outputs(formula, spec, forms.of(formula.compute, own, modes), wanted, modes)
            if outputs is not None:
                meanings = {inputs[name]: meaning for name, meaning in formula.meanings.items()}
                at = {v: formula.at[n] for n, v in scalars.items() if isinstance(v, str) and n in formula.at}
                yield Recognised(formula.name, inputs, outputs, scalars, meanings, at)


def _can_be(tensor: Tensor, meaning: Meaning | None) -> bool:
    return tensor.dtype.is_integer if meaning == "coordinates" else tensor.dtype.is_float


def _modes(shapes: Iterable[str], tensors: Sequence[Tensor]) -> dict[str, str] | None:
    """The spec's modes by the formula's, as the shapes have them; None where the tensors have other shapes."""
    modes: dict[str, str] = {}
    for shape, tensor in zip(shapes, tensors, strict=True):
        if len(shape) != len(tensor.shape):
            return None
        if any(modes.setdefault(letter, mode) != mode for letter, mode in zip(shape, tensor.shape, strict=True)):
            return None
    return modes if len(set(modes.values())) == len(modes) else None


def _scalars(formula: Formula, spec: KernelSpec, needed: frozenset[str]) -> Iterator[dict[str, str | float]]:
    """The ways to take the formula's scalars for the spec's, or for numbers that it has in its statements.

    Each scalar of the spec whose name is `needed` is one of the formula's.
    """
    found: list[str | float] = [scalar.name for scalar in spec.scalars]
    needed = needed.intersection(found)
    found += dict.fromkeys((1.0, *_numbers(spec.compute)))
    for chosen in permutations(found, len(formula.scalars)):
        if needed.issubset(chosen):
            yield dict(zip(formula.scalars, chosen, strict=True))


def _numbers(compute: Compute) -> Iterator[float]:
    """The numbers in the statements, with their signs; 1 stands in the place of a factor that is left out."""
    for value in compute.values:
        for node in walk(value):
            match node:
                case Literal_(value=written) if math.isfinite(written):
                    yield float(written)
                case Unary(op="-", x=Literal_(value=written)) if math.isfinite(written):
                    yield -float(written)


def _outputs(
    formula: Formula,
    spec: KernelSpec,
    computed: Iterable[tuple[str, Sum]],
    wanted: Mapping[str, Sum],
    modes: Mapping[str, str],
) -> dict[str, str] | None:
    """The spec's outputs by the formula's that are equal to them; None unless each one has its counterpart.

    After an output that has none, nothing more is computed.
    """
    found: dict[str, str] = {}
    for name, value in computed:
        if name in formula.outputs:
            shape = tuple(modes[letter] for letter in formula.outputs[name])
            left = (t.name for t in spec.outputs if t.shape == shape and t.name not in found.values())
            same = next((tensor for tensor in left if wanted[tensor] == value), None)
            if same is not None:
                found[name] = same
            elif name not in formula.spare:
                return None
    return found if len(found) == len(spec.outputs) else None
