"""The layouts that comments state are the ones that CuTeDSL has at that line."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from types import ModuleType

import pytest

from cutegen.codegen import generate
from cutegen.compiling.unassembled import unassembled_code
from cutegen.verification.executor import load_module

pytest.importorskip("cutlass")
pytest.importorskip("torch")

GEMM = """
cutegen: 1
kernel: probe_gemm
op: gemm
tensors:
  A: {shape: [M, K], dtype: %(dtype)s, major: %(a)s, align: 16}
  B: {shape: [N, K], dtype: %(dtype)s, major: %(b)s, align: 16}
  C: {shape: [M, N], dtype: %(dtype)s, major: %(c)s, align: 16, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: %(m)d, N: %(n)d, K: %(k)d}}
static: {M: 256, N: 128, K: 64}
targets: [sm_80]
"""

ELEMENTWISE = """
cutegen: 1
kernel: probe_elementwise
op: elementwise
tensors:
  S: {shape: [M, N], dtype: %(dtype)s, align: 16}
  D: {shape: [M, N], dtype: %(dtype)s, align: 16, role: out}
compute: D = S
schedule: %(schedule)s
divisible: {N: 8}
targets: [sm_80]
"""


def compile_unassembled(module: ModuleType) -> None:
    import cutlass.cute as cute

    with unassembled_code():
        module.compile_for(module.TARGETS[0], options=(cute.PtxasOptions("-O0"),))


def printed_shapes(text: str, names: dict[str, str], folder: Path) -> dict[str, str]:
    """Shapes that CuTeDSL prints for variables, each right after the line that starts with the given text."""
    lines = []
    for line in text.splitlines():
        lines.append(line)
        for name, start in names.items():
            if line.strip().startswith(start):
                pad = line[: len(line) - len(line.lstrip())]
                lines.append(f'{pad}print("SHAPE {name}", {name}.shape)')
    path = folder / "instrumented.py"
    path.write_text("\n".join(lines) + "\n")
    module = load_module(path)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        compile_unassembled(module)
    found = re.findall(r"^SHAPE (\w+) (.*)$", said.getvalue(), re.MULTILINE)
    return {name: shape.replace(" ", "").replace(",)", ")") for name, shape in found}


def commented(text: str) -> dict[str, str]:
    """`name: shape` pairs in comments."""
    comments = " ".join(line.split("#", 1)[1] for line in text.splitlines() if line.strip().startswith("#"))
    return dict(re.findall(r"(t[A-Z][gsr][A-Z]): (\((?:[^()]|\([^()]*\))*\))", comments))


@pytest.mark.parametrize(
    ("dtype", "a", "b", "c", "m", "n", "k"),
    [
        ("f32", "M", "N", "M", 128, 128, 8),
        ("f32", "K", "N", "N", 64, 128, 16),
        ("f16", "M", "K", "N", 128, 64, 16),
        ("f64", "M", "N", "M", 64, 64, 8),
        ("f32", "K", "K", "N", 128, 128, 8),
        ("f32", "K", "K", "N unaligned", 128, 128, 8),
    ],
)
def test_gemm_comments(dtype: str, a: str, b: str, c: str, m: int, n: int, k: int, tmp_path: Path) -> None:
    values = locals() | {"c": c[0]}
    text = (
        generate((GEMM % values).replace("16, role", "4, role" if c[1:] else "16, role"), "specs/probe.yaml")
        .modules[0]
        .text
    )
    assert ("stride=((4, 1, 32)" in text) == bool(c[1:])
    said = commented(text)
    names = {
        "tAgA": "tAgA = thr_copy_A",
        "tAsA": "tAsA = thr_copy_A",
        "tBgB": "tBgB = thr_copy_B",
        "tBsB": "tBsB = thr_copy_B",
        "tCsA": "tCsA = thr_mma",
        "tCsB": "tCsB = thr_mma",
        "tCgC": "tCgC = thr_mma",
    }
    assert set(said) == set(names)
    assert said == printed_shapes(text, names, tmp_path)


def test_seed_004_values(tmp_path: Path) -> None:
    """The blog post on SGEMM prints these for M, N, K = 256, 128, 64, m-, n- and m-major."""
    values = {"dtype": "f32", "a": "M", "b": "N", "c": "M", "m": 128, "n": 128, "k": 8}
    said = commented(generate(GEMM % values, "specs/probe.yaml").modules[0].text)
    assert said["tAgA"] == said["tBgB"] == "((4,1),1,1,8)"
    assert said["tAsA"] == said["tBsB"] == "((4,1),1,1,3)"


@pytest.mark.parametrize(
    ("dtype", "schedule", "shape"),
    [
        ("bf16", "{partition: thread_value, thread_layout: '(32,8):(8,1)', value_layout: '(4,8):(8,1)'}", "((8,4))"),
        ("f32", "{partition: thread_value, thread_layout: '(4,32):(32,1)', value_layout: '(4,4):(4,1)'}", "((4,4))"),
        ("bf16", "{partition: inner_outer, tiler: {M: 32, N: 256}, thread_layout: '(8,32):(32,1)'}", "((1,32))"),
        (
            "bf16",
            "{partition: inner_outer, tiler: {M: 32, N: 256}, thread_layout: '(8,32):(32,1)', copy: {bits: 128}}",
            "((8,4))",
        ),
        ("bf16", "{partition: inner, tiler: {M: 1, N: 16}, threads: 256}", "((8,2))"),
    ],
)
def test_elementwise_fragments(dtype: str, schedule: str, shape: str, tmp_path: Path) -> None:
    """The values of a thread: the vector, then the number of vectors."""
    generated = generate(ELEMENTWISE % {"dtype": dtype, "schedule": schedule}, "specs/probe.yaml").modules[0]
    found = printed_shapes(generated.text, {"tDgS": "tDgS = vectors("}, tmp_path)
    vector, count = re.fullmatch(r"\(\((\d+),\(?([\d,]+)\)?\)\)", shape).groups()  # type: ignore[union-attr]
    point = generated.plan.pointwise  # type: ignore[attr-defined]
    assert (point.vector, point.vectors) == (int(vector), int(count))
    numbers = [int(x) for x in re.findall(r"\d+", found["tDgS"])]
    assert numbers[0] == point.vector
    product = 1
    for number in numbers:
        product *= number
    assert product == point.values


@pytest.mark.parametrize(
    ("column", "permutation", "together"),
    [("(8,4,2):(4,1,32)", "8", True), ("(8,8):(8,1)", "8", True), ("(4,16):(16,1)", "8", False)],
)
def test_neighbours_of_a_column_are_told_of_where_there_are_any(column: str, permutation: str, together: bool) -> None:
    values = {"dtype": "f32", "a": "K", "b": "K", "c": "N", "m": 64, "n": 64, "k": 8}
    mma = f'{{thread_layout: "(8,8,1):(8,1,0)", permutation: {{N: "{permutation}"}}}}'
    schedule = f'mma: {mma}, smem: {{B: {{layout: "{column}"}}}}, '
    text = generate((GEMM % values).replace("schedule: {", "schedule: {" + schedule), "x.yaml").modules[0].text
    assert text.count("# Within a column, ") == 1
    assert ("the elements of one access of a thread are contiguous" in text) == together
