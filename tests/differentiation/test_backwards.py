"""Backwards of the layers that people write: held to torch's autograd, and what they read like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from differentiation_kit import SIZES, check, inputs, lines, made_name, run, spec_of, spec_text

from cutegen.differentiation import DifferentiationError, backward, buildable
from cutegen.expressions.tree import Scan, Select, reductions, walk
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.planning import resolve
from cutegen.planning.report import Report
from cutegen.reference.bounds import evaluate

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))  # contractions: test_walks.py
ROWS = {"X": "M,N bf16", "Y": "M,N bf16 out"}
NORM = {"X": "M,N bf16", "W": "N bf16", "Y": "M,N bf16 out"}
GATED = {"G": "M,N bf16", "U": "M,N bf16", "Y": "M,N bf16 out"}
RSTD = "rstd = rsqrt(mean(X * X, N) + eps)"
LOSS = ["m = max(X, N)", "lse = m + log(sum(exp(X - m), N))", "L = lse - sum(where(coord(N) == T, X, 0), N)"]

# name -> op, tensors, compute, scalars, outputs whose gradients are given (none: all), the backward's statements
LAYERS: dict[str, tuple[str, dict[str, str], list[str], str, Sequence[str], list[str] | None]] = {
    "softmax": (
        "rowwise", ROWS, ["e = exp(X - max(X, N))", "Y = e * (1 / sum(e, N))"], "", (),
        ["dX = Y * (dY - sum(dY * Y, N))"],
    ),
    "masked softmax": (
        "rowwise", ROWS,
        ["x = where(coord(N) > coord(M), -inf, X * scale)", "e = exp(x - max(x, N))", "Y = e / sum(e, N)"],
        "{scale: f32}", (),
        ["dX = where(coord(N) > coord(M), 0, Y * scale * (dY - sum(dY * Y, N)))"],
    ),
    "softmax with a sink": (
        "rowwise", {"X": "M,N bf16", "sink": "M f32", "Y": "M,N bf16 out", "lse": "M f32 out"},
        [
            "m = maximum(max(X, N), sink)", "e = exp(X - m)", "l = sum(e, N) + exp(sink - m)", "Y = e / l",
            "lse = m + log(l)",
        ],
        "", (),
        [
            "m = maximum(max(X, N), sink)", "e = exp(X - m)", "u = exp(sink - m)", "l = sum(e, N) + u", "x = e / l",
            "c = sum(dY * x, N)", "dX = x * (dY - c + dlse)", "dsink = u * (dlse - c) / l",
        ],
    ),
    "softmax beside a zero": (
        "rowwise", ROWS, ["m = maximum(max(X, N), 0.0)", "e = exp(X - m)", "Y = e / (exp(-m) + sum(e, N))"], "", (),
        [
            "m = maximum(max(X, N), 0.0)", "e = exp(X - m)", "x = exp(-m) + sum(e, N)",
            "dX = e * (dY - sum(dY * e, N) / x) / x",
        ],
    ),
    "instance norm": (
        "rowwise", {"X": "A,M,N bf16", "W": "A f32", "Y": "A,M,N bf16 out", "rstd": "A f32 out"},
        ["x = X - mean(X, M, N)", "rstd = rsqrt(mean(x * x, M, N) + 0.1)", "Y = x * rstd * W + 0.5 * coord(M)"],
        "", ("Y",),
        [
            "x = X - mean(X, M, N)", "u = x * rstd",
            "dX = rstd * W * (dY - u * mean(dY * u, M, N) - mean(dY, M, N))",
            "dW = sum(dY * u, M, N)",
        ],
    ),
    "logaddexp": (
        "elementwise", {"A": "M,N f32", "B": "M,N f32", "Y": "M,N f32 out"},
        ["m = maximum(A, B)", "Y = m + log(exp(A - m) + exp(B - m))"], "", (),
        ["m = maximum(A, B)", "e = exp(A - m)", "u = exp(B - m)", "a = e + u", "dA = dY * e / a", "dB = dY * u / a"],
    ),
    "log_softmax": (
        "rowwise", ROWS, ["m = max(X, N)", "Y = X - m - log(sum(exp(X - m), N))"], "", (),
        ["dX = dY - exp(Y) * sum(dY, N)"],
    ),
    "rms_norm": (
        "rowwise", NORM, [RSTD, "Y = X * rstd * W"], "{eps: f32}", (),
        [
            RSTD,
            "g = dY * W",
            "x = X * rstd",
            "dX = rstd * (g - x * mean(g * x, N))",
            "dW = sum(dY * x, M)",
        ],
    ),
    "rms_norm that keeps rstd": (
        "rowwise", {**NORM, "rstd": "M f32 out"}, [RSTD, "Y = X * rstd * W"], "{eps: f32}", ("Y",),
        ["g = dY * W", "x = X * rstd", "dX = rstd * (g - x * mean(g * x, N))", "dW = sum(dY * x, M)"],
    ),
    "rms_norm that keeps a narrow rstd": (
        "rowwise", {**ROWS, "rstd": "M bf16 out"}, [RSTD, "Y = X * rstd"], "{eps: f32}", ("Y",), None,
    ),
    "layer_norm": (
        "rowwise", {"X": "M,N bf16", "W": "N bf16", "bias": "N bf16", "Y": "M,N bf16 out"},
        ["d = X - mean(X, N)", "rstd = rsqrt(mean(d * d, N) + eps)", "Y = d * rstd * W + bias"], "{eps: f32}", (),
        [
            "d = X - mean(X, N)",
            "rstd = rsqrt(mean(d * d, N) + eps)",
            "g = dY * W",
            "x = d * rstd",
            "dX = rstd * (g - x * mean(g * x, N) - mean(g, N))",
            "dW = sum(dY * x, M)",
            "dbias = sum(dY, M)",
        ],
    ),
    "layer_norm that keeps both": (
        "rowwise", {**NORM, "mu": "M f32 out", "rstd": "M f32 out"},
        ["mu = mean(X, N)", "d = X - mu", "rstd = rsqrt(mean(d * d, N) + eps)", "Y = d * rstd * W"], "{eps: f32}",
        ("Y",), None,
    ),
    "add and rms_norm": (
        "rowwise", {"R": "M,N bf16", **NORM, "H": "M,N bf16 out"},
        ["H = X + R", "rstd = rsqrt(mean(H * H, N) + eps)", "Y = H * rstd * W"], "{eps: f32}", (), None,
    ),
    "add and layer_norm": (
        "rowwise", {"R": "M,N bf16", **NORM},
        ["h = X + R", "mu = mean(h, N)", "d = h - mu", "rstd = rsqrt(mean(d * d, N) + eps)", "Y = d * rstd * W"],
        "{eps: f32}", (), None,
    ),
    "l2 normalisation": (
        "rowwise", {"X": "M,N f32", "Y": "M,N f32 out"}, ["Y = X * rsqrt(sum(X * X, N) + 1e-12)"], "", (),
        ["r = rsqrt(sum(X * X, N) + 1e-12)", "x = X * r", "dX = r * (dY - x * sum(dY * x, N))"],
    ),
    "cross entropy": (
        "rowwise", {"X": "M,N bf16", "T": "M i32", "L": "M f32 out"}, LOSS, "", (),
        ["m = max(X, N)", "e = exp(X - m)", "dX = dL * (e / sum(e, N) - where(coord(N) == T, 1.0, 0.0))"],
    ),
    "cross entropy that keeps lse": (
        "rowwise", {"X": "M,N bf16", "T": "M i32", "L": "M f32 out", "lse": "M f32 out"}, LOSS, "", ("L",),
        ["dX = dL * (exp(X - lse) - where(coord(N) == T, 1.0, 0.0))"],
    ),
    "swiglu": (
        "elementwise", GATED, ["Y = silu(G) * U"], "", (),
        ["s = sigmoid(G)", "dG = dY * U * s * (1 + G * (1 - s))", "dU = dY * G * s"],
    ),
    "geglu": ("elementwise", GATED, ["Y = gelu(G) * U"], "", (), None),
    "geglu by tanh": ("elementwise", GATED, ["Y = gelu_tanh(G) * U"], "", (), None),
    "bias and gelu": (
        "elementwise", {"X": "A,M,N bf16", "bias": "N bf16", "Y": "A,M,N bf16 out"}, ["Y = gelu(X + bias)"], "", (),
        [
            "x = X + bias",
            "dX = dY * (where(x == 0, 0.5, gelu(x) / x) + 0.3989422804014327 * x * exp(-0.5 * x ** 2))",
            "dbias = sum(dX, A, M)",
        ],
    ),
    "sigmoid": ("elementwise", ROWS, ["Y = sigmoid(X)"], "", (), ["dX = dY * Y * (1 - Y)"]),
    "leaky relu": (
        "elementwise", ROWS, ["Y = where(X > 0, X, 0.01 * X)"], "", (), ["dX = dY * where(X > 0, 1.0, 0.01)"],
    ),
    "squared error": (
        "rowwise", {"X": "M,N f32", "Z": "M,N f32", "L": "M f32 out"}, ["L = mean((X - Z) ** 2, N)"], "", (),
        ["n = max(coord(N), N) + 1", "dX = 2 * dL * (X - Z) / n", "dZ = -dX"],
    ),
    "maximum": (
        "rowwise", {"X": "M,N bf16", "Y": "M bf16 out"}, ["Y = max(X, N)"], "", (),
        ["dX = where(X == Y, dY / sum(X == Y, N), 0)"],
    ),
    "maximum of what is computed": (
        "rowwise", {"X": "M,N bf16", "W": "N f32", "Y": "M f32 out"}, ["Y = max(X * W, N)"], "", (), None,
    ),
    "in place": (
        "elementwise", {"P": "N f32 inout", "G": "N bf16"}, ["P = P - lr * sigmoid(P) * G"], "{lr: f32}", (),
        ["s = sigmoid(P)", "dP_before = dP * (1 - G * s * (1 - s) * lr)", "dG = -dP * s * lr"],
    ),
    "add in place and rms_norm": (
        "rowwise", {**NORM, "R": "M,N bf16 inout", "rstd": "M f32 out"},
        ["R = R + X", "rstd = rsqrt(mean(R * R, N) + eps)", "Y = R * rstd * W"], "{eps: f32}", ("R", "Y"),
        [
            "g = dY * W",
            "x = R_after * rstd",
            "dX = dR + rstd * (g - x * mean(g * x, N))",
            "dW = sum(dY * x, M)",
            "dR_before = dX",
        ],
    ),
    "in place, and what was there is still needed": (
        "elementwise", {"R": "N f32 inout", "X": "N f32", "Y": "N f32 out"}, ["Y = sigmoid(R)", "R = R + X * Y"], "",
        (), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name: str) -> None:
    op, tensors, compute, scalars, given, wanted = LAYERS[name]
    spec = spec_of(op, tensors, compute, scalars)
    made = backward(spec, of_outputs=given)
    if wanted is not None:
        assert lines(made.spec) == wanted
    rows = {node.mode for value in made.spec.compute.values for node in reductions(value)}
    if rows <= {"N"}:
        assert read_specs(write_spec(made.spec))[0] == made.spec
    for seed in (0, 1):
        check(spec, made, given, seed=seed)
    check(spec, made, given, whole=True, seed=2)


@pytest.mark.parametrize("file", SPECS, ids=[file.stem for file in SPECS])
def test_a_spec_of_ours(file: Path) -> None:
    spec = read_specs(file.read_text(encoding="utf-8"))[0]
    if spec.operation.walks:
        return
    if not spec.operation.differentiable:
        with pytest.raises(DifferentiationError, match="not differentiated"):
            backward(spec)
        return
    if any(tensor.at and tensor.reads for tensor in spec.tensors):
        with pytest.raises(DifferentiationError, match="adds up what equal places give"):
            backward(spec)
        return
    if any(isinstance(node, Scan | Select) for value in spec.compute.values for node in walk(value)):
        with pytest.raises(DifferentiationError, match="has no gradient here"):
            backward(spec)
        return
    if file.stem in ("rope_packed", "qk_norm_packed"):  # whose argument has elements that the kernel leaves as they are
        with pytest.raises(DifferentiationError, match="are not all of"):
            backward(spec)
        return
    if any(tensor.blocks for tensor in spec.tensors):  # whose gradient is left out
        check(spec, backward(spec, [tensor.name for tensor in spec.inputs if not tensor.blocks]))
        return
    # torch's gradient of `where` is NaN where the side that is not taken has none
    made = check(spec, positive=("P",) if file.stem == "kl_div" else ())
    over_rows = {node.mode for value in spec.compute.values for node in reductions(value)} - {spec.lead.shape[-1]}
    if made.spec.op == spec.op and not over_rows:
        assert read_specs(write_spec(made.spec))[0] == made.spec


def test_modes_that_are_reduced_together_stay_together() -> None:
    """A factor of each channel stays in a group's sums; the gradient of that factor is another kind of sum."""
    norm = read_specs((SPECS[0].parent / "group_norm.yaml").read_text(encoding="utf-8"))[0]
    made = check(norm, backward(norm, ["X"]))
    assert lines(made.spec)[-1] == "dX = rstd * (g - u * mean(g * u, C, HW) - mean(g, C, HW))"
    assert read_specs(write_spec(made.spec))[0] == made.spec
    assert set(buildable(norm).refused) == {"W", "bias"}


def test_ropes_backward_turns_back() -> None:
    rope = read_specs((SPECS[0].parent / "rope.yaml").read_text(encoding="utf-8"))[0]
    made = backward(rope, ["X1", "X2"])
    assert lines(made.spec) == ["dX1 = dY1 * COS + dY2 * SIN", "dX2 = dY2 * COS - dY1 * SIN"]
    assert [tensor.name for tensor in made.spec.tensors] == ["dY1", "dY2", "COS", "SIN", "dX1", "dX2"]
    check(rope, made)


BY_HAND: dict[str, tuple[Sequence[str], Sequence[str]]] = {  # which gradients, of which outputs
    "softmax": ((), ()),
    "rms_norm": ((), ("Y",)),
    "layer_norm": ((), ("Y",)),
    "add_rms_norm": (("X", "W"), ("R", "Y")),
    "swiglu": ((), ()),
    "geglu": ((), ()),
    "rope": (("X1", "X2"), ()),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_backward_runs_as_the_one_that_a_person_wrote(name: str) -> None:
    """On the tensors that it has, with the schedule that it has where both are for a GPU with clusters."""
    wrt, given = BY_HAND[name]
    folder = SPECS[0].parent
    forward = read_specs((folder / f"{name}.yaml").read_text(encoding="utf-8"))[0]
    hand = read_specs((folder / f"{name}_bwd.yaml").read_text(encoding="utf-8"))[0]
    made = replace(backward(forward, wrt, given).spec, static=hand.static, targets=hand.targets)
    known = {tensor.name: tensor for tensor in hand.tensors}
    for tensor in made.tensors:
        assert tensor.shape == known[tensor.name.removesuffix("_after")].shape
    assert len(made.tensors) == len(hand.tensors)
    assert [len(list(reductions(value))) for value in made.compute.values if list(reductions(value))] == [
        len(list(reductions(value))) for value in hand.compute.values if list(reductions(value))
    ]
    ours, theirs = (resolve(spec, Report(spec.source)).schedule for spec in (made, hand))
    if name == "geglu":  # whose forward and backward have tiles of other sides, of as many values
        assert (ours.partition, ours.value_layout, ours.copy) == (theirs.partition, theirs.value_layout, theirs.copy)
    else:
        assert ours == theirs


def test_a_written_exponent_is_not_compared_with_0() -> None:
    spec = spec_of("elementwise", {"X": "M,N f32", "Y": "M,N f32 out"}, ["Y = pow(abs(X) + 1, 1.5)"])
    assert not any("1.5 == 0" in line for line in lines(check(spec).spec))


def test_gradients_of_gradients() -> None:
    swiglu = spec_of("elementwise", GATED, ["Y = silu(G) * U"])
    check(check(check(swiglu).spec).spec)


def test_the_reference_of_a_backward_is_torchs_gradient() -> None:
    """By cutegen's own reference, which knows the types: as if the kernel had run."""
    spec = spec_of("rowwise", {**ROWS, "rstd": "M f32 out"}, [RSTD, "Y = X * rstd"], "{eps: f32}")
    made = backward(spec, of_outputs=["Y"])
    values = inputs(spec, SIZES)
    x = values["X"].clone().requires_grad_()
    outputs = run(spec, {**values, "X": x}, SIZES)
    outputs["Y"].backward(torch.ones_like(outputs["Y"]))
    tensors = {"X": values["X"], "rstd": outputs["rstd"].detach(), made_name(made.spec, "Y"): torch.ones_like(x)}
    found = evaluate(made.spec, {name: tensor.detach() for name, tensor in tensors.items()}, {})["dX"]
    assert x.grad is not None
    torch.testing.assert_close(found.value, x.grad)


def test_what_is_kept_and_what_is_not() -> None:
    """A 16-bit output is read only where torch reads it too; one of 32 bits where it saves something."""
    narrow = spec_of("rowwise", {**ROWS, "rstd": "M bf16 out"}, [RSTD, "Y = X * rstd"], "{eps: f32}")
    assert "rstd" not in [tensor.name for tensor in backward(narrow, of_outputs=["Y"]).spec.tensors]
    product = spec_of("elementwise", {"X": "N f32", "Z": "N f32", "Y": "N f32 out"}, ["Y = X * Z"])
    assert [tensor.name for tensor in backward(product).spec.tensors] == ["dY", "X", "Z", "dX", "dZ"]
    added = spec_of(
        "elementwise", {"X": "N f32", "W": "N f32", "H": "N f32 out", "Y": "N f32 out"},
        ["H = X + sigmoid(W)", "Y = X * H"],
    )  # fmt: skip
    assert "H - X" not in " ".join(lines(check(added).spec)), "it would cancel"


def test_the_spec() -> None:
    text = spec_text("rowwise", {**NORM, "rstd": "M f32 out"}, [RSTD, "Y = X * rstd * W"], "{eps: f32}")
    spec = read_specs(text.replace("kernel: k", "kernel: norm") + "static: {N: 64}\ntargets: [sm_90a]\n")[0]
    assert (
        write_spec(backward(spec, ["X"], ["Y"]).spec)
        == """\
cutegen: 1
kernel: norm_bwd
summary: Backward pass of norm, dX from dY.
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  rstd: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
compute:
  - g = dY * W
  - x = X * rstd
  - dX = rstd * (g - x * mean(g * x, N))
targets: [sm_90a]
static: {N: 64}
"""
    )


def test_a_fixed_size_is_a_number() -> None:
    text = spec_text("rowwise", {"X": "M,N f32", "Y": "M f32 out"}, ["Y = mean(X, N)"], more="static: {N: 8}\n")
    assert lines(check(read_specs(text)[0]).spec) == ["dX = 0.125 * dY"]


REFUSED = {
    "a scalar": ("{a: f32}", ["Y = a * X"], ["a"], (), "`a` is a scalar"),
    "no tensor": ("", ["Y = X * X"], ["Q"], (), "has no tensor `Q`"),
    "an output": ("", ["Y = X * X"], ["Y"], (), "`Y` is written and not read"),
    "whole numbers": ("", ["Y = X * T"], ["T"], (), "`T` has whole numbers, i32"),
    "no dependence": ("", ["Y = round(X)"], (), (), "depends on `X` in a way that has a gradient"),
    "no such output": ("", ["Y = X * X"], (), ["X"], "`X` is not an output of floats"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    scalars, compute, wrt, given, message = REFUSED[case]
    tensors = {"X": "N f32", "T": "N i32", "Y": "N f32 out"}
    used = {name: said for name, said in tensors.items() if name != "T" or "T" in compute[0]}
    with pytest.raises(DifferentiationError, match=message):
        backward(spec_of("elementwise", used, compute, scalars), wrt, given)


def test_more_that_is_refused() -> None:
    whole = spec_of("elementwise", {"X": "N f32", "Y": "N i32 out"}, ["Y = cast(X, i32)"])
    with pytest.raises(DifferentiationError, match="writes no floats"):
        backward(whole)
    numbers = spec_of("elementwise", {"T": "N i32", "Y": "N f32 out"}, ["Y = T * 0.5"])
    with pytest.raises(DifferentiationError, match="reads no tensor of floats"):
        backward(numbers)
    several = {"X": "M,N f32", "V": "M f32", "L": "M f32 out"}
    with pytest.raises(DifferentiationError, match="different modes, and nothing is reduced"):
        backward(spec_of("rowwise", several, ["L = V + sum(X, N)"]))
    one = {"X": "N f32", "Y": "N f32 out"}
    long = spec_text("elementwise", one, ["Y = X * X"]).replace("kernel: k", "kernel: " + "k" * 62)
    with pytest.raises(DifferentiationError, match="more than 64 characters"):
        backward(read_specs(long)[0])
    powers = ["a = 4 ** 16", "b = (a + 0.5) ** 16", "c = (b + 0.5) ** 16", "Y = X * (c + 0.5) ** 16"]
    with pytest.raises(DifferentiationError, match="a number has more than 4096 bits"):
        backward(spec_of("elementwise", one, powers))


def test_tensors_without_a_gradient_are_told() -> None:
    spec = spec_of("elementwise", {"X": "N f32", "Z": "N f32", "Y": "N f32 out"}, ["Y = X * floor(Z)"])
    made = check(spec)
    assert made.without == ("Z",) and lines(made.spec) == ["dX = dY * floor(Z)"]
    with pytest.raises(DifferentiationError, match="depends on `Z`"):
        backward(spec, ["X", "Z"])


def test_integers_and_their_operators_are_written_as_they_were() -> None:
    tensors = {"P": "M,N u8", "S": "M f32", "X": "M,N f32", "Y": "M,N f32 out", "Z": "M,N f32 out"}
    statements = [
        "q = (P & 15) - 8",
        "Y = q * S * where((coord(N) % 64 < 7) & ~(P >> 4 == 3), X, 0)",
        "Z = X * ((~P | 4294967296) // 7)",
    ]
    assert lines(backward(spec_of("elementwise", tensors, statements)).spec) == [
        "q = (P & 15) - 8",
        "g = dY * q",
        "p = (coord(N) % 64 < 7) & ~(P >> 4 == 3)",
        "dS = sum(g * where(p, X, 0), N)",
        "dX = dZ * ((~P | 4294967296) // 7) + where(p, g * S, 0)",
    ]


def test_an_operator_of_floats_has_the_gradient_of_its_function() -> None:
    tensors = {"X": "M,N f32", "Z": "M,N f32", "I": "M,N i32", "Y": "M,N f32 out"}
    made = []
    for text in ("X * (X % Z) + (X // Z) * (I % 3)", "X * remainder(X, Z) + floor_divide(X, Z) * (I % 3)"):
        made.append(backward(spec_of("elementwise", tensors, [f"u = {text}", "Y = u"])))
    assert lines(made[0].spec) == lines(made[1].spec)
    spec = spec_of("elementwise", {k: tensors[k] for k in "XZY"}, ["t = X % Z", "Y = X * t"])
    assert made_name(check(spec, positive=("Z",)).spec, "Z", out=True) == "dZ"
    assert lines(backward(spec_of("elementwise", {k: tensors[k] for k in "XZY"}, ["Y = X % Z"])).spec)
