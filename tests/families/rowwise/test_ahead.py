"""Loads for the next rows are waited for when their turn comes, and not where they are issued."""

from __future__ import annotations

import re

import pytest
from compiling_kit import Compiler

from cutegen.codegen import generate
from cutegen.compiling import Compiled, Job

pytest.importorskip("cutlass")

SPEC = """\
cutegen: 1
kernel: ahead
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X * rsqrt(mean(X * X, N))
schedule: {keep: registers, threads_per_row: 32, scheduler: {kind: persistent, blocks: 3}}
static: {N: SIZE}
targets: [sm_80]
"""


@pytest.mark.parametrize("size", [768, 1024])
def test_no_value_is_touched_before_its_row(size: int, compiler: Compiler) -> None:
    """With 24 values of a thread the compiler would split each word where it is loaded; with 32 it does not."""
    (module,) = generate(SPEC.replace("SIZE", str(size)), "x.yaml").modules
    (made,) = compiler([Job(module.text, "ahead", "sm_80")])
    assert isinstance(made, Compiled), made
    (wide,) = (k for k in made.artefact.ptx.split(".visible .entry")[1:] if "ld.global.v4.b32" in k)
    lines = [line.strip() for line in wide.splitlines()]
    loads = [i for i, line in enumerate(lines) if line.startswith("ld.global.v4.b32")]
    assert len(loads) == 2 * size // 32 // 8  # of the first rows, and of the next
    first, last = loads[len(loads) // 2], loads[-1]
    end = next(i for i in range(last, len(lines)) if lines[i].startswith("$L__"))
    assert not [line for line in lines[first:end] if re.match(r"mov\.b32\s+\{", line)]


@pytest.mark.parametrize(
    ("dtype", "size", "threads", "called"),
    [
        ("bf16", 1024, 32, set()),
        ("bf16", 768, 32, {"values_of", "clear_values"}),  # several rows for a block: there are masks
        ("bf16", 3072, 128, {"values_of"}),
        ("f8e4m3", 3072, 128, {"values_of", "clear_values"}),  # of narrow accesses
    ],
)
def test_what_is_called_is_defined(dtype: str, size: int, threads: int, called: set[str]) -> None:
    text = SPEC.replace("SIZE", str(size)).replace("row: 32", f"row: {threads}").replace("sm_80", "sm_90a")
    text = text.replace("dtype: bf16}", f"dtype: {dtype}}}")
    (module,) = generate(text.replace("schedule: {", "schedule: {cluster: {N: 1}, "), "x.yaml").modules
    for name in ("values_of", "clear_values"):
        assert (f"def {name}(" in module.text) == (f"{name}(tXrX)" in module.text) == (name in called)
