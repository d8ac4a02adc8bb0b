"""Kernels of kinds that no spec in the repository is: compiled, and run on the emulator where they are small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compiling_kit import Compiler
from planning_specs import document
from sweep_kit import sampled
from telling_kit import telling_cases

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from calls_kit import arguments_of
from cutegen.codegen import Module, generate
from cutegen.compiling import Compiled, Job, Resources
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


def module_of(text: str) -> Module:
    (module,) = generate(text, "x.yaml").modules
    return module


def verified(module: Module, folder: Path, least: int = 4) -> None:
    """Runs the telling cases but those of hundreds of tiles: how kernels count those is the same for all kinds, and for
    specs in the repository, to show, and those of `verification/test_telling_cases.py`."""
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = telling_cases(module.plan)
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", f"{case.name}: {report.message}"
    assert len(cases) >= least


# ------------------------------------------------------------------------------------------------------- bools


@pytest.mark.parametrize(
    ("dtype", "compute", "partition", "bits"),
    [  # each way to make a bool, and each partition's stores, without all pairs of them
        ("f32", "Y = X > 0", "inner", None),
        ("bool", "Y = X", "inner_outer", None),
        ("i32", "Y = cast(X, bool)", "inner_outer", 128),
        ("f32", "Y = X > 0", "thread_value", None),
        ("bool", "Y = X", "thread_value", None),
    ],
)
def test_a_bool_is_0_or_1(dtype: str, compute: str, partition: str, bits: int | None, tmp_path: Path) -> None:
    """torch reads a byte of 255 as true, but compares, counts and copies it as what it is."""
    tensors = {
        "X": {"shape": ["M", "N"], "dtype": dtype},
        "Y": {"shape": ["M", "N"], "dtype": "bool", "role": "out"},
    }
    schedule: dict[str, Any] = {"partition": partition} | ({} if bits is None else {"copy": {"bits": bits}})
    if partition == "inner":
        schedule["threads"] = 32
    verified(module_of(document("elementwise", tensors, compute, schedule, targets=["sm_90a"])), tmp_path)


FEW = {"partition": "thread_value", "thread_layout": "(4,8):(8,1)", "value_layout": "(2,4):(4,1)"}


def test_a_bool_that_is_read_and_written(tmp_path: Path) -> None:
    tensors = {
        "Y": {"shape": ["M", "N"], "dtype": "bool", "role": "inout"},
        "X": {"shape": ["N"], "dtype": "bool"},
    }
    verified(module_of(document("elementwise", tensors, "Y = Y and X", FEW, targets=["sm_90a"])), tmp_path)


@pytest.mark.parametrize(("source", "target"), [("bool", "bool"), ("bool", "f32"), ("bool", "u8")])
def test_a_probe_of_bools(source: str, target: str, tmp_path: Path) -> None:
    tensors = {
        "A": {"shape": ["M", "N"], "dtype": source, "major": "M"},
        "D": {"shape": ["T", "V"], "dtype": target, "role": "out"},
    }
    schedule = {"tv_layout": "((2,2),(2,3)):((2,12),(1,4))"}
    verified(module_of(document("probe", tensors, "D = A", schedule, targets=["sm_90a"])), tmp_path, least=3)


# ------------------------------------------------------------------------------------------------ floats of 8 bits

ACROSS = {"partition": "thread_value", "thread_layout": "(4,8):(8,1)", "value_layout": "(1,16):(16,1)"}


def of_f8(schedule: dict[str, Any], compute: str = "Y = X + w", out: str = "f32", **fields: Any) -> str:
    """A spec that reads floats of 8 bits: X, whose declaration has further `fields`, and w, which broadcasts."""
    tensors = {
        "X": {"shape": ["M", "N"], "dtype": "f8e4m3", **fields},
        "w": {"shape": ["N"], "dtype": "f8e5m2"},
        "Y": {"shape": ["M", "N"], "dtype": out, "role": "out"},
    }
    used = {name: tensor for name, tensor in tensors.items() if name in compute}
    return document("elementwise", used, compute, schedule, targets=["sm_89"])


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        ({}, {}),
        (ACROSS, {"major": "M"}),
        ({**ACROSS, "copy": {"bits": 64, "fallback": "refuse"}}, {}),
        ({"partition": "inner", "tiler": {"M": 3, "N": 4}, "threads": 32}, {}),
        ({"partition": "inner_outer", "thread_layout": "(4,8):(8,1)", "tiler": {"M": 4, "N": 128}}, {"align": 2}),
    ],
)
def test_floats_of_8_bits_that_come_a_few_at_a_time(
    schedule: dict[str, Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    """The compiler converts words, and keeps bytes that may not all be there in local memory, which is not emulated."""
    verified(module_of(of_f8(schedule, **fields)), tmp_path)


def test_registers_of_floats_of_8_bits_are_cleared_where_that_keeps_them_registers() -> None:
    refuse = {**ACROSS, "copy": {"fallback": "refuse"}}
    whole = {**ACROSS, "predication": {"M": "none", "N": "none"}}
    specs: dict[str, set[str]] = {
        of_f8({}): {"X", "w"},
        of_f8(refuse): set(),  # whole words
        of_f8(refuse, major="M"): {"X"},
        of_f8(whole): set(),  # without a mask
        of_f8({}, "Y = X", "f8e4m3"): set(),  # nothing is converted
    }
    for text, cleared in specs.items():
        code = module_of(text).text
        found = {name for name in "Xw" if f"tYr{name}.fill(0)  # else it waits in local memory" in code}
        assert (found, code.count(".fill(0)")) == (cleared, len(cleared)), text


# ---------------------------------------------------------------------------------------------------- products


def product(majors: str, schedule: dict[str, Any], compute: str = "C = A @ B.T", align: int = 16, **more: Any) -> str:
    """`majors` of A, B and C; `align` of C, in bytes."""
    shapes = {"A": ["M", "K"], "B": ["N", "K"], "C": ["M", "N"]}
    tensors: dict[str, Any] = {
        name: {"shape": shape, "dtype": "f32", "major": major}
        for (name, shape), major in zip(shapes.items(), majors, strict=True)
    }
    tensors["C"] |= {"role": "inout" if "C" in compute[1:] else "out", "align": align}
    return document("gemm", tensors, compute, schedule, targets=["sm_90a"], **more)


@pytest.mark.parametrize(("majors", "pads"), [("KKN", (4, 1)), ("MNM", (1, 3))])
def test_columns_of_shared_memory_that_start_anywhere(majors: str, pads: tuple[int, int], tmp_path: Path) -> None:
    """The compiler reads aligned vectors of a fragment that starts between them, past the last element too."""
    small = {"tiler": {"M": 32, "N": 32, "K": 8}, "mma": {"thread_layout": "(8,4,1)"}}
    smem = {name: {"pad": pad} for name, pad in zip("AB", pads, strict=True)}
    verified(module_of(product(majors, {**small, "smem": smem})), tmp_path)


@pytest.mark.parametrize(
    ("majors", "m", "n"), [("MNM", 48, 64), ("MNN", 64, 48), ("MNM", 48, 128), ("MNN", 96, 160), ("KKN", 48, 48)]
)
def test_values_of_a_thread_that_four_does_not_divide(majors: str, m: int, n: int, tmp_path: Path) -> None:
    """The epilogue's slices are whole parts of the layout of a thread's values, which has modes of 3 or 5."""
    verified(module_of(product(majors, {"tiler": {"M": m, "N": n, "K": 16}}, "C = A @ B.T + C")), tmp_path)


def compiled(texts: list[str], compiler: Compiler) -> Iterator[tuple[str, Resources]]:
    """Each spec's text, and what its kernel takes on sm_90a."""
    jobs = [Job((module := module_of(text)).text, module.spec.kernel, "sm_90a") for text in texts]
    for text, outcome in zip(texts, compiler(jobs), strict=True):
        assert isinstance(outcome, Compiled), text
        yield text, outcome.artefact.resources


@pytest.mark.parametrize("part", sampled(range(16), 16))
def test_inferred_schedules_of_products_have_registers_enough(part: int, compiler: Compiler) -> None:
    """Whatever a part of the schedule says, none spills; of those whose operands are both contiguous along m and n, two
    blocks of 256 threads fit the 65536 registers of a multiprocessor, however deep the inferred tile is."""
    parts: list[dict[str, Any]] = [
        {},
        {"copies": {"A": {"atom": "universal"}, "B": {"atom": "universal"}}},
        {"scheduler": {"raster": "N", "swizzle": 3}, "predication": {"M": "none", "N": "none", "K": "none"}},
        {"pipeline": {"stages": 4}},
        {"workspace": {"B": {"major": "N"}}},
    ]
    texts = [product("KKN", part) for part in parts]
    kinds = ("MKN", "KNN", "KKM")
    texts += [product(majors, {}, divisible={"K": 4}) for majors in kinds]
    ends: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({}, {"compute": "C = 2.0 * (A @ B.T) + 3.0 * C"}),
        ({}, {"align": 4}),
        ({}, {"divisible": {"M": 128, "N": 128, "K": 32}}),
        ({"predication": {"K": "none"}}, {"divisible": {"K": 16}}),
        ({"tiler": {"K": 16}}, {"divisible": {"K": 16}}),
        ({"copies": {"A": {"bits": 64}}}, {}),
    ]
    two = {product("MNN", schedule, **more) for schedule, more in ends}
    two |= {product("MNM", {})}
    for text, resources in compiled([*sorted(two), *texts][part::16], compiler):
        assert resources.spill_stores == 0, text
        assert text not in two or 2 * 256 * resources.registers <= 65536, text


@pytest.mark.parametrize(
    ("compute", "cleared"),
    [
        ("C = A @ B.T + C", True),
        ("C = C - 2.0 * (A @ B.T)", True),
        ("C = A @ B.T + -C", True),
        ("C = A @ B.T - 1.0 * C", True),  # no more than a sign
        ("C = A @ B.T + C ** 2", True),
        ("C = A @ B.T + alpha / C", True),
        ("C = (A @ B.T + C / alpha) * C", True),
        ("C = relu(A @ B.T + C)", True),
        ("C = A @ B.T + cast(C, f32)", True),
        ("C = A @ B.T + alpha * C", False),
        ("C = A @ B.T + C / (2.0 * alpha)", False),
        ("C = A @ B.T + cast(C, f16)", False),
    ],
)
def test_what_is_masked_off_is_cleared_where_it_meets_other_values(compute: str, cleared: bool) -> None:
    scalars = {"scalars": {"alpha": "f32"}} if "alpha" in compute else {}
    plan = module_of(product("MNM", {}, compute, **scalars)).plan
    assert isinstance(plan, GemmPlan) and plan.pointwise.clear == cleared
    exact = module_of(product("MNM", {}, compute, divisible={"M": 128, "N": 128}, **scalars)).plan
    assert isinstance(exact, GemmPlan) and not exact.pointwise.clear, "nothing is masked off"


def test_epilogues_that_read_leave_room_for_two_blocks(compiler: Compiler) -> None:
    """However C comes in: 256 threads, twice, have the 65536 registers of a multiprocessor."""
    computes = ["A @ B.T + C", "C - A @ B.T", "relu(A @ B.T + C)", "A @ B.T - 1.0 * C", "2.0 * (A @ B.T) + C * C"]
    for text, resources in compiled([product("MNM", {}, f"C = {c}") for c in computes], compiler):
        assert resources.spill_stores == 0 and 2 * 256 * resources.registers <= 65536, text


def test_products_of_fixed_depth_spill_nothing_and_leave_room_for_two_blocks(compiler: Compiler) -> None:
    """A mainloop that runs as often as the compiler knows is given registers in another way; one tile has no loop."""
    fixed = [
        ("MNM", {"N": 1000, "K": 1024}, 256),
        ("MNN", {"K": 1000}, 256),
        ("MNM", {"K": 32}, 256),
        ("KKN", {"K": 1024}, 128),
    ]
    texts = [product(majors, {}, static=sizes) for majors, sizes, _ in fixed]
    for (*_, threads), (text, resources) in zip(fixed, compiled(texts, compiler), strict=True):
        assert resources.spill_stores == 0 and 2 * threads * resources.registers <= 65536, text


@pytest.mark.parametrize(
    ("majors", "sizes", "told"),
    [("MNM", {}, False), ("MNM", {"K": 48}, True), ("MNM", {"K": 32}, False), ("KNM", {"K": 48}, True)],
)
def test_the_kernel_is_told_a_fixed_size_that_its_mainloop_counts(
    majors: str, sizes: dict[str, int], told: bool
) -> None:
    text = module_of(product(majors, {}, static=sizes)).text
    assert ("k_size: cutlass.Int32" in text) == told == ("cutlass.Int32(mA.shape[1])" in text)
    assert ("k_tiles = cute.size(gA, mode=[2])" in text) != told


@pytest.mark.parametrize(("majors", "depth", "tile"), [("MNM", 40, 16), ("KNM", 40, 16), ("MNM", 64, 32)])
def test_products_of_fixed_depth_are_right(majors: str, depth: int, tile: int, tmp_path: Path) -> None:
    verified(module_of(product(majors, {"tiler": {"M": 32, "N": 32, "K": tile}}, static={"K": depth})), tmp_path)


@pytest.mark.parametrize("store", [0, 3, 6, 7])
@pytest.mark.parametrize("stages", [2, 4])
def test_operands_are_stored_before_any_step(store: int, stages: int, tmp_path: Path) -> None:
    """The stage that is written is free from the barrier of the tile before on."""
    schedule = {"tiler": {"M": 64, "N": 64, "K": 8}, "pipeline": {"stages": stages, "store": store}}
    module = module_of(product("KKN", schedule, divisible={"K": 4}))
    assert module.text.count(f"k_block == {store})") == (store < 7)
    verified(module, tmp_path)


@pytest.mark.parametrize(
    ("majors", "column", "permutation", "bits"),
    [
        ("KKN", {"B": "(8,4,2):(4,1,32)"}, {"N": "8"}, 128),
        ("KKM", {"A": "(8,4,2):(4,1,32)"}, {"M": "8"}, 32),
        ("MNN", {"A": "(4,16):(1,4)", "B": "(2,2,16):(2,1,4)"}, {}, 32),
        ("MNM", {"A": "(4,2,8):(1,32,4)"}, {}, 128),
    ],
)
def test_a_column_of_shared_memory_may_have_any_order(
    majors: str, column: dict[str, str], permutation: dict[str, str], bits: int, tmp_path: Path
) -> None:
    schedule: dict[str, Any] = {
        "tiler": {"M": 64, "N": 64, "K": 8},
        "mma": {"thread_layout": "(8,8,1):(8,1,0)", "permutation": permutation},
        "smem": {name: {"layout": layout} for name, layout in column.items()},
        "copies": {name: {"bits": bits} for name in "AB"},
    }
    verified(module_of(product(majors, schedule, divisible={"K": 4})), tmp_path)


def test_padding_of_columns_whose_neighbours_a_thread_reads_in_any_order(tmp_path: Path) -> None:
    """The compiler reads them as one vector, of which nothing may lie beyond the last column."""
    schedule = {
        "tiler": {"M": 96, "N": 32, "K": 8},
        "mma": {"thread_layout": "(4,8,1):(8,1,0)", "permutation": {"M": "(4,2):(2,1)", "N": "(8,2):(2,1)"}},
        "copies": {"A": {"bits": 32}, "B": {"bits": 64, "atom": "universal"}},
        "smem": {"B": {"layout": "((2,4),2,2):((2,8),4,1)"}},
        "pipeline": {"store": 2},
    }
    verified(module_of(product("KKM", schedule, divisible={"K": 8})), tmp_path)


# --------------------------------------------------------------------------------------------------- workspaces


@pytest.mark.parametrize(
    ("majors", "dtype", "schedule", "more"),
    [
        ("KKN", "f32", {"workspace": {"A": {"major": "M"}}}, {"divisible": {"K": 4}}),
        ("KKM", "f32", {"workspace": {"A": {"major": "M"}, "B": {"major": "N"}}}, {"divisible": {"K": 4}}),
        ("KKN", "f32", {"workspace": {"B": {"major": "N", "thread_layout": "(8,16):(16,1)"}}}, {"align": 4}),
        ("MKM", "f32", {"workspace": {"B": {"major": "N"}}}, {"static": {"N": 101, "K": 60}}),
        ("KKN", "f16", {"workspace": {"B": {"major": "N"}}}, {"divisible": {"K": 8}}),
        ("KNN", "f64", {"workspace": {"A": {"major": "M"}}, "predication": {"M": "none"}}, {}),
    ],
)
def test_an_operand_goes_through_a_workspace(
    majors: str, dtype: str, schedule: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    """Of any size, alignment and type; what the mainloop reads there has rows of whole vectors whatever the size is."""
    text = product(majors, {"tiler": {"M": 64, "N": 64, "K": 16}, **schedule}, **more).replace("f32", dtype)
    module = module_of(text.replace("A @ B.T", "cast(A @ B.T, f16)") if dtype == "f16" else text)
    plan = module.plan
    assert isinstance(plan, GemmPlan) and {x.tensor.name for x in plan.workspaces} == set(schedule["workspace"])
    assert all(x.vector == 4 for x in (plan.a, plan.b) if x.workspace is not None and dtype == "f32")
    verified(module, tmp_path)


def test_every_call_has_a_workspace_of_its_own(tmp_path: Path) -> None:
    module = module_of(product("KKN", {"workspace": {"B": {"major": "N"}}}, align=4, divisible={"K": 4}))
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded = load_module(path)
    arguments = arguments_of(loaded, M=8, N=13, K=20)
    first, second = (loaded._arguments(*arguments)[-1] for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    assert first.shape == (16, 20) and first.stride() == (1, 16), (
        "rows of whole vectors, of 13 elements and 3 of padding"
    )
