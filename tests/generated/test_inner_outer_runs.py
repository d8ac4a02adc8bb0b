"""Threads of an inner_outer partition that deal out whole accesses: compiled, and run on shapes that end anywhere."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest
from planning_specs import document

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from compiling_kit import Compiler
from cutegen.codegen import Module, generate
from cutegen.compiling import Compiled, Job
from cutegen.compiling.artefact import mnemonics
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


def of(shapes: dict[str, str], compute: str, schedule: dict[str, Any], dtype: str, **fields: dict[str, Any]) -> str:
    """A kernel on tensors of these shapes; `fields` are what is special about a tensor."""
    tensors: dict[str, Any] = {
        name: {"shape": list(shape), "dtype": dtype} | fields.get(name, {}) for name, shape in shapes.items()
    }
    tensors["D"]["role"] = "out"
    return document("elementwise", tensors, compute, {"partition": "inner_outer", **schedule}, targets=["sm_80"])


SD, ROWS = {"S": "MN", "D": "MN"}, {"thread_layout": "(4,8):(8,1)", "tiler": {"M": 8, "N": 128}}
# text, and loads and stores of a thread by the bits that they move
KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "bf16": (of(SD, "D = S", ROWS | {"copy": {"bits": 128}}, "bf16"), {"LDG.E.128": 4, "STG.E.128": 4}),
    "f32, half as wide": (of(SD, "D = 2 * S", ROWS | {"copy": {"bits": 64}}, "f32"), {"LDG.E.64": 16, "STG.E.64": 16}),
    "single elements": (of(SD, "D = S", ROWS, "bf16"), {"LDG.E.U16": 32, "STG.E.U16": 32}),
    "rank 1": (
        of({"S": "N", "D": "N"}, "D = S", {"thread_layout": 64, "tiler": {"N": 1024}, "copy": {"bits": 128}}, "f16"),
        {"LDG.E.128": 2, "STG.E.128": 2},
    ),
    "rank 3": (
        of(
            {"S": "BMN", "D": "BMN"},
            "D = abs(S)",
            {"thread_layout": "(2,4,8):(1,2,8)", "tiler": {"B": 2, "M": 12, "N": 32}, "copy": {"bits": 128}},
            "f32",
        ),
        {"LDG.E.128": 3, "STG.E.128": 3},
    ),
    "runs down the columns": (
        of(
            SD,
            "D = S",
            {"thread_layout": "(8,4):(1,8)", "tiler": {"M": 64, "N": 12}, "copy": {"bits": 128}},
            "bf16",
            S={"major": "M"},
            D={"major": "M"},
        ),
        {"LDG.E.128": 3, "STG.E.128": 3},
    ),
    "a layout of threads with a mode in two": (
        of(SD, "D = S", {"thread_layout": "((2,2),(4,2)):((1,16),(4,2))", "tiler": {"M": 8, "N": 128}}
           | {"copy": {"bits": 128}}, "f32"),
        {"LDG.E.128": 8, "STG.E.128": 8},
    ),
    # f32 is the widest: 4 elements at a time are 64 bits of S; B has no N, and X is contiguous the other way
    "dtypes and broadcasts": (
        of(
            {"S": "MN", "B": "M", "C": "N", "X": "MN", "D": "MN"},
            "D = S * B + C + X",
            ROWS | {"copy": {"bits": 128}},
            "f32",
            S={"dtype": "bf16"},
            B={"dtype": "f16"},
            X={"major": "M"},
        ),
        {"LDG.E.64": 8, "STG.E.128": 8},
    ),
}  # fmt: skip


def module_of(name: str) -> Module:
    return generate(KERNELS[name][0], "specs/trial.yaml").modules[0]


@pytest.mark.parametrize("name", KERNELS)
def test_threads_make_the_accesses_that_bits_asks_for(name: str, compiler: Compiler) -> None:
    (found,) = compiler([Job(module_of(name).text, "trial", "sm_80", sass=True)])
    assert isinstance(found, Compiled), found
    assert found.artefact.sass is not None
    counts, expected = mnemonics(found.artefact.sass), KERNELS[name][1]
    assert {kind: counts[kind] for kind in expected} == expected, counts
    assert counts.total() and not [k for k in counts if k.startswith(("LDL", "STL"))], "values stay in registers"


@pytest.mark.parametrize("name", KERNELS)
def test_every_size_is_covered_once(name: str, tmp_path: Path) -> None:
    """On sizes from 1 to more than a tile, around its end, in padded rows: the emulator stops at what lies outside."""
    module = module_of(name)
    assert isinstance(module.plan, ElementwisePlan)
    path = tmp_path / "trial.py"
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    derived = derive_cases(module.plan)
    cases = [case for case in derived if prod(case.sizes.values()) <= 1 << 13]
    assert len(cases) > 8
    for case in cases:
        result = verify_case(module.plan, case, loaded, executor)
        assert result.status == "passed", (case.name, result)
