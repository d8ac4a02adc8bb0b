"""The driver of the families' rules: which it asks, and what it asks of any family."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lint_kit import found_in, hit_of_case

from cutegen.atoms.targets import TARGETS
from cutegen.lint import all_performance_rules, all_rules, page, rules_of
from cutegen.lint.contract import note_codes
from cutegen.registry import families

COPY = """\
cutegen: 1
kernel: plain
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, align: 16}
  D: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: D = S
schedule:
  thread_layout: (8,32):(32,1)
  value_layout: (4,4):(4,1)
  predication: {M: mask, N: none}
verify:
  shapes:
    - {M: 7, N: 128}
"""
INNER = """\
cutegen: 1
kernel: whole
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, major: M}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = 2 * S
schedule:
  partition: inner
  tiler: {M: 4, N: 8}
  predication: {M: none, N: mask}
static: {N: 41}
verify:
  shapes:
    - {M: 512, N: 41}
"""
GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 64}
  predication: {M: none}
bench:
  shapes:
    - {M: 128, N: 8, K: 8}
"""
INFERENCE = {*(f"CG22{i}" for i in (0, 2, 3, 4)), "CG295", "CG296", "CG297", "CG301"}  # said while a spec is resolved


def test_rules_are_asked_in_the_order_of_their_codes() -> None:
    for family in families():
        for codes in ([r.code for r in rules_of(family)], [r.code for r in family.performance_rules()]):
            assert codes == sorted(codes)


def test_families_agree_on_the_severity_of_a_code() -> None:
    severities = {(rule.code, rule.severity) for rule in (*all_rules(), *all_performance_rules())}
    assert len(severities) == len({code for code, _ in severities})


def test_every_code_about_a_schedule_is_said_by_a_rule_or_by_inference() -> None:
    said = {rule.code for rule in (*all_rules(), *all_performance_rules())}
    assert said | INFERENCE | set(note_codes()) == {code for code in page.codes_of_lint() if code >= "CG220"}


@pytest.mark.parametrize(
    ("text", "changes", "words", "before", "after"),
    [
        (COPY, {"N: 128}": "N: «100}"}, "predication of N is none and its tile is 128", "N: 100}", "N: 128}"),
        (GEMM, {"{M: 128": "{M: «100"}, "100 = 1 * 64 + 36", "M: 100", "M: 128"),
        (INNER, {"- {M: 512,": "- «{M: 16,"}, "24 tiles, not a multiple of 256 threads", "{M: 16,", "{M: 512,"),
    ],
)
def test_listed_shapes_are_shapes_that_the_kernel_accepts(
    text: str, changes: dict[str, str], words: str, before: str, after: str
) -> None:
    assert found_in(text) == ()
    hit = hit_of_case(text, changes, "CG256", words, before, after)
    assert after.strip(" },").rpartition(": ")[2] in (hit.help or "")


def test_listed_shapes_are_asked_of_what_is_measured() -> None:
    for family in families():
        assert ("CG256" in {rule.code for rule in rules_of(family)}) == (family.op.unmeasured is None)


def test_a_target_older_than_cp_async_cannot_be_made() -> None:
    """Every schedule can be built for every target, as far as its atoms go: no rule has to ask."""
    with pytest.raises(ValueError, match="sm_75.*cp.async"):
        replace(TARGETS["sm_80"], name="sm_75")
