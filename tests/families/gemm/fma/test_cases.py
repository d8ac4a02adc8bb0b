"""The cases that a gemm is verified on besides those of every family."""

from __future__ import annotations

from dataclasses import replace

from tensor_layouts import Layout
from verification_fakes import GEMM_TILE as TILE
from verification_fakes import gemm_spec, plan_of

from cutegen.families.gemm.fma.workspace import plan_workspaces
from cutegen.families.gemm.staged.schedule import Workspace
from cutegen.verification.cases import derive_cases


def test_a_workspace_gets_shapes_around_its_own_tile() -> None:
    threads = Layout((2, 4), (1, 2))  # with 4 x 4 elements of f32 each: K is a multiple of 4
    spec = gemm_spec(divisible={"K": 4})
    filled = replace(
        spec, targets=("sm_80",), schedule=replace(spec.schedule, workspace={"B": Workspace("N", threads)})
    )
    plan = plan_of(filled, TILE, 3, workspaces=tuple(plan_workspaces(filled).values()))
    own = [c for c in derive_cases(plan) if c.name.startswith("workspace of B")]
    assert [(c.sizes["N"], c.sizes["K"]) for c in own] == [(7, 16), (9, 20)]  # K of 15 is rounded up
    assert not any(c.name.startswith("workspace") for c in derive_cases(plan_of(spec, TILE, 3)))
