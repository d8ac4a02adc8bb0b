"""Whole specs: what is read from good ones, that writing and reading are inverse, and that nothing bad gets through."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from language_kit import ADD, GEMM, PROBE

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseCopy, ElementwiseSchedule, Walk
from cutegen.families.gemm.staged.schedule import (
    Copy,
    GemmSchedule,
    Mma,
    Pipeline,
    SharedMemory,
    Workspace,
)
from cutegen.families.probe.schedule import ProbeSchedule
from cutegen.language.counts import Count
from cutegen.language.diagnostics import SpecError
from cutegen.language.model import Expect, KernelSpec, Scalar, Tensor, Tolerance, Verify
from cutegen.language.reader import load_specs, read_specs
from cutegen.language.schema import known_targets, schema_text
from cutegen.language.writer import write_spec
from cutegen.layouts import format_layout, parse_layout

SGEMM = """\
# yaml-language-server: $schema=.cutegen.schema.json
cutegen: 1
kernel: sgemm_mmajor
summary: Single-precision GEMM on the CUDA cores. A is m-major, B n-major, C m-major.
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 128, K: 8}
  mma:
    atom: fma
    thread_layout: (16,16,1):(1,16,0)
    permutation:
      M: (16,4):(4,1)
      N: (16,4):(4,1)
  copies:
    A: {atom: cp_async, bits: 128, thread_layout: "(32,8):(1,32)", value_layout: "(4,1)"}
    B: {atom: cp_async, bits: 128, thread_layout: "(32,8):(1,32)", value_layout: "(4,1)"}
  smem:
    A: {pad: 0}
    B: {pad: 0}
  pipeline: {stages: 3}
  predication: {M: mask, N: mask, K: residue_first}
targets: [sm_80, sm_90a]
verify:
  shapes:
    - {M: 256, N: 128, K: 64}
  tolerance: {rtol: 1.0e-5, atol: 1.0e-3}
expect:
  spills: 0
  sass: {FFMA: ">= 512", "LDGSTS*.128": ">= 1"}   # glob over the mnemonic: count
"""

COPY = """\
cutegen: 1
kernel: copy_tv
summary: Copy with a thread-value partition, four 128-bit accesses a thread.
op: elementwise
tensors:
  S: {shape: [M, N], dtype: bf16, major: N, align: 16}
  D: {shape: [M, N], dtype: bf16, major: N, align: 16, role: out}
compute: D = S
schedule:
  partition: thread_value          # or inner, inner_outer
  thread_layout: (32,8):(8,1)
  value_layout: (4,8):(8,1)
  copy: {atom: universal, bits: 128}
  predication: {M: mask, N: mask}  # or none: then the host refuses a shape that does not divide
targets: [sm_80, sm_90a]
expect:
  sass: {LDG.E.128: 4, STG.E.128: 4}
"""

MATRIX = """\
cutegen: 1
kernel: sgemm_{a}{b}{c}
summary: Single-precision GEMM on the CUDA cores, in all eight majorness combinations.
matrix:                            # one module per combination; values in lower case in names: sgemm_mnm, ...
  a: [M, K]
  b: [N, K]
  c: [M, N]
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: "{a}", align: 16}
  B: {shape: [N, K], dtype: f32, major: "{b}", align: 16}
  C: {shape: [M, N], dtype: f32, major: "{c}", align: 16, role: inout}
scalars: {alpha: f32, beta: f32}
compute: C = alpha * (A @ B.T) + beta * C
schedule:
  tiler: {M: 128, N: 128, K: 8}
"""
GOOD = {"add": ADD, "mm": GEMM, "look": PROBE, "sgemm": SGEMM, "copy": COPY, "matrix": MATRIX}


def test_a_gemm_is_read_in_full() -> None:
    layout = parse_layout
    copy = Copy("cp_async", 128, layout("(32,8):(1,32)"), layout("(4,1):(1,4)"))
    assert read_specs(SGEMM) == (
        KernelSpec(
            kernel="sgemm_mmajor",
            op="gemm",
            summary="Single-precision GEMM on the CUDA cores. A is m-major, B n-major, C m-major.",
            tensors=(
                Tensor("A", ("M", "K"), Dtype.f32, "M", 16),
                Tensor("B", ("N", "K"), Dtype.f32, "N", 16),
                Tensor("C", ("M", "N"), Dtype.f32, "M", 16, "out"),
            ),
            compute=parse_compute("C = A @ B.T"),
            schedule=GemmSchedule(
                tiler={"M": 128, "N": 128, "K": 8},
                mma=Mma("fma", layout("(16,16,1):(1,16,0)"), {m: layout("(16,4):(4,1)") for m in "MN"}),
                copies={"A": copy, "B": copy},
                smem={"A": SharedMemory(pad=0), "B": SharedMemory(pad=0)},
                pipeline=Pipeline(stages=3),
                predication={"M": "mask", "N": "mask", "K": "residue_first"},
            ),
            targets=("sm_80", "sm_90a"),
            verify=Verify(({"M": 256, "N": 128, "K": 64},), Tolerance(1e-5, 1e-3)),
            expect=Expect(Count("==", 0), None, None, {"FFMA": Count(">=", 512), "LDGSTS*.128": Count(">=", 1)}),
        ),
    )


def test_a_copy_is_read_in_full() -> None:
    (spec,) = read_specs(COPY)
    assert spec.schedule == ElementwiseSchedule(
        partition="thread_value",
        thread_layout=parse_layout("(32,8):(8,1)"),
        value_layout=parse_layout("(4,8):(8,1)"),
        copy=ElementwiseCopy("universal", 128),
        predication={"M": "mask", "N": "mask"},
    )
    assert spec.expect.sass == {"LDG.E.128": Count("==", 4), "STG.E.128": Count("==", 4)}
    assert spec.source.at("tensors", "S", "major").column == COPY.splitlines()[5].index("major: N") + 8


def test_a_probe_is_read_in_full() -> None:
    (spec,) = read_specs(PROBE)
    assert spec.schedule == ProbeSchedule(parse_layout("((2,2),(2,3)):((2,12),(1,4))"), {"M": 4, "N": 6})


def test_a_matrix_is_read_as_its_product_in_order() -> None:
    specs = read_specs(MATRIX)
    assert [s.kernel for s in specs] == [f"sgemm_{a}{b}{c}" for a in "mk" for b in "nk" for c in "mn"]
    for spec in specs:
        assert "".join(t.major or "" for t in spec.tensors).lower() == spec.kernel[-3:]
        assert spec.scalars == (Scalar("alpha", Dtype.f32), Scalar("beta", Dtype.f32))


def test_placeholders_take_types_and_go_anywhere() -> None:
    text = "matrix: {w: [4, 8], d: [F32, f16], l: ['(4,2):(2,1)', '8:1'], x: [LDG]}\n" + ADD
    text = text.replace("kernel: add", "kernel: add_{w}_{d}_x{{}}").replace("_x{{}}", "")
    text = text.replace("op: elementwise", 'op: elementwise\nsummary: "{d} of {{{w}}}, {x}"')
    text = text.replace("align: 16", 'align: "{w}"').replace('">= 4"', '">= {w}"').replace("LDG.E.128", '"{x}.E.128"')
    text = text.replace("l: ['(4,2):(2,1)', '8:1']", "l: ['(32,8):(8,1)']").replace("(32,8):(8,1)\n", '"{l}"\n')
    text = text.replace("d: [F32, f16]", "d: [A, f16]")
    specs = read_specs(text)
    assert [s.kernel for s in specs] == ["add_4_a", "add_4_f16", "add_8_a", "add_8_f16"]
    assert [s.tensor("A").align for s in specs] == [4, 4, 8, 8]
    assert specs[0].summary == "A of {4}, LDG"
    assert specs[2].expect.sass == {"LDG.E.128": Count(">=", 8)}
    assert format_layout(specs[0].schedule.thread_layout) == "(32,8):(8,1)"  # type: ignore[union-attr]


def test_a_file_may_hold_several_specs() -> None:
    assert [s.kernel for s in read_specs(COPY + "---\n" + ADD + "...\n---\n" + PROBE)] == ["copy_tv", "add", "look"]
    with pytest.raises(SpecError) as caught:
        read_specs(COPY + "---\n" + COPY, "x.yaml")
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line) == ("CG112", 2 + COPY.count("\n") + 1)
    assert found.notes == ("first at line 2",)


def test_a_broken_document_does_not_hide_the_others() -> None:
    with pytest.raises(SpecError) as caught:
        read_specs(ADD.replace("align: 16", "align: 24") + "---\na: [\n")
    assert [d.code for d in caught.value.diagnostics] == ["CG117", "CG005"]


def test_ten_lines_are_enough() -> None:
    (spec,) = read_specs(
        "cutegen: 1\nkernel: scale\nop: elementwise\ntensors:\n  X: {shape: [N], dtype: f16}\n"
        "  Y: {shape: [N], dtype: f16, role: out}\ncompute: Y = 2 * X\n"
    )
    assert spec.schedule == ElementwiseSchedule()
    assert spec.targets == ()


def test_line_ends_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SGEMM.replace("\n", "\r\n").encode())
    assert load_specs(file) == read_specs(SGEMM)


# ------------------------------------------------------------------------------------------------------- schema


def test_the_schema_is_one_and_describes_every_field() -> None:
    schema = json.loads(schema_text())
    jsonschema.Draft7Validator.check_schema(schema)
    assert known_targets() == ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")

    def fields(node: object) -> None:
        if isinstance(node, dict):
            if (
                "properties" in node
                and "if" not in node
                and "const" not in str(node.get("properties", {}).get("op", ""))
            ):
                for name, field in node["properties"].items():
                    assert "description" in field or "$ref" in field, name
                if node.get("type") == "object":
                    more = node["additionalProperties"]  # those of `for` are modes
                    assert more is False or "mode" in more["description"]
            for key, value in node.items():
                if key not in ("if", "not"):  # a condition describes nothing
                    fields(value)
        elif isinstance(node, list):
            for value in node:
                fields(value)

    fields(schema)


@pytest.mark.parametrize("name", GOOD)
def test_an_editor_accepts_the_good_specs_before_expansion(name: str) -> None:
    from cutegen.language.document import parse_documents, plain

    (document,), _ = parse_documents(GOOD[name])
    jsonschema.validate(plain(document), json.loads(schema_text()), jsonschema.Draft7Validator)


# ------------------------------------------------------------------------------------------------------ writing


@pytest.mark.parametrize("name", GOOD)
def test_what_is_written_reads_back(name: str) -> None:
    for spec in read_specs(GOOD[name]):
        assert read_specs(write_spec(spec)) == (spec,)


def test_the_style_is_that_of_a_hand_written_spec() -> None:
    (spec,) = read_specs(COPY)
    without_comments = "".join(line.split("  #")[0].rstrip() + "\n" for line in COPY.splitlines())
    assert write_spec(spec) == without_comments
    assert write_spec(spec, header="# $schema=x") == "# $schema=x\n" + without_comments


def test_comments_stand_at_what_they_are_about() -> None:
    (spec,) = read_specs(SGEMM)
    text = write_spec(
        spec,
        {
            ("schedule",): "all of it",
            ("schedule", "tiler"): "inferred: fits",
            ("schedule", "mma", "permutation", "M"): "inferred:\nfour each",
            ("tensors", "A", "align"): "inferred: natural",
            ("verify", "shapes", 0, "M"): "tile",
            ("schedule", "mma", "accumulator"): "left out",
        },
    )
    assert read_specs(text) == (spec,)
    lines = text.splitlines()
    assert "schedule:  # all of it" in lines
    assert "  tiler: {M: 128, N: 128, K: 8}  # inferred: fits" in lines
    assert "      M: (16,4):(4,1)  # inferred: four each" in lines
    assert lines[lines.index("  # align: inferred: natural") + 1].startswith("  A: {")
    assert lines[lines.index("    # M: tile") + 1].startswith("    - {M: 256")
    assert "  mma:  # accumulator: left out" in lines


SIZES = st.integers(1, 64)
OPTIONAL_SIZE = st.none() | SIZES


@st.composite
def compact_layouts(draw: st.DrawFn) -> str:
    shape = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(shape))))
    stride, step = [0] * len(shape), 1
    for i in order:
        stride[i] = step
        step *= shape[i]
    return f"({','.join(map(str, shape))}):({','.join(map(str, stride))})"


LAYOUTS = compact_layouts().map(parse_layout)
COUNTS = st.builds(Count, st.sampled_from(["==", "!=", ">=", "<=", ">", "<"]), st.integers(0, 2**31 - 1))
TEXTS = st.text(max_size=30).filter(lambda t: all(c.isprintable() or c in "\n\t\x85\u2028" for c in t))
GLOBS = st.from_regex(r"[A-Za-z0-9_.*?]{1,12}", fullmatch=True)
TOLERANCES = st.none() | st.floats(0, 1e9, allow_nan=False)


def maps(keys: list[str], values: st.SearchStrategy[object], least: int = 0) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(keys), values, min_size=least, max_size=len(keys))


@st.composite
def specs(draw: st.DrawFn) -> KernelSpec:
    gemm = draw(st.booleans())
    dtype = draw(st.sampled_from([Dtype.f32, Dtype.f16, Dtype.f64]))
    modes = ["M", "N", "K"] if gemm else ["M", "N"]

    def tensor(name: str, shape: tuple[str, ...], role: str) -> Tensor:
        major, align = draw(st.none() | st.sampled_from(shape)), draw(st.sampled_from([None, 8, 16, 128]))
        return Tensor(name, shape, dtype, major, align, role)  # type: ignore[arg-type]

    if gemm:
        tensors = (tensor("A", ("M", "K"), "in"), tensor("B", ("N", "K"), "in"), tensor("C", ("M", "N"), "inout"))
        compute = parse_compute("C = alpha * (A @ B.T) + C")
        copies = st.builds(Copy, st.sampled_from([None, "universal", "cp_async"]), st.sampled_from([None, 32, 128]),
                           st.none() | LAYOUTS, st.none() | LAYOUTS)  # fmt: skip
        schedule: object = GemmSchedule(
            tiler=draw(st.none() | maps(modes, SIZES, 1)),
            mma=Mma("fma", draw(st.none() | LAYOUTS), draw(maps(modes, LAYOUTS)),
                    draw(st.sampled_from([None, Dtype.f32, Dtype.f64]))),
            copies=draw(maps(["A", "B", "C"], copies)),
            workspace=draw(maps(["A", "B"], st.builds(Workspace, st.just("K"), st.none() | LAYOUTS))),
            smem=draw(maps(["A", "B"], st.builds(SharedMemory, st.none() | LAYOUTS, st.integers(0, 8)))),
            pipeline=Pipeline(draw(OPTIONAL_SIZE)),
            predication=draw(maps(["M", "N"], st.sampled_from(["mask", "none"]))),
        )  # fmt: skip
    else:
        tensors = (tensor("A", ("M", "N"), "in"), tensor("b", ("N",), "in"), tensor("D", ("M", "N"), "out"))
        compute = parse_compute("D = alpha * A + b")
        partition = draw(st.sampled_from([None, "inner", "inner_outer", "thread_value"]))
        thread = draw(st.none() | LAYOUTS) if partition in ("inner_outer", "thread_value") else None
        schedule = ElementwiseSchedule(
            partition=partition,
            tiler=draw(st.none() | maps(modes, SIZES, 1)) if partition in ("inner", "inner_outer") else None,
            threads=draw(OPTIONAL_SIZE) if partition == "inner" else None,
            thread_layout=thread,
            value_layout=draw(st.none() | LAYOUTS) if partition == "thread_value" else None,
            copy=ElementwiseCopy(
                draw(st.sampled_from([None, "universal"])),
                draw(st.sampled_from([None, 64])),
                evict_priority=draw(st.sampled_from([None, "no_allocate"])),
            ),
            scheduler=Walk(draw(st.sampled_from([None, "N"]))),
            predication=draw(maps(modes, st.sampled_from(["mask", "none"]))),
        )
    static = draw(maps(modes, SIZES))
    shape = st.fixed_dictionaries({m: st.just(static[m]) if m in static else SIZES for m in modes})
    return KernelSpec(
        kernel=draw(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{3,20}_x", fullmatch=True)),
        op="gemm" if gemm else "elementwise",
        tensors=tensors,
        compute=compute,
        schedule=schedule,  # type: ignore[arg-type]
        summary=draw(TEXTS),
        scalars=(Scalar("alpha", Dtype.f32),),
        targets=tuple(draw(st.lists(st.sampled_from(known_targets()), unique=True, max_size=3))),
        static=static,
        verify=Verify(tuple(draw(st.lists(shape, max_size=2))), Tolerance(draw(TOLERANCES), draw(TOLERANCES))),
        expect=Expect(
            draw(st.none() | COUNTS),
            draw(st.none() | COUNTS),
            draw(st.none() | COUNTS),
            draw(st.dictionaries(GLOBS, COUNTS, max_size=3)),
        ),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_any_spec_that_is_written_reads_back(spec: KernelSpec) -> None:
    text = write_spec(spec)
    assert read_specs(text) == (spec,)
    assert write_spec(read_specs(text)[0]) == text


# ---------------------------------------------------------------------------------------------------- anything


def read_or_refuse(text: str) -> None:
    try:
        specs = read_specs(text)
    except SpecError as error:
        assert error.diagnostics
        lines = text.count("\n") + text.count("\r") + 2
        assert all(1 <= d.span.line <= lines and d.span.column >= 1 for d in error.diagnostics)
    else:
        for spec in specs:
            assert read_specs(write_spec(spec)) == (spec,)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.text(alphabet="abM:-{}[]()#&*!|>'\"%@`,? \n\t0", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


PIECES = ["", " ", "\n", "{", "}", "[", "]", ":", ",", "(", ")", "0", "-1", "99999999999", "null", "'", '"', "&a ",
          "*a", "M", "K", "C", "A", "{a}", "f16", "i8", ".nan",
          "---\n", "!!int ", "thread_layout", "@", "- "]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(PIECES)), min_size=1, max_size=4),
)
def test_any_damage_to_a_good_spec_is_read_or_refused(name: str, damage: list[tuple[float, int, str]]) -> None:
    text = GOOD[name]
    for where, length, piece in damage:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + length :]
    read_or_refuse(text)


VALUES = [
    "0",
    "-1",
    "1.5",
    "null",
    "[]",
    "{}",
    "x",
    "true",
    "[M]",
    "{M: 1}",
    "'{a}'",
    "(4,2):(2,1)",
    "99999999999",
    "[[1]]",
]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 200), st.sampled_from(VALUES))
def test_any_value_in_any_place_is_read_or_refused(name: str, which: int, value: str) -> None:
    import re

    text = GOOD[name]
    places = [m.span(1) for m in re.finditer(r": ([^\s,{}\[\]]+|\{[^{}]*\}|\[[^\[\]]*\])", text)]
    start, end = places[which % len(places)]
    read_or_refuse(text[:start] + value + text[end:])


@pytest.mark.parametrize("glob", ["LD[GS]*", "LD[!S]*", "[]L]D*", "[[]", "LDG]"])
def test_brackets_of_a_glob(glob: str) -> None:
    (spec,) = read_specs(EXPECTING.format(glob=glob))
    assert list(spec.expect.sass) == [glob]


@pytest.mark.parametrize("glob", ["LD[", "LD[GS", "[]", "[!]", "LD]G[", "[A][B"])
def test_an_open_bracket_of_a_glob_is_refused(glob: str) -> None:
    """It would count a mnemonic that there is not: nothing."""
    with pytest.raises(SpecError) as refused:
        read_specs(EXPECTING.format(glob=glob))
    (found,) = refused.value.diagnostics
    assert found.code == "CG119" and "nothing closes" in found.message and "as in `" in (found.help or "")


EXPECTING = """\
cutegen: 1
kernel: add
op: elementwise
tensors:
  X: {{shape: [M, N], dtype: f32}}
  Y: {{shape: [M, N], dtype: f32, role: out}}
compute: Y = X + 1
expect: {{sass: {{"{glob}": 3}}}}
"""
