"""Rules of row kernels: one case a rule, its code, its exact place, its words, and that its help works."""

from __future__ import annotations

import pytest
from lint_kit import found_in, hit_of_case

from cutegen.families.rowwise import FAMILY

UNIT = """\
cutegen: 1
kernel: unit_rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  b: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * rsqrt(sum(X * X, N)) + b
schedule:
  threads_per_row: 32
  tiler: {M: 4, N: 512}
"""
DEEP = """\
cutegen: 1
kernel: deep
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: f16, align: 16}
  Y: {shape: [P, M, N], dtype: f16, role: out}
compute: Y = X - max(X, N)
schedule:
  keep: reload
"""
ALONE = """\
cutegen: 1
kernel: alone
op: rowwise
tensors:
  X: {shape: [N], dtype: f32}
  Y: {shape: [N], dtype: f32, role: out}
compute: Y = X - mean(X, N)
schedule:
  tiler: {N: 4096}
"""
LONG = """\
cutegen: 1
kernel: long_rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * rsqrt(sum(X * X, N))
schedule: {cluster: {N: 4}}
static: {N: 8192}
targets: [sm_90a]
"""
COLUMNS = """\
cutegen: 1
kernel: columns
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  s: {shape: [N], dtype: f32, role: out}
compute: s = sum(X, M)
static: {N: 512}
"""
INFERENCE = {"CG220", "CG224"}  # what inference says
READING = {"CG116", "CG203"}  # what reading the schedule says
FREE_HELP = {"CG283", "CG116"}  # says what else could be meant


def test_the_base_specs_have_nothing_to_complain_about() -> None:
    for text in (UNIT, DEEP, ALONE, COLUMNS):
        assert found_in(text) == ()


# Base; what is replaced and by what (`«` marks the expected place); code; words; what applies the help: old and new
# text, where the new one ends in what the help says.
CASES = [
    (UNIT, {"N: 512": "K: 512", "{M: 4, K": "{M: 4, «K"}, "CG116", "`K` is not a mode here", "K: 512", "N: 512"),
    (DEEP, {"keep: reload": "predication: {«Q: mask}"}, "CG116", "`Q` is not a mode here", "Q: mask", "P: mask"),
    (DEEP, {"keep: reload": "scheduler: {raster: «Q}"}, "CG116", "`Q` is not a mode here", "raster: Q", "raster: P"),
    (DEEP, {"keep: reload": "tiler: {P: «2}"}, "CG203", "rows that are neighbours along M, and the tiler has 2 of P",
     "P: 2", "P: 1"),
    (DEEP, {"keep: reload": "scheduler: {raster: «N}"}, "CG203", "`N` is the mode of the rows", "raster: N",
     "raster: P"),
    (DEEP, {"keep: reload": "keep: reload\n  predication: {N: none}\nstatic: {N: «24}"}, "CG220",
     "24 = 0 * 16384 + 24", "N: 24", "N: 16384"),
    (UNIT, {"tiler": "copy: {bits: 128, fallback: refuse}\n  tiler",
            "compute:": "divisible: {N: «6}\ncompute:"}, "CG224",
     "accesses of 4 elements along N: 4 does not divide 6", "N: 6", "N: 12"),
    (UNIT, {"threads_per_row: 32": "threads_per_row: «2048", "M: 4": "M: 1", "N: 512": "N: 2048"}, "CG231",
     "1 row * 2048 threads = 2048 > 1024", "row: 2048", "row: 1024"),
    (UNIT, {"M: 4": "M: «64"}, "CG231", "64 rows * 32 threads = 2048 > 1024", "M: 64", "M: 32"),
    (ALONE, {"  tiler": "  threads_per_row: «4096\n  tiler"}, "CG231", "a block of 4096 threads", "4096\n  tiler",
     "1024\n  tiler"),
    (UNIT, {"row: 32": "row: 4", "M: 4": "M: 8", "N: 512": "N: «8192"}, "CG232", "8192 / 4 threads = 2048 > 256",
     "N: 8192", "N: 128"),
    (UNIT, {"tiler": "copy: {bits: «16}\n  tiler"}, "CG236", "f32 has 32 bits", "bits: 16", "bits: 32"),
    (DEEP, {"keep": "copy: {bits: «8}\n  keep"}, "CG236", "f16 has 16 bits", "bits: 8", "bits: 16"),
    (UNIT, {"Y: {shape: [M, N]": "Y: {align: 8, shape: [M, N]",
            "tiler": "copy: {bits: «128, fallback: refuse}\n  tiler"}, "CG238",
     "4 * 4 bytes = 16 > 8", "bits: 128", "bits: 64"),
    (DEEP, {"align: 16": "align: 4", "keep": "copy: {bits: «128, fallback: refuse}\n  keep"}, "CG238",
     "8 * 2 bytes = 16 > 4", "bits: 128", "bits: 32"),
    (UNIT, {"tiler": "copy: {atom: «cp_async}\n  tiler"}, "CG239", "from global to shared", "atom: cp_async",
     "atom: universal"),
    (DEEP, {"schedule:": "static: {P: 8, M: «2147483647}\nschedule:", "keep: reload": "tiler: {M: 1}"}, "CG259",
     "ceil(8 / 1) * ceil(2147483647 / 1) = 17179869176", "M: 2147483647", "M: 268435455"),
    (UNIT, {"row: 32": "row: 8", "M: 4": "M: «6"}, "CG260", "48 = 1 * 32 + 16", "M: 6", "M: 8"),
    (UNIT, {"row: 32": "row: 8", "M: 4": "M: «1"}, "CG260", "leaves 24 lanes of its last warp idle", "M: 1", "M: 4"),
    (ALONE, {"  tiler: {N: 4096}": "  tiler: {N: 64}\n  threads_per_row: «16"}, "CG260", "16 lanes", "row: 16",
     "row: 32"),
    (UNIT, {"M: 4, N: 512": "M: 1, N: «8192"}, "CG261", "256 f32 + 256 f32 + 256 f32 take 768 registers",
     "threads_per_row: 32", "threads_per_row: 128"),
    (UNIT, {"row: 32": "row: «48"}, "CG281", "not a power of two, nor whole warps", "row: 48", "row: 32"),
    (UNIT, {"row: 32": "row: «1500", "M: 4": "M: 1", "N: 512": "N: 1024"}, "CG281", "1500 threads share a row",
     "row: 1500", "row: 1024"),
    (UNIT, {"X: {shape: [M, N]": "X: {major: «M, shape: [M, N]"}, "CG282", "rows lie along N", "major: M", "major: N"),
    (UNIT, {"Y: {shape: [M, N]": "Y: {major: «M, shape: [M, N]"}, "CG282", "Y is contiguous along M", "major: M",
     "major: N"),
    (DEEP, {"align: 16": "major: «P"}, "CG282", "X is contiguous along P", "major: P", "major: N"),
    (UNIT, {"tiler": "keep: registers\n  tiler", "512": "«512", "compute:": "static: {N: 513}\ncompute:"}, "CG283",
     "513 > 512", "keep: registers", "keep: reload"),
    (UNIT, {"tiler": "keep: registers\n  tiler", "512": "«512", "compute:": "divisible: {N: 1024}\ncompute:"}, "CG283",
     "1024 > 512", "keep: registers", "keep: reload"),
    (UNIT, {"N: 512": "N: «500"}, "CG284", "500 = 15 * 32 + 20", "N: 500", "N: 512"),
    (UNIT, {"N: 512": "N: «1056", "tiler": "copy: {bits: 128}\n  tiler"}, "CG284", "1056 = 8 * 128 + 32", "N: 1056",
     "N: 1152"),
    (COLUMNS, {"static": "schedule: {scheduler: {kind: «grid}}\nstatic"}, "CG285", "over the rows", "kind: grid",
     "kind: persistent"),
    (UNIT, {"tiler": "keep: registers\n  predication: {N: «none}\n  tiler"}, "CG287", "N is not fixed", "N: none",
     "N: mask"),
    (LONG, {"N: 4}": "N: «6}"}, "CG288", "6 is not a power of two", "cluster: {N: 6}", "cluster: {N: 4}"),
    (LONG, {"N: 4}": "N: «32}"}, "CG288", "16 are the most", "cluster: {N: 32}", "cluster: {N: 16}"),
    (LONG, {"targets: [sm_90a]": "targets: [«sm_80, sm_90a]"}, "CG289", "came with sm_90", "[sm_80, sm_90a]",
     "[sm_90a]"),
    (LONG, {"targets: [sm_90a]": "targets: [«sm_120a, sm_90a]", "N: 4}": "N: 16}"}, "CG289",
     "clusters of 8 thread blocks at most", "[sm_120a, sm_90a]", "[sm_90a]"),
    (LONG, {"cluster": "threads_per_row: «16, tiler: {M: 2}, cluster"}, "CG289", "the results of whole warps",
     "threads_per_row: 16", "threads_per_row: 32"),
    (LONG, {"N: 4}": "N: «4}", "8192": "30"}, "CG289", "share a row of 30; one block has 64", "cluster: {N: 4}",
     "cluster: {N: 1}"),
    (LONG, {"cluster": "scheduler: {blocks: «30}, cluster"}, "CG289", "not a multiple of the cluster's 4", "blocks: 30",
     "blocks: 28"),
    (LONG, {"cluster": "pipeline: {stages: «3}, scheduler: {blocks: 8}, cluster"}, "CG290", "for 1 or 2 tiles",
     "stages: 3", "stages: 2"),
    (LONG, {"cluster": "scheduler: {kind: grid}, pipeline: {stages: «2}, cluster"}, "CG290", "none to load ahead",
     "kind: grid", "kind: persistent"),
    (LONG, {"cluster": "keep: reload, pipeline: {stages: «2}, scheduler: {blocks: 8}, cluster"}, "CG290",
     "walked in pieces", "stages: 2", "stages: 1"),
    (UNIT, {"threads_per_row": "longer: «refuse\n  threads_per_row"}, "CG291", "these are walked in pieces",
     "longer: refuse\n  ", ""),
    (LONG, {"cluster: {N: 4}": "shorter: «mask"}, "CG291", "every row has 8192 elements", "shorter: mask", ""),
    (UNIT, {"threads_per_row": "keep: registers\n  shorter: mask\n  longer: «reload\n  threads_per_row"}, "CG291",
     "choose the threads per row", "shorter: mask", "shorter: fewer_threads"),
    (UNIT, {"threads_per_row": "online: «walked\n  threads_per_row"}, "CG293", "this kernel computes neither",
     "online: walked\n  ", ""),
    (UNIT, {"threads_per_row": "math: «fast\n  threads_per_row"}, "CG293", "kernel has none", "math: fast\n  ", ""),
    (LONG, {"X * rsqrt(sum(X * X, N))": "exp(X - max(X, N)) / sum(exp(X - max(X, N)), N)",
            "cluster: {N: 4}": "online: «walked"}, "CG293", "threads hold these", "online: walked", ""),
    (LONG, {"cluster: {N: 4}": "keep: «smem", "static: {N: 8192}\n": ""}, "CG294", "N may have any length",
     "keep: smem", "keep: reload"),
    (LONG, {"cluster": "keep: smem, tiler: {M: «2}, cluster"}, "CG294", "one row in shared memory", "M: 2", "M: 1"),
    (LONG, {"cluster: {N: 4}": "keep: smem", "[sm_90a]": "[«sm_80, sm_90a]"}, "CG294", "sm_80 has none",
     "[sm_80, sm_90a]", "[sm_90a]"),
    (LONG, {"cluster: {N: 4}": "keep: smem, copy: {bits: «64}"}, "CG294", "have 64 bits", "bits: 64", "bits: 128"),
    (LONG, {"cluster: {N: 4}": "keep: smem, cluster: {N: «1}", "8192": "65536"}, "CG294", "sm_90a has 232448",
     "cluster: {N: 1}", "cluster: {N: 2}"),
    (UNIT, {"threads_per_row": "shorter: fewer_threads\n  threads_per_row", "M: 4": "M: «8"}, "CG292",
     "2 rows of 32 threads each, and the tiler 8", "M: 8", "M: 2"),
    (UNIT, {"threads_per_row": "shorter: fewer_threads\n  predication: {M: «none}\n  threads_per_row"}, "CG292",
     "a launch may end within a block", "M: none", "M: mask"),
    (UNIT, {"threads_per_row": "shorter: fewer_threads\n  scheduler: {kind: «persistent}\n  threads_per_row"},
     "CG292", "are fixed for all launches", "shorter: fewer_threads", "keep: registers\n  shorter: mask"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "code", "words", "before", "after"), CASES)
def test_every_rule_says_where_and_why_and_what_works(
    base: str, changes: dict[str, str], code: str, words: str, before: str, after: str
) -> None:
    hit = hit_of_case(base, changes, code, words, before, after)
    if code not in FREE_HELP:
        assert after.partition("\n")[0].rpartition(": ")[2] in (hit.help or ""), hit.help


def test_every_rule_has_a_case() -> None:
    said = {case[2] for case in CASES}
    assert {rule.code for rule in FAMILY.rules()} | INFERENCE | READING == said
    assert [rule.code for rule in FAMILY.rules()] == sorted(rule.code for rule in FAMILY.rules())


@pytest.mark.parametrize("extent", [1, 31, 512, 513, 4096])
def test_rows_that_fit_are_kept_and_others_are_refused(extent: int) -> None:
    text = UNIT.replace("tiler", "keep: registers\n  tiler").replace("compute:", f"static: {{N: {extent}}}\ncompute:")
    assert {d.code for d in found_in(text)} == ({"CG283"} if extent > 512 else set())


@pytest.mark.parametrize("threads", range(1, 66))
def test_powers_of_two_share_a_row_and_nothing_else(threads: int) -> None:
    text = UNIT.replace("row: 32", f"row: {threads}").replace(", N: 512", "").replace("M: 4", "M: 1")
    codes = {d.code for d in found_in(text)}
    assert ("CG281" in codes) == (threads not in (1, 2, 4, 8, 16, 32, 64))


def test_what_is_inferred_beside_a_wrong_field_is_said_about_that_field_only() -> None:
    """Lint's first rules stop the others, which would count with what is not filled in."""
    for change in (("row: 32", "row: 48"), ("M: 4", "M: 64"), ("X: {shape: [M, N]", "X: {major: M, shape: [M, N]")):
        assert len(found_in(UNIT.replace(*change))) == 1


VIEW = """\
cutegen: 1
kernel: of_a_view
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16, major: M}
  P: {shape: [1*M, N], dtype: f32, role: outMAJOR}
  Y: {shape: [M, N], view: "P[:M]"}
compute: ["r = max(X, M)", "Y = X - r"]
static: {M: 16}
targets: [sm_80]
"""


def test_a_view_is_contiguous_as_its_argument_is() -> None:
    """Neighbours along the row are no more than that of a view whose argument has those of another mode."""
    (found,) = (one for one in found_in(VIEW.replace("MAJOR", "")) if one.code == "CG282")
    assert found.help == "give `P` the `major` along which `Y` has M"
    assert "CG282" not in {one.code for one in found_in(VIEW.replace("MAJOR", ", major: 1*M"))}
