"""Several statements, several outputs and local values: what is read, what is written, and what is refused where."""

from __future__ import annotations

import pytest

from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.reader import read_specs
from cutegen.language.schema import schema
from cutegen.language.writer import write_spec

SWIGLU = """\
cutegen: 1
kernel: swiglu_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  G: {shape: [M, N], dtype: bf16}
  U: {shape: [M, N], dtype: bf16}
  dG: {shape: [M, N], dtype: bf16, role: out}
  dU: {shape: [M, N], dtype: bf16, role: out}
compute:
  - s = sigmoid(G)
  - dU = dY * G * s
  - dG = dY * U * s * (1 + G * (1 - s))
"""
ADAM = """\
cutegen: 1
kernel: momentum
op: elementwise
tensors:
  P: {shape: [N], dtype: f32, role: inout}
  M1: {shape: [N], dtype: f32, role: inout}
  G: {shape: [N], dtype: f32}
scalars: {lr: f32, beta: f32}
compute:
  - M1 = beta * M1 + (1 - beta) * G
  - P = P - lr * M1
"""


def problem(text: str) -> Diagnostic:
    with pytest.raises(SpecError) as caught:
        read_specs(text, "x.yaml")
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize("text", [SWIGLU, ADAM])
def test_statements_are_read_and_written_again(text: str) -> None:
    (spec,) = read_specs(text)
    again = write_spec(spec)
    assert read_specs(again)[0] == spec
    assert "compute:\n  - " in again


def test_outputs_are_in_the_order_of_the_tensors_and_the_first_assigned_one_is_known() -> None:
    (spec,) = read_specs(SWIGLU)
    assert [t.name for t in spec.outputs] == ["dG", "dU"]
    assert [t.name for t in spec.assigned] == ["dU", "dG"] and spec.output.name == "dU"
    assert spec.compute.targets == ("s", "dU", "dG") and spec.modes == ("M", "N")
    assert spec.compute.single is None and len(spec.compute.text.splitlines()) == 3


def test_a_list_of_one_is_a_list() -> None:
    (one,) = read_specs(
        ADAM.replace("  - P = P - lr * M1\n", "")
        .replace("P: {shape: [N], dtype: f32, role: inout}", "")
        .replace("scalars: {lr: f32, beta", "scalars: {beta")
    )
    assert one.compute.single is not None and read_specs(write_spec(one))[0] == one


# What is replaced, by what with « at the place, the code, words.
CASES = [
    (SWIGLU, "s = sigmoid(G)", "s = sigmoid(«H)", "CG121", "neither a tensor nor a scalar"),
    (SWIGLU, "dU = dY * G * s\n", "dU = dY * G * «t\n  - t = s\n", "CG121", "used before it is computed"),
    (SWIGLU, "  - s = sigmoid(G)\n", "  - s = sigmoid(G)\n  - «unused = G * s\n", "CG125", "never used"),
    (SWIGLU, "  - dU = dY", "  - «s = G * s\n  - dU = dY", "CG122", "assigns to `s` twice"),
    (SWIGLU, "  - dG = ", "  - «dU = dY\n  - dG = ", "CG122", "assigns to `dU` twice"),
    (SWIGLU, "  - dU = dY * G * s\n", "  - «U = dY * G * s\n  - dU = U\n", "CG122", "whose role is in"),
    (SWIGLU, "s = sigmoid(G)", "s = sigmoid(G * «dU)", "CG123", "role is out"),
    (SWIGLU, "  - dU = dY * G * s\n", "", "CG126", "assigns to `dG` only"),
    (SWIGLU, "dU = dY * G * s", "dU = dY * G * s +«", "CG120", "not an assignment"),
    (SWIGLU, "(1 + G * (1 - s))", "(1 + G * (1 - cast(s, «i99)))", "CG120", "unknown dtype"),
    (SWIGLU, "dU = dY * G * s", "dU = «cast(s, i8) and True", "CG128", "a condition is needed"),
    (SWIGLU, "dU = dY * G * s", "dU = dY * «3e39 * s", "CG135", "does not fit in f32"),
    (SWIGLU, "s = sigmoid(G)", "s = sigmoid(G) + «coord(K)", "CG116", "not a mode here"),
    (SWIGLU, "  - s =", "  - «s__ =", "CG125", "never used"),
    (SWIGLU, "dG: {shape: [M, N]", "dG: {shape: «[N, M]", "CG129", "`dG` is [N, M], and `dU` [M, N]"),
    (SWIGLU, "compute:\n", "compute:\n  - «3\n", "CG103", "must be a text"),
    (ADAM, "M1 = beta * M1 + (1 - beta) * G", "M1 = (1 - beta) * G", "CG124", "never reads it before"),
    (ADAM, "  - P = P", "  - «beta = G * beta\n  - P = P", "CG122", "the scalar `beta`"),
]


@pytest.mark.parametrize(("base", "old", "new", "code", "words"), CASES)
def test_a_mistake_is_told_at_its_place(base: str, old: str, new: str, code: str, words: str) -> None:
    assert base.count(old) == 1
    text = base.replace(old, new)
    before = text.partition("«")[0]
    with pytest.raises(SpecError) as caught:
        read_specs(text.replace("«", ""), "x.yaml")
    found = [d for d in caught.value.diagnostics if d.code == code and words in d.message]
    assert found, caught.value.diagnostics
    if "«" in text and "+«" not in new:
        assert (found[0].span.line, found[0].span.column) == (
            before.count("\n") + 1,
            len(before.rpartition("\n")[2]) + 1,
        )


def test_a_computed_output_is_offered_once() -> None:
    found = problem(SWIGLU.replace("dG = dY * U * s", "dG = dY * U * factor"))
    assert found.help is not None and found.help.partition("there are ")[2].split(", ").count("dU") == 1


def test_the_schema_takes_a_text_or_a_list_of_texts() -> None:
    compute = schema()["properties"]["compute"]
    assert compute["type"] == ["string", "array"] and compute["items"]["type"] == "string"
