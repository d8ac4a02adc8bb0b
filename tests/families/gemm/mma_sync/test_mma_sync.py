"""Multistage gemms on the tensor cores of warps: what is inferred, refused and proved, and where elements lie."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

import pytest

from cutegen.atoms.gpus import TENSOR_8, TENSOR_16
from cutegen.atoms.mma import ADA_F8, SumOrder
from cutegen.atoms.targets import F8_TARGETS
from cutegen.families.gemm.mma_sync import FAMILY
from cutegen.families.gemm.mma_sync.partitions import accumulator_layout
from cutegen.families.gemm.mma_sync.pictures import place_in_row
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.layouts import mode_sizes, modes_of, offsets
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report

HEAD = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, major: K}
  B: {shape: [N, K], dtype: bf16, major: K}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  mma: {atom: mma_sync}
"""
ATOM = "  mma: {atom: mma_sync}\n"


def planned(text: str) -> tuple[MmaSyncPlan, Report]:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    resolved = resolve(spec, report)
    check(resolved, report)
    assert not report.failed, [d.message for d in report.diagnostics]
    plan = make_plan(resolved)
    assert isinstance(plan, MmaSyncPlan) and resolved.family is FAMILY
    return plan, report


def test_everything_is_inferred_from_the_atom_and_resolves_to_itself() -> None:
    plan, report = planned(HEAD)
    assert (plan.tile, plan.stages, mode_sizes(plan.atoms)) == ({"M": 128, "N": 256, "K": 64}, 3, (2, 4, 1))
    assert (plan.a.swizzle, plan.a.vector, plan.pointwise.vector, plan.swizzle) == (128, 8, 8, 8)
    assert plan.spec.targets == ("sm_80", "sm_90a") and ("targets",) in report.inferred
    again = read_specs(write_spec(plan.spec), "x.yaml")[0]
    assert resolve(again, Report(again.source)) == plan.spec


@pytest.mark.parametrize(
    ("more", "tile", "warps", "stages"),
    [
        ("targets: [sm_90a]\n", (128, 256, 64), (2, 4), 4),
        ("targets: [sm_86, sm_120a]\n", (128, 128, 64), (2, 4), 3),  # one block of them has a multiprocessor
        ("  tiler: {M: 128, N: 128, K: 32}\n", (128, 128, 32), (2, 2), 4),
        ("  tiler: {N: 192}\n", (128, 192, 64), (2, 4), 4),
        ("static: {M: 10, N: 100}\n", (16, 128, 64), (1, 4), 4),
        ("static: {K: 128}\ntargets: [sm_90a]\n", (128, 256, 64), (2, 4), 3),
    ],
)
def test_tile_and_stages_follow_from_sizes_and_shared_memory(
    more: str, tile: tuple[int, int, int], warps: tuple[int, int], stages: int
) -> None:
    plan, _ = planned(HEAD + more)
    assert (tuple(plan.tile.values()), mode_sizes(plan.atoms)[:2], plan.stages) == (tile, warps, stages)
    assert all(claim.holds for claim in FAMILY.claims(plan))


def test_warps_that_are_written_have_64_rows_and_columns_each() -> None:
    plan, _ = planned(HEAD.replace("mma_sync}", 'mma_sync, atom_layout: "(2,1,1)"}'))
    assert tuple(plan.tile.values()) == (128, 64, 64) and plan.stages == 4


@pytest.mark.parametrize(
    ("align", "bits", "atoms"),
    [(8, 64, "cp_async"), (4, 32, "cp_async"), (2, 16, "universal")],
)
def test_narrow_rows_are_copied_as_wide_as_they_can_be(align: int, bits: int, atoms: str) -> None:
    plan, _ = planned(HEAD.replace("major: K}", f"major: K, align: {align}}}"))
    assert (plan.a.bits, plan.a.atom, plan.b.bits) == (bits, atoms, bits)
    assert plan.spec.divisible.get("K", 1) == align // 2
    assert tuple(plan.tile.values()) == ((64, 64, 32) if align == 2 else (128, 256, 64))


def test_accumulators_lie_as_ptx_says() -> None:
    """PTX ISA 9.1, section 9.7.14.5, of every thread and register; warps take turns along m, then along n."""
    plan, _ = planned(HEAD + "  tiler: {M: 64, N: 64}\n")
    layout = accumulator_layout(plan, (1000, 1))
    (along_m, along_n, _), (threads, values) = mode_sizes(plan.atoms), (offsets(mode) for mode in modes_of(layout))
    assert len(threads) == plan.threads and len(values) == plan.pointwise.values
    for t, first in enumerate(threads):
        for i, step in enumerate(values):
            warp, tile = t // 32, i // 4
            tiles_m = 64 // (16 * along_m)
            row = 16 * (warp % along_m + along_m * (tile % tiles_m)) + t % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (warp // along_m + along_n * (tile // tiles_m)) + 2 * (t % 4) + i % 2
            assert divmod(first + step, 1000) == (row, column)


def test_8_bits_are_for_ada_and_later_and_summed_as_ada_does() -> None:
    text = HEAD.replace("dtype: bf16, major: K", "dtype: f8e5m2, major: K")
    plan, _ = planned(text)
    assert plan.spec.targets == F8_TARGETS and (plan.tile["K"], plan.steps, plan.instruction) == (128, 4, (16, 8, 32))
    assert (plan.a.vector, plan.a.swizzle, FAMILY.arithmetic(plan.spec)) == (16, 128, TENSOR_16)
    assert FAMILY.sum_orders(plan.spec) == (SumOrder(ADA_F8, ends_whole=True),)
    assert FAMILY.arithmetic(planned(text + "targets: [sm_89]\n")[0].spec) == TENSOR_8
    assert not FAMILY.sum_orders(planned(text + "targets: [sm_90a, sm_120a]\n")[0].spec)
    assert not FAMILY.sum_orders(planned(HEAD)[0].spec)


@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize("major", "KM")
def test_ldmatrix_meets_every_bank_once(major: str, swizzle: int) -> None:
    """Eight lanes read 16 bytes each, of eight rows of a matrix that has them along the contiguous mode."""
    text = HEAD.replace("[M, K], dtype: bf16, major: K", f"[M, K], dtype: bf16, major: {major}")
    x = planned(text + f"  smem: {{A: {{swizzle: {swizzle}}}}}\n  tiler: {{M: 64, N: 64}}\n")[0].a
    m, k, _ = mode_sizes(x.smem_layout)
    stage = [place_in_row(x, place) * 2 for place in offsets(x.smem_layout)[: m * k]]  # bytes, of (m, k)
    assert sorted(stage) == list(range(0, 2 * m * k, 2))
    for i in range(0, m, 8):
        for j in range(0, k, 8):
            rows = [stage[i + r + m * j] if major == "K" else stage[i + m * (j + r)] for r in range(8)]
            banks = Counter(at // 4 % 32 + word for at in rows for word in range(4))
            assert all(at % 16 == 0 for at in rows) and max(banks.values()) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"instruction": (16, 8, 24)}, "have all of its K"),
        ({"staged": (200, 1)}, "out of shared memory"),
        ({"smem_bytes": 1000}, "a place of its own"),
        ({"threads": 128}, "the accumulators of the warps"),
        ({"residue": False}, "K: no predicate is needed"),
    ],
)
def test_a_wrong_plan_is_not_proved(change: dict[str, object], text: str) -> None:
    plan = replace(planned(HEAD)[0], **change)  # type: ignore[arg-type]
    assert [claim.text for claim in FAMILY.claims(plan) if not claim.holds and text in claim.text]


def test_operands_whose_stages_overlap_are_not_proved() -> None:
    plan = planned(HEAD)[0]
    wrong = replace(plan, b=replace(plan.b, offset=plan.b.offset - 1024))
    assert [claim for claim in FAMILY.claims(wrong) if not claim.holds]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (ATOM, ATOM + "  tiler: {M: 72}\n", "CG310"),
        (ATOM, ATOM + "  tiler: {N: 24}\n", "CG310"),
        (ATOM, ATOM + "  tiler: {K: 16}\n", "CG310"),
        (ATOM, ATOM + "  tiler: {K: 72}\n", "CG310"),
        (ATOM, ATOM + "  tiler: {K: 131072}\n", "CG310"),
        (ATOM, '  mma: {atom: mma_sync, atom_layout: "(4,2)"}\n', "CG310"),
        (ATOM, '  mma: {atom: mma_sync, atom_layout: "(8,8,1)"}\n', "CG310"),
        (ATOM, '  mma: {atom: mma_sync, atom_layout: "(2,2,2)"}\n', "CG310"),
        (ATOM, '  mma: {atom: mma_sync, atom_layout: "(3,1,1)"}\n  tiler: {M: 128}\n', "CG310"),
        (ATOM, '  mma: {atom: mma_sync, atom_layout: "(1,3,1)"}\n  tiler: {N: 192}\n', "CG221"),
        (ATOM, ATOM + "  smem: {A: {swizzle: 128}}\n  tiler: {K: 32}\n", "CG311"),
        (ATOM, ATOM.replace("sync}", "sync, operands: tf32}"), "CG312"),
        ("bf16, major: K}", "f64, major: K}", "CG312"),
        ("B: {shape: [N, K], dtype: bf16", "B: {shape: [N, K], dtype: f8e4m3", "CG118"),
        (ATOM, ATOM + "  pipeline: {stages: 32}\n", "CG254"),
        (ATOM, ATOM + "  tiler: {M: 256, N: 256, K: 32}\n  pipeline: {stages: 2}\n", "CG254"),  # of sums
        (ATOM, ATOM + "  pipeline: {stages: 1}\n", "CG246"),
        (ATOM, ATOM + "  predication: {K: mask}\n", "CG255"),
        (ATOM, ATOM + "  copies: {A: {bits: 8}}\n", "CG236"),
        (
            ATOM,
            '  mma: {atom: mma_sync, atom_layout: "(3,1,1)"}\n  tiler: {M: 48, N: 16}\n  copies: {B: {bits: 128}}\n',
            "CG237",
        ),
        (ATOM, ATOM + "  copies: {A: {bits: 16, atom: cp_async}}\n", "CG250"),
        (ATOM, ATOM + "  copies: {C: {atom: cp_async}}\n", "CG239"),
        ("bf16, role", "bf16, align: 4, role", None),
        ("K}\n  B", "K, align: 4}\n  B", None),
        (ATOM, ATOM + "  copies: {X: {bits: 16}}\n", "CG204"),
        (ATOM, ATOM + "  smem: {C: {swizzle: 64}}\n", "CG203"),
        ("A @ B.T\n", "A @ B.T * staged\nscalars: {staged: f32}\n", "CG113"),
        ("A @ B.T\n", "A @ B.T * read_A\nscalars: {read_A: f32}\n", "CG113"),
        ("kernel: product", "kernel: warp", "CG113"),
        (ATOM, ATOM + "  scheduler: {swizzle: 1}\nstatic: {N: 33554432}\n", "CG259"),
    ],
)
def test_what_is_refused(old: str, new: str, code: str | None) -> None:
    assert old in HEAD
    try:
        spec = read_specs(HEAD.replace(old, new), "x.yaml")[0]
        report = Report(spec.source)
        resolved = resolve(spec, report)
        if not report.failed:
            check(resolved, report)
        found = report.diagnostics
    except SpecError as error:
        found = list(error.diagnostics)
    errors = [d for d in found if d.severity == "error"]
    assert [d.code for d in errors][:1] == ([code] if code else []), [(d.code, d.message) for d in found]
    assert all(d.help for d in errors if d.code.startswith("CG31")), [(d.code, d.message) for d in errors]


@pytest.mark.parametrize(
    ("m", "k", "wrong"),
    [(96, 32, True), (192, 32, True), (48, 32, False), (96, 96, True)],
)
def test_warps_share_whole_rows_of_shared_memory_or_parts_of_them(m: int, k: int, wrong: bool) -> None:
    """Where an operand is contiguous along m: three warps take 48 rows, and a row of 64 bytes has 32 elements."""
    text = HEAD.replace("[M, K], dtype: bf16, major: K", "[M, K], dtype: bf16, major: M")
    text = text.replace(
        ATOM, f'  mma: {{atom: mma_sync, atom_layout: "(3,1,1)"}}\n  tiler: {{M: {m}, N: 48, K: {k}}}\n'
    )
    spec = read_specs(text + "  copies: {A: {bits: 64}, B: {bits: 64}, C: {bits: 64}}\n", "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report)
    assert ("CG311" in {d.code for d in report.diagnostics}) == wrong, [d.message for d in report.diagnostics]
    text = HEAD.replace("[N, K], dtype: bf16, major: K", "[N, K], dtype: bf16, major: N")
    text = text.replace(ATOM, '  mma: {atom: mma_sync, atom_layout: "(1,3,1)"}\n  tiler: {M: 48, N: 48, K: 32}\n')
    spec = read_specs(text + "  copies: {A: {bits: 64}, B: {bits: 64}, C: {bits: 64}}\n", "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report)
    (found,) = (d for d in report.diagnostics if d.code == "CG311")
    assert "in steps of 24, and a row of its shared memory has 16 elements" in found.message


@pytest.mark.parametrize(
    "more", ["  tiler: {K: 128}\n", "  pipeline: {stages: 2}\n", "  tiler: {M: 256}\n", "  tiler: {N: 256}\n"]
)
def test_a_tile_that_is_inferred_leaves_room_for_its_sums(more: str) -> None:
    plan, _ = planned(HEAD + more + "targets: [sm_86]\n")
    assert plan.smem_bytes <= 101376


@pytest.mark.parametrize(
    ("b", "more", "help"),
    [
        ("f8e5m2", "", "write `dtype: f8e4m3`, or `mma: {atom: wgmma}` for `targets: [sm_90a]`"),
        ("f8e4m3", "targets: [sm_90a, sm_86]\n", "leave `sm_86` out"),
        ("f8e4m3", "targets: [sm_80]\n", "write `targets: [sm_89, sm_90a]`"),
    ],
)
def test_products_of_8_bits_that_no_instruction_makes(b: str, more: str, help: str) -> None:
    text = HEAD.replace("bf16, major: K}\n  B", "f8e4m3, major: K}\n  B").replace(
        "N, K], dtype: bf16", f"N, K], dtype: {b}"
    )
    spec = read_specs(text + more, "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report)
    assert [(d.code, d.help) for d in report.diagnostics if d.severity == "error"] == [("CG312", help)]


def test_an_access_that_is_written_is_held_to_alignment() -> None:
    with pytest.raises(AssertionError, match="needs 16 bytes of alignment"):
        planned(HEAD.replace("K}\n  B", "K, align: 4}\n  B") + "  copies: {A: {bits: 128}}\n")


def test_shared_memory_is_counted_once_for_stages_and_sums() -> None:
    plan, _ = planned(HEAD + "  tiler: {M: 128, N: 128, K: 32}\n  pipeline: {stages: 2}\n")
    stages = 2 * (128 + 128) * 32 * 2
    assert stages < plan.smem_bytes == 4 * (127 * 136 + 128) and prod(plan.staged) == 136
