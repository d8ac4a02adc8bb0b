"""Which shapes are measured: those of the spec, else large ones that the kernel accepts; and how they are asked for."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring_kit import elementwise, gemm, made
from specs_kit import ROOT

from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.writer import write_spec
from cutegen.measuring.shapes import (
    ShapeError,
    Sweep,
    complete,
    parse_sizes,
    parse_sweep,
    shape_text,
    shapes_of,
    sweep_shapes,
)
from cutegen.planning.scalars import measured_scalars


def test_a_spec_lists_its_own() -> None:
    spec = elementwise("D = A", "bench: {shapes: [{M: 128, N: 64}, {M: 3, N: 4}]}\n").spec
    assert shapes_of(spec) == ({"M": 128, "N": 64}, {"M": 3, "N": 4})


def test_the_list_is_written_as_it_was_read() -> None:
    """`explain` prints a spec that builds to the same kernel, and is measured at the same shapes."""
    spec = elementwise("D = A", "bench: {shapes: [{M: 128, N: 64}, {M: 3, N: 4}]}\n").spec
    text = write_spec(spec)
    assert "bench:\n  shapes:\n    - {M: 128, N: 64}\n    - {M: 3, N: 4}\n" in text
    assert made(text).spec == spec


def test_listed_shapes_may_leave_fixed_sizes_out() -> None:
    spec = elementwise("D = A", "static: {N: 64}\nbench: {shapes: [{M: 128}]}\n").spec
    assert shapes_of(spec) == ({"M": 128, "N": 64},)


@pytest.mark.parametrize(
    ("more", "shapes"),
    [
        ("", [{"M": 8192, "N": 8192}]),
        ("static: {N: 1000}\n", [{"M": 65536, "N": 1000}]),
        ("static: {M: 16, N: 32}\n", [{"M": 16, "N": 32}]),
        ("divisible: {N: 48}\n", [{"M": 8192, "N": 8208}]),
    ],
)
def test_a_matrix_without_a_list(more: str, shapes: list[dict[str, int]]) -> None:
    assert list(shapes_of(elementwise("D = A", more).spec)) == shapes


@pytest.mark.parametrize("modes", [["M"], ["M", "N", "K"], ["P", "H", "S", "E"]])
def test_other_ranks_have_as_many_elements_in_powers_of_two(modes: list[str]) -> None:
    shape = f"[{', '.join(modes)}]"
    spec = elementwise(
        "D = A", A=f"{{shape: {shape}, dtype: f32}}", D=f"{{shape: {shape}, dtype: f32, role: out}}"
    ).spec
    (sizes,) = shapes_of(spec)
    assert prod(sizes.values()) == 8192 * 8192
    assert all(size & (size - 1) == 0 for size in sizes.values())
    assert max(sizes.values()) <= 2 * min(sizes.values())


def test_a_gemm_has_two_cubes_and_keeps_what_is_fixed() -> None:
    assert shapes_of(gemm().spec) == tuple({"M": n, "N": n, "K": n} for n in (4096, 8192))
    fixed = shapes_of(gemm(more="static: {K: 64}\n").spec)
    assert fixed == tuple({"M": n, "N": n, "K": 64} for n in (4096, 8192))
    assert len(shapes_of(gemm(more="static: {M: 8, N: 8, K: 64}\n").spec)) == 1


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("bench: {shapes: [{M: 8}]}", "CG132", "lacks a size for `N`"),
        ("bench: {shapes: [{M: 8, N: 8, K: 8}]}", "CG117", "K"),
        ("bench: {shapes: [{M: 8, N: 7}]}", "CG131", "multiple of 4"),
        ("bench: {shapes: [{M: 9, N: 8}]}", "CG131", "static says 8"),
        ("bench: {shapes: [{M: 8, N: 0}]}", "CG105", "0"),
        ("bench: {shapes: [{M: 8, N: 2147483644}]}", None, ""),
        ("bench: {shape: [{M: 8, N: 8}]}", "CG101", "shape"),
    ],
)
def test_a_listed_shape_is_held_to_the_spec(line: str, code: str | None, words: str) -> None:
    text = f"static: {{M: 8}}\ndivisible: {{N: 4}}\n{line}\n"
    if code is None:
        assert elementwise("D = A", text).spec.bench.shapes
        return
    with pytest.raises(SpecError) as refused:
        elementwise("D = A", text)
    found = [d for d in refused.value.diagnostics if d.severity == "error"]
    assert len(found) == 1
    assert words in found[0].message
    assert found[0].span.line > 1
    if code != "CG117":
        assert found[0].code == code


SCALED = (ROOT / "specs" / "attention_window.yaml").read_text(encoding="utf-8").partition("bench:")[0]


def test_scalars_have_the_values_that_the_spec_gives_to_measure_with() -> None:
    spec = generate(f"{SCALED}bench: {{scalars: {{left: -7, cap: 0.1}}}}\n", "specs/s.yaml").modules[0].spec
    assert measured_scalars(spec) == {"scale": 0.75, "cap": float(np.float32(0.1)), "left": -7}
    spec = generate(SCALED, "specs/s.yaml").modules[0].spec
    assert measured_scalars(spec) == {"scale": 0.75, "cap": 0.375, "left": 2}


@pytest.mark.parametrize(
    ("scalars", "code", "words"),
    [
        ("{lef: 3}", "CG121", "did you mean `left`?"),
        ("{Q: 3}", "CG121", "scalars: scale, cap, left"),
        ("{left: 2.5}", "CG105", "write a whole number from -2147483648"),
        ("{left: 1.0e+12}", "CG105", "write a whole number from -2147483648"),
        ("{left: .inf}", "CG105", "write a whole number from -2147483648"),
        ("{scale: -1.0e+39}", "CG105", "write a number from -3.402823e+38 to 3.402823e+38"),
    ],
)
def test_a_value_of_a_scalar_must_be_one(scalars: str, code: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        generate(f"{SCALED}bench: {{scalars: {scalars}}}\n", "specs/s.yaml")
    (found,) = (d for d in refused.value.diagnostics if d.severity == "error")
    assert found.code == code and words in (found.help or "")


def test_a_shape_that_inference_rules_out_is_refused() -> None:
    """An access of four elements cannot stop in the middle, and the spec promised nothing."""
    with pytest.raises(SpecError) as refused:
        elementwise("D = A", "schedule: {predication: {N: none}}\nbench: {shapes: [{M: 8, N: 9}]}\n")
    assert [d.code for d in refused.value.diagnostics if d.severity == "error"] == ["CG256"]


def test_a_gemm_may_be_measured_where_it_could_not_be_verified() -> None:
    sizes = "{shapes: [{M: 16384, N: 16384, K: 16384}]}"
    assert gemm(more=f"bench: {sizes}\n").spec.bench.shapes
    with pytest.raises(SpecError, match="2\\*\\*40"):
        gemm(more=f"verify: {sizes}\n")


def test_a_probe_is_not_measured() -> None:
    with pytest.raises(SpecError) as refused:
        made(
            "cutegen: 1\nkernel: p\nop: probe\ntensors:\n  A: {shape: [M], dtype: i32}\n"
            "  D: {shape: [T, V], dtype: i32, role: out}\ncompute: D = A\n"
            "schedule: {tv_layout: '(2,3):(3,1)', tiler: {M: 6}}\nbench: {shapes: [{M: 6}]}\n"
        )
    assert [d.code for d in refused.value.diagnostics] == ["CG203"]


def test_sizes_are_parsed() -> None:
    spec = gemm(more="static: {K: 64}\n").spec
    assert parse_sizes("N=512, M=256", spec) == {"M": 256, "N": 512, "K": 64}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("M", "not a mode and a size"),
        ("M=0", "not a mode and a size"),
        ("M=1_0", "not a mode and a size"),
        ("M=2147483648", "not a mode and a size"),
        ("M=256,M=256,N=512", "twice"),
        ("M=256", "N missing"),
        ("M=256,N=512,K=65", "K is 64"),
        ("M=256,N=512,Q=1", "no mode `Q`"),
        ("M=258,N=512", "multiple of 4"),
    ],
)
def test_wrong_sizes_are_refused_with_a_way_out(text: str, words: str) -> None:
    with pytest.raises(ShapeError, match=words) as refused:
        parse_sizes(text, gemm(more="static: {K: 64}\nschedule: {mma: {atom: fma}}\n").spec)
    assert refused.value.help


@pytest.mark.parametrize(
    ("text", "sweep"),
    [
        ("M=1024..16384", Sweep(("M",), (1024, 2048, 4096, 8192, 16384))),
        ("M=1000..5000", Sweep(("M",), (1000, 2000, 4000))),
        ("M=1024..4096:1024", Sweep(("M",), (1024, 2048, 3072, 4096))),
        ("M=N=K=64..128", Sweep(("M", "N", "K"), (64, 128))),
    ],
)
def test_sweeps_are_parsed(text: str, sweep: Sweep) -> None:
    assert parse_sweep(text) == sweep


@pytest.mark.parametrize(
    "text", ["M", "M=4", "M=4..", "..8", "M=8..4", "M=4..4", "M=M=4..8", "=4..8", "M=4..8:0", "M=1..9999:1"]
)
def test_wrong_sweeps_are_refused(text: str) -> None:
    with pytest.raises(ShapeError) as refused:
        parse_sweep(text)
    assert refused.value.help


def test_a_sweep_keeps_the_other_modes() -> None:
    spec = gemm(more="static: {K: 64}\n").spec
    shapes = sweep_shapes(parse_sweep("M=256..512"), spec)
    assert shapes == ({"M": 256, "N": 4096, "K": 64}, {"M": 512, "N": 4096, "K": 64})
    with pytest.raises(ShapeError, match="K is 64"):
        sweep_shapes(parse_sweep("K=64..128"), spec)


@cache
def of_fixed_depth() -> Module:
    return gemm(more="static: {K: 64}\n")


@given(st.dictionaries(st.sampled_from("MNK"), st.integers(1, 2**31 - 1)))
def test_what_is_completed_has_every_mode_and_keeps_its_promises(sizes: dict[str, int]) -> None:
    spec = of_fixed_depth().spec
    try:
        found = complete(sizes, spec)
    except ShapeError:
        return
    assert list(found) == list(spec.modes)
    assert found["K"] == 64 and all(found[m] % d == 0 for m, d in spec.divisible.items())


def test_shapes_are_named() -> None:
    assert shape_text({"M": 4096, "N": 4096, "K": 4096}) == "4096 cubed"
    assert shape_text({"M": 4096, "N": 4096}) == "4096 x 4096"
    assert shape_text({"N": 7}) == "7"
