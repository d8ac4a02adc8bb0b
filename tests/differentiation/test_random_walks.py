"""Gradients of attention whose scores are changed at random, held to torch's autograd in float64."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from differentiation_kit import check, spec_text
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cutegen.differentiation import DifferentiationError, backward
from cutegen.language.diagnostics import SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs

TENSORS = {
    "Q": "B,M,G,R,D bf16", "K": "B,N,G,D bf16", "V": "B,N,G,E bf16", "slope": "G,R f32", "of_key": "B,G,N f32",
    "of_query": "B,G,R,M f32", "sink": "B,G,R,M f32", "bias": "M,N f32",
    "O": "B,M,G,R,E bf16 out", "lse": "B,G,R,M f32 out",
}  # fmt: skip
SCORES = "sum(Q * K, D) * scale"
LEAVES = (SCORES, SCORES, "x", "x", "slope * (coord(N) - coord(M))", "slope", "of_key", "of_query", "bias", "a", "0.5")
ONE = ("a * tanh({} / a)", "sigmoid({})", "silu({})", "gelu({})", "relu({})", "abs({})", "-{}", "({}) ** 2",
       "exp(tanh({}))", "log(1.5 + abs({}))", "rsqrt(0.5 + ({}) ** 2)", "cast({}, bf16)", "round({})")  # fmt: skip
TWO = ("({} + {})", "({} - {})", "({} * {})", "{} / (1.5 + abs({}))", "maximum({}, {})",
       "where(coord(N) > coord(M), {}, {})", "where({} > 0.25, {}, 0.5)")  # fmt: skip
MASKS = ("coord(N) <= coord(M)", "coord(M) - coord(N) < 2", "coord(N) < 1 or coord(N) >= coord(M)", "of_key < 5", "")
SOFTMAX = (
    "m = max(s, N)",
    "p = exp(s - m)",
    "l = sum(p, N){}",
    "lse = m + log(l)",
    "O = sum(cast(p, bf16) * V, N) / l",
)
WEIGHTS = ("sigmoid(s)", "silu(s)", "relu(s) ** 2", "exp(tanh(s))")


def trees() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        one = st.builds(lambda form, x: form.format(x), st.sampled_from(ONE), inner)
        two = st.builds(lambda form, x, y: form.format(x, y), st.sampled_from(TWO), inner, inner)
        return st.one_of(one, two)

    return st.recursive(st.sampled_from(LEAVES), grown, max_leaves=5)


def spec_of(compute: Sequence[str]) -> KernelSpec:
    text = " ".join(compute)
    words = {*"".join(c if c.isalnum() or c == "_" else " " for c in text).split()}
    used = {name: said for name, said in TENSORS.items() if name in words}
    scalars = ", ".join(f"{name}: f32" for name in ("scale", "a") if name in words)
    whole = spec_text("contract", used, compute, f"{{{scalars}}}", "static: {D: 32, E: 32}\n")
    return read_specs(whole.replace("kernel: k\n", "kernel: attend\n"))[0]


def hold(compute: Sequence[str], seed: int) -> None:
    try:
        spec = spec_of(compute)
    except SpecError:
        assume(False)
    try:
        made = backward(spec)
    except DifferentiationError as error:
        cancelled = "`Q`" not in error.message  # as in x - x: without scores no kernel walks
        assert cancelled or "depends on" in error.message, error.message
        return
    check(spec, made, seed=seed, sizes={"M": 4, "N": 4}, fixed={"a": torch.tensor(1.5, dtype=torch.float64)})


@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), trees(), st.sampled_from(MASKS), st.sampled_from(("", " + exp(sink - m)")), st.integers(0, 3))
def test_a_softmax(first: str, second: str, mask: str, sink: str, seed: int) -> None:
    whole = f"x + {second}"
    s = f"s = where({mask}, {whole}, -inf)" if mask else f"s = {whole}"
    alone = re.sub(r"\bx\b", SCORES, first)
    hold([f"x = {SCORES} + {alone}", s, *(line.format(sink) for line in SOFTMAX)], seed)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), st.sampled_from(WEIGHTS), st.sampled_from(MASKS), st.integers(0, 3))
def test_weights_of_each_score(tree: str, weight: str, mask: str, seed: int) -> None:
    p = f"p = where({mask}, {weight}, 0)" if mask else f"p = {weight}"
    hold([f"x = {SCORES}", f"s = x + {tree}", p, "O = sum(cast(p, bf16) * V, N)"], seed)
