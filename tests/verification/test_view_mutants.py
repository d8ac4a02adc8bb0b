"""Kernels on packed arguments that are wrong in one place of `launch` or `reference`: verification fails each."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

pytest.importorskip("cutlass")

from cutegen.codegen import Module, generate
from cutegen.verification import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SPECS = Path(__file__).parents[2] / "specs"
CASES = ("all one more", "primes", "primes, narrow")  # that are run
HEADS = "        cute.make_layout((mQKV.shape[0], size_H, 64), stride=(mQKV.stride[0], mQKV.stride[1], "
TOKENS = (
    "        cute.make_layout(\n            (mQKV.shape[0], mQKV.shape[2], 128), stride=(mQKV.stride[0], mQKV.stride["
)
MUTANTS = {
    "swiglu_packed": (
        ("a view starts one element further on", "mGU.iterator + size_N,", "mGU.iterator + size_N - 1,"),
        ("wide accesses exchange the halves", "_aligned(mG, VECTOR),", "_aligned(mU, VECTOR),"),
        ("narrow accesses exchange them", "mG, mU, mY, narrow_layout", "mU, mG, mY, narrow_layout"),
        ("a view is as long as the argument", "size_N = mGU.shape[1] // 2", "size_N = mGU.shape[1] // 2 - 1"),
        ("`reference` takes the other half", "g = gu[:, :size_N]", "g = gu[:, size_N:]"),
        ("rows are a view apart", "stride=(mGU.stride[0], 1))\n    )\n    # U", "stride=(size_N, 1))\n    )\n    # U"),
    ),
    "rope_packed": (
        ("odd elements are even ones", "mQKV.iterator + 1", "mQKV.iterator + 0"),
        ("a head of v is turned", "size_H = mQKV.shape[1] - 8", "size_H = mQKV.shape[1] - 7"),
        ("elements are neighbours", f"mQKV.iterator + 1,\n{HEADS}2", f"mQKV.iterator + 1,\n{HEADS}1"),
        ("`reference` turns a head of v", "size_H = qkv.shape[1] - 8", "size_H = qkv.shape[1] - 7"),
    ),
    "qk_norm_packed": (
        ("q is k", "mQKV.iterator,", "mQKV.iterator + mQKV.stride[1],"),
        ("v is written", "mQKV.iterator + mQKV.stride[1],", "mQKV.iterator + 2 * mQKV.stride[1],"),
        ("heads lie as tokens do", f"mQKV.iterator,\n{TOKENS}2], 1)", f"mQKV.iterator,\n{TOKENS}1], 1)"),
        ("`reference` changes v", "qkv[:, 1].copy_(", "qkv[:, 2].copy_("),
    ),
}


@lru_cache(maxsize=4)
def module_of(name: str) -> Module:
    text = (SPECS / f"{name}.yaml").read_text(encoding="utf-8").replace("op:", "targets: [sm_80]\nop:", 1)
    return generate(text, f"specs/{name}.yaml").modules[0]


def failures(folder: Path, name: str, text: str) -> list[str]:
    """The messages of cases that fail, of a few."""
    module = module_of(name)
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    plan, executor = module.plan, EmulatorExecutor()
    chosen = [case for case in derive_cases(plan) if case.name in CASES]
    loaded = load_module(path)
    found = [verify_case(plan, case, loaded, executor) for case in chosen]
    return [report.message for report in found if report.status == "failed"]


@pytest.mark.parametrize("name", MUTANTS)
def test_the_kernel_itself_is_right(tmp_path: Path, name: str) -> None:
    assert failures(tmp_path, name, module_of(name).text) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param(name, old, new, id=f"{name}: {what}")
        for name, several in MUTANTS.items()
        for what, old, new in several
    ],
)
def test_a_wrong_one_is_not(tmp_path: Path, name: str, old: str, new: str) -> None:
    text = module_of(name).text
    assert text.count(old) == 1, "the mutant must say what it changes"
    found = failures(tmp_path, name, text.replace(old, new))
    of_reference = "gu[" in old or "qkv" in old  # where arguments are in lower case
    assert found and all(message.startswith("reference") == of_reference for message in found), found
