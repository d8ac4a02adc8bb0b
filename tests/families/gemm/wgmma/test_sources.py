"""Tensors that epilogues of gemms on Hopper's tensor cores read from shared memory, loaded by tensor maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")

from lint_kit import found_in

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.shared_memory import parts_of
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SIZES = Case("several", "", {"M": 136, "N": 72, "K": 104}, "padded", "integers", blocks=2)
C = "  C: {shape: [M, N], dtype: bf16, role: out}\n"
R = "  R: {shape: [M, N], dtype: bf16}\n"
TWO = C + R + R.replace("R:", "S:")
KEPT = C + C.replace("C:", "H:")
HEAD = """\
cutegen: 1
kernel: residual
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
"""


def spec(tensors: str, compute: str, schedule: str = "", rows: str = "M", more: str = "") -> str:
    return f"{HEAD}{tensors}compute: {compute}\nschedule:\n  mma: {{atom: wgmma, rows: {rows}}}\n{schedule}{more}"


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def outcome(module: Module, folder: Path, text: str | None = None, case: Case = SIZES) -> str:
    path = folder / "residual.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    assert isinstance(module.plan, WarpspecializedPlan)
    case = case if module.plan.persistent else replace(case, blocks=None)
    return verify_case(module.plan, case, load_module(path), EmulatorExecutor(lines=False)).message


PINGPONG = spec(
    C + R,
    "C = A @ B.T + R",
    "  warps: {roles: pingpong}\n  tiler: {M: 128, N: 32, K: 32}\n  copies: {R: {stages: 2}}\n",
)
RIGHT = {
    "in turn": PINGPONG,
    "rows that are shared, of a type and an order of their own": spec(
        C + "  R: {shape: [M, N], dtype: f32, major: M}\n  bias: {shape: [N], dtype: f32}\n",
        "C = (A @ B.T + bias) * R",
        "  tiler: {M: 128, N: 48, K: 64}\n  cluster: {M: 1, N: 2}\n  copies: {R: {stages: 3}}\n",
    ),
    "columns of 16 bits, and what is written as well": spec(
        "  C: {shape: [M, N], dtype: f16, major: M, role: inout}\n  R: {shape: [M, N], dtype: f16, major: M}\n",
        "C = 2 * C - R + A @ B.T",
        "  tiler: {M: 192, N: 32, K: 32}\n  warps: {consumers: 3}\n",
    ),
    "two of them, and two outputs": spec(
        C + C.replace("C:", "H:").replace("bf16", "f32") + R + R.replace("R:", "S:"),
        "[x = A @ B.T + R, H = x * S, C = x + S]",
        "  tiler: {M: 64, N: 32, K: 32}\n",
    ),
    "rows of the product along N": spec(
        C + R, "C = where(R > 0, A @ B.T, R)", "  tiler: {N: 128, M: 16, K: 64}\n", "N"
    ),
    "a part of the columns of a sum": spec(
        C + R, "C = R - A @ B.T", "  tiler: {M: 64, N: 64, K: 32}\n  cluster: {K: 2}\n"
    ),
    "the same with tiles in turn": spec(
        C + R,
        "C = R - A @ B.T",
        "  tiler: {M: 64, N: 64, K: 32}\n  cluster: {K: 2}\n  scheduler: {kind: persistent}\n",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    module = made(RIGHT[name])
    plan = module.plan
    assert isinstance(plan, WarpspecializedPlan) and plan.sources
    assert all(claim.holds for claim in FAMILY.claims(plan)) and not plan.pointwise.masked or "bias" in RIGHT[name]
    assert max(part.start + part.size for part in parts_of(plan)) == plan.smem_bytes
    assert outcome(module, tmp_path) == ""


def test_pieces_that_are_not_the_tile_are_told() -> None:
    plan = replace(plan_of(spec(C + R, "C = A @ B.T + R")), columns=48)
    assert [claim for claim in FAMILY.claims(plan) if not claim.holds and "the loaded elements of R" in claim.text]


def test_right_of_a_batch(tmp_path: Path) -> None:
    text = spec(C + R, "C = A @ B.T + R", "  tiler: {M: 64, N: 32, K: 32}\n")
    for name, modes in (("A", "M, K"), ("C", "M, N"), ("R", "M, N")):
        text = text.replace(f"{name}: {{shape: [{modes}]", f"{name}: {{shape: [L, {modes}]")
    case = replace(SIZES, sizes={"L": 2, "M": 70, "N": 40, "K": 40})
    assert outcome(made(text), tmp_path, case=case) == ""


COLUMN = "column = n_tile * (BLK_N // COLUMNS) + column"
LOAD = "\n                    cute.copy(\n                        tma_R"
WAIT, FREE = (
    "cute.arch.mbarrier_wait(brought + slot, (source + piece) // SOURCES % 2)",
    "cute.arch.mbarrier_arrive(used + slot)",
)
MISTAKES = {
    "of the piece before": (COLUMN + LOAD, f"{COLUMN} - 1{LOAD}"),
    "not waited for": (WAIT, "pass"),
    "waited for a turn late": (WAIT, WAIT.replace("(source + piece) //", "(SOURCES + source + piece) //")),
    "brought before the buffer is free": ("cute.arch.mbarrier_wait(used + slot, (turn + 1) % 2)", "pass"),
    "a buffer that never becomes free": (FREE, "pass"),
    "free before it has been read": (WAIT, f"{WAIT}\n                if thr == 0:\n                    {FREE}"),
    "too few bytes": ("SOURCE_BYTES = 4096", "SOURCE_BYTES = 2048"),
    "too many bytes": ("SOURCE_BYTES = 4096", "SOURCE_BYTES = 8192"),
    "of the other warpgroup": (
        "slot = group * SOURCES + (source",
        "slot = (1 - group) * SOURCES + (source",
    ),
    "the count of pieces stays": ("            source += PIECES\n", ""),
    "turned": ("warp.LdMatrix8x8x16bOp(False, 4)", "warp.LdMatrix8x8x16bOp(True, 4)"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    module, (old, new) = made(PINGPONG), MISTAKES[mistake]
    assert module.text.count(old) == 1, module.text
    assert outcome(module, tmp_path, module.text.replace(old, new)) != ""


def test_what_tensor_maps_bring_is_what_has_an_element_for_each_of_the_output() -> None:
    rest = "  row: {shape: [N], dtype: bf16}\n  few: {shape: [M, N], dtype: f8e4m3}\n"
    rest += "  odd: {shape: [M, N], dtype: bf16, align: 2}\n"
    plan = plan_of(spec(C + R + rest, "C = A @ B.T + R + row + odd + cast(few, f32)"))
    assert [x.tensor.name for x in plan.sources] == ["R"] and [t.name for t in plan.padded] == ["A", "B", "C", "R"]
    assert {t: plan.spec.schedule.copies[t].atom for t in "RC"} == {"R": "tma", "C": "tma"}
    written = plan_of(spec(C + R, "C = A @ B.T + R", "  copies: {R: {atom: universal}}\n"))
    assert not written.sources and written.pointwise.masked
    alone = plan_of(spec(C.replace("bf16", "f8e4m3") + R, "C = cast(A @ B.T + R, f8e4m3)"))
    assert not alone.sources


def test_pieces_are_narrower_where_more_tensors_pass_shared_memory() -> None:
    """Four stages of the operands stay, if there is room for them beside pieces of 32 or 16 columns."""
    found = {}
    for name, tensors, compute in (
        ("one", C, "C = A @ B.T"),
        ("two", C + R, "C = A @ B.T + R"),
        ("four", C + R + R.replace("R:", "S:") + C.replace("C:", "H:"), "[H = A @ B.T + R, C = H * S]"),
    ):
        plan = plan_of(spec(tensors, compute))
        found[name] = (plan.columns, plan.stages)
    assert found == {"one": (64, 4), "two": (32, 4), "four": (16, 4)}


@pytest.mark.parametrize(
    ("tensors", "compute", "copies", "words"),
    [
        (C + R, "C = A @ B.T + R", "R: {columns: 32}", "no `columns` of its own"),
        (C + R, "C = A @ B.T + R", "R: {bits: 32}", "no `bits` of its own"),
        (C + R, "C = A @ B.T + R", "R: {multicast: cluster}", "no `multicast`"),
        (C + R, "C = A @ B.T + R", "R: {atom: universal, stages: 2}", "at any alignment"),
        (C + R, "C = A @ B.T + R", "R: {atom: universal, through: smem}", "at any alignment"),
        (C + R, "C = A @ B.T + R", "R: {atom: tma}, C: {atom: universal}", "no output does"),
        (C + R, "C = A @ B.T + R", "R: {stages: 2}, C: {atom: universal}", "no output goes through shared memory"),
        (C + R.replace("bf16", "bool"), "C = where(R, A @ B.T, 0)", "R: {stages: 2}", "it is bool"),
        (TWO, "C = A @ B.T + R + S", "R: {stages: 1}, S: {stages: 2}", "their pieces move together"),
        (KEPT, "[H = A @ B.T, C = H]", "C: {columns: 64}, H: {columns: 32}", "their pieces move together"),
        (KEPT, "[H = A @ B.T, C = H]", "C: {stages: 2}, H: {stages: 1}", "their pieces move together"),
        (C + R, "C = A @ B.T + R", "R: {stages: 16}, C: {columns: 64}", "for tensors that the epilogue reads"),
        (C + R.replace("f16", "f16, align: 2"), "C = A @ B.T + R", "R: {atom: tma, misaligned: refuse}", "to 2 bytes"),
        (C + R.replace("bf16", "f8e4m3"), "C = A @ B.T + cast(R, f32)", "R: {atom: tma}", "`R` is f8e4m3"),
        (C + "  b: {shape: [N], dtype: bf16}\n", "C = A @ B.T + b", "b: {atom: tma}", "no copy of its own"),
    ],
)  # fmt: skip
def test_refused(tensors: str, compute: str, copies: str, words: str) -> None:
    found = found_in(spec(tensors, compute, f"  copies: {{{copies}}}\n"))
    assert [d for d in found if words in " ".join((d.message, *d.notes, d.help or ""))], found


@pytest.mark.parametrize("tensors", [R.replace("bf16", "f32"), R, R + R.replace("R:", "S:")])
def test_a_sum_that_two_blocks_have_keeps_its_stages(tensors: str) -> None:
    """Buffers of the output that lie where sums were are many, and those of what is read need not be."""
    compute = "C = A @ B.T + R" + " + S" * ("S:" in tensors)
    plan = plan_of(spec(C + tensors, compute, more="static: {M: 512, N: 1024, K: 8192}\n"))
    assert plan.split == 2 and plan.shares_buffers and plan.stages == 3 and plan.source_buffers <= 4
    assert max(part.start + part.size for part in parts_of(plan)) == plan.smem_bytes


def test_what_would_take_the_stages_is_loaded_to_registers() -> None:
    tensors = "".join(R.replace("R:", f"R{i}:").replace("bf16", "f32") for i in range(5))
    compute = "C = A @ B.T" + "".join(f" + R{i}" for i in range(5))
    plan = plan_of(spec(C + tensors, compute, "  tiler: {M: 128, N: 256, K: 64}\n", more="divisible: {N: 8}\n"))
    assert not plan.sources and plan.stages == 4
    assert {o.vector for o in plan.pointwise.operands} == {2}, "they stand as pairs are loaded"


def test_names_that_only_an_output_that_is_read_makes() -> None:
    tensors = C + R + R.replace("R:", "R_in:")
    assert len(plan_of(spec(tensors, "C = A @ B.T + R * R_in")).sources) == 2
    found = found_in(
        spec(tensors.replace("R_in", "C_in").replace("role: out", "role: inout"), "C = C + A @ B.T + R * C_in")
    )
    assert [d for d in found if d.code == "CG113"], found
    for name in ("warpgroup", "cpasync"):
        found = found_in(spec(C + R.replace("R:", f"{name}:"), f"C = A @ B.T + {name}"))
        assert [d for d in found if d.code == "CG113" and "imports" in d.message], found
