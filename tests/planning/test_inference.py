"""The choices of inference for omitted fields; written fields are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planning_specs import document
from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis import accesses, sectors
from cutegen.dtypes import Dtype
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.families.probe.schedule import ProbeSchedule
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.layouts import format_layout
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report


def resolved(text: str) -> tuple[KernelSpec, Report]:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    return resolve(spec, report), report


def copy(schedule: dict[str, object], shape: str = "MN", **more: object) -> str:
    tensors = {
        "S": {"shape": list(shape), "dtype": "f32"},
        "D": {"shape": list(shape), "dtype": "f32", "role": "out"},
    }
    return document("elementwise", tensors, "D = S", schedule, **more)


def elementwise(text: str) -> ElementwiseSchedule:
    spec, report = resolved(text)
    assert not report.diagnostics
    assert isinstance(spec.schedule, ElementwiseSchedule)
    return spec.schedule


@pytest.mark.parametrize(
    ("given", "partition"),
    [
        ({}, "thread_value"),
        ({"value_layout": "(4,4):(4,1)"}, "thread_value"),
        ({"thread_layout": "(8,32):(32,1)"}, "thread_value"),
        ({"threads": 64}, "inner"),
        ({"tiler": {"M": 1, "N": 4}}, "inner"),
        ({"tiler": {"M": 1, "N": 4}, "threads": 64}, "inner"),
        ({"tiler": {"M": 8, "N": 32}, "thread_layout": "(8,32):(32,1)"}, "inner_outer"),
    ],
)
def test_the_partition_follows_from_the_keys_and_keeps_them(given: dict[str, object], partition: str) -> None:
    schedule = elementwise(copy(given))
    assert schedule.partition == partition
    assert schedule.threads == given.get("threads", 256 if partition == "inner" else None)
    if "tiler" in given:
        assert schedule.tiler == given["tiler"]


def test_a_tiler_may_leave_modes_out() -> None:
    assert elementwise(copy({"partition": "inner", "tiler": {"N": 4}})).tiler == {"M": 1, "N": 4}
    outer = elementwise(copy({"thread_layout": "(8,32):(32,1)", "tiler": {"M": 16}}))
    assert outer.tiler == {"M": 16, "N": 32}
    runs = elementwise(copy({"thread_layout": "(8,32):(32,1)", "tiler": {"M": 16}, "copy": {"bits": 128}}))
    assert runs.tiler == {"M": 16, "N": 128}  # one access of 4 each
    tensors = {"A": {"shape": ["M", "N"], "dtype": "f32"}, "D": {"shape": ["T", "V"], "dtype": "f32", "role": "out"}}
    probe = document("probe", tensors, "D = A", {"tv_layout": "(4,6)", "tiler": {"N": 24}})
    spec, report = resolved(probe)
    assert isinstance(spec.schedule, ProbeSchedule) and not report.diagnostics
    assert spec.schedule.tiler == {"M": 1, "N": 24}
    assert spec.static == {"T": 4, "V": 6, "M": 1, "N": 24}


@pytest.mark.parametrize(
    ("dtype", "shape", "run"), [("f32", "MN", 4), ("f16", "MN", 8), ("u8", "MN", 16), ("u8", "N", 16)]
)
def test_threads_deal_out_accesses_only_where_bits_says_so(dtype: str, shape: str, run: int) -> None:
    def plan(given: dict[str, object]) -> ElementwisePlan:
        fields = {"shape": list(shape), "dtype": dtype}
        tensors = {"S": fields, "D": {**fields, "role": "out"}}
        spec, report = resolved(document("elementwise", tensors, "D = S", {"partition": "inner_outer", **given}))
        assert not report.diagnostics
        found = make_plan(spec)
        assert isinstance(found, ElementwisePlan)
        return found

    assert (plan({}).pointwise.vector, plan({}).run) == (1, None)
    wide = plan({"copy": {"bits": 128}})
    assert (wide.pointwise.vector, wide.run) == (run, (1, run)[-len(shape) :])
    assert wide.tiler[-1] % (run * 32) == 0  # a warp stands along it
    # One element said is one element inferred: what `explain` prints is the same kernel
    assert replace(plan({"copy": {"bits": 128 // run}}), spec=wide.spec) == replace(plan({}), spec=wide.spec)


@pytest.mark.parametrize(("size", "bits"), [(41, 32), (42, 64), (1, 32), (44, 128), (4096, 128)])
def test_a_fixed_size_limits_the_inferred_access(size: int, bits: int) -> None:
    assert elementwise(copy({}, static={"N": size})).copy.bits == bits
    tensors = {
        name: {"shape": list(shape), "dtype": "f32", "major": shape[0]} for name, shape in (("A", "MK"), ("B", "NK"))
    }
    tensors["C"] = {"shape": ["M", "N"], "dtype": "f32", "major": "M", "role": "out"}  # type: ignore[dict-item]
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", {}, static={"M": size}))
    assert not report.diagnostics
    assert isinstance(spec.schedule, GemmSchedule)
    assert [spec.schedule.copies[name].bits for name in "ABC"] == [bits, 128, bits]


def test_values_of_an_inner_tile_walk_the_contiguous_mode_first() -> None:
    spec, report = resolved(copy({"partition": "inner", "tiler": {"M": 2, "N": 4}}))
    plan = make_plan(spec)
    assert isinstance(plan, ElementwisePlan)
    assert plan.value_layout == Layout((4, 2), (2, 1))  # n first, in a tile whose places run along m first
    assert plan.pointwise.vector == 4


def test_an_access_never_crosses_into_a_third_mode() -> None:
    """N has 3 values in a row and P follows without a gap: 4 neighbours in the numbering are not 4 along N."""
    given = {"thread_layout": "(8,1,1)", "value_layout": "(1,3,4):(1,1,3)"}
    tensors = {
        name: {"shape": ["M", "N", "P"], "dtype": "f32", "major": "N", "role": role}
        for name, role in (("S", "in"), ("D", "out"))
    }
    assert elementwise(document("elementwise", tensors, "D = S", given)).copy.bits == 32


@pytest.mark.parametrize(
    ("values", "bits"),
    [("4", 128), ("6", 64), ("((2,2)):((1,2))", 128), ("((2,2)):((2,1))", 32), ("((2,4)):((1,2))", 128), ("3", 32)],
)
def test_only_neighbours_in_order_are_one_access(values: str, bits: int) -> None:
    assert elementwise(copy({"thread_layout": "32", "value_layout": values}, shape="N")).copy.bits == bits


def test_layouts_of_one_mode_meet_in_one_form() -> None:
    spec, _ = resolved(copy({"value_layout": "((2,2)):((2,1))"}, shape="N"))
    plan = make_plan(spec)
    assert isinstance(plan, ElementwisePlan) and plan.thread_layout is not None and plan.value_layout is not None
    assert plan.thread_layout.shape == (256,) and plan.value_layout.shape == ((2, 2),)


UNSOUND = [
    copy({"thread_layout": "256"}),
    copy({"value_layout": "(2147483647,1)"}),
    copy({"threads": 2147483647}),
    copy({"tiler": {"M": 2147483647, "N": 2147483647}, "threads": 32}),
    copy({"tiler": {"M": 2147483647, "N": 32}, "thread_layout": "(1,32)"}),
]


@pytest.mark.parametrize("text", UNSOUND)
def test_what_cannot_be_counted_is_left_alone_and_told(text: str) -> None:
    spec, report = resolved(text)
    assert not report.diagnostics and not spec.family.is_sound(spec)
    check(spec, report)
    assert report.failed


@pytest.mark.parametrize(
    "schedule",
    [
        {"tiler": {"M": 2147483647, "N": 2147483647, "K": 2147483647}},
        {"tiler": {"M": 65537}},
        {"tiler": {"K": 65537}},
        {"tiler": {"K": 1}},
        {"mma": {"thread_layout": "(2147483647,1,1)"}},
        {"mma": {"thread_layout": "(1,2147483647,1)"}},
        {"mma": {"thread_layout": "16"}},
        {"mma": {"thread_layout": "(8,4,1)", "permutation": {"N": 2147483647}}},
        {"mma": {"thread_layout": "(16,8,2)", "permutation": {"M": "(2147483647,1)"}}},
        {"mma": {"permutation": {"M": "(2147483647,1)", "N": "24"}}},
        {"copies": {"A": {"thread_layout": "(2147483647,1)"}, "B": {"value_layout": "2147483647"}}},
        {"copies": {"A": {"thread_layout": "256", "value_layout": "(1,2,3)"}}},
        {"smem": {"A": {"pad": 1024}}, "pipeline": {"stages": 64}},
    ],
)
def test_no_gemm_is_too_strange_to_be_told_about(schedule: dict[str, object]) -> None:
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M"},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "K"},
        "C": {"shape": ["M", "N"], "dtype": "f32", "role": "out"},
    }
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", schedule))
    if not report.failed:
        check(spec, report)
    assert report.failed


def test_threads_without_a_mode_for_each_side_are_told_where_the_output_is_written_singly() -> None:
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "f32"},
        "B": {"shape": ["N", "K"], "dtype": "f32"},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": "M", "align": 4, "role": "out"},
    }
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", {"mma": {"thread_layout": "128"}}))
    check(spec, report)
    assert "CG230" in {d.code for d in report.diagnostics}


@pytest.mark.parametrize("more", [{}, {"divisible": {"K": 4}}], ids=["any k", "k by 4"])
@pytest.mark.parametrize(
    ("majors", "tile"),
    [
        ("MNM", (128, 128)),
        ("MNN", (128, 128)),
        ("KNN", (128, 256)),  # long where rows of m or n are copied whole
        ("MKM", (256, 128)),
        ("KKN", (128, 128)),  # two blocks, of few threads
        ("KKM", (128, 128)),
    ],
)
def test_tiles_and_copies_of_a_product_follow_from_majorness(
    majors: str, tile: tuple[int, int], more: dict[str, object]
) -> None:
    shapes = {"A": ["M", "K"], "B": ["N", "K"], "C": ["M", "N"]}
    tensors = {
        name: {"shape": shape, "dtype": "f32", "major": major}
        for (name, shape), major in zip(shapes.items(), majors, strict=True)
    }
    tensors["C"]["role"] = "out"
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", {}, **more))
    check(spec, report)
    assert not report.failed
    plan = make_plan(spec)
    assert isinstance(plan, GemmPlan)
    assert (plan.tile["M"], plan.tile["N"]) == tile
    both = majors.startswith("KK")
    deep = 8 if both else 16 if "K" in majors else 32
    assert (plan.tile["K"], plan.threads, plan.stages) == (deep, 128 if both else 256, 3 if both else 2)
    assert plan.store == (5 if both and more else plan.tile["K"] - 1)
    for x in (plan.a, plan.b):
        narrow = both and x.mode == majors[2]
        wide = x.tensor.major != "K" or (bool(more) and not narrow)
        assert x.vector == (4 if wide else 1)
        assert x.atom == ("universal" if wide and x.tensor.major == "K" else "cp_async")


def product_of_rows(**element: object) -> dict[str, dict[str, object]]:
    """A, B and C of a product with neither operand k-major; `element` is what all three have."""
    return {
        "A": {"shape": ["M", "K"], "major": "M", **element},
        "B": {"shape": ["N", "K"], "major": "N", **element},
        "C": {"shape": ["M", "N"], "major": "N", "role": "out", **element},
    }


@pytest.mark.parametrize(
    ("schedule", "more", "deep"),
    [
        ({}, {}, 32),
        ({}, {"dtype": "f16"}, 16),
        ({}, {"dtype": "f64"}, 8),
        ({"tiler": {"M": 64}}, {}, 16),
        ({"scheduler": {"swizzle": 4}}, {}, 16),  # bands need registers
        # 32 would multiply a part of a tile for nothing, or need another promise
        ({}, {"static": {"K": 1024}}, 32),
        ({}, {"static": {"K": 1008}}, 16),
        ({}, {"static": {"K": 1024, "N": 64}}, 16),
        ({}, {"divisible": {"K": 16}}, 16),
        ({}, {"divisible": {"K": 64}}, 32),
        ({"predication": {"K": "none"}}, {"divisible": {"K": 16}}, 16),
        ({"predication": {"K": "none"}}, {"divisible": {"K": 64}}, 32),
        # two blocks on a multiprocessor
        ({}, {"targets": ["sm_80", "sm_89"]}, 16),  # 100 KiB of shared memory
        ({}, {"targets": ["sm_90a", "sm_100a"]}, 16),  # spills there
        ({"pipeline": {"stages": 3}}, {}, 16),
        ({"pipeline": {"stages": 3}}, {"targets": ["sm_90a"]}, 32),
        ({"smem": {"A": {"pad": 64}, "B": {"pad": 64}}}, {}, 16),
        ({"smem": {"A": {"pad": 4}}}, {}, 32),
        # copies of 16 bytes past the registers
        ({}, {"align": 8}, 16),
        ({}, {"static": {"M": 1002}}, 16),
        ({"copies": {"A": {"bits": 64}}}, {}, 16),
        ({"copies": {"B": {"atom": "universal"}}}, {}, 16),
        ({"copies": {"B": {"atom": "cp_async"}}}, {}, 32),
        # an epilogue that reads a matrix, or a row
        ({}, {"D": ["M", "N"]}, 16),
        ({}, {"D": ["N"]}, 32),
    ],
)
def test_how_deep_a_tile_of_rows_is(schedule: dict[str, object], more: dict[str, object], deep: int) -> None:
    more = dict(more)
    element = {"dtype": more.pop("dtype", "f32"), "align": more.pop("align", 16)}
    tensors, compute = product_of_rows(**element), "C = A @ B.T"
    if "D" in more:
        tensors["D"] = {"shape": more.pop("D"), **element}
        compute += " + D"
    spec, report = resolved(document("gemm", tensors, compute, schedule, **more))
    check(spec, report)
    assert not report.failed
    plan = make_plan(spec)
    assert isinstance(plan, GemmPlan) and plan.tile["K"] == deep
    assert plan.stages == (2 if deep == 32 and "pipeline" not in schedule else 3)


@pytest.mark.parametrize(
    ("tiler", "more", "stages"),
    [
        ({"M": 128, "N": 128, "K": 16}, {}, 3),
        ({"M": 128, "N": 128, "K": 32}, {}, 2),
        ({"M": 64, "N": 64, "K": 128}, {"targets": ["sm_90a"]}, 3),  # as many multiply-adds, but of more elements
        ({"M": 64, "N": 64, "K": 128}, {"targets": ["sm_80", "sm_90a"]}, 2),  # 3 * 65536 bytes are more than sm_80 has
        ({"M": 256, "N": 64, "K": 32}, {}, 3),
        ({"M": 128, "N": 128, "K": 32}, {"static": {"K": 256}}, 2),
        ({"M": 64, "N": 64, "K": 32}, {"static": {"K": 32}}, 2),  # one tile
        ({"M": 64, "N": 64, "K": 32}, {"static": {"K": 256}}, 3),
    ],
)
def test_how_many_stages_a_product_has(tiler: dict[str, int], more: dict[str, object], stages: int) -> None:
    tensors = product_of_rows(dtype="f32")
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", {"tiler": tiler}, **more))
    check(spec, report)
    assert not report.failed and isinstance(spec.schedule, GemmSchedule) and spec.schedule.pipeline.stages == stages


@pytest.mark.parametrize("major", ["M", "N"])
@pytest.mark.parametrize(("tile", "along"), [((128, 128), 4), ((256, 128), 8), ((128, 256), 4)])
@pytest.mark.parametrize(("dtype", "align", "run"), [("f32", 16, 4), ("f16", 16, 8), ("f32", 4, 4)])
def test_warps_of_a_product_are_nearly_square(
    major: str, tile: tuple[int, int], along: int, dtype: str, align: int, run: int
) -> None:
    """8 x 4, pairs along the output's contiguous mode; a row of 16 where it is written an element at a time.

    `tile` is (along that mode, along the other), `along` how many of a warp lie along it, `run` what each of them has.
    """
    extents = dict(zip((major, "N" if major == "M" else "M"), tile, strict=True))
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M"},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "N"},
        "C": {"shape": ["M", "N"], "dtype": dtype, "major": major, "align": align, "role": "out"},
    }
    spec, _ = resolved(document("gemm", tensors, "C = A @ B.T", {"tiler": {**extents, "K": 16}}))
    assert isinstance(spec.schedule, GemmSchedule)
    mma = spec.schedule.mma
    assert mma.thread_layout is not None
    places = {int(mma.thread_layout(m, n, 0)): (m, n) for m in range(16) for n in range(16)}
    assert sorted(places) == list(range(256))
    side = "MN".index(major)
    sides = [len({places[lane][i] for lane in range(32)}) for i in range(2)]
    row = 16 if align == 4 else along
    assert sides == ([row, 32 // row] if side == 0 else [32 // row, row])
    if align == 4:
        assert [places[lane][side] for lane in range(16)] == list(range(16))
    for warp in range(0, 256 if align > 4 else 0, 32):
        lanes = [places[warp + lane] for lane in range(32)]
        assert all(lanes[i ^ 1][side] == lanes[i][side] + (1 if i % 2 == 0 else -1) for i in range(32)), "one sector"
        for i in range(2):  # so that shared memory serves two quarters of the warp at once
            assert any(all(lanes[x][i] == lanes[x ^ bit][i] for x in range(32)) for bit in (1, 2))
    if align == 4 and tile[1] == 256:
        run = 2  # 16 elements across pay for reads of fragments that are half as wide
    assert mma.permutation[major] == Layout((16, run), (run, 1))


@pytest.mark.parametrize("major", ["M", "N"])
@pytest.mark.parametrize("a", ["M", "K"])
@pytest.mark.parametrize("align", [4, 16])
def test_columns_of_shared_memory_are_in_the_order_of_threads_where_rows_are_written_singly(
    major: str, a: str, align: int
) -> None:
    tensors: dict[str, dict[str, object]] = {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": a},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "K"},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": major, "align": align, "role": "out"},
    }
    spec, report = resolved(document("gemm", tensors, "C = A @ B.T", {}, divisible={"K": 4}))
    check(spec, report)
    assert not report.failed and isinstance(spec.schedule, GemmSchedule)
    plan = make_plan(spec)
    assert isinstance(plan, GemmPlan)
    operand = plan.a if major == "M" else plan.b
    sides = layouts.mode_sizes(plan.thread_layout)
    places = {int(plan.thread_layout(i, j, 0)): (i, j) for i in range(sides[0]) for j in range(sides[1])}
    assert all(abs(places[i ^ 1]["MN".index(major)] - places[i]["MN".index(major)]) == 1 for i in range(32)), "pairs"
    if align == 16 or a == "M":  # written in vectors, or the wide tile of one k-major operand
        assert all(smem.layout is None for smem in spec.schedule.smem.values())
        return
    assert {name for name, smem in spec.schedule.smem.items() if smem.layout} == {
        operand.tensor.name
    } and operand.through_registers
    reads = next(x for x in accesses(plan) if x.name == f"{operand.tensor.name} from shared memory")
    writes = next(x for x in accesses(plan) if x.name == "C to global memory")
    assert reads.vector == 4 and writes.vector == 1
    found = sectors(writes)
    assert found.sectors == found.least


@pytest.mark.parametrize(
    ("shape", "bits", "tiler", "threads"),
    [
        ("MN", 128, {"M": 32, "N": 64}, "(32,8):(8,1)"),
        ("MN", 128, {"M": 8, "N": 64}, "(8,8):(8,1)"),
        ("MN", 128, {"M": 1, "N": 2048}, "(1,256):(256,1)"),
        ("MN", 128, {"M": 128, "N": 8}, "(128,1):(1,1)"),
        ("MN", None, {"M": 5, "N": 7}, "(5,7):(7,1)"),
        ("MN", None, {"M": 32, "N": 256}, "(8,32):(32,1)"),
        ("MN", None, {"M": 3}, "(3,32):(32,1)"),
        ("N", 128, {"N": 1024}, "128:1"),
        ("N", None, {"N": 96}, "96:1"),
    ],
)
def test_the_threads_of_inner_outer_fit_the_tiler(
    shape: str, bits: int | None, tiler: dict[str, int], threads: str
) -> None:
    tensors = {
        "S": {"shape": list(shape), "dtype": "bf16"},
        "D": {"shape": list(shape), "dtype": "bf16", "role": "out"},
    }
    schedule: dict[str, object] = {"partition": "inner_outer", "tiler": tiler}
    schedule |= {} if bits is None else {"copy": {"bits": bits}}
    spec, report = resolved(document("elementwise", tensors, "D = S", schedule))
    check(spec, report)
    assert not report.failed
    assert isinstance(spec.schedule, ElementwiseSchedule) and spec.schedule.thread_layout is not None
    assert format_layout(spec.schedule.thread_layout) == threads


@pytest.mark.parametrize(
    ("dtype", "threads"),
    [
        ("f64", "((4,2),(8,4)):((8,128),(1,32))"),
        ("f32", "((8,2),(4,4)):((4,128),(1,32))"),
        ("f16", "((16,2),(2,4)):((2,128),(1,32))"),
        ("i8", "((16,2),(2,4)):((2,128),(1,32))"),
    ],
)
def test_threads_of_an_input_that_lies_the_other_way(dtype: str, threads: str) -> None:
    tensors = {
        "S": {"shape": ["M", "N"], "dtype": dtype, "major": "M"},
        "D": {"shape": ["M", "N"], "dtype": dtype, "major": "N", "role": "out"},
    }
    chosen = elementwise(document("elementwise", tensors, "D = S", {}))
    assert chosen.thread_layout is not None and format_layout(chosen.thread_layout) == threads


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "u8"])
@pytest.mark.parametrize("shape", [("M", "N"), ("M", "N", "P")])
def test_a_warp_reads_cache_lines_of_what_is_contiguous_along_another_mode(shape: tuple[str, ...], dtype: str) -> None:
    """Or half of them, where it would write less than a sector of the output otherwise."""
    tensors = {
        "S": {"shape": list(shape), "dtype": dtype},
        "D": {"shape": list(shape), "dtype": dtype, "major": "M", "role": "out"},
    }
    (spec,) = read_specs(document("elementwise", tensors, "D = S", {}), "x.yaml")
    plan = make_plan(resolve(spec, Report(spec.source)))
    assert isinstance(plan, ElementwisePlan) and plan.tv_layout is not None and plan.threads == 256
    threads, values = (layouts.offsets(mode) for mode in layouts.modes_of(plan.tv_layout))
    warp = {layouts.coordinates(t + v, plan.tiler) for t in threads[:32] for v in values}
    bytes_, last = spec.tensor("S").dtype.bytes, len(shape) - 1
    assert len({place[last] for place in warp}) * bytes_ == (64 if bytes_ == 1 else 128)
    assert len({place[0] for place in warp}) * bytes_ >= 32
    assert len(warp) == 32 * len(values)


@pytest.mark.parametrize("align", [1, 4, 16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "u8"])
def test_what_is_inferred_of_a_transposition_earns_no_advice(dtype: str, bias: bool, align: int) -> None:
    """However narrow its accesses are."""
    least = max(align, Dtype(dtype).bytes)
    tensors: dict[str, Any] = {
        "S": {"shape": ["M", "N"], "dtype": dtype, "align": least},
        **({"b": {"shape": ["N"], "dtype": "f32"}} if bias and dtype != "u8" else {}),
        "D": {"shape": ["M", "N"], "dtype": dtype, "major": "M", "align": least, "role": "out"},
    }
    text = document("elementwise", tensors, "D = S + b" if "b" in tensors else "D = S", {})
    spec, report = resolved(text)
    check(spec, report)
    assert not report.diagnostics


@pytest.mark.parametrize("align", [1, 2, 16])
@pytest.mark.parametrize("values", [None, "(4,4):(4,1)", "(4,5):(5,1)"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_whole_sectors_of_a_transposition_are_promised_where_there_are_some(
    dtype: str, values: str | None, align: int
) -> None:
    least = max(align, Dtype(dtype).bytes)
    tensors = {
        "S": {"shape": ["M", "N"], "dtype": dtype, "align": least},
        "D": {"shape": ["M", "N"], "dtype": dtype, "major": "M", "align": least, "role": "out"},
    }
    schedule = {} if values is None else {"value_layout": values}
    spec, report = resolved(document("elementwise", tensors, "D = S", schedule))
    promised = "whole sectors" in report.inferred["schedule", "thread_layout"]
    found = [sectors(access) for access in accesses(make_plan(spec)) if access.space == "global"]
    assert len(found) == 2
    if promised:
        assert all(32 * some.least == some.bytes for some in found)
    assert promised or least < 16 or values is not None


def test_threads_of_a_broadcast_beside_a_transposition_fill_their_warps() -> None:
    tensors = {
        "S": {"shape": ["M", "N"], "dtype": "i8"},
        "b": {"shape": ["M"], "dtype": "i8"},
        "D": {"shape": ["M", "N"], "dtype": "i8", "major": "M", "role": "out"},
    }
    chosen = elementwise(document("elementwise", tensors, "D = S + b", {"value_layout": "(4,5):(5,1)"}))
    assert chosen.thread_layout is not None and len(layouts.offsets(chosen.thread_layout)) == 256
