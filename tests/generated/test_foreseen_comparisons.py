"""A comparison that all numbers keep is false of NaN: ptxas leaves out `x * x >= 0`, so NaN is asked for instead."""

from __future__ import annotations

import re
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

TRUTHS = [
    *("X * X >= 0", "0 <= X * X", "abs(X) > -1", "abs(X) + 1 > 0", "exp2(X) > -1", "-abs(X) <= 0", "tanh(X) < 2"),
    *("clamp(X, -1, 1) <= 1", "not (X * X >= 0)", "X * X >= -abs(Z)", "u * u > -4", "(X + 1) * (1 + X) >= 0"),
]
FLOATS = [
    *("relu(-abs(X) - 1)", "maximum(X * X, -abs(Z) - 1)", "maximum(-abs(Z) - 1, X * X)", "minimum(X * X + 1, -abs(Z))"),
    *("where(X * X >= 0, 1, Z)", "sign(X * X + 1)", "minimum(X * X, -1)", "clamp(X * X + 4, -1, 3)"),
]
ROWS = ["sum(X * X, N) >= 0", "all(X * X >= 0, N)", "any(u * u >= 0, N)", "max(abs(X), N) > -1"]
HEAD = "cutegen: 1\nkernel: foreseen\ntargets: [sm_90a]\n"


def elementwise(dtype: str, values: list[str], source: str = "f32") -> str:
    """A kernel with one output for each value, of which each thread has one."""
    outs = {f"Y{i}": x for i, x in enumerate(values)}
    tensors = "".join(f"  {name}: {{shape: [N], dtype: {source}}}\n" for name in "XZ")
    tensors += "".join(f"  {name}: {{shape: [N], dtype: {dtype}, role: out}}\n" for name in outs)
    lines = "  - u = X + 3\n" * ("u * u > -4" in values) + "".join(f"  - {name} = {x}\n" for name, x in outs.items())
    schedule = 'schedule: {thread_layout: "(128)", value_layout: "(1)"}\n'
    return f"{HEAD}op: elementwise\ntensors:\n{tensors}static: {{N: 128}}\n{schedule}compute:\n{lines}"


def rowwise() -> str:
    outs = {f"R{i}": x for i, x in enumerate(ROWS)}
    tensors = "  X: {shape: [M, N], dtype: f32}\n"
    tensors += "".join(f"  {name}: {{shape: [M], dtype: bool, role: out}}\n" for name in outs)
    tensors += "  E: {shape: [M, N], dtype: f32, role: out}\n"
    lines = "".join(f"  - {name} = {x}\n" for name, x in outs.items())
    lines += "  - E = maximum(u * u, -max(abs(X), N))\n"
    return f"{HEAD}op: rowwise\ntensors:\n{tensors}static: {{N: 64}}\ncompute:\n  - u = X - mean(X, N)\n{lines}"


SPECS = {
    "truths": elementwise("bool", TRUTHS),
    "of f16": elementwise("bool", TRUTHS, "f16"),
    "of f64": elementwise("bool", TRUTHS, "f64"),
    "floats": elementwise("f32", FLOATS),
    "rows": rowwise(),
}


@pytest.mark.parametrize("spec", sampled(SPECS.values(), 4), ids=list(SPECS))  # truths of elements and of rows
def test_nan_keeps_no_comparison(spec: str, tmp_path: Path) -> None:
    (module,) = generate(spec, "x.yaml").modules
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = telling_cases(module.plan)
    assert any(case.name.startswith("special values") for case in cases)
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", f"{case.name}: {report.message}"


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_nan_is_asked_for_in_the_code_of_the_machine(source: str, compiler: Compiler) -> None:
    """The emulator runs PTX, which has the comparisons still: what ptxas makes of it tells."""
    (module,) = generate(elementwise("bool", TRUTHS, source), "x.yaml").modules
    (outcome,) = compiler([Job(module.text, "foreseen", "sm_90a", sass=True)])
    assert isinstance(outcome, Compiled), outcome
    assert outcome.artefact.sass is not None
    assert len(re.findall(r"[FD]SETP\.(?:NAN|NUM)\.", outcome.artefact.sass)) >= len(TRUTHS) - 3  # X * X and abs(X) are asked once
