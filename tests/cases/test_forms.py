"""Cases whose kernels differ in constants alone: their functions stand in the module once, and compile as their own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.codegen.formatting import WIDTH
from cutegen.verification.executor import load_module

GEMM = """\
cutegen: 1
kernel: gemm
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
"""
BIAS = "  bias: {shape: [N], dtype: bf16}\n  C: {"
BIASED = GEMM.replace("  C: {", BIAS).replace("C = A @ B.T", "C = silu(A @ B.T + bias)")
ROWS = [
    "{tiler: {M: 16, N: 64}, mma: {atom: wgmma, rows: N}, warps: {consumers: 1}}",
    "{tiler: {M: 32, N: 128}, mma: {atom: wgmma, rows: N}, warps: {consumers: 2}}",
    "{tiler: {M: 128, N: 128}, mma: {atom: wgmma, rows: N}, warps: {consumers: 2}}",
    "{tiler: {M: 96, N: 64}, mma: {atom: wgmma, rows: N}, warps: {consumers: 1}}",
]
SHARED = [  # by a cluster
    "{tiler: {M: 128, N: 224}, mma: {atom: wgmma, rows: M}, warps: {consumers: 2}, cluster: {M: 2}}",
    "{tiler: {M: 192, N: 160}, mma: {atom: wgmma, rows: M}, warps: {consumers: 3}, cluster: {M: 2}}",
    "{tiler: {M: 64, N: 256}, mma: {atom: wgmma, rows: M}, warps: {consumers: 1}, cluster: {M: 4}}",
]
SPLIT = [
    "{tiler: {M: 64, N: 128}, mma: {atom: wgmma, rows: N}, warps: {consumers: 1}, cluster: {K: 2}}",
    "{tiler: {M: 64, N: 128}, mma: {atom: wgmma, rows: N}, warps: {consumers: 2}, cluster: {K: 4}}",
]
PINGPONG = [
    "{tiler: {M: 64, N: 160}, mma: {atom: wgmma, rows: M}, warps: {roles: pingpong}, cluster: {M: 2}}",
    "{tiler: {M: 128, N: 128}, mma: {atom: wgmma, rows: M}, warps: {roles: pingpong}, cluster: {M: 2}}",
    "{tiler: {M: 64, N: 256}, mma: {atom: wgmma, rows: M}, warps: {roles: pingpong}, cluster: {M: 2}}",
]
APART = "cluster: {M: 1, N: 1}"
EITHER = [  # rows of the product that are rows of the output, and in turn
    f"{{tiler: {{M: 128, N: 128}}, mma: {{atom: wgmma, rows: M}}, warps: {{consumers: 2}}, {APART}}}",
    f"{{tiler: {{M: 64, N: 160}}, mma: {{atom: wgmma, rows: M}}, warps: {{roles: pingpong}}, {APART}}}",
]
MANY = [*ROWS, *SHARED, *SPLIT, *PINGPONG]


def of_cases(schedules: list[str], text: str = GEMM) -> Module:
    """The module with a case for each schedule: for up to 128 rows, up to 256, and so on."""
    bounds = [f"for: {{M: '<= {128 * number}'}}, " for number in range(1, len(schedules))]
    cases = [one.replace("{", "{" + bound, 1) for one, bound in zip(schedules, [*bounds, ""], strict=True)]
    return _module("".join((text, "schedule:\n", *(f"  - {case}\n" for case in cases))))


@lru_cache
def _module(text: str) -> Module:
    (module,) = generate(text, "x.yaml").modules
    return module


def kernels(module: Module) -> list[str]:
    """The names of the functions that are kernels."""
    functions = [node for node in ast.parse(module.text).body if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if any(ast.unparse(d) == "cute.kernel" for d in f.decorator_list)]


def ptx(module: Module, folder: Path) -> list[str]:
    """The PTX of each kernel, in the order of the cases, without its name, its number and where its source stands."""
    pytest.importorskip("cutlass")
    from cutegen.emulator.host.builds import build

    folder.mkdir()
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    text = build(load_module(path), "sm_90a", lines=False).ptx
    found = []
    for entry in re.split(r"(?=\.visible \.entry )", text)[1:]:
        (name,) = re.findall(r"\A\.visible \.entry (\w+)\(", entry)
        lines = re.sub(r"\$L__BB\d+_", "$", entry.replace(name, "kernel")).splitlines()
        found.append("\n".join(line for line in lines if not line.lstrip().startswith((".loc", ".file", "//"))))
    return found


@pytest.mark.parametrize(
    "text, schedules",
    [
        *sampled([(BIASED, ROWS[:2]), (GEMM, ROWS), (GEMM, SPLIT), (GEMM, PINGPONG), (BIASED, SHARED)], every=5),
        (BIASED, [ROWS[1], *SPLIT]),
        (BIASED, EITHER),
    ],
)
def test_the_ptx_of_each_case_is_that_of_the_case_as_a_spec_of_its_own(
    text: str, schedules: list[str], tmp_path: Path
) -> None:
    module = of_cases(schedules, text)
    assert kernels(module) == ["gemm_kernel"]
    shared = ptx(module, tmp_path / "cases")
    own = [ptx(_module(f"{text}schedule: {one}\n"), tmp_path / str(i)) for i, one in enumerate(schedules)]
    assert [[one] for one in shared] == own
    assert len(set(shared)) == len(schedules)


@pytest.mark.parametrize(
    ("text", "turned", "others"),
    [(BIASED, [ROWS[1]], EITHER[:1]), (GEMM, [ROWS[1], SPLIT[0]], EITHER), (BIASED, [ROWS[1], SPLIT[0]], EITHER)],
)
def test_a_kernel_whose_operands_have_either_part_has_the_ptx_of_each_but_for_their_order(
    text: str, turned: list[str], others: list[str], tmp_path: Path
) -> None:
    """The operand with the rows of the product is the first parameter, whichever tensor it is."""
    schedules, some = [*turned, *others], len(turned)
    module = of_cases(schedules, text)
    assert kernels(module) == ["gemm_kernel"]
    shared = ptx(module, tmp_path / "cases")
    own = [ptx(_module(f"{text}schedule: {one}\n"), tmp_path / str(i))[0] for i, one in enumerate(schedules)]
    assert shared[some:] == own[some:]
    assert shared[:some] != own[:some]
    other = {"OPERAND0": "OPERAND1", "OPERAND1": "OPERAND0"}
    for one, alone in zip(shared[:some], own[:some], strict=True):
        assert re.sub(r"OPERAND\d", lambda found: other[found[0]], with_operands(one)) == with_operands(alone)


def with_operands(text: str) -> str:
    """PTX that has the sizes of operands by name, not in registers; of these the others are numbered as they come."""
    load = r"\tld\.param\.b32 \t(%r\d+), \[kernel_param_([01])(\+\d+)?\];\n"
    sizes = {register: f"OPERAND{number}{offset}" for register, number, offset in re.findall(load, text)}
    numbers: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return sizes.get(found[0]) or numbers.setdefault(found[0], f"%{found[1]}_{len(numbers)}")

    return re.sub(r"%(r|rd|rs|p|f|fd)\d+\b", renamed, re.sub(load, "", text))


def test_twelve_cases_of_four_forms_have_one_kernel(tmp_path: Path) -> None:
    module = of_cases(MANY)
    assert kernels(module) == ["gemm_kernel"]
    assert len(module.text.splitlines()) <= 1000
    (tmp_path / "gemm.py").write_text(module.text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        result = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, "."], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_fields_are_what_differs_and_all_that_functions_have_of_it() -> None:
    """Equal values stay constants of the module, and derived values are not fields."""
    text = of_cases([*ROWS[:2], *SHARED[:2]]).text
    tree = ast.parse(text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assert [name for name in classes if not name.startswith("_")] == ["Case"]
    own = classes["Case"].body
    fields = {line.target.id for line in own if isinstance(line, ast.AnnAssign)}  # type: ignore[union-attr]
    assert {"BLK_M", "CONSUMERS", "STAGES", "PRODUCER_REGISTERS", "EXCHANGED", "PEERS", "CLUSTER_M"} <= fields
    assert not {"THREADS", "PIECES", "CLUSTER_N"} & fields and "\nCLUSTER_N = 1\n" in text
    kernel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "gemm_kernel")
    used = {
        node.attr for node in ast.walk(kernel) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "case"
    }
    derived = {line.targets[0].id for line in own if isinstance(line, ast.Assign)}  # type: ignore[attr-defined]
    assert "PIECES" in derived and used <= fields | derived


def test_a_line_of_a_shared_function_is_of_each_case() -> None:
    module = of_cases(ROWS[:2])
    line = next(i for i, text in enumerate(module.text.splitlines(), 1) if "setmaxregister_increase" in text)
    keys = [region.key for region in module.regions if region.first_line <= line <= region.last_line]
    assert {f"schedule.{number}.warps.registers" for number in range(2)} <= set(keys)
    innermost = module.region_at(line)
    assert innermost is not None and innermost.key == "schedule.0.warps.registers"


def test_names_of_the_spec_are_no_fields() -> None:
    """A local of `compute` gets another name where it has that of the parameter, or of a field. A scalar keeps its
    name: the parameter gets another one, and where a field has it, the cases share no functions.
    """
    compute = "\n".join(("compute:", "  - case = A @ B.T", "  - ROTATES = case * 2", "  - C = ROTATES * case"))
    local = of_cases(ROWS[:2], GEMM.replace("compute: C = A @ B.T", compute))
    assert kernels(local) == ["gemm_kernel"]
    (kernel,) = (n for n in ast.parse(local.text).body if isinstance(n, ast.FunctionDef) and n.name == "gemm_kernel")
    stored = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert "ROTATES_value" in stored and not {"case", "ROTATES"} & stored
    scalars = GEMM.replace("compute: C = A @ B.T", "scalars: {case: f32}\ncompute: C = A @ B.T * case")
    shared = of_cases(ROWS[:2], scalars)
    assert kernels(shared) == ["gemm_kernel"]
    (kernel,) = (n for n in ast.parse(shared.text).body if isinstance(n, ast.FunctionDef) and n.name == "gemm_kernel")
    types = {one.arg: ast.unparse(one.annotation) for one in kernel.args.args if one.annotation is not None}
    assert (types["case"], types["case_1"]) == ("cutlass.Float32", "cutlass.Constexpr")
    assert kernels(of_cases(ROWS[:2], scalars.replace("case", "ROTATES"))) == ["gemm_kernel_1", "gemm_kernel_2"]


def test_a_case_of_the_table_has_a_line_and_what_repeats_another_constant_has_no_column() -> None:
    tensors = "  R: {shape: [M, N], dtype: bf16, align: 16}\n  C: {"
    text = GEMM.replace("  C: {", tensors).replace("A @ B.T", "A @ B.T + R") + "targets: [sm_90a]\n"
    (module,) = generate(text, "x.yaml").modules
    table = module.text[module.text.index("\nCASES = (") :].split("\n)\n")[0].split("\n")[2:]
    assert len(table) > 20 and all(row.startswith("    Case(") and row.endswith("),") for row in table)
    assert "KIND_R:" not in module.text and "    KIND_R = property(lambda self: self.KIND_C)" in module.text
    assert "slices of the epilogue in these columns" in module.text  # though `slices` may have a number
