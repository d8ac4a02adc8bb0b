"""How many additions follow each other in sums, and how much narrower that makes what a right result may differ by."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.reference.bounds import evaluate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

MEAN = """\
cutegen: 1
kernel: mean_square
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  v: {shape: [M], dtype: f32, role: out}
compute: v = mean(X * X, N)
"""
COLUMNS = """\
cutegen: 1
kernel: columns
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  w: {shape: [N], dtype: f32, role: out}
compute: w = sum(X, M)
schedule: {threads_per_row: 32, scheduler: {blocks: 16}}
static: {N: 64}
"""


def module(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


@pytest.mark.parametrize(
    ("schedule", "size", "most"),
    [
        # values of a thread, a piece, five steps of lanes, the results of all warps one after another
        ("{keep: registers, threads_per_row: 128, tiler: {N: 4096}}", 4096, 32 + 1 + 5 + 4),
        ("{keep: registers, threads_per_row: 32, tiler: {N: 512}}", 512, 16 + 1 + 5 + 1),
        ("{keep: reload, threads_per_row: 64, tiler: {N: 512}}", 4096, 8 + 8 + 5 + 2),
    ],
)
def test_along_a_row(schedule: str, size: int, most: int) -> None:
    plan = module(f"{MEAN}schedule: {schedule}\nstatic: {{N: {size}}}\ntargets: [sm_80]\n").plan
    assert plan.spec.family.additions(plan, {"M": 3, "N": size}, ["N"]) == most
    assert plan.spec.family.additions(plan, {"M": 3, "N": size}, ["M", "N"]) is None


def test_along_rows_of_several_modes() -> None:
    """As along one of as many elements; what is summed over such rows knows how long they are."""
    text = MEAN.replace("[M, N]", "[M, C, N]").replace("X, N)", "X, C, N)")
    text = f"{text}schedule: {{keep: registers, threads_per_row: 32, tiler: {{C*N: 512}}}}\ntargets: [sm_80]\n"
    plan = module(f"{text}static: {{C: 8, N: 64}}\n").plan
    assert plan.spec.family.additions(plan, {"M": 3, "C": 8, "N": 64}, ["C", "N"]) == 16 + 1 + 5 + 1
    assert plan.spec.family.additions(plan, {"M": 3, "C": 8, "N": 64}, ["M", "N"]) is None
    both = "  w: {shape: [C, N], dtype: f32, role: out}\ncompute:\n  - w = sum(X, M)\n  - v ="
    plan = module(MEAN.replace("compute: v =", both).replace("[M, N]", "[M, C, N]").replace("X, N)", "X, C, N)")).plan
    assert (plan.spec.family.additions(plan, {"M": 3, "C": 8, "N": 64}, ["M"]) or 0) > 3


def test_over_the_rows() -> None:
    """Of each block its rows, then what eight warps have of the blocks, then theirs."""
    plan = module(COLUMNS).plan
    rows = plan.tile["M"] * 16
    assert plan.spec.family.additions(plan, {"M": 3 * rows + 1, "N": 64}, ["M"]) == 4 + -(-rows // 8) + 8


def test_the_bound_is_narrower_by_it() -> None:
    spec = module(MEAN).spec
    x = torch.ones(1, 4096) / 3
    wide, narrow = (evaluate(spec, {"X": x}, {}, additions=most)["v"].bound for most in (None, lambda modes: 40))
    assert 50 < float(wide / narrow) < 110


def test_a_mean_of_one_too_few_is_seen(tmp_path: Path) -> None:
    """Of 4096 ordinary numbers, in f32: a bound for additions in any order lets that pass."""
    made = module(MEAN + "static: {N: 4096}\ntargets: [sm_80]\n")
    text = made.text.replace("/ 4096.0", "/ 4095.0")
    assert text != made.text
    path = tmp_path / "mean_square.py"
    case, executor = Case("ordinary", "", {"M": 1, "N": 4096}), EmulatorExecutor(lines=False)
    found = []
    for one in (made.text, text):
        path.write_text(one, encoding="utf-8")
        found.append(verify_case(made.plan, case, load_module(path), executor).status)
    assert found == ["passed", "failed"]
