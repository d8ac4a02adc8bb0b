"""Rows that are read and written: no thread reads what another one may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

CENTRED = """\
cutegen: 1
kernel: centred
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16, role: inout}
compute: X = X - mean(X, N)
schedule: {keep: reload, tiler: {M: 1, N: 1024}, threads_per_row: 128, cluster: {N: CLUSTER}}
targets: [sm_90a]
"""


@pytest.mark.parametrize(("cluster", "backwards"), [(1, True), (2, False)])
def test_blocks_of_a_cluster_write_the_pieces_that_they_read(cluster: int, backwards: bool, tmp_path: Path) -> None:
    """Of a row of three pieces one block has the first and the last, either way; of one of two the other one's."""
    (module,) = generate(CENTRED.replace("CLUSTER", str(cluster)), "x.yaml").modules
    assert isinstance(module.plan, RowwisePlan)
    assert ("Backwards" in module.text) == backwards
    path = tmp_path / "centred.py"
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    for size in (2048, 3072):
        case = Case("pieces", "", {"M": 2, "N": size}, "padded", "integers")
        assert verify_case(module.plan, case, loaded, executor).message == ""


def test_a_cluster_walks_backwards_where_nothing_is_written_that_it_reads() -> None:
    text = CENTRED.replace("CLUSTER", "2").replace("inout}", "in}\n  Y: {shape: [M, N], dtype: bf16, role: out}")
    (module,) = generate(text.replace("compute: X =", "compute: Y ="), "x.yaml").modules
    assert "Backwards" in module.text
