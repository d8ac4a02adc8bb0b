"""The possible effects of a field: code, verification, measuring, tuning, and expectations of code."""

from __future__ import annotations

from typing import Any

from cutegen.codegen import Module
from cutegen.compiling import Artefact, Resources
from cutegen.sass.expectations import check as check_expectations
from cutegen.verification.cases import derive_cases


def body(generated: Module) -> str:
    """Without the header, whose hash of the spec changes with every field."""
    return generated.text.split("\n", 3)[3]


def cases(generated: Module) -> object:
    return derive_cases(generated.plan)


def expectation_failures(generated: Module) -> list[str]:
    """The keys of `expect` that an artefact breaks which has 40 registers, no spills, and 4 loads of 128 bits."""
    resources = Resources(registers=40, spill_stores=0, spill_loads=0, stack=0, static_smem=0)
    lines = ["        /*0000*/                   LDG.E.128 R4, [R2.64] ;"] * 4
    artefact = Artefact("k", "sm_80", "", b"", "\n".join(lines), resources, ())
    return [failure.key for failure in check_expectations(generated.spec.expect, artefact)]


def verdicts(generated: Module) -> list[bool]:
    """Whether results pass that are 1.5e-5, 1e-4, 1.5e-3 and 1e-2 from 1, where the derived bound allows more."""
    import torch

    from cutegen.verification.compare import compare

    expected, bound = torch.ones(4, dtype=torch.float64), torch.full((4,), 1.0, dtype=torch.float64)
    tolerance: Any = generated.spec.verify.tolerance
    return [
        compare(expected + error, expected, bound, rtol=tolerance.rtol, atol=tolerance.atol).ok
        for error in (1.5e-5, 1e-4, 1.5e-3, 1e-2)
    ]
