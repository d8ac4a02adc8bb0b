"""Rows that accesses of 128 bits do not fit: they have accesses of 32 bits where those fit, else of one element."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from compiling_kit import Compiler
from kept_kit import module_of, plan_of, problems_in

from cutegen import emulator
from cutegen.compiling import Compiled, Job
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import load_module

pytest.importorskip("cutlass")

SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  S: {shape: [M], dtype: f32, role: out}
compute: S = log(sum(exp(X), N))
schedule: {keep: registers, tiler: {M: 1, N: 1024}, threads_per_row: 128, shorter: fewer_threads, longer: refuse}
targets: [sm_80]
"""
BACKWARD = """\
cutegen: 1
kernel: backward
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  dY: {shape: [M, N], dtype: bf16}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
compute:
  - dX = dY - mean(dY * X, N)
  - dW = sum(dY * X, M)
schedule: {keep: registers, tiler: {M: 4, N: 512}, threads_per_row: 32, shorter: fewer_threads, longer: refuse}
targets: [sm_80]
"""


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("dtype: bf16", "dtype: bf16", 2),
        ("dtype: bf16", "dtype: f16", 2),
        ("dtype: bf16", "dtype: i8", 4),
        ("dtype: bf16", "dtype: f32", 0),  # an element is a word
        (", shorter: fewer_threads, longer: refuse}", "}\nstatic: {N: 500}", 0),  # whose accesses fit 500
        ("targets:", "divisible: {N: 8}\ntargets:", 2),  # at any address
        ("longer: refuse", "longer: refuse, copy: {fallback: refuse}", 0),
        ("longer: refuse", "longer: refuse, copy: {bits: 32}", 0),  # the wide accesses are of words
    ],
)
def test_elements_of_a_word(old: str, new: str, word: int) -> None:
    text = SUMS.replace(old, new)
    plan = plan_of(text)
    assert plan.word == word
    assert any("words" in way.way for way in plan.ways) == bool(word)
    assert ("elif words_fit:" in module_of(text).text) == bool(word)


def _cases(text: str, way: str) -> list[Case]:
    return [case for case in derive_cases(plan_of(text)) if way in case.name.split(", ")]


def test_sizes_of_cases_of_words_are_words() -> None:
    cases = _cases(SUMS, "words")
    assert cases and not [case for case in cases if case.sizes["N"] % 2]
    assert [case for case in cases if case.sizes["N"] % 8]


@pytest.mark.parametrize(
    ("way", "old", "new"),
    [
        ("words", "words_fit = (mX.shape[1] % WORD == 0)", "words_fit = (mX.shape[1] >= 0)"),
        ("narrow", "own(value_idx), m.shape[1] - 1)", "own(value_idx), m.shape[1])"),
        ("narrow", "own(value_idx), m.shape[1] - 1)", "own(value_idx), m.shape[1] - 2)"),
        ("narrow", "[cutlass.min(at, size - 1) for", "[at for"),
    ],
    ids=["odd rows in words", "one beyond the end", "the last one twice", "rows beyond the end"],
)
def test_wrong_bounds_are_seen(way: str, old: str, new: str, tmp_path: Path) -> None:
    cases = _cases(SUMS, "words") + _cases(SUMS, "narrow")
    problem = next(problems_in(SUMS, cases, tmp_path, {old: new}))
    failing = [case for case in cases if problem.startswith(f"{case.name}:")]
    assert not list(problems_in(SUMS, failing, tmp_path))


def test_a_tensor_that_is_written_has_no_element_read_by_other_threads(tmp_path: Path) -> None:
    """Beyond the end the last element would be read, which its own thread writes."""
    text = BACKWARD.replace("  dX: {shape: [M, N], dtype: bf16, role: out}\n", "")
    text = text.replace("dY: {shape: [M, N], dtype: bf16}", "dY: {shape: [M, N], dtype: bf16, role: inout}")
    text = text.replace("dX = dY", "dY = dY")
    assert re.findall(r" load_each\((\w+),", module_of(text).text) == ["mX"]
    cases = _cases(text, "narrow")
    assert cases and not list(problems_in(text, cases, tmp_path))


def test_rows_of_no_elements_read_none(tmp_path: Path) -> None:
    """Rows of no elements have strides of 1, which no access of several elements fits."""
    path = tmp_path / "sums.py"
    path.write_text(module_of(SUMS).text, encoding="utf-8")
    sums = torch.zeros(3)
    emulator.run(load_module(path), torch.empty(3, 0, dtype=torch.bfloat16), outputs={"s": sums}, kernel="sums")
    assert sums.tolist() == [float("-inf")] * 3


def test_single_elements_are_loaded_without_branches(compiler: Compiler) -> None:
    """Those of the next rows: what is loaded under a branch is merged with half a register at its end, which waits."""
    module = module_of(BACKWARD)
    (made,) = compiler([Job(module.text, "backward", "sm_80")])
    assert isinstance(made, Compiled), made
    kernels = [k for k in made.artefact.ptx.split(".visible .entry")[1:] if "ld.global.b16" in k]
    assert len(kernels) == 1
    runs = re.split(r"^\$L__|\bbra\b", kernels[0], flags=re.MULTILINE)
    loads = [run.count("ld.global.b16") for run in runs if "ld.global.b16" in run]
    assert loads and min(loads) >= plan_of(BACKWARD).values
