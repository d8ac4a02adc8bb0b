"""The rooms ask a kernel's family, and do with what any family answers."""

from __future__ import annotations

from dataclasses import replace

from plain_family import plain_plan

from cutegen.analysis.accesses import accesses
from cutegen.analysis.proof import prove
from cutegen.analysis.report_json import as_json
from cutegen.analysis.report_text import as_lines
from cutegen.analysis.roofline import arithmetic, blocks_of
from cutegen.atoms.gpus import CUDA_F64

SIZES = {"M": 100, "N": 128}


def test_a_plan_without_accesses_is_proved() -> None:
    plan = plain_plan()
    proof = prove(plan, [SIZES])
    assert proof.holds and [claim.text for claim in proof.claims] == ["tiles are whole"]
    (part,) = proof.parts
    assert accesses(plan) == () == part.rows == part.buffers
    lines = as_lines(proof)
    assert "    holds: tiles are whole" in lines and not any("accesses" in line for line in lines)
    assert as_json(proof)["accesses"] == [] and as_json(proof)["holds"]


def test_its_claims_are_asked_for() -> None:
    plan = plain_plan()
    assert not prove(replace(plan, tile={"M": 32, "N": 63})).holds


def test_blocks_and_arithmetic_follow_from_tile_and_tensors() -> None:
    plan = plain_plan()
    assert blocks_of(plan, SIZES) == 4 * 2
    assert arithmetic(plan.spec) == CUDA_F64  # of E


def test_all_statements_count_once_and_every_tensor_is_moved() -> None:
    (found,) = {(r.operations, r.bytes) for r in prove(plain_plan(), [SIZES]).rooflines}
    assert found == (3 * 100 * 128, (4 + 4 + 8) * 100 * 128)
