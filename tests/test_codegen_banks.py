"""The compiler is free to give accumulators registers of both banks: no multiply-add reads three from one.

From Volta on even registers lie in one bank and odd ones in another, and an operand that the instruction before kept
(`.reuse`) is not read again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.compiling import Compiled, Job, compile_all

SPECS = Path(__file__).parent.parent / "specs"
FFMA = re.compile(r"FFMA R\d+, (?P<operands>[^;]+?) ;")
REGISTER = re.compile(r"-?(?P<register>R\d+)(?P<reuse>\.reuse)?\Z")


def three_of_one_bank(sass: str) -> tuple[int, int]:
    """How many multiply-adds there are, and how many of them read three registers of one bank."""
    count = clashes = 0
    kept: dict[int, str] = {}  # by place among the operands
    for line in sass.splitlines():
        found = FFMA.search(line)
        if found is None:
            kept = {}
            continue
        operands = [REGISTER.match(text.strip()) for text in found["operands"].split(",")]
        read = {m["register"] for i, m in enumerate(operands) if m and kept.get(i) != m["register"]}
        kept = {i: m["register"] for i, m in enumerate(operands) if m and m["reuse"]}
        banks = [int(register[1:]) % 2 for register in read]
        count, clashes = count + 1, clashes + (max(banks.count(0), banks.count(1)) == 3)
    return count, clashes


def spec_of(name: str, kernel: str) -> Module:
    modules = generate((SPECS / f"{name}.yaml").read_text(encoding="utf-8"), f"specs/{name}.yaml").modules
    return next(module for module in modules if module.spec.kernel == kernel)


def test_clashes_are_counted() -> None:
    sass = """
        /*0000*/ FFMA R1, R2, R4, R6 ;
        /*0010*/ FFMA R1, R2.reuse, R5, R6 ;
        /*0020*/ FFMA R1, R2, R4, R6 ;
        /*0030*/ IADD3 R1, R2, R4, R6 ;
        /*0040*/ FFMA R1, R2, R4, R6 ;
        /*0050*/ FFMA R1, R2, R2, R6 ;
    """
    assert three_of_one_bank(sass) == (5, 2)


@pytest.mark.parametrize(
    ("name", "kernel"), [("sgemm_mmajor", "sgemm_mmajor"), ("sgemm_fast", "sgemm_fast_mnn"), ("sgemm", "sgemm_mnm")]
)
def test_no_multiply_add_reads_three_registers_of_one_bank(name: str, kernel: str) -> None:
    module = spec_of(name, kernel)
    (outcome,) = compile_all([Job(module.text, kernel, "sm_90a")])
    assert isinstance(outcome, Compiled) and outcome.artefact.sass is not None
    count, clashes = three_of_one_bank(outcome.artefact.sass)
    assert count >= 512 and clashes == 0
    if "* one" in module.text:  # what the multiplication is there for
        bare = module.text.replace(" * one", "")
        (outcome,) = compile_all([Job(bare, kernel, "sm_90a")])
        assert isinstance(outcome, Compiled) and outcome.artefact.sass is not None
        assert three_of_one_bank(outcome.artefact.sass)[1] > count // 20
