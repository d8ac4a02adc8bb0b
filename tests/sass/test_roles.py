"""The code of roles: whose it is, which registers it uses, and the loops of real kernels whose warps have some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from compiling_kit import Compiler
from specs_kit import modules_of

from cutegen.codegen import Module
from cutegen.compiling import Artefact, Compiled, Job
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.sass.control_flow import loops
from cutegen.sass.instructions import Function, Instruction, histogram, parse
from cutegen.sass.roles import LOADS, MULTIPLIES, registers_used, roles

ROOT = Path(__file__).parents[2]


def function(lines: Sequence[str]) -> Function:
    """Each line that ends with a colon is a label, any other an instruction."""
    text = "\n".join(x if x.endswith(":") else f"/*{16 * n:04x}*/ {x} ;" for n, x in enumerate(lines))
    (found,) = parse(f".text.k:\n{text}\n")
    return found


def test_what_comes_only_after_a_budget_is_a_role() -> None:
    found = roles(
        function(
            [
                *(
                    "S2R R50, SR_TID.X",
                    "@P0 BRA `(other)",
                    "USETMAXREG.DEALLOC.CTAPOOL 0x28",
                    "UTMALDG.2D [UR4], [UR6]",
                ),
                *("BRA `(out)", "other:", "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "@!P0 BRA `(other)"),
                *("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24", "out:", "MOV R99, R98", "EXIT"),
            ]
        )
    )
    assert [(r.name, r.registers, r.used, len(r.instructions)) for r in found] == [
        (LOADS, 40, 0, 3), (MULTIPLIES, 232, 24 + 128, 3),
    ]  # fmt: skip
    assert roles(function(["MOV R1, R2", "EXIT"])) == ()


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("HGMMA.64x192x16.F32.BF16 R120, gdesc[UR16], R24, UP0", 120 + 96),
        ("HGMMA.64x64x16.F16 R8, gdesc[UR16], R8", 8 + 16),
        ("QGMMA.64x256x32.F32.E4M3.E5M2 R24, gdesc[UR16], R24", 24 + 128),
        ("LDG.E.128 R4, [R2.64]", 8),
        ("STG.E.64 desc[UR4][R90.64], R4", 91),
        ("SYNCS.ARRIVE.TRANS64 RZ, [R5+URZ+0x36028], R3", 6),
        ("UIADD3 UR60, UR6, 0x30, URZ", 0),
    ],
)
def test_an_instruction_uses_all_that_it_names(line: str, used: int) -> None:
    assert registers_used(function([line]).instructions) == used


# ------------------------------------------------------------------------------------------------------ real kernels


@pytest.fixture(scope="module")
def compiled(compiler: Compiler) -> list[tuple[Module, Artefact]]:
    """Kernels whose waits stand within the loop and behind the end of the code."""
    pytest.importorskip("cutlass", reason="compiling needs nvidia-cutlass-dsl")
    modules = [modules_of(name)[kernel] for name, kernel in (("gemm_bf16", "gemm_bf16_kkn"), ("gemm_f8", "gemm_f8"))]
    jobs = [Job(module.text, module.spec.kernel, "sm_90a", sass=True) for module in modules]
    outcomes = compiler(jobs)
    assert all(isinstance(outcome, Compiled) for outcome in outcomes), outcomes
    return [
        (m, outcome.artefact) for m, outcome in zip(modules, outcomes, strict=True) if isinstance(outcome, Compiled)
    ]


def counts(instructions: Sequence[Instruction]) -> Mapping[str, int]:
    return {name: n for names in histogram(instructions).values() for name, n in names.items()}


def total(found: Mapping[str, int], opcode: str) -> int:
    return sum(n for name, n in found.items() if name.startswith(opcode))


def loads_of_a_step(plan: WarpspecializedPlan) -> int:
    """Boxes of A and of B for one tile along k."""
    return sum(side.block // (side.box or side.block) for side in plan.sides)


def test_the_loops_of_a_gemm_are_that_of_the_loads_and_that_of_the_products(
    compiled: list[tuple[Module, Artefact]],
) -> None:
    for module, artefact in compiled:
        plan = module.plan
        assert isinstance(plan, WarpspecializedPlan) and artefact.sass is not None
        (code,) = parse(artefact.sass)
        found = [counts(loop.instructions) for loop in loops(code) or ()]
        assert len(found) == 2, "waits are none"
        loads, products = sorted(found, key=lambda names: total(names, "UTMALDG"), reverse=True)
        assert total(loads, "UTMALDG") == loads_of_a_step(plan) and total(products, "UTMALDG") == 0
        steps = plan.tile[plan.k] // (32 // plan.a.tensor.dtype.bytes)
        opcode = "QGMMA" if plan.a.tensor.dtype.is_f8 else "HGMMA"
        assert total(products, opcode) == steps * plan.row_blocks and total(loads, opcode) == 0
        assert total(products, "WARPGROUP.DEPBAR") == 1


def test_roles_have_the_registers_of_the_plan(compiled: list[tuple[Module, Artefact]]) -> None:
    for module, artefact in compiled:
        plan = module.plan
        assert isinstance(plan, WarpspecializedPlan) and artefact.sass is not None
        (code,) = parse(artefact.sass)
        producer, consumers = roles(code)
        assert (producer.name, producer.registers) == (LOADS, plan.producer_registers)
        assert (consumers.name, consumers.registers) == (MULTIPLIES, plan.consumer_registers)
        assert 0 < producer.used <= plan.producer_registers
        assert plan.pointwise.values < consumers.used <= plan.consumer_registers
        assert total(counts(producer.instructions), "UTMALDG") == loads_of_a_step(plan)
        assert total(counts(consumers.instructions), "UTMASTG") == plan.pieces
