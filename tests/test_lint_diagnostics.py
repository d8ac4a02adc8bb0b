"""One case a rule: its code, its exact place, its words, and that what it suggests works."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tensor_layouts import Layout, size

from cutegen.codegen import generate
from cutegen.language import CODES, Diagnostic, SpecError, read_specs
from cutegen.language.dtypes import Dtype
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec
from cutegen.lint import PERFORMANCE_RULES, RULES, check
from cutegen.planning import layouts, resolve
from cutegen.planning.layouts import offsets
from cutegen.planning.report import Report
from cutegen.planning.targets import TARGETS

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
GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  D: {shape: [M, N], dtype: f32, major: M, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T + D
schedule:
  tiler: {M: 128, N: 128, K: 8}
  mma:
    thread_layout: (16,16,1):(1,16,0)
    permutation: {M: "(16,4):(4,1)"}
  copies:
    A:
      bits: 128
      atom: cp_async
      thread_layout: (32,8):(1,32)
      value_layout: (4,1)
    C:
      bits: 128
  smem: {A: {pad: 0}}
  pipeline: {stages: 3}
  predication: {K: residue_first}
targets: [sm_80, sm_86]
"""
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
STORED = GEMM.replace("atom: cp_async", "atom: universal")
BASES = (TV, INNER, OUTER, GEMM, PROBE)
GEMM_F16 = GEMM.replace("dtype: f32, major: M, align: 16}\n  B", "dtype: f16, major: M, align: 16}\n  B").replace(
    "B: {shape: [N, K], dtype: f32", "B: {shape: [N, K], dtype: f16"
)
GEMM_F16 = GEMM_F16.replace("A:\n      bits: 128", "A:\n      bits: 64")
GEMM_F64 = (
    GEMM.replace("f32", "f64").replace("bits: 128", "bits: 64").replace("value_layout: (4,1)", "value_layout: (1,1)")
)
LOOSE = GEMM[: GEMM.index("  copies")] + GEMM[GEMM.index("  smem") :]  # copies are inferred
LOOSE_F16 = GEMM_F16[: GEMM_F16.index("  copies")] + GEMM_F16[GEMM_F16.index("  smem") :]

WRITTEN = '{thread_layout: "(32,8):(1,32)", value_layout: "(4,1)"}'
BOTH = LOOSE.replace("  smem: {A: {pad: 0}}\n", f"  copies:\n    A: {WRITTEN}\n    B: {WRITTEN}\n")


def found_in(text: str) -> tuple[Diagnostic, ...]:
    try:
        return generate(text, "x.yaml").warnings
    except SpecError as error:
        return error.diagnostics


def test_the_base_specs_have_nothing_to_complain_about() -> None:
    for text in (*BASES, LOOSE, GEMM_F16):
        assert found_in(text) == ()


A_BITS, C_BITS = "    A:\n      bits: 128", "    C:\n      bits: 128"

# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old and new
# text, where the new one ends in what the help says (or None where the text is the whole help).
CASES = [
    # planning
    (INNER, {"threads: 256": "predication: {N: none}\nstatic: {N: «204}"}, "CG220", "204 = 25 * 8 + 4",
     "N: 204", "N: 208"),
    (LOOSE, {"{M: 128, N": "{M: «80, N"}, "CG221", "80 * 8 = 640", "M: 80", "M: 64"),
    (LOOSE, {"N: 128, K": "N: «72, K"}, "CG221", "72 * 8 = 576", "N: 72", "N: 64"),
    (PROBE, {"compute:": "static: {M: «5}\ncompute:"}, "CG222", "the probe needs 4", "M: 5", "M: 4"),
    (INNER, {"compute:": "divisible: {N: «2147483647}\ncompute:"}, "CG223", "17179869176", "N: 2147483647", "N: 8"),
    # the schedule as a whole
    (TV, {"thread_layout: (8,32):(32,1)": "thread_layout: «256"}, "CG230", "1 mode, and C [M, N] has 2",
     "thread_layout: 256", "thread_layout: (8,32):(32,1)"),
    (TV, {"value_layout: (4,4):(4,1)": "value_layout: «(4,2,2)", "N: none": "N: mask"}, "CG230", "has 3 modes",
     "value_layout: (4,2,2)", "value_layout: (1,16):(16,1)"),
    (GEMM, {"thread_layout: (16,16,1):(1,16,0)": "thread_layout: «(16,16):(1,16)"}, "CG230", "the product [M, N, K]",
     "thread_layout: (16,16):(1,16)", "thread_layout: (16,16,1):(1,16,0)"),
    (GEMM, {"value_layout: (4,1)": "value_layout: «4"}, "CG230", "a tile [M, K]",
     "value_layout: 4", "value_layout: (4,1):(1,0)"),
    (INNER, {"threads: 256": "threads: «2048"}, "CG231", "2048 > 1024", "threads: 2048", "threads: 1024"),
    (OUTER.replace("16, N: 256", "8, N: 256"), {"thread_layout: (8,32):(32,1)": "thread_layout: «(8,256)"}, "CG231",
     "8 * 256 = 2048", "thread_layout: (8,256)", "thread_layout: (8,128):(1,8)"),
    (LOOSE, {"thread_layout: (16,16,1):(1,16,0)": "thread_layout: «(64,32,1)", '{M: "(16,4):(4,1)"}': "{}"}, "CG231",
     "2048 threads", "thread_layout: (64,32,1)", "thread_layout: (32,32,1):(1,32,0)"),
    (TV, {"(8,32):(32,1)": "«(64,32):(32,1)"}, "CG231", "2048 threads", "(64,32):(32,1)", "(32,32):(32,1)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(64,32,1):(32,1,0)", '{M: "(16,4):(4,1)"}': "{}"}, "CG231",
     "2048 threads", "(64,32,1):(32,1,0)", "(32,32,1):(32,1,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(16,16,8)"}, "CG231", "2048 threads", "(16,16,8)", "(16,16,1):(1,16,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(64,32,2)", '{M: "(16,4):(4,1)"}': "{}"}, "CG240", "2 threads along K",
     "(64,32,2)", "(32,32,1):(1,32,0)"),
    (UNTILED, {"((2,2),(2,3)):((2,12),(1,4))": "«(2048,1)"}, "CG231", "2048 > 1024",
     "tv_layout: (2048,1)", "tv_layout: (1024,1):(1,1)"),
    (TV, {"value_layout: (4,4):(4,1)": "value_layout: «(64,32):(32,1)", "N: none": "N: mask"}, "CG232",
     "64 * 32 = 2048", "value_layout: (64,32):(32,1)", "value_layout: (8,8):(8,1)"),
    (INNER, {"tiler: {M: 1, N: 8}": "tiler: «{M: 256, N: 8}"}, "CG232", "256 * 8 = 2048",
     "tiler: {M: 256, N: 8}", "tiler: {M: 8, N: 8}"),
    (OUTER, {"tiler: {M: 16, N: 256}": "tiler: «{M: 128, N: 4096}"}, "CG232", "/ 256 threads = 2048",
     "tiler: {M: 128, N: 4096}", "tiler: {M: 64, N: 256}"),
    (OUTER, {"tiler: {M: 16, N: 256}": "tiler: «{M: 128, N: 4096}\n  copy: {bits: 128}"}, "CG232", "threads = 2048",
     "tiler: {M: 128, N: 4096}", "tiler: {M: 16, N: 1024}"),
    (GEMM.replace("sm_86", "sm_90a"), {"{M: 128, N: 128, K: 8}": "{M: «1024, N: 512, K: 8}"}, "CG232", "= 2048 > 1024",
     "M: 1024, N: 512", "M: 128, N: 256"),
    (UNTILED, {"((2,2),(2,3)):((2,12),(1,4))": "«(1,1025)"}, "CG232", "1025 > 1024",
     "tv_layout: (1,1025)", "tv_layout: (1,1024):(1024,1)"),
    (OUTER, {"N: 256": "N: «240"}, "CG234", "240 = 7 * 32 + 16", "N: 240", "N: 256"),
    (OUTER, {"N: 256}": "N: «400}\n  copy: {bits: 128}"}, "CG234", "400 = 12 * 32 + 16", "N: 400", "N: 512"),
    # accesses
    (TV, {"bits: 128": "bits: «16"}, "CG236", "f32 has 32 bits", "bits: 16", "bits: 128"),
    (GEMM, {C_BITS: "    C:\n      bits: «16"}, "CG236", "element of C", "bits: 16", "bits: 128"),
    (TV, {"(4,4):(4,1)": "(4,4):(1,4)", "bits: 128": "bits: «128"}, "CG237", "a thread has 1 in a row along N",
     "bits: 128", "bits: 32"),
    (TV, {"(4,4):(4,1)": "(4,2):(2,1)", "bits: 128": "bits: «128", "N: none": "N: mask"}, "CG237",
     "a thread has 2 in a row along N", "bits: 128", "bits: 64"),
    (INNER, {"N: 8}": "N: 12}", "threads: 256": "copy: {bits: «128}"}, "CG237", "largest power of two",
     "bits: 128", "bits: 64"),
    (OUTER, {"256}\n  thread_layout:": "128}\n  copy: {bits: «128}\n  thread_layout:"}, "CG237",
     "128 / 32 = 4, and 4 = 0 * 8", "N: 128", "N: 256"),
    (OUTER, {"256}\n  thread_layout: (8,32):(32,1)": "896}\n  copy: {bits: «64}\n  thread_layout: (8,128):(128,1)"},
     "CG237", "a row of the tiler has 7 for each of 128 threads", "N: 896", "N: 1024"),
    (OUTER, {"thread_layout:": "copy: {bits: «8}\n  thread_layout:"}, "CG236", "f16 has 16 bits",
     "bits: 8", "bits: 128"),
    (OUTER.replace("D: {shape: [M, N], dtype: f16, major: N", "D: {shape: [M, N], dtype: f16, major: N, align: 8"),
     {"thread_layout:": "copy: {bits: «128}\n  thread_layout:"}, "CG238", "8 * 2 bytes = 16 > 8",
     "bits: 128", "bits: 64"),
    (GEMM, {"value_layout: (4,1)": "value_layout: (2,1)", A_BITS: "    A:\n      bits: «128"}, "CG237",
     "A, and a thread has 2", A_BITS, "    A:\n      bits: 64"),
    (GEMM, {'"(16,4):(4,1)"': '"(16,2):(2,1)"', C_BITS: "    C:\n      bits: «128"}, "CG237", "gives a thread 2",
     C_BITS, "    C:\n      bits: 64"),
    (TV, {"A: {shape: [M, N], dtype: f32, major: N, align: 16": "A: {shape: [M, N], dtype: f32, major: N, align: 8",
          "bits: 128": "bits: «128"},
     "CG238", "4 * 4 bytes = 16 > 8", "bits: 128", "bits: 64"),
    (GEMM, {"K], dtype: f32, major: M, align: 16": "K], dtype: f32, major: M, align: 4",
            A_BITS: "    A:\n      bits: «128"}, "CG238", "16 bytes of alignment", A_BITS, "    A:\n      bits: 32"),
    (GEMM, {"C: {shape: [M, N], dtype: f32, major: M, align: 16": "C: {shape: [M, N], dtype: f32, major: M, align: 8",
            C_BITS: "    C:\n      bits: «128"}, "CG238", "elements of C", C_BITS, "    C:\n      bits: 64"),
    (TV, {"atom: universal": "atom: «cp_async"}, "CG239", "from global to shared", "atom: cp_async", "atom: universal"),
    (GEMM, {C_BITS: "    C:\n      atom: «cp_async"}, "CG239", "goes the other way", "C:\n      atom: cp_async",
     "C:\n      atom: universal"),
    # gemm
    (LOOSE, {"(16,16,1):(1,16,0)": "«(16,8,2):(1,16,128)"}, "CG240", "2 threads along K",
     "(16,8,2):(1,16,128)", "(16,8,1):(1,16,0)"),
    (LOOSE, {'"(16,4):(4,1)"': '«"24"'}, "CG241", "24 = 1 * 16 + 8", '"24"', '"(16,4):(4,1)"'),
    (LOOSE, {"{M: 128, N": "{M: «96, N"}, "CG242", "96 = 1 * 64 + 32", "M: 96", "M: 64"),
    (GEMM, {'{M: "(16,4):(4,1)"}': '{M: "(16,4):(4,1)", K: «"8"}'}, "CG243", "summed over", ', K: "8"}', "}"),
    (GEMM_F64, {"    permutation:": "    accumulator: «f32\n    permutation:"}, "CG244", "64 bits > 32 bits",
     "accumulator: f32", "accumulator: f64"),
    (LOOSE, {"K: 8}": "K: «1}"}, "CG245", "2 is the least", "K: 1}", "K: 8}"),
    (GEMM, {"stages: 3": "stages: «1"}, "CG246", "2 to 32", "stages: 1", "stages: 2"),
    (LOOSE.replace("M: 128, N: 128", "M: 64, N: 32"), {"stages: 3": "stages: «33"}, "CG246", "2 to 32",
     "stages: 33", "stages: 32"),
    (GEMM, {"(32,8):(1,32)": "«(32,4):(1,32)"}, "CG247", "128 threads, and the mma has 256",
     "(32,4):(1,32)", "(32,8):(1,32)"),
    (GEMM, {"(32,8):(1,32)": "«(64,4):(1,64)"}, "CG248", "64 threads * 4 values = 256",
     "(64,4):(1,64)", "(32,8):(1,32)"),
    (GEMM, {"(32,8):(1,32)": "«(16,16):(1,16)"}, "CG248", "does not divide 8", "(16,16):(1,16)", "(32,8):(1,32)"),
    (BOTH, {"K: 8}": "K: 7}", "A: {thread_layout: ": "A: {thread_layout: «"}, "CG248", "does not divide 7",
     "K: 7", "K: 8"),
    (LOOSE.replace("[M, K], dtype: f32, major: M", "[M, K], dtype: f32, major: K"),
     {"  smem: {A: {pad: 0}}": "  copies: {A: {atom: cp_async, bits: «64}}"}, "CG249", "2 neighbours along K",
     "atom: cp_async", "atom: universal"),
    (GEMM_F16, {"    A:\n      bits: 64": "    A:\n      bits: «16"}, "CG250", "16 bits / 8 = 2",
     "A:\n      bits: 16", "A:\n      bits: 64"),
    (LOOSE_F16.replace("[M, K], dtype: f16, major: M", "[M, K], dtype: f16, major: K"),
     {"  smem: {A: {pad: 0}}": "  copies: {A: {atom: «cp_async}}"}, "CG250", "2 bytes",
     "atom: cp_async", "atom: universal"),
    (GEMM, {"pad: 0": "pad: «1"}, "CG251", "(128 + 1) * 4 bytes = 516", "pad: 1", "pad: 4"),
    (LOOSE, {"pad: 0": "pad: «36"}, "CG252", "36 = 1 * 32 + 4", "pad: 36", "pad: 4"),
    (GEMM, {"    C:\n": "    D: «{bits: 32}\n    C:\n"}, "CG253", "as the output", "    D: {bits: 32}\n", ""),
    (GEMM, {"    C:\n": "    C:\n      value_layout: «(4,1)\n"}, "CG253", "no effect on `C`",
     "      value_layout: (4,1)\n      bits", "      bits"),
    (GEMM, {"stages: 3": "stages: «13"}, "CG254", "128 * 8 * 13 stages * 4 bytes = 53248", "stages: 13", "stages: 12"),
    (LOOSE.replace("  pipeline: {stages: 3}\n", ""), {"{M: 128, N: 128, K: 8}": "«{M: 128, N: 128, K: 128}"}, "CG254",
     "sm_80 has 166912, sm_86 has 101376", "K: 128", "K: 32"),
    (GEMM, {"K: residue_first": "K: «mask"}, "CG255", "summed over", "K: mask", "K: residue_first"),
    (TV, {"N: 128}": "N: «100}"}, "CG256", "predication of N is none and its tile is 128", "N: 100}", "N: 128}"),
    (PROBE, {"M: 4, N: 6": "M: 4, N: «5"}, "CG258", "1 * 2 + 1 * 12 + 1 * 1 + 2 * 4 = 23", "N: 5", "N: 6"),
    (INNER, {"compute:": "static: {M: «2147483647, N: 800}\ncompute:"}, "CG259", "214748364700 tiles",
     "M: 2147483647", "M: 21474836"),
    (GEMM, {"targets:": "static: {N: «8388608}\ntargets:"}, "CG259", "65536 > 65535", "N: 8388608", "N: 8388480"),
    (PROBE, {"{M: 4, N: 6}": "{M: «65536, N: 32768}"}, "CG259", "2147483648 elements", "M: 65536", "M: 65535"),
    (GEMM, {"stages: 3": "stages: 3, store: «7"}, "CG262", "travel by cp.async", ", store: 7", ""),
    (STORED, {"stages: 3": "stages: 3, store: «8"}, "CG262", "steps of a tile 8 deep are 0 to 7",
     "store: 8", "store: 7"),
    (GEMM, {"pad: 0": 'layout: «"(4,16):(1,4)"'}, "CG263", "64 coordinates, and the tile of A is 128 long",
     "(4,16):(1,4)", "(4,16,2):(1,4,64)"),
    (GEMM, {"pad: 0": 'layout: «"(2,64):(64,1)"'}, "CG263", "places of 0 to 3: 0, 64, 1, 65",
     "bits: 128\n      atom: cp_async", "atom: cp_async\n      bits: 32"),
    (GEMM_F16, {"pad: 0": 'layout: «"(2,64):(64,1)"'}, "CG263", "cp.async writes 4 neighbours along M at once",
     "atom: cp_async", "atom: universal"),
    (LOOSE, {"pad: 0": 'layout: «"(2,2,32):(1,64,2)"', "  pipeline:": "  copies: {A: {bits: 128}}\n  pipeline:"},
     "CG263", "places of 0 to 3: 0, 1, 64, 65", "bits: 128", "bits: 64"),
    (LOOSE, {"{M: 128, N": "{M: 96, N", "pad: 0": 'layout: «"(3,32):(32,1)"', "(16,4):(4,1)": "16",
     "  pipeline:": "  copies: {A: {bits: 32}}\n  pipeline:"}, "CG263", "what a thread reads of A",
     'layout: "(3,32):(32,1)"', ""),
    (LOOSE, {"  smem: {A": "  workspace: {A: {major: «M}}\n  smem: {A"}, "CG264", "for operands that are K-major",
     "  workspace: {A: {major: M}}\n", ""),
    (LOOSE.replace("[M, K], dtype: f32, major: M", "[M, K], dtype: f32, major: K"),
     {"  smem: {A": "  workspace: {A: {major: «K}}\n  smem: {A"}, "CG264", "K-major, as A is",
     "workspace: {A: {major: K", "workspace: {A: {major: M"),
    # warnings
    (INNER, {"threads: 256": "threads: «48"}, "CG260", "48 = 1 * 32 + 16", "threads: 48", "threads: 64"),
    (OUTER, {"(8,32):(32,1)": "«(4,4)"}, "CG260", "16 lanes", "(4,4)", "(1,32):(32,1)"),
    (LOOSE.replace("M: 128, N: 128", "M: 64, N: 32"), {"(16,16,1):(1,16,0)": "«(4,4,1)", '{M: "(16,4):(4,1)"}': "{}"},
     "CG260", "16 lanes", "(4,4,1)", "(4,8,1):(1,4,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "(8,8,1)", '{M: "(16,4):(4,1)"}': "{}", "{M: 128, N: 128, K": "«{M: 128, N: 128, K"},
     "CG261", "= 256", "M: 128, N: 128", "M: 64, N: 128"),
    (TV, {"(4,4):(4,1)": "«(16,16):(16,1)", "N: none": "N: mask"}, "CG261", "256 f32 + 256 f32 + 256 f32",
     "(16,16):(16,1)", "(4,16):(16,1)"),
]  # fmt: skip
FREE_HELP = {"CG243", "CG253", "CG261", "CG264"}  # says what to remove, or how many values fit


@pytest.mark.parametrize(("base", "changes", "code", "words", "before", "after"), CASES)
def test_every_rule_says_where_and_why_and_what_works(
    base: str, changes: dict[str, str], code: str, words: str, before: str, after: str
) -> None:
    text = base
    for old, new in changes.items():
        assert text.count(old) == 1, (old, "the case must say what it changes")
        text = text.replace(old, new)
    at, text = text.find("«"), text.replace("«", "")
    found = found_in(text)
    hits = [d for d in found if d.code == code]
    assert hits, [(d.code, d.message, d.span) for d in found]
    hit = hits[0]
    assert words in " ".join([hit.message, *hit.notes]), hit
    line, column = text[:at].count("\n") + 1, at - text.rfind("\n", 0, at)
    assert (hit.span.line, hit.span.column, hit.path) == (line, column, "x.yaml"), hit
    rule = next((r for r in RULES if r.code == code), None)
    assert hit.severity == (rule.severity if rule else "error")
    assert hit.help is not None
    if code not in FREE_HELP:
        assert after.strip(' "}').rpartition(": ")[2] in hit.help, hit.help
    assert text.count(before) == 1, before
    assert found_in(text.replace(before, after)) == (), "the help must work"


def test_every_code_has_a_title_and_a_case() -> None:
    known = {code for code in CODES if code >= "CG220"} - {r.code for r in PERFORMANCE_RULES}
    assert {r.code for r in RULES} | {"CG220", "CG222", "CG223"} == known
    assert {case[2] for case in CASES} == known
    assert [r.code for r in RULES] == sorted(r.code for r in RULES)
    assert all(rule.title for rule in RULES)


def checked(spec: KernelSpec) -> list[Diagnostic]:
    report = Report(spec.source)
    check(resolve(spec, report), report)
    return report.diagnostics


def test_a_layout_with_repetitions_is_refused_even_if_no_text_can_hold_it() -> None:
    spec = read_specs(TV, "x.yaml")[0]
    assert isinstance(spec.schedule, ElementwiseSchedule)
    broken = replace(spec, schedule=replace(spec.schedule, thread_layout=Layout((8, 32), (1, 1))))
    with pytest.raises(ValueError, match=r"add: schedule\.thread_layout: \(8,32\):\(1,1\) does not number 256") as said:
        checked(broken)
    assert "never meets 39, 40, 41, 42, and meets twice or out of range 1, 2, 3, 4" in str(said.value)
    assert str(said.value).endswith("; (8,32):(1,8) would")
    gemm = read_specs(GEMM, "x.yaml")[0]
    assert isinstance(gemm.schedule, GemmSchedule)
    mma = replace(gemm.schedule.mma, permutation={"M": Layout((16, 4), (4, 2))})
    with pytest.raises(ValueError, match=r"mm: schedule\.mma\.permutation\.M: \(16,4\):\(4,2\) does not"):
        checked(replace(gemm, schedule=replace(gemm.schedule, mma=mma)))
    column = {"A": Layout((64, 2), (1, 1))}
    with pytest.raises(ValueError, match=r"mm: schedule\.smem\.A\.layout: \(64,2\):\(1,1\) does not"):
        checked(replace(gemm, schedule=replace(gemm.schedule, smem_layout=column)))
    copies = {"A": replace(gemm.schedule.copies["A"], value_layout=Layout((4, 1), (2, 0)))}
    with pytest.raises(ValueError, match=r"mm: schedule\.copies\.A\.value_layout: \(4,1\):\(2,0\) does not"):
        checked(replace(gemm, schedule=replace(gemm.schedule, copies=copies)))


def test_a_column_too_long_for_any_memory_is_not_counted_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def small_only(layout: Layout) -> tuple[int, ...]:
        assert size(layout) <= 65536
        return offsets(layout)

    monkeypatch.setattr(layouts, "offsets", small_only)
    text = LOOSE.replace("{M: 128", "{M: 2000000000").replace("pad: 0", "layout: 2000000000")
    text = text.replace("  pipeline:", "  copies: {A: {atom: cp_async, bits: 128}}\n  pipeline:")
    assert "CG254" in {d.code for d in found_in(text)}


def test_a_target_older_than_cp_async_cannot_be_made() -> None:
    """Every schedule can be built for every target, as far as its atoms go: no rule has to ask."""
    with pytest.raises(ValueError, match="sm_75.*cp.async"):
        replace(TARGETS["sm_80"], name="sm_75")


def test_all_problems_are_told_at_once() -> None:
    text = GEMM.replace("stages: 3", "stages: 33").replace("pad: 0", "pad: 1").replace("K: residue_first", "K: mask")
    text = text.replace("C:\n      bits: 128", "C:\n      atom: cp_async").replace("(32,8)", "(32,4)")
    assert [d.code for d in found_in(text)] == ["CG247", "CG239", "CG251", "CG246", "CG254", "CG255"]


@pytest.mark.parametrize("stages", [33, 40])
def test_what_is_said_of_too_many_stages_agrees(stages: int) -> None:
    """One number helps against both errors, and it is the most that fits."""
    text = LOOSE.replace("stages: 3", f"stages: {stages}")
    found = found_in(text)
    assert [d.code for d in found] == ["CG246", "CG254"]
    (help,) = {d.help or "" for d in found}
    (count,) = map(int, re.findall(r"`stages: (\d+)`", help))
    assert found_in(text.replace(f"stages: {stages}", f"stages: {count}")) == ()
    assert found_in(text.replace(f"stages: {stages}", f"stages: {count + 1}")) != ()


def test_f64_sums_of_narrower_operands_are_allowed() -> None:
    text = LOOSE.replace("    permutation:", "    accumulator: f64\n    permutation:")
    assert found_in(text) == ()
    assert Dtype.f64.cutlass in generate(text, "x.yaml").modules[0].text


def test_matrix_variants_tell_a_problem_once_and_in_its_place() -> None:
    text = "matrix: {p: [1, 3]}\n" + GEMM.replace("kernel: mm", "kernel: mm_{p}").replace("pad: 0", 'pad: "{p}"')
    found = found_in(text)
    assert {(d.code, d.span.line) for d in found} == {("CG251", 24)} and len(found) == 2
