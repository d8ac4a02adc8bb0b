"""Rules of probes: one case a rule, its code, its exact place, its words, and that its help works."""

from __future__ import annotations

import pytest
from lint_kit import found_in, hit_of_case

from cutegen.codegen import generate
from cutegen.families.probe import FAMILY
from cutegen.language.writer import write_spec

PROBE = """\
cutegen: 1
kernel: look
op: probe
tensors:
  A: {shape: [M, N], dtype: i32}
  D: {shape: [T, V], dtype: i32, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 4, N: 6}
"""
UNTILED = PROBE.replace("  tiler: {M: 4, N: 6}\n", "")
INFERENCE = {"CG222"}  # what inference says


def test_the_base_specs_have_nothing_to_complain_about() -> None:
    assert found_in(PROBE) == ()


# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old and new
# text, where the new one ends in what the help says (or None where the text is the whole help).
CASES = [
    (PROBE, {"compute:": "static: {M: «5}\ncompute:"}, "CG222", "the probe needs 4", "M: 5", "M: 4"),
    (PROBE, {"compute:": "divisible: {N: «4}\ncompute:"}, "CG222", "6 = 1 * 4 + 2",
     "divisible: {N: 4}", "divisible: {N: 6}"),
    (UNTILED, {"((2,2),(2,3)):((2,12),(1,4))": "«(2048,1)"}, "CG231", "2048 > 1024",
     "tv_layout: (2048,1)", "tv_layout: (1024,1):(1,1)"),
    (UNTILED, {"((2,2),(2,3)):((2,12),(1,4))": "«(1,1025)"}, "CG232", "1025 > 1024",
     "tv_layout: (1,1025)", "tv_layout: (1,1024):(1024,1)"),
    (PROBE, {"((2,2),(2,3)):((2,12),(1,4))": "«(3,2):(1,3)", "M: 4, N: 6": "M: 2, N: 3"}, "CG257",
     "steps of 3 do not fit a mode of 2: 3 is not a multiple of 2", "tiler: {M: 2, N: 3}", "tiler: {M: 6, N: 1}"),
    (PROBE, {"((2,2),(2,3)):((2,12),(1,4))": "«(6,2):(2,1)", "M: 4, N: 6": "M: 3, N: 4"}, "CG257",
     "steps of 2 do not fit a mode of 3", "tiler: {M: 3, N: 4}", "tiler: {M: 12, N: 1}"),
    (PROBE, {"((2,2),(2,3)):((2,12),(1,4))": "«(2,2):(2,2)"}, "CG257",
     "2 + 2 = 4 steps past a mode of 4", "tiler: {M: 4, N: 6}", "tiler: {M: 24, N: 1}"),
    (PROBE, {"((2,2),(2,3)):((2,12),(1,4))": "«(2,1):(1,5)"}, "CG257",
     "5 is not a multiple of 4", "tv_layout: (2,1):(1,5)", "tv_layout: (2,1):(1,0)"),
    (PROBE, {"M: 4, N: 6": "M: 4, N: «5"}, "CG258", "1 * 2 + 1 * 12 + 1 * 1 + 2 * 4 = 23", "N: 5", "N: 6"),
    (PROBE, {"{M: 4, N: 6}": "{M: «65536, N: 32768}"}, "CG259", "2147483648 elements", "M: 65536", "M: 32"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "code", "words", "before", "after"), CASES)
def test_every_rule_says_where_and_why_and_what_works(
    base: str, changes: dict[str, str], code: str, words: str, before: str, after: str
) -> None:
    hit = hit_of_case(base, changes, code, words, before, after)
    assert after.strip(' "}').rpartition(": ")[2] in (hit.help or ""), hit.help


def test_every_rule_has_a_case() -> None:
    said = {case[2] for case in CASES}
    assert {rule.code for rule in FAMILY.rules()} | INFERENCE == said
    assert [rule.code for rule in FAMILY.rules()] == sorted(rule.code for rule in FAMILY.rules())


def test_what_is_promised_of_a_size_that_follows_leaves_a_spec_that_can_be_written_out() -> None:
    promised = PROBE.replace("compute:", "divisible: {M: 2, V: 3}\ncompute:")
    (module,) = generate(promised, "look.yaml").modules
    assert module.spec.static == {"T": 4, "V": 6, "M": 4, "N": 6} and not module.spec.divisible
    assert generate(write_spec(module.spec), "look.yaml").modules[0].spec == module.spec
