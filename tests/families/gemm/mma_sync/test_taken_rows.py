"""Products of rows at places: kernels of them are right on the CPU, and each kind of mistake is found there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cutegen import emulator
from cutegen.choosing.choices import Choices
from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

SPEC = """cutegen: 1
kernel: taken
op: gemm
targets: [sm_80]
tensors:
  A: {shape: [T, K], dtype: bf16, align: 16, at: {T: rows}}
  rows: {shape: [M], dtype: i32}
  B: {shape: [N, K], dtype: bf16, align: 16}
  weight: {shape: [M], dtype: f32}
  C: {shape: [S, N], dtype: bf16, align: 16, role: out, at: {S: slots}}
  slots: {shape: [M], dtype: i64}
compute: C = (A @ B.T) * weight
schedule: {mma: {atom: mma_sync}, tiler: {M: 128, N: 64, K: 32}, pipeline: {stages: 2}}
divisible: {N: 8, K: 8}
"""
GATHERED = SPEC.replace("C: {shape: [S, N]", "C: {shape: [M, N]").replace(", at: {S: slots}", "")
GATHERED = GATHERED.replace("  slots: {shape: [M], dtype: i64}\n", "")
SCATTERED = SPEC.replace("A: {shape: [T, K]", "A: {shape: [M, K]").replace(", at: {T: rows}", "")
SCATTERED = SCATTERED.replace("  rows: {shape: [M], dtype: i32}\n", "")
SINGLE = GATHERED.replace("align: 16", "align: 2").replace("divisible: {N: 8, K: 8}\n", "")  # through registers
ADDED = SPEC.replace("role: out", "role: inout").replace("* weight", "* weight + C + R").replace(
    "  weight", "  R: {shape: [U, N], dtype: bf16, align: 16, at: {U: rows}}\n  weight"
)  # fmt: skip
WEIGHTS = SPEC.replace("weight: {shape: [M]", "weight: {at: {V: slots}, shape: [V]")
TF32 = SPEC.replace("bf16", "f32").replace("atom: mma_sync", "atom: mma_sync, operands: tf32")
FIXED = SPEC.replace(", K: 8}", "}\nstatic: {M: 256, K: 96}")  # without predicates of rows
RIGHT = {
    "gather and scatter": SPEC,
    "gather": GATHERED,
    "scatter": SCATTERED,
    "single elements": SINGLE,
    "added at places": ADDED,
    "weights at places": WEIGHTS,
    "fixed sizes": FIXED,
    "tf32": TF32,
}
TOLD = ("tile", "all one less", "all one more", "primes", "several tiles", "K 1 tiles", "K 3 tiles")
MUTANTS = [
    ("rows in their order", "mrows[row])", "row)"),
    ("the row of another tile", "mrows[row])", "mrows[row % BLK_M])"),
    ("the place of the first row", "offsets[row]", "offsets[0]"),
    ("the place of the row before", "mrows[row])", "mrows[cutlass.max(row - 1, 0)])"),
    ("a place too far", "mrows[row])", "mrows[row] + 1)"),
    ("steps along another mode", "step_A_T = mA.stride[2]", "step_A_T = mA.stride[1]"),
    ("places of rows that do not exist", "if row < mA.shape[0]:", "if row < mA.shape[0] + 1:"),
    ("no predicates of rows", "pred=None if pred is None else pred[None, row, None]", "pred=None"),
    ("stale tiles of k", "tAgA[None, None, None, fetch]", "tAgA[None, None, None, k_tile]"),
    ("rows where slots are", "mrows[row])", "mslots[row, 0])"),
    ("a slot too far", "tCrslots_at[vector])", "tCrslots_at[vector] + 1)"),
    ("the slot of another access", "tCrslots_at[vector]", "tCrslots_at[0]"),
    ("slots of neighbours along N", "stride=((0, VECTOR),)", "stride=((0, 1),)"),
    ("slots of the first slice", "tCgslots[None, part]", "tCgslots[None, 0]"),
    ("rows that do not exist are written", "            if tCpC[vector]:", "            if True:"),
    ("slots are left out", "cutlass.Int64(tCrslots_at[vector])", "cutlass.Int64(0)"),
    ("steps of slots along another mode", "step_C_S = mC.stride[2]", "step_C_S = mC.stride[1]"),
]


def failures(module: Module, text: str, folder: Path) -> Iterator[str]:
    path = folder / "taken.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name.partition(",")[0] in TOLD]
    assert {case.name.partition(",")[0] for case in cases} >= {*TOLD[:4]}
    reports = (verify_case(module.plan, case, loaded, executor) for case in cases)
    yield from (report.message for report in reports if report.message)


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_kernels_are_right(text: str, tmp_path: Path) -> None:
    (module,) = generate(text, "specs/taken.yaml").modules
    assert list(failures(module, module.text, tmp_path)) == []


@pytest.mark.parametrize(("broken", "old", "new"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_mistake_is_found(broken: str, old: str, new: str, tmp_path: Path) -> None:
    (module,) = generate(SPEC, "specs/taken.yaml").modules
    assert old in module.text
    assert next(failures(module, module.text.replace(old, new), tmp_path), ""), broken


def product(folder: Path, rows: list[int], places: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of A, of which others are NaN, times B: what the kernel gives, and torch."""
    (module,) = generate(GATHERED, "specs/taken.yaml").modules
    path = folder / "taken.py"
    path.write_text(module.text, encoding="utf-8")
    taken, generator = torch.tensor(rows, dtype=torch.int32), torch.Generator().manual_seed(1)
    a = torch.full((places, 40), torch.nan, dtype=torch.bfloat16)
    within = taken.clamp(0, places - 1).long()
    a[within] = torch.randn(len(rows), 40, generator=generator).to(torch.bfloat16)
    b = torch.randn(24, 40, generator=generator).to(torch.bfloat16)
    c = torch.zeros(len(rows), 24, dtype=torch.bfloat16)
    inputs = (a, taken, b, torch.ones(len(rows)))
    emulator.run(load_module(path), *inputs, outputs={"c": c}, kernel="taken", target="sm_80")
    return c, (a[within].float() @ b.float().T).to(torch.bfloat16)


@pytest.mark.parametrize(
    "rows",
    [[0, 299], list(range(299, 0, -2)), [7] * 130, [0] * 5 + [299] * 5 + [150]],
    ids=["both ends", "descending", "one row", "repeated"],
)
def test_rows_that_nobody_takes_do_not_count(rows: list[int], tmp_path: Path) -> None:
    found, wanted = product(tmp_path, rows, 300)
    assert not wanted.isnan().any()
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("place", [-1, 300])
def test_the_emulator_stops_at_a_place_out_of_range(place: int, tmp_path: Path) -> None:
    with pytest.raises(emulator.FaultError):
        product(tmp_path, [5, place, 6], 300)


def test_an_explained_kernel_is_a_spec() -> None:
    (module,) = generate(SPEC, "specs/taken.yaml").modules
    (again,) = generate(write_spec(module.plan.spec), "specs/taken.yaml").modules
    assert again.text.split("\n", 3)[3] == module.text.split("\n", 3)[3]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("B: {shape: [N, K], dtype: bf16, align: 16}\n", "B: {shape: [V, K], dtype: bf16, at: {V: cols}}\n"
         "  cols: {shape: [N], dtype: i32}\n", "`B` is taken at places, and is on the right of a product"),
        ("A: {shape: [T, K], dtype: bf16, align: 16, at: {T: rows}}\n  rows: {shape: [M]",
         "A: {shape: [M, T], dtype: bf16, at: {T: rows}}\n  rows: {shape: [K]", "a gemm takes whole rows at places"),
        ("A: {shape: [T, K]", "A: {major: T, shape: [T, K]", "`A` is contiguous along `T`"),
        ("rows: {shape: [M]", "rows: {shape: [L, M]", "`A` is [T, K] and `rows` is [L, M]"),
        ("A @ B.T) * weight", "A @ B.T) * rows", "`rows` holds places of rows"),
        ("A @ B.T) * weight", "A @ B.T) * (A @ D.T)\n", "in a kernel of 2 products"),
    ],
    ids=["right side", "summed mode", "contiguous", "several modes", "places read", "two products"],
)  # fmt: skip
def test_what_is_not_built_is_refused(old: str, new: str, said: str) -> None:
    assert old in SPEC
    text = SPEC.replace(old, new).replace(
        "  weight", "  D: {shape: [N, K], dtype: bf16, align: 16}\n  weight", "D.T" in new
    )
    with pytest.raises(SpecError) as caught:
        generate(text, "specs/taken.yaml")
    found = next(d for d in caught.value.diagnostics if said in d.message)
    assert found.code == "CG143" and found.help


@pytest.mark.parametrize("atom", ["wgmma", "fma"])
def test_other_atoms_refuse_places(atom: str) -> None:
    head = SPEC.partition("schedule:")[0].replace("sm_80", "sm_90a")
    with pytest.raises(SpecError) as caught:
        generate(f"{head}schedule: {{mma: {{atom: {atom}}}}}\n", "specs/taken.yaml")
    assert caught.value.diagnostics[0].code == "CG143"


def test_an_atom_says_why_it_was_not_chosen() -> None:
    """The reason names the tensor, also where A is none of those taken at places."""
    for text, name in ((GATHERED, "A"), (SCATTERED, "C")):
        (spec,) = read_specs(text.partition("schedule:")[0] + "divisible: {N: 8, K: 8}\n")
        assert isinstance(spec.schedule, Choices)
        reasons = spec.schedule.unmeant
        assert [why.partition(":")[0] for why in reasons] == ["not wgmma", "not tcgen05", "not fma"]
        assert reasons[0].startswith("not wgmma: its tensor maps move rows that follow one another")
        assert all(why.endswith(f"rows of {name} are taken at places") for why in reasons)


def test_explained_targets_of_hopper_have_the_reason() -> None:
    """Where no atom is named, rows at places are multiplied by `mma_sync` on all targets."""
    head = GATHERED.partition("schedule:")[0].replace("[sm_80]", "[sm_80, sm_90a]")
    (module,) = generate(f"{head}divisible: {{N: 8, K: 8}}\n", "specs/taken.yaml").modules
    text = write_spec(module.plan.spec)
    assert "atom: mma_sync" in text and "wgmma" not in text and "targets: [sm_80, sm_90a]" in text
