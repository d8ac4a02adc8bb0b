"""The compiler is free to give accumulators registers of both banks: no multiply-add reads three from one."""

from __future__ import annotations

from compiling_kit import Compiler
from specs_kit import modules_of

from cutegen.compiling import Compiled, Job
from cutegen.sass.banks import bank_clashes


def test_no_multiply_add_reads_three_registers_of_one_bank(compiler: Compiler) -> None:
    kernels = [("sgemm_mmajor", "sgemm_mmajor"), ("gemm_f32_fma", "gemm_f32_fma_mnn"), ("sgemm", "sgemm_mnm")]
    texts = [(kernel, modules_of(name)[kernel].text) for name, kernel in kernels]
    bare = [(kernel, text.replace(" * one", "")) for kernel, text in texts if "* one" in text]
    assert bare, "what the multiplication is there for"
    found = []
    for outcome in compiler([Job(text, kernel, "sm_90a", sass=True) for kernel, text in texts + bare]):
        assert isinstance(outcome, Compiled) and outcome.artefact.sass is not None
        found.append(bank_clashes(outcome.artefact.sass))
    assert all(some.ffma >= 512 and some.clashes == 0 for some in found[: len(texts)])
    assert all(some.clashes > some.ffma // 20 for some in found[len(texts) :])
