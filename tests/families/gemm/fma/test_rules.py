"""Rules of multistage gemms: one case a rule, its code, its exact place, its words, and that its help works."""

from __future__ import annotations

import re
from dataclasses import replace
from math import gcd

import pytest
from lint_kit import checked, found_in, hit_of_case
from planning_specs import document
from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.families.gemm.fma import FAMILY
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.schedule import SharedMemory
from cutegen.language.reader import read_specs
from cutegen.layouts import offsets

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
STORED = GEMM.replace("atom: cp_async", "atom: universal")
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
A_BITS, C_BITS = "    A:\n      bits: 128", "    C:\n      bits: 128"
INFERENCE: set[str] = set()  # what inference says
ELSEWHERE = {"CG266"}  # of operands of 8 bits, which are wgmma's, whose tests have its cases
FREE_HELP = {"CG243", "CG253", "CG264"}  # says what to remove


def test_the_base_specs_have_nothing_to_complain_about() -> None:
    for text in (GEMM, LOOSE, GEMM_F16):
        assert found_in(text) == ()


# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old and new
# text, where the new one ends in what the help says (or None where the text is the whole help).
CASES = [
    (LOOSE, {"{M: 128, N": "{M: «80, N"}, "CG221", "80 * 8 = 640", "M: 80", "M: 64"),
    (LOOSE, {"N: 128, K": "N: «72, K"}, "CG221", "72 * 8 = 576", "N: 72", "N: 64"),
    (GEMM, {"thread_layout: (16,16,1):(1,16,0)": "thread_layout: «(16,16):(1,16)"}, "CG230", "the product [M, N, K]",
     "thread_layout: (16,16):(1,16)", "thread_layout: (16,16,1):(1,16,0)"),
    (GEMM, {"value_layout: (4,1)": "value_layout: «4"}, "CG230", "a tile [M, K]",
     "value_layout: 4", "value_layout: (4,1):(1,0)"),
    (LOOSE, {"thread_layout: (16,16,1):(1,16,0)": "thread_layout: «(64,32,1)", '{M: "(16,4):(4,1)"}': "{}"}, "CG231",
     "2048 threads", "thread_layout: (64,32,1)", "thread_layout: (32,32,1):(1,32,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(64,32,1):(32,1,0)", '{M: "(16,4):(4,1)"}': "{}"}, "CG231",
     "2048 threads", "(64,32,1):(32,1,0)", "(32,32,1):(32,1,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(16,16,8)"}, "CG231", "2048 threads", "(16,16,8)", "(16,16,1):(1,16,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "«(64,32,2)", '{M: "(16,4):(4,1)"}': "{}"}, "CG240", "2 threads along K",
     "(64,32,2)", "(32,32,1):(1,32,0)"),
    (GEMM.replace("sm_86", "sm_90a"), {"{M: 128, N: 128, K: 8}": "{M: «1024, N: 512, K: 8}"}, "CG232", "= 2048 > 1024",
     "M: 1024, N: 512", "M: 128, N: 256"),
    (GEMM, {"value_layout: (4,1)": "value_layout: «(1024,2)"}, "CG232", "1024 * 2 = 2048 > 1024",
     "      value_layout: (1024,2)\n", ""),
    (GEMM, {C_BITS: "    C:\n      bits: «16"}, "CG236", "element of C", "bits: 16", "bits: 32"),
    (GEMM, {"value_layout: (4,1)": "value_layout: (2,1)", A_BITS: "    A:\n      bits: «128"}, "CG237",
     "A, and a thread has 2", A_BITS, "    A:\n      bits: 64"),
    (GEMM, {'"(16,4):(4,1)"': '"(16,2):(2,1)"', C_BITS: "    C:\n      bits: «128"}, "CG237", "gives a thread 2",
     C_BITS, "    C:\n      bits: 64"),
    (GEMM, {"K], dtype: f32, major: M, align: 16": "K], dtype: f32, major: M, align: 4",
            A_BITS: "    A:\n      bits: «128"}, "CG238", "16 bytes of alignment", A_BITS, "    A:\n      bits: 32"),
    (GEMM, {"C: {shape: [M, N], dtype: f32, major: M, align: 16": "C: {shape: [M, N], dtype: f32, major: M, align: 8",
            C_BITS: "    C:\n      bits: «128"}, "CG238", "elements of C", C_BITS, "    C:\n      bits: 64"),
    (GEMM, {C_BITS: "    C:\n      atom: «cp_async"}, "CG239", "goes the other way", "C:\n      atom: cp_async",
     "C:\n      atom: universal"),
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
     "A:\n      bits: 16", "A:\n      bits: 32"),
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
    (GEMM, {"targets:": "static: {N: «8388608}\ntargets:"}, "CG259", "65536 > 65535", "N: 8388608", "N: 8388480"),
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
     {"  smem: {A": "  workspace: {A: {major: «K}}\n  smem: {A"}, "CG264", "K-major, like A itself",
     "workspace: {A: {major: K", "workspace: {A: {major: M"),
    (LOOSE.replace("M: 128, N: 128", "M: 64, N: 32"), {"(16,16,1):(1,16,0)": "«(4,4,1)", '{M: "(16,4):(4,1)"}': "{}"},
     "CG260", "16 lanes", "(4,4,1)", "(4,8,1):(1,4,0)"),
    (LOOSE, {"(16,16,1):(1,16,0)": "(8,8,1)", '{M: "(16,4):(4,1)"}': "{}", "{M: 128, N: 128, K": "«{M: 128, N: 128, K"},
     "CG261", "= 256", "M: 128, N: 128", "M: 64, N: 128"),
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
    assert {rule.code for rule in FAMILY.rules()} | INFERENCE == said | ELSEWHERE
    assert [rule.code for rule in FAMILY.rules()] == sorted(rule.code for rule in FAMILY.rules())


def test_a_layout_with_repetitions_is_refused_even_if_no_text_can_hold_it() -> None:
    (gemm,) = read_specs(GEMM.replace("  mma:\n", "  mma:\n    atom: fma\n"), "x.yaml")
    mma = replace(gemm.schedule.mma, permutation={"M": Layout((16, 4), (4, 2))})
    with pytest.raises(ValueError, match=r"mm: schedule\.mma\.permutation\.M: \(16,4\):\(4,2\) does not"):
        checked(replace(gemm, schedule=replace(gemm.schedule, mma=mma)))
    column = {"A": Layout((64, 2), (1, 1))}
    with pytest.raises(ValueError, match=r"mm: schedule\.smem\.A\.layout: \(64,2\):\(1,1\) does not"):
        checked(
            replace(
                gemm,
                schedule=replace(gemm.schedule, smem={name: SharedMemory(layout) for name, layout in column.items()}),
            )
        )
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


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_copies_are_as_narrow_as_a_padding_that_was_written(dtype: str) -> None:
    """Any padding can be written where the copy was not: accesses are as wide as columns are aligned then."""
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": dtype, "major": "M"},
        "B": {"shape": ["N", "K"], "dtype": dtype, "major": "N"},
        "C": {"shape": ["M", "N"], "dtype": dtype, "role": "out"},
    }
    for pad in range(10):
        schedule = {"tiler": {"M": 128, "N": 128, "K": 8}, "smem": {"A": {"pad": pad}}}
        (module,) = generate(document("gemm", tensors, "C = A @ B.T", schedule), "x.yaml").modules
        plan, whole = module.plan, 128 // Dtype(dtype).bits
        assert isinstance(plan, GemmPlan)
        widest = min(whole, 128 * 8 // plan.threads)
        assert (plan.a.vector, plan.b.vector) == (gcd(128 + pad, widest), widest)
        rounded = (3 * 8 * (128 + pad) - pad) % whole != 0
        assert (f"sA_elements = cute.round_up(cute.cosize(sA_layout), {whole})" in module.text) == rounded
        assert plan.smem_bytes % 16 == 0
