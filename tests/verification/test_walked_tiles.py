"""Tiles far from the first and at both ends of bands, of kernels whose plan says which block takes which tile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.hostchecks import far_blocks, walked_tiles
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.parts import Parts
from cutegen.hostchecks.sizes import small
from cutegen.language.model import KernelSpec
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.lacking import NoMemory
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

if TYPE_CHECKING:
    from cutegen.emulator import Launch

TENSORS = """
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
divisible: {N: 8}
"""
PERSISTENT = f"""
cutegen: 1
kernel: persistent
{TENSORS}
schedule:
  tiler: {{M: 64, N: 64, K: 16}}
  cluster: {{M: 2}}
  pipeline: {{stages: 2}}
  mma: {{atom: wgmma}}
  scheduler: {{kind: persistent, raster: M, swizzle: 4, blocks: 4}}
targets: [sm_90a]
"""
SHARED = f"""
cutegen: 1
kernel: shared
{TENSORS}
schedule:
  tiler: {{M: 64, N: 64, K: 16}}
  cluster: {{K: 2}}
  pipeline: {{stages: 2}}
  mma: {{atom: wgmma}}
  scheduler: {{kind: grid, raster: M, swizzle: 4}}
targets: [sm_90a]
"""
WARPS = f"""
cutegen: 1
kernel: warps
{TENSORS}
schedule:
  tiler: {{M: 32, N: 32, K: 32}}
  mma: {{atom: mma_sync}}
  pipeline: {{stages: 2}}
  scheduler: {{raster: N, swizzle: 8}}
targets: [sm_80]
"""
BAND = r"band, place = divmod\(tile, by_band\)"
MUTANTS = [
    # kernel, what is wrong, pattern, text, modes of which it is said
    ("persistent", "a whole band as one that is not", r"\* BAND > tiles_n", "* BAND >= tiles_n", {"N"}),
    ("persistent", "the last band as wide as all", r"is_last = .*", "is_last = cutlass.Int32(0)", {"N"}),
    ("persistent", "no third band", r"band \* BAND \+ across", "cutlass.min(band, 1) * BAND + across", {"N"}),
    ("persistent", "tiles in 16 bits", BAND, "band, place = divmod(tile % 65536, by_band)", {"M", "N"}),
    ("persistent", "tiles in 26 bits", BAND, "band, place = divmod(tile % (1 << 26), by_band)", {"N"}),
    (
        "persistent",
        "tiles by way of a float",
        r"(m_tile, n_tile = tile_coordinate\()tile,",
        r"\1cutlass.Int32(cutlass.Float32(tile)),",
        {"N"},
    ),
    ("shared", "tiles in 20 bits", r"= tile_coordinate\(tile,", "= tile_coordinate(tile % (1 << 20),", {"M", "N"}),
    ("warps", "the last band as wide as all", r"width = cutlass\.min\(.*", "width = SWIZZLE", {"M"}),
    ("warps", "blocks in 22 bits", r"bidx, _, _ = (.*)\(\)", r"bidx = \1()[0] % (1 << 22)", {"M", "N"}),
]  # fmt: skip


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    made = (generate(text, "specs/x.yaml").modules[0] for text in (PERSISTENT, SHARED, WARPS))
    return {module.spec.kernel: module for module in made}


def host_of(module: Module, text: str, folder: Path, executor: EmulatorExecutor) -> Host:
    path, spec = folder / f"{module.spec.kernel}.py", module.spec
    path.write_text(text, encoding="utf-8")
    case = Case("wrong calls", "", small(spec), "padded", "integers")
    tensors = make_tensors(spec, case, executor.device)
    return Host(module.plan, load_module(path), executor, case, tensors, scalar_values(spec, case))


def checked(module: Module, text: str, folder: Path) -> dict[str, str]:
    """The result of each check on a module with this text, by its mode."""
    checks = list(far_blocks.checks(host_of(module, text, folder, EmulatorExecutor(lines=False))))
    return {check.what.split(" of ")[1].split()[0]: check.run() for check in checks}


@pytest.mark.parametrize("kernel", ["persistent", "shared", "warps"])
def test_a_right_kernel_passes_with_millions_of_tiles(
    kernel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: dict[str, list[int]] = {}

    def noted(host: Host, call: Parts, blocks: list[int] | None = None, grid: int | None = None) -> str:
        assert blocks is not None
        ran.setdefault(call.mode, []).append(max(blocks))
        return wrong(host, call, blocks, grid)

    wrong = walked_tiles.wrong
    monkeypatch.setattr(walked_tiles, "wrong", noted)
    module = modules()[kernel]
    assert checked(module, module.text, tmp_path) == {"M": "", "N": ""}
    assert {mode: max(blocks) > 1 << 22 for mode, blocks in ran.items()} == {"M": True, "N": True}
    along, width = module.spec.family.band(module.plan) or ("", 0)
    assert width > 1 and {mode: len(blocks) for mode, blocks in ran.items()} == {"M": 1, "N": 1} | {along: 2}


@pytest.mark.parametrize(
    ("kernel", "wrong", "pattern", "text", "modes"),
    sampled(MUTANTS),
    ids=[f"{kernel}: {wrong}" for kernel, wrong, *_ in MUTANTS],
)
def test_tiles_that_are_counted_wrong_are_found(
    kernel: str, wrong: str, pattern: str, text: str, modes: set[str], tmp_path: Path
) -> None:
    module = modules()[kernel]
    changed, count = re.subn(pattern, text, module.text)
    assert count, f"{pattern} is not in {kernel}: adapt the pattern"
    said = checked(module, changed, tmp_path)
    assert modes <= {mode for mode, problem in said.items() if problem}, f"{wrong}: {said}"


def test_blocks_may_take_tiles_in_another_order(tmp_path: Path) -> None:
    """Which is no mistake as long as each tile has its block."""
    module = modules()["persistent"]
    changed, count = re.subn(r"band % 2 \* \(tiles_m", "cutlass.min(band, 1) * (tiles_m", module.text)
    assert count and set(checked(module, changed, tmp_path).values()) == {""}


class Poor(EmulatorExecutor):
    """Lacks the memory for calls with too many elements of C."""

    def __init__(self, affords: Callable[[int], bool]) -> None:
        super().__init__(lines=False)
        self.affords = affords

    def launched(self, module: ModuleType, spec: KernelSpec, args: Sequence[object]) -> Sequence[Sequence[Launch]]:
        if not self.affords(prod(args[2].shape)):  # type: ignore[attr-defined]
            raise MemoryError("an address range needs 1000000000000 bytes")
        return super().launched(module, spec, args)


def test_a_call_without_memory_gives_way_to_a_smaller_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no memory for any call, the check is not run: it neither passes nor fails."""
    module, ran = modules()["warps"], []

    def noted(host: Host, call: Parts, *_: object) -> str:
        ran.append(call.sizes["M"])
        return ""

    monkeypatch.setattr(walked_tiles, "wrong", noted)
    host = host_of(module, module.text, tmp_path, Poor(lambda elements: elements < 1 << 31))
    assert walked_tiles.wrong_with_many(host, "M") == "" and 1 << 20 < ran[0] < 1 << 26
    poor = host_of(module, module.text, tmp_path, Poor(lambda elements: False))
    for room in (walked_tiles, far_blocks):
        call = (walked_tiles._ends(poor, "M", 300, 1), far_blocks._call(poor, "M", 300, [0]))[room is far_blocks]
        with pytest.raises(NoMemory, match="needs 1000.0 GB"):
            room._launched(poor, call)  # type: ignore[attr-defined]
    with pytest.raises(NoMemory, match="needs 1000.0 GB"):
        walked_tiles.wrong_with_many(poor, "M")
