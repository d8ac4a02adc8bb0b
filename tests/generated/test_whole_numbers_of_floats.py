"""A cast from a float to an integer makes NaN 0, also where a compiler knows a bound of what is cast.

Compilers take a comparison for true where all numbers keep it, and forget NaN: ptxas for `x * x > -128`, and what comes
before it for a relu that is held to 0 once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from compiling_kit import Compiler
from sweep_kit import sampled
from telling_kit import telling_cases

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from cutegen.codegen import generate
from cutegen.compiling import Compiled, Job
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

NEVER_NEGATIVE = [
    *("abs(X)", "X * X", "X ** 4", "(X + 1) * (1 + X)", "sqrt(X)", "exp(X)", "exp2(X)", "relu(X)", "maximum(X, 0)"),
    *("abs(X) + 1", "minimum(X * X, 3)", "round(clamp(X * 10, 0, 255))", "where(X < 1, 1, X)", "u * u"),
]
FROM_BELOW = ["abs(X) - 1", "exp2(X) - 1", "tanh(X) * 100", "clamp(X, -8, 7)", "v - 3"]  # -128 and more
ON_BOTH_SIDES = ["X", "X + 0.5", "-X", "2 * X - 3", "X / 3", "round(X * 100)"]  # of all bounds: nothing is left out
OPERANDS = {"i8": [*NEVER_NEGATIVE, *FROM_BELOW], "u8": NEVER_NEGATIVE}
ROWS = ["sum(X * X, N)", "max(abs(X), N)", "abs(sum(X, N))", "relu(max(X, N))", "var(X, N)", "exp(max(X, N)) - 1"]
CENTERED = ["u * u", "relu(u)", "abs(u) - 1"]
HEAD = "cutegen: 1\nkernel: whole\ntargets: [sm_90a]\n"
NAN_TEST, TO_INTEGER = r"[FD]SETP\.(?:NAN|NUM)\.", r"F2I\."


def elementwise(dtype: str, operands: Sequence[str], source: str = "f32") -> str:
    """A kernel with one output for each operand, of which each thread has one value."""
    outs = {f"Y{i}": x for i, x in enumerate(operands)}
    named = {"u": "u = X + 3", "v": "v = abs(X + 5)"}
    statements = [one for name, one in named.items() if any(name in x.split() for x in operands)]
    statements += [f"{out} = cast({x}, {dtype})" for out, x in outs.items()]
    tensors = f"  X: {{shape: [N], dtype: {source}}}\n" + outputs(outs, "[N]", dtype)
    schedule = 'schedule: {thread_layout: "(128)", value_layout: "(1)"}\n'
    return f"{HEAD}op: elementwise\ntensors:\n{tensors}static: {{N: 128}}\n{schedule}{compute(statements)}"


def rowwise(dtype: str) -> str:
    """A kernel with casts of numbers of rows and of their elements."""
    rows, centered = ({f"{name}{i}": x for i, x in enumerate(some)} for name, some in (("R", ROWS), ("C", CENTERED)))
    tensors = "  X: {shape: [M, N], dtype: f32}\n" + outputs(rows, "[M]", dtype) + outputs(centered, "[M, N]", dtype)
    statements = [f"{out} = cast({x}, {dtype})" for out, x in (rows | centered).items()]
    return f"{HEAD}op: rowwise\ntensors:\n{tensors}static: {{N: 64}}\n{compute(['u = X - mean(X, N)', *statements])}"


def outputs(names: Iterable[str], shape: str, dtype: str) -> str:
    return "".join(f"  {name}: {{shape: {shape}, dtype: {dtype}, role: out}}\n" for name in names)


def compute(statements: Iterable[str]) -> str:
    return "compute:\n" + "".join(f"  - {one}\n" for one in statements)


def sass_of(spec: str, compiler: Compiler) -> list[str]:
    """The code of each kernel of a module."""
    (module,) = generate(spec, "x.yaml").modules
    (outcome,) = compiler([Job(module.text, "whole", "sm_90a", sass=True)])
    assert isinstance(outcome, Compiled), outcome
    assert outcome.artefact.sass is not None
    return re.split(r"(?m)^\.text\..*:$", outcome.artefact.sass)[1:]


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_each_operand_is_asked_whether_it_is_nan(dtype: str, compiler: Compiler) -> None:
    operands = OPERANDS.get(dtype, OPERANDS["i8"])
    (sass,) = sass_of(elementwise(dtype, operands), compiler)
    assert len(re.findall(TO_INTEGER, sass)) == len(operands)
    assert len(re.findall(NAN_TEST, sass)) == len(operands)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32"])
def test_comparisons_of_what_may_be_any_number_stay(dtype: str, compiler: Compiler) -> None:
    (sass,) = sass_of(elementwise(dtype, ON_BOTH_SIDES), compiler)
    assert not re.findall(NAN_TEST, sass)


@pytest.mark.parametrize("source", ["f16", "bf16", "f64"])
def test_operands_of_other_floats_are_asked_too(source: str, compiler: Compiler) -> None:
    operands = ["X * X", "abs(X) - 1", "relu(X)"]
    (sass,) = sass_of(elementwise("i16", operands, source), compiler)
    assert len(re.findall(NAN_TEST, sass)) == len(operands)


def test_numbers_of_rows_and_their_elements_are_asked(compiler: Compiler) -> None:
    kernels = sass_of(rowwise("i16"), compiler)
    assert kernels
    for sass in kernels:
        assert len(re.findall(NAN_TEST, sass)) == len(re.findall(TO_INTEGER, sass)) >= len(ROWS + CENTERED)


ANY = [*NEVER_NEGATIVE, *FROM_BELOW, "2 * abs(X) - 200"]
SPECS = [elementwise("u8", ANY), elementwise("i16", ANY), rowwise("i8"), rowwise("u8"), elementwise("i8", ON_BOTH_SIDES)]


@pytest.mark.parametrize("spec", sampled(SPECS))  # of elements and of rows
def test_nan_becomes_0(spec: str, tmp_path: Path) -> None:
    (module,) = generate(spec, "x.yaml").modules
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = telling_cases(module.plan)
    assert any(case.name.startswith("special values") for case in cases)
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", f"{case.name}: {report.message}"
