"""Occupancy, against a second calculator by the rules of NVIDIA's `cuda_occupancy.h`, and the figures of targets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.analysis.occupancy import most_registers, occupancy
from cutegen.atoms.gpus import CUDA_F32, CUDA_F64, GPUS
from cutegen.atoms.targets import TARGETS

KIB = 1024


@dataclass(frozen=True)
class Chip:
    """The table of compute capabilities in the CUDA C++ Programming Guide; common to all: 64 Ki registers a
    multiprocessor and a block, 255 a thread, 1024 threads a block.
    """

    warps: int
    blocks: int
    shared: int  # KiB a multiprocessor
    shared_block: int  # KiB a block


GUIDE = {
    "sm_80": Chip(64, 32, 164, 163),
    "sm_86": Chip(48, 16, 100, 99),
    "sm_89": Chip(48, 24, 100, 99),
    "sm_90a": Chip(64, 32, 228, 227),
    "sm_100a": Chip(64, 32, 228, 227),
    "sm_103a": Chip(64, 32, 228, 227),
    "sm_120a": Chip(48, 24, 100, 99),
}


def up(number: int, unit: int) -> int:
    return (number + unit - 1) // unit * unit


def by_the_header(chip: Chip, threads: int, shared: int, registers: int) -> dict[str, int]:
    """Blocks by each resource. A block's own limits come first, as the header checks them: what breaks one gives 0."""
    warps = up(threads, 32) // 32
    by_warps = chip.warps // warps if threads <= 1024 else 0

    allocated = up(shared + 1024, 128)  # 1 KiB of every block is the system's
    by_shared = chip.shared * KIB // allocated if allocated <= (chip.shared_block + 1) * KIB else 0

    of_a_warp = up(registers * 32, 256)
    if of_a_warp * up(warps, 4) > 65536 or of_a_warp * warps > 65536:
        by_registers = 0
    else:
        in_a_partition = 65536 // 4 // of_a_warp
        by_registers = in_a_partition * 4 // warps
    return {"threads": by_warps, "blocks": chip.blocks, "shared memory": by_shared, "registers": by_registers}


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(GUIDE)),
    st.integers(1, 1024),
    st.one_of(st.integers(0, 232 * KIB), st.sampled_from([0, 1, 48 * KIB, 99 * KIB, 163 * KIB, 227 * KIB])),
    st.integers(1, 255),
)
def test_occupancy_is_the_headers(target: str, threads: int, shared: int, registers: int) -> None:
    wanted = by_the_header(GUIDE[target], threads, shared, registers)
    found = occupancy(target, threads, shared, registers)
    assert found.limits == wanted
    assert found.blocks == min(wanted.values())
    assert set(found.binds) == {name for name, blocks in wanted.items() if blocks == found.blocks}
    assert found.warps == found.blocks * (up(threads, 32) // 32) <= found.most_warps == GUIDE[target].warps
    assert found.most_warps == GUIDE[target].warps
    before = occupancy(target, threads, shared)
    assert before.limits == {name: n for name, n in wanted.items() if name != "registers"}, "before it is compiled"


@pytest.mark.parametrize(
    ("target", "threads", "registers", "blocks", "percent"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers, of a chip with the same register file
        ("sm_80", 128, 37, 12, 75),
        ("sm_80", 320, 37, 4, 62.5),
        ("sm_80", 1024, 32, 2, 100),
        ("sm_86", 1024, 32, 1, 2 / 3 * 100),
        # warps of three to a block: 51 of them fit 65536 registers, but only 12 each of its quarters
        ("sm_80", 96, 40, 16, 75),
        ("sm_80", 32, 255, 8, 12.5),
        ("sm_90a", 256, 255, 1, 12.5),
        ("sm_90a", 288, 224, 0, 0),  # nine warps: three on one quarter, whose registers two take
    ],
)
def test_known_occupancies(target: str, threads: int, registers: int, blocks: int, percent: float) -> None:
    found = occupancy(target, threads, 0, registers)
    assert found.blocks == blocks and 100 * found.warps / found.most_warps == pytest.approx(percent)


def test_a_block_with_all_shared_memory_fits_and_one_with_more_does_not() -> None:
    for target, chip in GUIDE.items():
        assert occupancy(target, 128, chip.shared_block * KIB).limits["shared memory"] == 1
        assert occupancy(target, 128, chip.shared_block * KIB + 1).blocks == 0


def test_shared_memory_is_handed_out_in_units_of_128_bytes() -> None:
    # 228 KiB for 8 blocks: 29184 bytes each, of which 1024 are the system's
    assert occupancy("sm_90a", 128, 29184 - 1024).limits["shared memory"] == 8
    assert occupancy("sm_90a", 128, 29184 - 1024 + 1).limits["shared memory"] == 7
    assert occupancy("sm_90a", 128, 29184 - 1024 - 127).limits["shared memory"] == 8


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(GUIDE)), st.integers(1, 1024), st.integers(1, 32))
def test_the_most_registers_are_just_enough(target: str, threads: int, blocks: int) -> None:
    most = most_registers(target, threads, blocks)

    def fit(registers: int) -> int:
        return by_the_header(GUIDE[target], threads, 0, registers)["registers"]

    assert 0 <= most <= 255
    assert fit(most) >= blocks if most else fit(1) < blocks
    assert most == 255 or fit(most + 1) < blocks


def test_an_unknown_target_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        occupancy("sm_70", 128)


def test_targets_are_what_the_guide_says() -> None:
    assert set(TARGETS) == set(GUIDE) == set(GPUS)
    for name, chip in GUIDE.items():
        target = TARGETS[name]
        assert (target.threads_per_sm, target.blocks_per_sm) == (32 * chip.warps, chip.blocks)
        assert (target.smem_per_sm, target.smem_per_block) == (chip.shared * KIB, chip.shared_block * KIB)
        assert (target.registers_per_sm, target.registers_per_thread, target.smem_reserved) == (65536, 255, 1024)
        assert target.grid_y == 65535


CORES = {  # f32 cores of an SM and the clock in GHz that the datasheet's rate assumes
    "sm_80": (64, 1.41),
    "sm_86": (128, 1.8),
    "sm_89": (128, 2.52),
    "sm_90a": (128, 1.98),
    "sm_100a": (128, 1.98),
    "sm_103a": (128, 1.98),
    "sm_120a": (128, 2.407),
}


@pytest.mark.parametrize("target", sorted(GPUS))
def test_a_gpus_rate_is_that_of_its_cores(target: str) -> None:
    """SMs, cores and clock, each from another line of a datasheet, give the rate that it states."""
    gpu, (cores, clock) = GPUS[target], CORES[target]
    assert gpu.flops[CUDA_F32] == pytest.approx(gpu.sms * cores * 2 * clock * 1e9, rel=0.01)
    ratio = gpu.flops[CUDA_F32] / gpu.flops[CUDA_F64]
    assert ratio == pytest.approx({"sm_80": 2, "sm_90a": 2, "sm_100a": 2, "sm_103a": 60}.get(target, 64), rel=0.03)
    assert gpu.balance(CUDA_F32) == gpu.flops[CUDA_F32] / gpu.bandwidth
