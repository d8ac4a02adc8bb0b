"""The cache hint of a spec is on its accesses in the PTX and on no others, and changes no result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from cutegen.atoms.copies import EvictPriority
from cutegen.codegen import generate
from cutegen.emulator.host.builds import build
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SPEC = """
cutegen: 1
kernel: cached
op: elementwise
tensors:
  S: {shape: [M, N], dtype: DTYPE, align: ALIGN}
  B: {shape: [N], dtype: DTYPE, align: ALIGN}
  D: {shape: [M, N], dtype: DTYPE, align: ALIGN, role: out}
compute: D = S + B
schedule: {value_layout: "(2,4):(4,1)", copy: {evict_priority: PRIORITY}}
divisible: {N: 8}
targets: [sm_80]
"""


@pytest.mark.parametrize(("dtype", "align"), [("f32", 16), ("bf16", 2), ("i8", 4)])
@pytest.mark.parametrize("priority", get_args(EvictPriority))
def test_priorities_of_the_first_cache(
    priority: str, dtype: str, align: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows a thread of S and of D; B broadcasts, and is read again by other blocks."""
    text = SPEC.replace("DTYPE", dtype).replace("ALIGN", str(align)).replace("PRIORITY", priority)
    module = generate(text, "x.yaml").modules[0]
    path = tmp_path / "cached.py"
    path.write_text(module.text, encoding="utf-8")
    loaded = load_module(path)
    made = build(loaded, "sm_80", lines=False)
    accesses = re.findall(r"\b(ld|st)\.global(\S*)", made.ptx)
    hinted = [(op, found) for op, found in accesses if "L1::" in found]
    assert all(f".L1::{priority}." in found for _, found in hinted)
    vectors = {"f32": 1, "bf16": 4, "i8": 1}[dtype]  # accesses for four neighbours
    if priority == "evict_normal":
        assert not hinted and {op for op, _ in accesses} == {"ld", "st"}
    else:
        kinds = [op for op, _ in hinted]
        assert kinds.count("ld") == kinds.count("st") == 2 * vectors
        assert [op for op, found in accesses if "L1::" not in found] == ["ld"] * 2 * vectors  # those of B
    cases = [c for c in derive_cases(module.plan) if c.name in ("primes", "all one more")]
    assert cases
    monkeypatch.setattr("cutegen.emulator.host.modules.builds", lambda *_: (made,))
    executor = EmulatorExecutor(lines=False)
    for case in cases:
        assert verify_case(module.plan, case, loaded, executor).status == "passed"
