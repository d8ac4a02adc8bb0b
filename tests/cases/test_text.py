"""Modules of several cases as text: names of the spec meet no others there, and what is long is laid out."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.codegen.formatting import WIDTH
from cutegen.verification.agenda import Extent
from cutegen.verification.executor import EmulatorExecutor
from cutegen.verifying.kernel import verify_kernel

NAMED = """\
cutegen: 1
kernel: launch_3
op: rowwise
tensors:
  target: {shape: [VECTOR_1, N], dtype: f32}
  Y: {shape: [N], dtype: f32, role: out}
  Y_1: {shape: [VECTOR_1, N], dtype: f32, role: out}
scalars: {launch_1: f32, all_hold: f32, TILER_2: i32, workspace_Y_2: f32, arch: f32}
compute:
  - BLOCKS_2 = target * launch_1 + all_hold
  - Y = sum(BLOCKS_2, VECTOR_1)
  - Y_1 = BLOCKS_2 * sum(BLOCKS_2, N) * TILER_2 + workspace_Y_2 + arch
schedule:
  - for: {target: sm_90a, N: ["<= 64", "% 4 == 0"], align: 16}
    threads_per_row: 8
    tiler: {VECTOR_1: 2, N: 32}
    scheduler: {blocks: 4}
  - for: {VECTOR_1: [">= 8", "% 2 == 0"]}
    keep: reload
    threads_per_row: 16
    tiler: {VECTOR_1: 4, N: 64}
    scheduler: {blocks: 2}
  - keep: reload
    threads_per_row: 32
    scheduler: {blocks: 3}
targets: [sm_80, sm_90a]
"""
CLUSTERS = """\
cutegen: 1
kernel: scaled
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * sum(X, N) - max(X, N)
divisible: {N: 4}
schedule:
  - for: {N: "<= 512"}
    keep: {keep}
    threads_per_row: 64
    tiler: {N: 256}
    cluster: {N: 2}
  - for: {N: "<= 2048"}
    keep: {keep}
    threads_per_row: 64
    tiler: {N: 256}
    cluster: {N: 8}
  - keep: reload
    threads_per_row: 64
    tiler: {N: 512}
    cluster: {N: 2}
targets: [sm_90a]
"""
LONG = """\
cutegen: 1
kernel: long
op: elementwise
tensors:
  first_of_two: {shape: [Batch, Channel, Lines, Columns], dtype: i32}
  of_channels: {shape: [Channel], dtype: i64}
  the_result: {shape: [Batch, Channel, Lines, Columns], dtype: i32, role: out, major: Channel}
compute: the_result = first_of_two + cast(of_channels, i32)
schedule:
  - for: {Batch: 1, Channel: "> 3", Lines: "% 3 == 0", Columns: [">= 8", "% 4 == 0"]}
  - for: {Channel: "% 3 == 0", Batch: "% 2 == 0", align: 32}
  - for: {target: sm_90a, Channel: "% 4 == 0", Columns: "% 2 == 0", Lines: "% 2 == 0"}
  - {}
targets: [sm_80, sm_90a]
"""


def test_names_of_the_spec_are_no_others_in_the_module() -> None:
    """No function has a name of its own that the module defines, and `launch` gives none of its parameters away."""
    (module,) = generate(NAMED, "x.yaml").modules
    compile(module.text, "x.py", "exec")  # which no two parameters of one name do
    tree = ast.parse(module.text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    defined = [f.name for f in functions]
    defined += [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]  # type: ignore[attr-defined]
    assert len(defined) == len(set(defined))
    for function in functions:
        arguments = {argument.arg for argument in function.args.args}
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        assert not (arguments | stored) & set(defined), function.name
        if function.name == "launch":
            assert not arguments & stored


def test_what_is_long_is_laid_out(tmp_path: Path) -> None:
    for number, text in enumerate((NAMED, LONG)):
        (module,) = generate(text, "x.yaml").modules
        (tmp_path / f"{number}.py").write_text(module.text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        result = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, "."], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


@pytest.mark.parametrize("keep", ["registers", "smem"])
def test_clusters_of_any_size_have_one_kernel_and_are_right(keep: str, tmp_path: Path) -> None:
    """A kernel that differs from another one in the size of its cluster alone is that one, called with another size."""
    pytest.importorskip("cutlass")
    (module,) = generate(CLUSTERS.replace("{keep}", keep), "x.yaml").modules
    functions = [node for node in ast.parse(module.text).body if isinstance(node, ast.FunctionDef)]
    kernels = [f.name for f in functions if any(ast.unparse(d) == "cute.kernel" for d in f.decorator_list)]
    assert kernels == ["scaled_kernel_1", "scaled_kernel_3"]
    path = tmp_path / "scaled.py"
    path.write_text(module.text, encoding="utf-8")
    report = verify_kernel(module.plan, path, EmulatorExecutor(), extent=Extent(quick=True))
    assert report.ok, report
    assert {place for place in range(1, 4) if any(f"case {place} " in case.name for case in report.cases)} == {1, 2, 3}
