"""The scores that do not exist: which statement leaves them out, and warpgroups that have no rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.families.attention.plan import WalkingPlan
from cutegen.families.attention.wgmma.plan import WarpgroupAttentionPlan
from cutegen.language.diagnostics import SpecError
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

HEAD = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, D], dtype: bf16}
  K: {shape: [B, N, D], dtype: bf16}
  V: {shape: [B, N, D], dtype: bf16}
  O: {shape: [B, M, D], dtype: bf16, role: out}
compute:
"""
REST = "static: {D: 32}\ntargets: [TARGET]\n"
SOFTMAX = """\
  - x = sum(Q * K, D) / 8
  - s = where(coord(N) <= coord(M), x, -inf)
  - p = exp(s - max(s, N))
"""
STATEMENTS = {
    "a softmax": (SOFTMAX + "  - O = sum(cast(p, bf16) * V, N) / sum(p, N)\n", "x"),
    "a score beside its weight": (SOFTMAX + "  - O = sum(cast(p * x, bf16) * V, N) / sum(p, N)\n", None),
    "a saturated score beside its weight": (
        SOFTMAX.replace("x =", "t = tanh(").replace(" / 8\n", " / 8)\n  - x = 30 * t\n")
        + "  - O = sum(cast(p * (1 - t * t), bf16) * V, N) / sum(p, N)\n",
        None,
    ),
    "weights without a softmax": ("  - w = sigmoid(sum(Q * K, D) / 8)\n  - O = sum(cast(w, bf16) * V, N)\n", None),
}


def made(statements: str, target: str, rest: str = REST) -> Module:
    return generate(HEAD + statements + rest.replace("TARGET", target), "specs/small.yaml").modules[0]


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_statement_leaves_out_what_nothing_else_uses(kind: str) -> None:
    """Minus infinity times a weight of 0 is NaN, and so may be what products make of an infinite query and no key."""
    statements, wanted = STATEMENTS[kind]
    plan = made(statements, "sm_90a").plan
    assert isinstance(plan, WalkingPlan) and plan.masked == wanted


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["a score beside its weight", "a saturated score beside its weight"])
def test_kernels_of_such_statements_are_right(kind: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    module = made(STATEMENTS[kind][0], target)
    (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(tmp_path / module.name), EmulatorExecutor(lines=False)
    special = [case for case in derive_cases(module.plan) if case.data == "special"]
    for case in (*special, Case("narrow", "", {"B": 1, "M": 37, "N": 41, "D": 32}, "padded", "random", 1)):
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", report.message


def test_no_warpgroup_is_without_rows() -> None:
    """Of the only tile of a fixed size CuTe takes any number for the first one."""
    fixed = REST.replace("{D: 32}", "{D: 32, M: 50}")
    plan = made(STATEMENTS["a softmax"][0], "sm_90a", fixed).plan
    assert isinstance(plan, WarpgroupAttentionPlan) and plan.consumers == 1
    written = fixed + "schedule: {tiler: {M: 128, N: 64}, mma: {atom: wgmma}}\n"
    with pytest.raises(SpecError) as error:
        made(STATEMENTS["a softmax"][0], "sm_90a", written)
    (found,) = error.value.diagnostics
    assert found.code == "CG316" and "128 rows along M, of which there are 50" in found.message
    assert "`M: 64`" in str(found.help)
