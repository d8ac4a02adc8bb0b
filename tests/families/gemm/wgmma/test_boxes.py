"""Operands loaded in boxes: which are, that boxes beyond a tensor's end are left out, and mistakes in that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma.loading_roles import Loading
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.synchronisation import counts, run_of
from cutegen.parts.acts import Arrive, Bring, Multiply
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Let, Region, Statement
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

FEW = "  tiler: {M: 32, N: 64, K: 128}\n"
# A whole tile along M and one of 9 rows, a box and a part of one; along N one whole tile and one of 8 rows
CUT = Case("cut", "", {"M": 41, "N": 72, "K": 264}, "padded", "integers", blocks=2)


def spec(schedule: str = FEW, a: str = "bf16, major: K", rows: str = "N", end: str = "") -> str:
    return f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {a}, align: 16}}
  B: {{shape: [N, K], dtype: bf16, align: 16}}
  C: {{shape: [M, N], dtype: bf16, align: 16, role: out}}
compute: C = A @ B.T
schedule:
  mma: {{atom: wgmma, rows: {rows}}}
{schedule}{end}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def boxes(text: str) -> dict[str, int | None]:
    """The box of each operand."""
    return {side.tensor.name: side.box for side in plan_of(text).sides}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (spec(), {"A": 16, "B": 64}),
        (spec("  tiler: {M: 8, N: 64, K: 128}\n"), {"A": 8, "B": 64}),
        (spec("  tiler: {M: 144, N: 192, K: 64}\n  warps: {consumers: 3}\n"), {"A": 16, "B": 64}),
        (spec(end="divisible: {M: 32, N: 64}\n"), {"A": None, "B": None}),
        (spec(end="divisible: {M: 32}\n"), {"A": None, "B": 64}),
        (spec("  tiler: {M: 128, N: 160, K: 64}\n  cluster: {M: 2}\n", rows="M"), {"A": 32, "B": None}),
        (spec("  tiler: {M: 128, N: 160, K: 64}\n  cluster: {M: 1}\n", rows="M"), {"A": 32, "B": 32}),
        (spec("  tiler: {M: 128, N: 128, K: 64}\n"), {"A": 32, "B": 64}),
        (spec("  tiler: {M: 144, N: 128, K: 64}\n"), {"A": 16, "B": 64}),
        (spec("  tiler: {M: 128, N: 64, K: 128}\n"), {"A": 16, "B": 64}),
        (spec("  tiler: {M: 128, N: 64, K: 64}\n", "bf16, major: M", "M"), {"A": 64, "B": None}),
        (spec(f"{FEW}  copies: {{A: {{box: 32}}}}\n"), {"A": 32, "B": 64}),
    ],
    ids=["few rows", "fewer than a box", "three warpgroups", "whole tiles", "whole along M", "shared", "not shared"]
    + ["loads decide", "products decide", "memory decides", "along M", "written"],
)
def test_what_a_block_loads_alone_and_may_end_within_a_tile_is_loaded_in_boxes(
    text: str, found: dict[str, int | None]
) -> None:
    assert boxes(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (spec(f"{FEW}  copies: {{A: {{box: 24}}}}\n"), "write one of 8, 16, 32"),
        (spec(f"{FEW}  copies: {{A: {{box: 12}}}}\n"), "write one of 8, 16, 32"),
        (spec(f"{FEW}  copies: {{A: {{box: 16}}}}\n  predication: {{M: none}}\n"), "predication: {M: mask}"),
        (spec("  cluster: {M: 2}\n  copies: {B: {box: 64, multicast: cluster}}\n", rows="M"), "multicast: none"),
        (spec("  tiler: {M: 128, N: 64, K: 64}\n  copies: {A: {box: 32}}\n", "bf16, major: M", "M"), "one of 64, 128"),
    ],
    ids=["no part of the tile", "no rows of a swizzle", "no cut tile", "shared", "less than a line"],
)
def test_boxes_that_cannot_be_are_refused(text: str, said: str) -> None:
    (diagnostic,) = (d for d in found_in(text) if d.code == "CG306")
    assert said in (diagnostic.help or "")


@pytest.mark.parametrize("rows", [96, 0x10000 + 128])
@pytest.mark.parametrize("major", ["K", "M"])
@pytest.mark.parametrize("copies", ["", "  copies: {A: {box: 16}}\n"])
def test_a_tile_that_cannot_be_is_told_of_once_beside_boxes(rows: int, major: str, copies: str) -> None:
    tiler = f"  tiler: {{M: {rows}, N: 64, K: 64}}\n{copies}"
    found = found_in(spec(tiler, a=f"bf16, major: {major}", rows="M"))
    assert [d.code for d in found] == ["CG302"]


def test_an_output_has_no_boxes() -> None:
    said = found_in(spec(f"{FEW}  copies: {{C: {{box: 16}}}}\n"))
    assert any(d.code == "CG203" and "`box`" in d.message for d in said)


def test_what_is_left_out_is_expected_by_no_barrier_and_multiplied_for_nobody() -> None:
    plan = plan_of(spec())
    (none,) = (sizes for sizes in counts(plan) if sizes.rows == 0)
    run = run_of(plan, none)
    prove(run)
    acts = [act for own in run.acts.values() for act in own]
    assert not any(isinstance(act, Bring) for act in acts)
    assert all(act.expected == 0 for act in acts if isinstance(act, Arrive))
    assert all(not act.cells and act.left_out for act in acts if isinstance(act, Multiply))


@pytest.mark.parametrize("rows", ["N", "M"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cutlass.min(BLK_M, ", "("),
        ("cutlass.max(0, ", "("),
        ("m_tile", "n_tile"),
        ("n_tile", "m_tile"),
        ("cute.ceil_div(rows_A, BOX_A)", "rows_A // BOX_A"),
        ("cute.ceil_div(rows_B, BOX_B)", "1"),
    ],
    ids=["more than a tile", "less than none", "one tile", "the other tile", "too few", "always one"],
)
def test_a_mistake_in_what_lies_inside_is_refused(
    old: str, new: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, right = plan_of(spec("  tiler: {M: 64, N: 128, K: 64}\n  cluster: {M: 1}\n", rows=rows)), Loading.boxes
    changed = []

    def wrong(statement: Statement) -> Statement:
        if isinstance(statement, Region):
            return replace(statement, body=tuple(map(wrong, statement.body)))
        changed.append(isinstance(statement, Let) and old in statement.value)
        return replace(statement, value=statement.value.replace(old, new)) if isinstance(statement, Let) else statement

    def boxes(self: Loading) -> Iterator[Statement]:
        return map(wrong, right(self))

    for sizes in counts(plan):
        prove(run_of(plan, sizes))
    monkeypatch.setattr(Loading, "boxes", boxes)
    with pytest.raises(Unproved):
        for sizes in counts(plan):
            prove(run_of(plan, sizes))
    assert any(changed)


MISTAKES = {
    "the box that ends in the tensor is left out": ("cute.ceil_div(rows_A, BOX_A)", "rows_A // BOX_A"),
    "a box more is expected": ("(BLK_M // BOX_A - boxes_A) *", "(BLK_M // BOX_A - boxes_A - 1) *"),
    "all boxes are loaded": ("if box < boxes_A:", "if box < 2:"),
    "bytes of a tile of B are those of A": ("stage_bytes -=", "stage_bytes ="),
    "each box is the first one": ("tAgA[None, n_tile * (BLK_M // BOX_A) + box, k_tile]", "tAgA[None, n_tile, k_tile]"),
    "all boxes have the first one's place": ("tAsA[None, box, stage]", "tAsA[None, 0, stage]"),
}


def test_tiles_that_end_within_a_box_are_right(tmp_path: Path) -> None:
    assert outcome(made(spec()), tmp_path, made(spec()).text) == ""


@pytest.mark.parametrize("mistake", sampled([*MISTAKES], 3))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    module, (old, new) = made(spec()), MISTAKES[mistake]
    assert module.text.count(old) == 1, module.text
    assert outcome(module, tmp_path, module.text.replace(old, new))


def outcome(module: Module, folder: Path, text: str) -> str:
    """The verdict on a module with this text in the case `CUT`; empty if it is right."""
    pytest.importorskip("cutlass")
    file = folder / "x.py"
    file.write_text(text, encoding="utf-8")
    return verify_case(module.plan, CUT, load_module(file), EmulatorExecutor(lines=False)).message
