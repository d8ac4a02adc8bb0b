"""How many blocks a persistent kernel has: as many as run at once on the GPU that a call runs on."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("cutlass")

from cutegen import emulator
from cutegen.analysis.proof import prove
from cutegen.analysis.report_json import as_json
from cutegen.analysis.report_text import as_lines
from cutegen.atoms.gpus import GPUS
from cutegen.cases.plan import CasesPlan
from cutegen.codegen import Module, generate
from cutegen.codegen.shipping import object_text
from cutegen.contract import ASSUMED, argument_names, cheapest_of
from cutegen.emulator.host.builds import build
from cutegen.emulator.host.device_tensors import on_device
from cutegen.emulator.host.emulated import Emulated
from cutegen.families.gemm.wgmma.blocks import MULTIPROCESSORS
from cutegen.verification.blocks import with_blocks
from cutegen.verification.executor import load_module

SPEC = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16, align: 16}}
  B: {{shape: [N, K], dtype: bf16, align: 16}}
  C: {{shape: [M, N], dtype: f32, align: 16, role: out}}
compute: C = A @ B.T
schedule:
  mma: {{atom: wgmma}}
  tiler: {{M: 64, N: 32, K: 32}}
  {}
"""
COMPARED = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
  - {for: {cost: least}, tiler: {M: 128, N: 128, K: 64}, mma: {atom: wgmma}, cluster: {M: 1}}
  - {for: {cost: least}, tiler: {M: 128, N: 192, K: 64}, mma: {atom: wgmma}}
  - {for: {cost: least}, tiler: {M: 128, N: 256, K: 64}, mma: {atom: wgmma}%s}
divisible: {N: 8}
"""
ALONE, OF_TWO, OF_FOUR = "cluster: {M: 1}", "cluster: {M: 2}", "cluster: {M: 2, N: 2}"
PARTS = "cluster: {M: 1, K: 2}\n  scheduler: {kind: persistent}"


def made(text: str) -> Module:
    (module,) = generate(text, "specs/product.yaml").modules
    return module


def loaded(text: str, folder: Path) -> ModuleType:
    """A module of its own: it keeps what it has compiled, and what it knows of GPUs."""
    folder.mkdir(exist_ok=True)
    (folder / "product.py").write_text(text, encoding="utf-8")
    return load_module(folder / "product.py")


def called(module: ModuleType, multiprocessors: int, m: int, n: int, k: int = 40) -> tuple[Any, tuple[int, ...], Any]:
    """The result of a call on a GPU with this number of multiprocessors, its grid, and the expected result."""
    import torch

    numbers = torch.Generator().manual_seed(5)
    a, b = (torch.randn(rows, k, generator=numbers).to(torch.bfloat16) for rows in (m, n))
    with emulator.emulating("sm_90a", multiprocessors=multiprocessors) as emulation:
        result = module.product(a.cuda(), b.cuda()).cpu()
        (ran,) = emulation.ran
    assert not ran.report.faults
    return result.as_subclass(torch.Tensor), ran.asked.grid, a.float() @ b.float().T


@pytest.mark.parametrize(
    ("schedule", "grids"),
    [
        (ALONE, {78: (1, 1, 78), 114: (1, 1, 114)}),
        (OF_TWO, {78: (2, 1, 39), 114: (2, 1, 57), 1: (2, 1, 1)}),
        (OF_FOUR, {78: (2, 2, 17), 114: (2, 2, 25), 3: (2, 2, 1)}),
        (PARTS, {78: (1, 1, 78), 114: (1, 1, 114), 5: (1, 1, 4)}),
    ],
    ids=["alone", "of two", "of four", "parts of a sum"],
)
def test_a_grid_has_as_many_blocks_as_run_at_once_and_results_are_the_same_bits(
    schedule: str, grids: dict[int, tuple[int, ...]], tmp_path: Path
) -> None:
    import torch

    text, results = made(SPEC.format(schedule)).text, []
    for multiprocessors, grid in grids.items():
        module = loaded(text, tmp_path / str(multiprocessors))
        result, found, wanted = called(module, multiprocessors, 64 * 30, 32 * 4)
        assert found == grid
        torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)
        results.append(result)
    assert all(torch.equal(result, results[0]) for result in results)


def test_a_grid_has_no_more_blocks_than_tiles_and_what_is_written_stays(tmp_path: Path) -> None:
    few = called(loaded(made(SPEC.format(ALONE)).text, tmp_path / "few"), 114, 64 * 3, 32 * 2)
    assert few[1] == (1, 1, 6)
    text = made(SPEC.format(f"{ALONE}\n  scheduler: {{blocks: 5}}")).text
    assert "multiprocessors" not in text
    assert called(loaded(text, tmp_path / "written"), 114, 64 * 3, 32 * 2)[1] == (1, 1, 5)


@pytest.mark.parametrize(("schedule", "blocks", "grid"), [(ALONE, 2, (1, 1, 2)), (OF_FOUR, 4, (2, 2, 1))])
def test_few_blocks_are_those_of_a_smaller_gpu(
    schedule: str, blocks: int, grid: tuple[int, ...], tmp_path: Path
) -> None:
    module = with_blocks(loaded(made(SPEC.format(schedule)).text, tmp_path), blocks)
    assert called(module, 114, 64 * 6, 32 * 2)[1] == grid


@pytest.mark.parametrize("schedule", [ALONE, OF_TWO], ids=["alone", "of two"])
def test_what_is_exported_is_told_the_number_at_each_call(schedule: str, tmp_path: Path) -> None:
    import torch

    module = made(SPEC.format(schedule))
    exported, own = loaded(object_text(module), tmp_path / "exported"), loaded(module.text, tmp_path / "own")
    exported_build = build(exported, "sm_90a", lines=False)
    assert exported_build.ptx == build(own, "sm_90a", lines=False).ptx
    emulated = Emulated([exported_build], argument_names(exported, "product"))
    a, b, c = torch.ones(64 * 6, 32), torch.ones(64, 32), torch.zeros(64 * 6, 64)
    given = [on_device(x) for x in (a.to(torch.bfloat16), b.to(torch.bfloat16), c)]
    for multiprocessors in (5, 8, 1):
        emulated(*given, multiprocessors)
        size = 2 if schedule == OF_TWO else 1
        assert emulated.launches[0][0].grid == (size, 1, max(1, multiprocessors // size))
        assert (given[2].as_subclass(torch.Tensor) == 32).all()


def test_a_call_chooses_by_the_multiprocessors_of_its_gpu(tmp_path: Path) -> None:
    module = made(COMPARED % "")
    plan, spec = module.plan, module.spec
    assert isinstance(plan, CasesPlan)
    own, chosen = loaded(module.text, tmp_path), {}
    for m in range(128, 8192, 128):
        sizes = {"M": m, "N": 2048, "K": 2048}
        chosen[m] = tuple(plan.chosen_for(sizes, sms) for sms in (78, 114, 132))
        assert chosen[m] == tuple(cheapest_of(own, spec, sizes, sms) for sms in (78, 114, 132))
        assert plan.chosen_for(sizes) == chosen[m][2]
    assert {len(set(numbers)) for numbers in chosen.values()} >= {1, 2}


def test_a_number_that_is_written_is_the_same_on_all_gpus(tmp_path: Path) -> None:
    module = made(COMPARED % ", scheduler: {blocks: 128}")
    plan, own = module.plan, loaded(module.text, tmp_path)
    assert isinstance(plan, CasesPlan)
    assert [cost.at_once(78) for cost in plan.costs] == [78, 39, 64]
    assert "fixed, start" in module.text
    for m, sms in ((m, sms) for m in range(64, 6000, 300) for sms in (16, 78, 132)):
        sizes = {"M": m, "N": 3072, "K": 1024}
        assert cheapest_of(own, module.spec, sizes, sms) == plan.chosen_for(sizes, sms)


def test_the_gpu_that_is_assumed_is_the_one_that_stands_for_the_target() -> None:
    assert MULTIPROCESSORS == ASSUMED == GPUS["sm_90a"].sms
    assert "multiprocessors: int = 132)" in made(SPEC.format(ALONE)).text


def test_the_proof_says_for_which_gpu_its_estimates_are() -> None:
    plan = made(COMPARED % "").plan
    assert isinstance(plan, CasesPlan)
    sizes, taken = {"M": 2048, "N": 2048, "K": 2048}, set()
    for asked, sms in ((None, 132), (78, 78), (16, 16)):
        proof = prove(plan, [sizes], asked)
        (choice,) = proof.choices
        assert choice.multiprocessors == as_json(proof)["choices"][0]["multiprocessors"] == sms
        assert choice.estimates == plan.estimates(sizes, sms)
        assert f"estimated time of a call on {sms} multiprocessors, M=2048" in "\n".join(as_lines(proof))
        taken.add(choice.estimates)
    assert len(taken) == 3 and prove(plan.cases[0], [sizes], 78).choices == ()
