"""Where elements lie in shared memory: held to what descriptors say to wgmma, and to the addresses of compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutegen.analysis import accesses, conflicts
from cutegen.codegen import Module, generate
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.memory.tensor_maps import swizzled
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.shared_matrices import Descriptor
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.shared_memory import moves_of, parts_of, piece_of, stage_of
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

ADDRESS = 1024  # of the first byte of shared memory: where the swizzle begins anew
NUMBERS = {128: 3, 64: 2, 32: 1}  # of a swizzle: that of 16 << s bytes


def made(a: str = "K", b: str = "K", c: str = "bf16", major: str = "N", dtype: str = "bf16", more: str = "") -> Module:
    text = f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, major: {a}}}
  B: {{shape: [N, K], dtype: {dtype}, major: {b}}}
  C: {{shape: [M, N], dtype: {c}, major: {major}, role: out}}
compute: C = A @ B.T
schedule:
  mma: {{atom: wgmma}}
{more}"""
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(module: Module) -> WarpspecializedPlan:
    assert isinstance(module.plan, WarpspecializedPlan)
    return module.plan


@pytest.mark.parametrize("a", ["M", "K"])
@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3"])
def test_stages_are_what_descriptors_tell_the_tensor_cores(a: str, swizzle: int, dtype: str) -> None:
    if dtype == "f8e4m3" and a == "M":
        return  # which wgmma does not take
    more = f"  tiler: {{M: 128, N: 64, K: 128}}\n  smem: {{A: {{swizzle: {swizzle}}}}}\n"
    plan = plan_of(made(a, dtype=dtype, more=more))
    tile, size, depth = stage_of(plan, plan.a), plan.a.tensor.dtype.bytes, 32 // plan.a.tensor.dtype.bytes
    for k in range(0, plan.tile[plan.k], depth):
        for m in range(0, plan.tile[plan.m], 64):
            if a == "K":
                row, inside = divmod(k * size, swizzle)
                start, leading = row * plan.tile[plan.m] * swizzle + m * swizzle + inside, 0
            else:
                leading = plan.tile[plan.k] * swizzle
                start = m * size // swizzle * leading + k * swizzle
            matrix = Descriptor(ADDRESS + start, leading, 8 * swizzle, 0, NUMBERS[swizzle])
            found = matrix.addresses(64, depth, size, a == "M") - ADDRESS
            coordinates = [(m + i, k + j) if a == "M" else (k + j, m + i) for i in range(64) for j in range(depth)]
            assert found.reshape(-1).tolist() == [tile.place(*c) for c in coordinates]


@pytest.mark.parametrize(("c", "major"), [("bf16", "N"), ("f16", "M"), ("f32", "N"), ("f32", "M")])
def test_pieces_are_boxes_of_tensor_maps(c: str, major: str) -> None:
    """In shared memory the rows of a box are packed, and then swizzled."""
    plan = plan_of(made(c=c, major=major, more="  tiler: {M: 128, N: 96, K: 64}\n"))
    (x,) = plan.passing
    tile = piece_of(plan, x)
    row = x.swizzle // tile.size
    for along in range(tile.along):
        box, inside = divmod(along, row)
        for across in range(tile.across):
            packed = (box * tile.across + across) * x.swizzle + inside * tile.size
            assert tile.place(along, across) == int(swizzled(np.int64(packed + ADDRESS), NUMBERS[x.swizzle])) - ADDRESS


@pytest.mark.parametrize(
    ("c", "major", "more"),
    [
        ("bf16", "N", "  warps: {roles: pingpong}\n"),
        ("f32", "N", ""),
        ("f32", "M", "  copies: {C: {columns: 16}}\n"),
    ],
)
def test_threads_write_where_the_access_says(
    c: str, major: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The addresses of all stores of a tile's epilogue, in the order of the code, by thread."""
    pytest.importorskip("cutlass")
    module = made(c=c, major=major, more=f"  tiler: {{M: 128, N: 96, K: 64}}\n  cluster: {{M: 1}}\n{more}")
    plan = plan_of(module)
    (x,) = plan.passing
    found: dict[int, list[int]] = {}
    access = SharedMemory.access

    def noted(
        memory: Any, address: Any, offset: int, size: int, mask: Any, instruction: Instruction, *more: Any
    ) -> SharedAccess:
        if instruction.opcode in ("st", "stmatrix"):
            shape = memory.shape
            active = np.broadcast_to(True if mask is None else mask, shape)
            places = np.broadcast_to(address, shape)
            for thread in np.flatnonzero(active[:, 0]):
                found.setdefault(int(thread), []).append(int(places[thread, 0]) + offset - ADDRESS)
        return access(memory, address, offset, size, mask, instruction, *more)

    monkeypatch.setattr(SharedMemory, "access", noted)
    path = tmp_path / "product.py"
    path.write_text(module.text, encoding="utf-8")
    case = Case("a tile", "", {"M": 128, "N": 96, "K": 64}, "padded", "integers", blocks=1)
    assert not verify_case(plan, case, load_module(path), EmulatorExecutor(lines=False)).message

    (layout, vector), tile = moves_of(plan, x), piece_of(plan, x)
    buffers = [part.start for part in parts_of(plan) if part.name == "C"]
    per_piece = plan.columns * 64 // 128 // vector
    for thread in range(128 * plan.groups):
        group, own = divmod(thread, 128)
        wanted = []
        for number in range(plan.pointwise.values // vector):
            buffer = buffers[group * plan.buffers + number // per_piece % plan.buffers]
            wanted.append(buffer + int(tile.pattern(int(layout(own, number * vector)))) * tile.size)
        assert found[128 + thread] == wanted, thread
    assert not any(thread < 128 for thread in found), "the producer writes nothing"
    assert max(part.start + part.size for part in parts_of(plan)) == plan.smem_bytes


def test_conflicts_of_the_epilogue_are_those_of_the_swizzle() -> None:
    """Of 16 bits a matrix's eight rows are in banks of their own; pairs of f32 of four rows are not."""
    ways = {}
    for c, major, columns in (
        ("bf16", "N", 64),
        ("bf16", "N", 16),
        ("bf16", "M", 64),
        ("f32", "N", 32),
        ("f32", "M", 32),
    ):
        plan = plan_of(made(c=c, major=major, more=f"  tiler: {{N: 64}}\n  copies: {{C: {{columns: {columns}}}}}\n"))
        (access,) = [a for a in accesses(plan) if a.space == "shared"]
        ways[c, major, columns] = conflicts(access).ways
    assert ways == {
        ("bf16", "N", 64): 1, ("bf16", "N", 16): 1, ("bf16", "M", 64): 1, ("f32", "N", 32): 2, ("f32", "M", 32): 1,
    }  # fmt: skip
