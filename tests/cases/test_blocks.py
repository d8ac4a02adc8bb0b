"""Cases of persistent kernels, launched with few blocks, run on the targets alone that have that kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.cases.plan import CasesPlan
from cutegen.codegen import Module, generate
from cutegen.emulator.host.builds import builds
from cutegen.verification.blocks import with_blocks
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

HEAD = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
divisible: {M: 8, N: 8, K: 8}
"""
TWO = f"""{HEAD}targets: [sm_80, sm_90a]
schedule:
  - for: {{target: sm_90a, N: "<= 256"}}
    mma: {{atom: wgmma}}
    tiler: {{M: 64, N: 64, K: 64}}
  - mma: {{atom: mma_sync}}
    tiler: {{M: 64, N: 64, K: 32}}
"""


def made(text: str, folder: Path) -> tuple[Module, CasesPlan, Path]:
    (module,) = generate(text, "specs/x.yaml").modules
    path = folder / "product.py"
    path.write_text(module.text, encoding="utf-8")
    assert isinstance(module.plan, CasesPlan)
    return module, module.plan, path


def test_a_case_of_few_blocks_leaves_the_kernels_of_other_targets_out(tmp_path: Path) -> None:
    """Those are not persistent: of so few blocks each, most tiles were missing."""
    _, plan, path = made(TWO, tmp_path)
    module, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(plan) if case.blocks is not None]
    assert {case.of[0] for case in cases} == {plan.cases[0].case}
    report = verify_case(plan, cases[0], module, executor)
    assert report.status == "passed", report.message
    assert cases[0].blocks is not None  # for which it was compiled, and for no others
    assert [*executor._installed] == [with_blocks(module, cases[0].blocks)]


@pytest.mark.parametrize(
    ("size", "number", "targets"),
    [(64, 0, ("sm_90a",)), (64, 1, ("sm_80",)), (512, 1, ("sm_80", "sm_90a"))],
)
def test_a_kernel_has_the_targets_on_which_no_case_before_takes_its_calls(
    size: int, number: int, targets: tuple[str, ...], tmp_path: Path
) -> None:
    _, plan, _ = made(TWO, tmp_path)
    assert plan.targets_of(plan.cases[number], {"M": 64, "N": size, "K": 64}) == targets


@pytest.mark.parametrize("lines", sampled([True, False]))
def test_code_is_that_of_every_target_that_has_the_same(lines: bool, tmp_path: Path) -> None:
    text = TWO.replace("[sm_80, sm_90a]", "[sm_80, sm_86, sm_90a]")
    first, second = builds(load_module(made(text, tmp_path)[2]), lines=lines)
    assert first.is_of(["sm_86"]) and first.is_of(["sm_80"]) and not first.is_of(["sm_90a"])
    assert second.is_of(["sm_90a"]) and not second.is_of(["sm_80", "sm_86"])


@pytest.mark.parametrize("more", ["", "    warps: {roles: pingpong}\n"])
def test_the_kernels_of_a_module_have_as_many_blocks_as_are_wanted(more: str, tmp_path: Path) -> None:
    """Their numbers of blocks are fields of a parameter, or constants of their own."""
    text = f"""{HEAD}targets: [sm_90a]
schedule:
  - for: {{N: "<= 256"}}
    mma: {{atom: wgmma}}
    tiler: {{M: 64, N: 64, K: 64}}
    scheduler: {{blocks: 64}}
  - for: {{N: "<= 1024"}}
    mma: {{atom: wgmma}}
    tiler: {{M: 128, N: 64, K: 64}}
    scheduler: {{blocks: 128}}
{more}  - mma: {{atom: wgmma}}
    scheduler: {{kind: grid}}
"""
    found = vars(with_blocks(load_module(made(text, tmp_path)[2]), 4))
    numbers = [found[name] for name in ("BLOCKS_1", "BLOCKS_2") if name in found]
    numbers += [found[name].BLOCKS for name in ("CASE_1", "CASE_2") if hasattr(found.get(name), "BLOCKS")]
    assert numbers == [4, 4]
