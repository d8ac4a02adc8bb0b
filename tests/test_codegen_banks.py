"""The compiler is free to give accumulators registers of both banks: no multiply-add reads three from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.compiling import Compiled, Job, bank_clashes, compile_all

SPECS = Path(__file__).parent.parent / "specs"


def spec_of(name: str, kernel: str) -> Module:
    modules = generate((SPECS / f"{name}.yaml").read_text(encoding="utf-8"), f"specs/{name}.yaml").modules
    return next(module for module in modules if module.spec.kernel == kernel)


@pytest.mark.parametrize(
    ("name", "kernel"), [("sgemm_mmajor", "sgemm_mmajor"), ("sgemm_fast", "sgemm_fast_mnn"), ("sgemm", "sgemm_mnm")]
)
def test_no_multiply_add_reads_three_registers_of_one_bank(name: str, kernel: str) -> None:
    module = spec_of(name, kernel)
    (outcome,) = compile_all([Job(module.text, kernel, "sm_90a")])
    assert isinstance(outcome, Compiled) and outcome.artefact.sass is not None
    found = bank_clashes(outcome.artefact.sass)
    assert found.ffma >= 512 and found.clashes == 0
    if "* one" in module.text:  # what the multiplication is there for
        bare = module.text.replace(" * one", "")
        (outcome,) = compile_all([Job(bare, kernel, "sm_90a")])
        assert isinstance(outcome, Compiled) and outcome.artefact.sass is not None
        assert bank_clashes(outcome.artefact.sass).clashes > found.ffma // 20
