"""The roofline of a plan: operations, bytes, times and blocks, counted by hand."""

from __future__ import annotations

from math import ceil

import pytest
from planning_specs import document

from cutegen.analysis.occupancy import occupancy
from cutegen.analysis.roofline import arithmetic, blocks_of, roofline
from cutegen.atoms.gpus import CUDA_F32, CUDA_F64
from cutegen.language.reader import read_specs
from cutegen.planning import make_plan, resolve
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report


def plan_of(text: str) -> Plan:
    spec = read_specs(text, "x.yaml")[0]
    return make_plan(resolve(spec, Report(spec.source)))


def gemm(compute: str, dtype: str = "f32", **more: object) -> Plan:
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": dtype},
        "B": {"shape": ["N", "K"], "dtype": dtype},
        "C": {"shape": ["M", "N"], "dtype": "f32" if dtype != "f64" else "f64", "role": "out"} | more,
    }
    scalars = {"scalars": {"alpha": "f32", "beta": "f32"}} if "alpha" in compute else {}
    return plan_of(document("gemm", tensors, compute, {"tiler": {"M": 128, "N": 64, "K": 16}}, **scalars))


def elementwise(compute: str, schedule: dict[str, object], dtypes: str = "f32 f32 f32", role: str = "out") -> Plan:
    s, b, d = dtypes.split()
    tensors = {
        "S": {"shape": ["M", "N"], "dtype": s},
        "B": {"shape": ["N"], "dtype": b},
        "D": {"shape": ["M", "N"], "dtype": d, "role": role},
    }
    return plan_of(document("elementwise", tensors, compute, schedule))


def test_a_product() -> None:
    found = roofline(gemm("C = A @ B.T"), "sm_90a", {"M": 1000, "N": 500, "K": 300})
    assert found.operations == 2 * 1000 * 500 * 300
    assert found.bytes == 4 * (1000 * 300 + 500 * 300 + 1000 * 500)
    assert found.blocks == 8 * 8 and found.waves == 64 / 132
    assert found.compute_seconds == pytest.approx(300e6 / 67e12)
    assert found.memory_seconds == pytest.approx(3.8e6 / 4.8e12)
    assert found.intensity == pytest.approx(300e6 / 3.8e6) and found.bound == "arithmetic"
    assert found.seconds == found.compute_seconds and found.gpu == "H200 SXM" and found.sms == 132


def test_an_epilogue_that_reads_its_output_moves_it_twice() -> None:
    plan = gemm("C = alpha * (A @ B.T) + beta * C", role="inout")
    found = roofline(plan, "sm_80", {"M": 64, "N": 32, "K": 8})
    assert found.operations == 64 * 32 * (2 * 8 + 3)
    assert found.bytes == 4 * (64 * 8 + 32 * 8 + 2 * 64 * 32)
    assert found.blocks == 1


def test_narrow_operands_move_fewer_bytes_and_take_the_rate_of_the_accumulator() -> None:
    sizes = {"M": 256, "N": 256, "K": 256}
    found = roofline(gemm("C = A @ B.T", "f16"), "sm_80", sizes)
    assert found.bytes == 256 * 256 * (2 + 2 + 4)
    assert found.compute_seconds == pytest.approx(2 * 256**3 / 19.5e12)
    double = roofline(gemm("C = A @ B.T", "f64"), "sm_80", sizes)
    assert double.compute_seconds == pytest.approx(2 * 256**3 / 9.7e12) and double.bytes == 256 * 256 * 24


TV = {"thread_layout": "(4,32):(32,1)", "value_layout": "(4,4):(4,1)"}


def test_a_broadcast_operand_is_moved_once() -> None:
    found = roofline(elementwise("D = S * B + 1.0", TV), "sm_90a", {"M": 1000, "N": 4000})
    assert found.operations == 2 * 4_000_000
    assert found.bytes == 4 * (4_000_000 + 4000 + 4_000_000)
    assert found.memory_seconds == pytest.approx(32_016_000 / 4.8e12)
    assert found.bound == "memory" and found.seconds == found.memory_seconds
    assert found.blocks == ceil(1000 / 16) * ceil(4000 / 128)


def test_a_function_is_an_operation_and_a_conversion_is_none() -> None:
    found = roofline(elementwise("D = exp(cast(S, f32)) + B", TV, "f16 f32 f32"), "sm_80", {"M": 8, "N": 16})
    assert found.operations == 8 * 16 * 2 and found.bytes == 8 * 16 * 2 + 16 * 4 + 8 * 16 * 4


def test_a_copy_has_no_operations() -> None:
    tensors = {
        "S": {"shape": ["N"], "dtype": "bf16"},
        "D": {"shape": ["N"], "dtype": "bf16", "role": "out"},
    }
    plan = plan_of(document("elementwise", tensors, "D = S", {}))
    found = roofline(plan, "sm_80", {"N": 1 << 20})
    assert (found.operations, found.bytes, found.intensity) == (0, 4 << 20, 0.0)
    assert found.bound == "memory" and found.seconds == pytest.approx((4 << 20) / 2.039e12)


def test_an_output_that_is_read_too_moves_twice() -> None:
    found = roofline(elementwise("D = S + B * D", TV, role="inout"), "sm_80", {"M": 10, "N": 20})
    assert found.bytes == 4 * (200 + 20 + 2 * 200) and found.operations == 200 * 2


def test_one_f64_makes_the_arithmetic_double() -> None:
    plan = elementwise("D = cast(cast(S, f64) + B, f32)", TV, "f32 f64 f32")
    assert arithmetic(plan.spec) == CUDA_F64
    assert arithmetic(elementwise("D = S + B", TV).spec) == CUDA_F32
    found = roofline(plan, "sm_120a", {"M": 100, "N": 100})
    assert found.compute_seconds == pytest.approx(10000 / (104.8e12 / 64))


@pytest.mark.parametrize(
    ("m", "n", "tiles"), [(1, 1, 1), (2, 4, 1), (3, 4, 2), (2, 5, 2), (7, 9, 12), (200, 400, 10000)]
)
def test_blocks_of_an_inner_partition_are_of_whole_tiles_a_thread(m: int, n: int, tiles: int) -> None:
    plan = elementwise("D = S + B", {"partition": "inner", "tiler": {"M": 2, "N": 4}, "threads": 64})
    assert blocks_of(plan, {"M": m, "N": n}) == ceil(tiles / 64)


def test_a_size_that_is_left_out_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="K"):
        roofline(gemm("C = A @ B.T"), "sm_80", {"M": 1, "N": 1})
    with pytest.raises(KeyError, match="sm_70"):
        roofline(gemm("C = A @ B.T"), "sm_70", {"M": 1, "N": 1, "K": 1})


@pytest.mark.parametrize(
    ("schedule", "sizes", "tiles", "at_once", "waves", "last"),
    [
        # 128 x 256 in clusters of 2 x 1: 256 x 256
        ({}, (8192, 8192), 32 * 32, 66, 16, 34 / 66),
        ({}, (256, 256 * 66), 66, 66, 1, 1.0),
        ({}, (257, 256 * 66), 132, 66, 2, 1.0),
        ({"cluster": {"M": 1}, "scheduler": {"blocks": 100}}, (1280, 2560), 100, 100, 1, 1.0),
        ({"cluster": {"M": 2, "N": 2}}, (512, 512), 2, 30, 1, 2 / 30),
        # Two blocks to a multiprocessor
        ({"tiler": {"M": 64, "N": 64, "K": 64}, "pipeline": {"stages": 2}, "cluster": {"M": 1},
          "scheduler": {"kind": "grid"}}, (64 * 1321, 64), 1321, None, None, None),
        ({}, (0, 8192), 0, 66, 0, 0.0),
    ],
)  # fmt: skip
def test_waves_of_tiles(
    schedule: dict[str, object],
    sizes: tuple[int, int],
    tiles: int,
    at_once: int | None,
    waves: int | None,
    last: float | None,
) -> None:
    """Clusters take tiles one after the other, as many at once as fit the multiprocessors and are launched."""
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "bf16"},
        "B": {"shape": ["N", "K"], "dtype": "bf16"},
        "C": {"shape": ["M", "N"], "dtype": "bf16", "role": "out"},
    }
    plan = plan_of(document("gemm", tensors, "C = A @ B.T", {"mma": {"atom": "wgmma"}} | schedule))
    found = roofline(plan, "sm_90a", {"M": sizes[0], "N": sizes[1], "K": 64}).tiled
    assert found is not None and found.tiles == tiles
    if at_once is None:
        (blocks,) = {occupancy("sm_90a", plan.threads, plan.smem_bytes).blocks}
        assert blocks > 1 and found.at_once == 132 * blocks and found.count == ceil(tiles / (132 * blocks))
        return
    assert (found.at_once, found.count, found.last) == (at_once, waves, pytest.approx(last))
    assert found.busy == pytest.approx(tiles / (found.count * at_once) if tiles else 0)


def test_other_families_have_no_waves() -> None:
    assert roofline(gemm("C = A @ B.T"), "sm_90a", {"M": 1000, "N": 500, "K": 300}).tiled is None
