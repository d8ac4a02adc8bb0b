"""Rules of elementwise kernels: one case a rule, its code, its exact place, its words, and that its help works."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lint_kit import checked, found_in, hit_of_case
from tensor_layouts import Layout

from cutegen.families.elementwise import FAMILY
from cutegen.language.reader import read_specs

TV = """\
cutegen: 1
kernel: add
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32, major: N, align: 16}
  B: {shape: [N], dtype: f32, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A + B
schedule:
  partition: thread_value
  thread_layout: (8,32):(32,1)
  value_layout: (4,4):(4,1)
  copy:
    atom: universal
    bits: 128
    fallback: refuse
  predication: {M: mask, N: none}
targets: [sm_80]
verify:
  shapes:
    - {M: 7, N: 128}
"""
INNER = """\
cutegen: 1
kernel: inner
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f16, major: N, align: 16}
  D: {shape: [M, N], dtype: f16, major: N, align: 16, role: out}
compute: D = S
schedule:
  partition: inner
  tiler: {M: 1, N: 8}
  threads: 256
"""
OUTER = """\
cutegen: 1
kernel: outer
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f16, major: N}
  D: {shape: [M, N], dtype: f16, major: N, role: out}
compute: D = S
schedule:
  partition: inner_outer
  tiler: {M: 16, N: 256}
  thread_layout: (8,32):(32,1)
"""
INFERENCE = {"CG220", "CG223", "CG224"}  # what inference says
FREE_HELP = {"CG261", "CG314"}  # says how many values fit, or what divides


def test_the_base_specs_have_nothing_to_complain_about() -> None:
    for text in (TV, INNER, OUTER):
        assert found_in(text) == ()


# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old and new
# text, where the new one ends in what the help says (or None where the text is the whole help).
CASES = [
    (INNER, {"D: {shape": "scale: {shape: [M, NB], dtype: f32}\n  D: {shape", "D = S": "D = S * scale",
             "schedule:": "modes:\n  NB: {blocks: N, size: «100}\nschedule:"}, "CG314",
     "a tile has 8 along N, and blocks of `NB` have 100", "size: 100", "size: 128"),
    (OUTER, {"D: {shape": "scale: {shape: [M, NB], dtype: f32}\n  D: {shape", "D = S": "D = S * scale",
             "N: 256": "N: 384", "schedule:": "modes:\n  NB: {blocks: N, size: «12}\nschedule:"}, "CG314",
     "threads take 32 at a time of a tile's 384 along N, and blocks of `NB` have 12", "size: 12", "size: 16"),
    (INNER, {"threads: 256": "predication: {N: none}\nstatic: {N: «204}"}, "CG220", "204 = 25 * 8 + 4",
     "N: 204", "N: 208"),
    (INNER, {"threads: 256": "threads: 256\n  predication: {M: «none}\nstatic: {M: 3, N: 64}"}, "CG220",
     "make 24 tiles, not a multiple of 256 threads", "M: none", "M: mask"),
    (INNER, {"compute:": "divisible: {N: «2147483647}\ncompute:",
             "threads: 256": "copy: {bits: 128, fallback: refuse}"}, "CG223", "17179869176", "N: 2147483647", "N: 8"),
    (INNER, {"compute:": "divisible: {N: «12}\ncompute:",
             "threads: 256": "copy: {bits: 128, fallback: refuse}"}, "CG224",
     "accesses of 8 elements along N: 8 does not divide 12", "N: 12", "N: 24"),
    (TV, {"thread_layout: (8,32):(32,1)": "thread_layout: «256"}, "CG230", "1 mode, and C [M, N] has 2",
     "thread_layout: 256", "thread_layout: (8,32):(32,1)"),
    (TV, {"value_layout: (4,4):(4,1)": "value_layout: «(4,2,2)", "N: none": "N: mask"}, "CG230", "has 3 modes",
     "value_layout: (4,2,2)", "value_layout: (1,16):(16,1)"),
    (INNER, {"threads: 256": "threads: «2048"}, "CG231", "2048 > 1024", "threads: 2048", "threads: 1024"),
    (OUTER.replace("16, N: 256", "8, N: 256"), {"thread_layout: (8,32):(32,1)": "thread_layout: «(8,256)"}, "CG231",
     "8 * 256 = 2048", "thread_layout: (8,256)", "thread_layout: (8,128):(1,8)"),
    (TV, {"(8,32):(32,1)": "«(64,32):(32,1)"}, "CG231", "2048 threads", "(64,32):(32,1)", "(32,32):(32,1)"),
    (TV, {"value_layout: (4,4):(4,1)": "value_layout: «(64,32):(32,1)", "N: none": "N: mask"}, "CG232",
     "64 * 32 = 2048", "value_layout: (64,32):(32,1)", "value_layout: (8,8):(8,1)"),
    (INNER.replace("f16", "f64"), {"tiler: {M: 1, N: 8}": "tiler: «{M: 32, N: 8}"}, "CG232", "32 * 8 = 256 > 128",
     "tiler: {M: 32, N: 8}", "tiler: {M: 4, N: 8}"),
    (INNER, {"tiler: {M: 1, N: 8}": "tiler: «{M: 256, N: 8}"}, "CG232", "256 * 8 = 2048",
     "tiler: {M: 256, N: 8}", "tiler: {M: 8, N: 8}"),
    (OUTER, {"tiler: {M: 16, N: 256}": "tiler: «{M: 128, N: 4096}"}, "CG232", "/ 256 threads = 2048",
     "tiler: {M: 128, N: 4096}", "tiler: {M: 64, N: 256}"),
    (OUTER, {"tiler: {M: 16, N: 256}": "tiler: «{M: 128, N: 4096}\n  copy: {bits: 128}"}, "CG232", "threads = 2048",
     "tiler: {M: 128, N: 4096}", "tiler: {M: 16, N: 1024}"),
    (OUTER, {"N: 256": "N: «240"}, "CG234", "240 = 7 * 32 + 16", "N: 240", "N: 256"),
    (OUTER, {"N: 256}": "N: «400}\n  copy: {bits: 128}"}, "CG234", "400 = 12 * 32 + 16", "N: 400", "N: 512"),
    (TV, {"bits: 128": "bits: «16"}, "CG236", "f32 has 32 bits", "bits: 16", "bits: 32"),
    (TV, {"(4,4):(4,1)": "(4,4):(1,4)", "bits: 128": "bits: «128"}, "CG237", "a thread has 1 neighbours along N",
     "bits: 128", "bits: 32"),
    (TV, {"(4,4):(4,1)": "(4,2):(2,1)", "bits: 128": "bits: «128", "N: none": "N: mask"}, "CG237",
     "a thread has 2 neighbours along N", "bits: 128", "bits: 64"),
    (INNER, {"N: 8}": "N: 12}", "threads: 256": "copy: {bits: «128}"}, "CG237", "largest power of two",
     "bits: 128", "bits: 64"),
    (OUTER, {"256}\n  thread_layout:": "128}\n  copy: {bits: «128}\n  thread_layout:"}, "CG237",
     "128 / 32 = 4, and 4 = 0 * 8", "N: 128", "N: 256"),
    (OUTER, {"256}\n  thread_layout: (8,32):(32,1)": "896}\n  copy: {bits: «64}\n  thread_layout: (8,128):(128,1)"},
     "CG237", "a row of the tiler has 7 for each of 128 threads", "N: 896", "N: 1024"),
    (OUTER, {"thread_layout:": "copy: {bits: «8}\n  thread_layout:"}, "CG236", "f16 has 16 bits",
     "bits: 8", "bits: 16"),
    (OUTER.replace("D: {shape: [M, N], dtype: f16, major: N", "D: {shape: [M, N], dtype: f16, major: N, align: 8"),
     {"thread_layout:": "copy: {bits: «128, fallback: refuse}\n  thread_layout:"}, "CG238", "8 * 2 bytes = 16 > 8",
     "bits: 128", "bits: 64"),
    (TV, {"A: {shape: [M, N], dtype: f32, major: N, align: 16": "A: {shape: [M, N], dtype: f32, major: N, align: 8",
          "bits: 128": "bits: «128"},
     "CG238", "4 * 4 bytes = 16 > 8", "bits: 128", "bits: 64"),
    (TV, {"atom: universal": "atom: «cp_async"}, "CG239", "from global to shared", "atom: cp_async", "atom: universal"),
    (INNER, {"compute:": "static: {M: «2147483647, N: 800}\ncompute:"}, "CG259", "214748364700 tiles",
     "M: 2147483647", "M: 21474836"),
    (INNER, {"threads: 256": "threads: «48"}, "CG260", "48 = 1 * 32 + 16", "threads: 48", "threads: 64"),
    (OUTER, {"(8,32):(32,1)": "«(4,4)"}, "CG260", "16 lanes", "(4,4)", "(1,32):(32,1)"),
    (TV, {"(4,4):(4,1)": "«(16,16):(16,1)", "N: none": "N: mask"}, "CG261", "256 f32 + 256 f32 + 256 f32",
     "(16,16):(16,1)", "(4,16):(16,1)"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "code", "words", "before", "after"), CASES)
def test_every_rule_says_where_and_why_and_what_works(
    base: str, changes: dict[str, str], code: str, words: str, before: str, after: str
) -> None:
    hit = hit_of_case(base, changes, code, words, before, after)
    if code not in FREE_HELP:
        assert after.strip(' "}').rpartition(": ")[2] in (hit.help or ""), hit.help


def test_every_rule_has_a_case() -> None:
    said = {case[2] for case in CASES}
    assert {rule.code for rule in FAMILY.rules()} | INFERENCE == said
    assert [rule.code for rule in FAMILY.rules()] == sorted(rule.code for rule in FAMILY.rules())


def test_a_layout_with_repetitions_is_refused_even_if_no_text_can_hold_it() -> None:
    spec = read_specs(TV, "x.yaml")[0]
    broken = replace(spec, schedule=replace(spec.schedule, thread_layout=Layout((8, 32), (1, 1))))
    with pytest.raises(ValueError, match=r"add: schedule\.thread_layout: \(8,32\):\(1,1\) does not number 256") as said:
        checked(broken)
    assert "never meets 39, 40, 41, 42, and meets twice or out of range 1, 2, 3, 4" in str(said.value)
    assert str(said.value).endswith("; (8,32):(1,8) would")


BLOCKS = """\
cutegen: 1
kernel: blocks
op: elementwise
tensors:
  S: {shape: [M, NB], dtype: f32}
  X: {shape: [M, N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, align: 16, role: out}
modes: {NB: {blocks: N, size: 4}}
compute: Y = X * S
schedule:
  thread_layout: (4,3):(3,1)
  value_layout: (2,4):(4,1)
  copy: {bits: 128, fallback: FALLBACK}
targets: [sm_80]
"""


def test_blocks_are_divided_as_narrow_accesses_are_too() -> None:
    """There neighbours are 3 threads', and a block would be that of an element beside it."""
    (found,) = (one for one in found_in(BLOCKS.replace("FALLBACK", "narrow")) if one.code == "CG314")
    assert "threads take 3 at a time of a tile's 12 along N" in found.message
    assert "CG314" not in {one.code for one in found_in(BLOCKS.replace("FALLBACK", "refuse"))}
