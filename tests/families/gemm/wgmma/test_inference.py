"""Inference, rules and proofs of a gemm on Hopper's tensor cores."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from math import prod

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.atoms.gpus import TENSOR_8
from cutegen.atoms.mma import HOPPER_F8, SumOrder
from cutegen.codegen import generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.blocks import most_blocks
from cutegen.families.gemm.wgmma.names import LOCALS
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import accumulator_layout
from cutegen.language.diagnostics import SpecError
from cutegen.language.names import RESERVED_ARGUMENTS
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.layouts import mode_sizes, offsets
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report
from cutegen.verification.cases import derive_cases

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
  mma: {atom: wgmma}
"""


def planned(text: str) -> tuple[WarpspecializedPlan, Report]:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    resolved = resolve(spec, report)
    check(resolved, report)
    assert not report.failed, [d.message for d in report.diagnostics]
    plan = make_plan(resolved)
    assert isinstance(plan, WarpspecializedPlan) and resolved.family is FAMILY
    return plan, report


def test_everything_is_inferred_from_the_atom_and_resolves_to_itself() -> None:
    plan, report = planned(HEAD)
    assert (plan.tile, plan.stages, plan.consumers, plan.threads) == ({"M": 128, "N": 256, "K": 64}, 4, 2, 384)
    assert (plan.a.swizzle, plan.b.swizzle, plan.stage_bytes) == (128, 128, (128 + 256) * 64 * 2)
    assert plan.producer_registers * 128 + plan.consumer_registers * 256 <= 65536
    assert plan.spec.targets == ("sm_90a",) and ("targets",) in report.inferred
    again = read_specs(write_spec(plan.spec), "x.yaml")[0]
    assert resolve(again, Report(again.source)) == plan.spec


@pytest.mark.parametrize(
    ("more", "tile", "stages", "swizzles"),
    sampled(
        [
            ("  scheduler: {kind: grid}\nstatic: {K: 100}\n", (128, 256, 64), 2, (128, 128)),
            ("static: {M: 70, N: 104}\n", (128, 112, 64), 7, (128, 128)),
            ("static: {M: 50}\n", (64, 64, 128), 6, (128, 128)),
            ("  tiler: {K: 32}\n", (128, 256, 32), 8, (64, 64)),
            ("  tiler: {K: 16}\n", (128, 256, 16), 8, (32, 32)),
            ("  warps: {consumers: 3}\n  tiler: {N: 128}\n", (192, 128, 64), 4, (128, 128)),
            ("  warps: {roles: pingpong}\n", (128, 192, 64), 4, (128, 128)),
            ("  tiler: {M: 256}\n", (256, 128, 64), 4, (128, 128)),
            ("  tiler: {N: 256, K: 128}\n", (128, 256, 128), 2, (128, 128)),
        ],
        2,
    ),
)
def test_what_is_written_decides_the_rest(
    more: str, tile: tuple[int, int, int], stages: int, swizzles: tuple[int, int]
) -> None:
    plan, _ = planned(HEAD + more)
    assert (tuple(plan.tile.values()), plan.stages, (plan.a.swizzle, plan.b.swizzle)) == (tile, stages, swizzles)
    assert all(claim.holds for claim in FAMILY.claims(plan))


def test_the_output_is_stored_in_pairs_where_sizes_let_it() -> None:
    direct = HEAD.replace("role", "align: 2, role")
    assert planned(direct)[0].pointwise.vector == 1
    assert planned(HEAD + "divisible: {N: 2}\n")[0].pointwise.vector == 2
    columns = HEAD.replace("dtype: bf16, role", "dtype: bf16, major: M, role") + "divisible: {N: 2}\n"
    assert planned(columns)[0].pointwise.vector == 1


def test_few_rows_are_columns_of_a_product() -> None:
    plan, report = planned(HEAD + "static: {M: 16}\n")
    assert plan.exchanged and (plan.m, plan.n, plan.a.tensor.name, plan.consumers) == ("N", "M", "B", 1)
    assert plan.tile == {"N": 64, "M": 16, "K": 128} and ("schedule", "mma", "rows") in report.inferred
    assert not planned(HEAD)[0].exchanged
    written, _ = planned(HEAD.replace("{atom: wgmma}", "{atom: wgmma, rows: N}"))
    assert written.exchanged and all(claim.holds for claim in FAMILY.claims(written))


def test_three_warpgroups_have_columns_that_fit_the_registers_they_start_with() -> None:
    plan, _ = planned(HEAD + "  warps: {consumers: 3}\n")
    assert plan.tile == {"M": 192, "N": 192, "K": 64} and plan.consumer_registers == 160


def test_two_blocks_share_loads_of_b_unless_there_is_one_tile_of_rows() -> None:
    plan, _ = planned(HEAD)
    assert (plan.cluster, plan.a.shared_by, plan.b.shared_by, plan.peers, most_blocks(plan)) == ((2, 1), 1, 2, 2, 132)
    assert planned(HEAD + "static: {M: 128}\n")[0].cluster == (1, 1)
    both, _ = planned(HEAD + "  cluster: {M: 3, N: 2}\n")
    assert (both.a.shared_by, both.b.shared_by, both.peers, most_blocks(both)) == (2, 3, 4, 120)
    alone, _ = planned(HEAD + "  cluster: {M: 2}\n  copies: {B: {multicast: none}}\n")
    assert (alone.cluster_size, alone.peers) == (2, 1)


def test_outputs_pass_shared_memory_where_tensor_maps_can_store_them() -> None:
    plan, _ = planned(HEAD)
    assert [x.tensor.name for x in plan.passing] == ["C"] and (plan.columns, plan.buffers) == (64, 2)
    assert not plan.pointwise.masked  # tensor maps leave out what lies beyond the end
    pingpong, _ = planned(HEAD + "  warps: {roles: pingpong}\n")
    assert (pingpong.columns, pingpong.buffers, pingpong.consumer_registers) == (64, 4, 240)
    wide, _ = planned(HEAD.replace("dtype: bf16, role", "dtype: f32, role"))
    assert (wide.columns, wide.passing[0].swizzle) == (32, 128)
    direct, _ = planned(HEAD + "  copies: {C: {atom: universal}}\n")
    assert not direct.passing and direct.pointwise.masked == ("M", "N")
    assert not planned(HEAD + "  tiler: {N: 8}\n")[0].passing
    # Tensor maps store whole 16 bytes: sizes of which rows are no multiple go another way
    refusing = HEAD.replace("role", "align: 16, role")
    assert planned(refusing)[0].spec.divisible == {"N": 8} and not plan.spec.divisible
    assert planned(refusing.replace("dtype: bf16, align", "dtype: f32, align"))[0].spec.divisible == {"N": 4}
    for sizes in ("divisible: {N: 2}\n", "static: {N: 100}\n"):
        assert not planned(refusing + sizes)[0].passing and planned(HEAD + sizes)[0].passing


def test_a_tile_that_cannot_pass_shared_memory_is_stored_where_it_stands() -> None:
    """Of 8 columns that is the reason, however the output stands; what is inferred can be written."""
    text = HEAD.replace("schedule:", "static: {M: 8}\nschedule:")
    for copy in ("", "  copies: {C: {atom: universal}}\n"):
        plan, report = planned(text + copy)
        assert not plan.passing and plan.spec.schedule.copies["C"].misaligned is None
        assert not any(tensor.name == "C" for tensor in plan.padded)
        assert planned(write_spec(plan.spec, {}))[0].spec.schedule == plan.spec.schedule
        if not copy:
            why = report.inferred["schedule", "copies", "C", "atom"]
            assert why == "16 columns go through shared memory together, and a block stores 8"
    aligned = text.replace("role: out", "role: out, align: 2") + "  copies: {C: {misaligned: refuse}}\n"
    (found,) = found_in(aligned)
    assert (found.code, found.help) == ("CG308", "leave it out") and "stores 8" in found.notes[0]
    (found,) = found_in(text.replace("static: {M: 8}\n", "") + "  tiler: {N: 24}\n  copies: {C: {columns: 32}}\n")
    assert found.help == "write `N: 32` in the tiler, or leave it out"
    assert not found_in(text.replace("static: {M: 8}\n", "") + "  tiler: {N: 32}\n  copies: {C: {columns: 32}}\n")


@pytest.mark.parametrize("compute", ["A @ B.T + X", "A @ B.T + X + C"])
def test_what_a_call_copies_is_seen_at_16_bytes_whatever_is_written_of_it(compute: str) -> None:
    """Its accesses are as wide where the alignment that was inferred is written; what only passes has no predicates."""
    text = HEAD.replace("bf16, role: out", f"f32, role: {'inout' if '+ C' in compute else 'out'}")
    text = text.replace("  C:", "  X: {shape: [M, N], dtype: f32}\n  C:").replace("A @ B.T\n", f"{compute}\n")
    text += "  copies: {X: {atom: universal}}\n"
    plan, _ = planned(f"{text}divisible: {{N: 4}}\n")
    assert {o.tensor.name: o.vector for o in plan.pointwise.operands} == {"X": 2, "C": 2}
    assert [tensor.name for tensor in plan.padded] == ["A", "B", "C"]
    again = generate(write_spec(plan.spec, {}), "specs/x.yaml").modules[0].text.splitlines()
    once = generate(f"{text}divisible: {{N: 4}}\n", "specs/x.yaml").modules[0].text.splitlines()
    assert again[4:] == once[4:] and "tCpC_1" not in "".join(once)


@pytest.mark.parametrize("name", ["mem", "tage"])
def test_a_name_that_is_taken_has_another_one_to_write(name: str) -> None:
    text = HEAD.replace("  B: {", f"  {name}: {{").replace("B.T", f"{name}.T")
    (found,) = found_in(text)
    assert (found.code, found.help) == ("CG113", f"write `{name}_`, or another name")
    assert not found_in(text.replace(f"{name}: {{", f"{name}_: {{").replace(f"{name}.T", f"{name}_.T"))


def test_only_what_tensor_maps_read_must_stand_at_16_bytes() -> None:
    """An output stored in pairs asks for 4 bytes, and one stored by element for those of an element."""

    def alignments(more: str) -> list[int | None]:
        return [tensor.align for tensor in planned(HEAD + more)[0].spec.tensors]

    refused = "A: {misaligned: refuse}, B: {misaligned: refuse}"
    direct = f"  copies: {{{refused}, C: {{atom: universal}}}}\n"
    assert alignments("") == [2, 2, 2]  # what stands elsewhere is copied
    assert alignments(f"  copies: {{{refused}, C: {{misaligned: refuse}}}}\n") == [16, 16, 16]
    assert alignments(direct) == [16, 16, 2]
    # A promise of less than tensor maps take is none: what stands elsewhere is copied all the same
    weak = HEAD.replace("major: K}", "major: K, align: 8}", 1)
    assert [t.align for t in planned(weak)[0].spec.tensors] == [2, 2, 2]
    assert alignments(direct + "divisible: {N: 2}\n") == [16, 16, 4]


def test_accumulators_lie_as_ptx_says() -> None:
    """PTX ISA 9.1, section 9.7.15.5.1.1, of two warpgroups, each with two blocks of rows, and 24 columns."""
    layout = accumulator_layout(2, 24, (1000, 1), 2)
    threads, values = ([*offsets(mode)] for mode in (layout_mode(layout, 0), layout_mode(layout, 1)))
    assert mode_sizes(layout) == (256, 24)
    for t, first in enumerate(threads):
        for i, step in enumerate(values):
            row = 128 * (i // 12) + 64 * (t // 128) + 16 * (t % 128 // 32) + t % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (i % 12 // 4) + 2 * (t % 4) + i % 2
            assert divmod(first + step, 1000) == (row, column)


def layout_mode(layout, index):  # type: ignore[no-untyped-def]
    from cutegen.layouts import modes_of

    return modes_of(layout)[index]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"tile": {"M": 192, "N": 256, "K": 64}}, "cover its rows along M"),
        ({"stage_bytes": 16384}, "expects the bytes"),
        ({"passing": ()}, "are not stored"),
    ],
)
def test_a_wrong_plan_is_not_proved(change: dict[str, object], text: str) -> None:
    plan = replace(planned(HEAD)[0], **change)  # type: ignore[arg-type]
    assert [claim.text for claim in FAMILY.claims(plan) if not claim.holds and text in claim.text]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {M: 160}\n", "CG302"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {N: 260}\n", "CG302"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {K: 24}\n", "CG302"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {K: 100000}\n", "CG302"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {M: 64, N: 8, K: 16}\n", "CG303"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  smem: {B: {swizzle: 64}}\n  tiler: {K: 16}\n", "CG303"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  pipeline: {stages: 9}\n", "CG304"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  warps: {registers: {consumer: 130}}\n", "CG305"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  warps: {registers: {consumer: 128}}\n", "CG305"),
        (
            "  mma: {atom: wgmma}\n",
            "  mma: {atom: wgmma}\n  warps: {registers: {producer: 32, consumer: 240}}\n",
            "CG305",
        ),
        (
            "  mma: {atom: wgmma}\n",
            "  mma: {atom: wgmma}\n  warps: {registers: {producer: 232, consumer: 96}}\n",
            "CG305",
        ),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {M: 192, N: 256}\n", "CG305"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\nstatic: {M: 1}\n", "CG306"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  tiler: {M: 256, N: 256}\n", "CG305"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  warps: {roles: pingpong, consumers: 3}\n", "CG302"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  cluster: {M: 4, N: 4}\n", "CG307"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  scheduler: {blocks: 33}\n", "CG307"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  scheduler: {kind: grid, blocks: 4}\n", "CG307"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {C: {columns: 48}}\n", "CG308"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {C: {atom: universal, stages: 2}}\n", "CG308"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {C: {multicast: cluster}}\n", "CG203"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {A: {atom: universal}}\n", "CG203"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  cluster: {L: 2}\n", "CG116"),
        ("A @ B.T\n", "A @ B.T * warp\nscalars: {warp: f32}\n", "CG113"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {C: {bits: 64}}\ndivisible: {N: 4}\n", "CG237"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {C: {bits: 8}}\n", "CG236"),
        ("dtype: bf16, major: K}\n  B", "dtype: f32, major: K}\n  B", "CG118"),
        ("dtype: bf16, major: K}\n  B", "dtype: f8e4m3, major: K}\n  B", "CG118"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\ntargets: [sm_80]\n", "CG306"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  warps: {registers: {loader: 40}}\n", "CG203"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  smem: {C: {swizzle: 64}}\n", "CG203"),
        ("  mma: {atom: wgmma}\n", "  mma: {atom: wgmma}\n  copies: {A: {bits: 128}}\n", "CG203"),
    ],
)
def test_what_is_refused(old: str, new: str, code: str) -> None:
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
    assert code in [d.code for d in found if d.severity == "error"], [(d.code, d.message) for d in found]


F8 = re.sub(r"bf16(, major)", r"f8e4m3\1", HEAD)
MIXED = F8.replace("f8e4m3", "f8e5m2", 1)


def test_operands_of_8_bits_have_tiles_of_as_many_bytes() -> None:
    for text in (F8, MIXED):
        plan, _ = planned(text)
        assert (plan.tile, plan.stages) == ({"M": 128, "N": 256, "K": 128}, 4)
        assert (plan.a.swizzle, plan.b.swizzle, plan.stage_bytes) == (128, 128, (128 + 256) * 128)
        assert all(claim.holds for claim in FAMILY.claims(plan))
        assert FAMILY.sum_orders(plan.spec) == (SumOrder(HOPPER_F8),) and FAMILY.arithmetic(plan.spec) == TENSOR_8
    assert not FAMILY.sum_orders(planned(HEAD)[0].spec)
    shallow, _ = planned(F8 + "  tiler: {K: 32}\n")
    assert (shallow.a.swizzle, shallow.stages) == (32, 8)


def test_each_operand_of_8_bits_is_of_its_own_type() -> None:
    text = generate(MIXED, "specs/x.yaml").modules[0].text
    assert re.search(r"MmaF8Op\(\s*cutlass\.Float8E5M2,\s*cutlass\.Float8E4M3FN,\s*cutlass\.Float32,", text)
    assert re.findall(r"cutlass\.(Float8\w+), s([AB])_layout", text) == [("Float8E5M2", "A"), ("Float8E4M3FN", "B")]
    assert "_product(BLK_N)" in text and "(64, columns, 32)" in text and "MmaF16BF16Op" not in text
    exchanged = generate(MIXED.replace("{atom: wgmma}", "{atom: wgmma, rows: N}"), "specs/x.yaml").modules[0].text
    assert re.search(r"MmaF8Op\(\s*cutlass\.Float8E4M3FN,\s*cutlass\.Float8E5M2,", exchanged)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (F8.replace("major: K}\n  B", "major: M}\n  B"), "CG306", "contiguous along M"),
        (F8.replace("f8e4m3, major: K}\n  C", "f8e4m3, major: N}\n  C"), "CG306", "contiguous along N"),
        (F8 + "  tiler: {K: 48}\n", "CG302", "a wgmma of f8e4m3 is 32"),
        (F8.replace("wgmma", "fma"), "CG266", "f64, f32, f16 or bf16"),
        (F8[: F8.index("schedule")] + "targets: [sm_80]\n", "CG266", "f64, f32, f16 or bf16"),
        (MIXED.replace("wgmma", "mma_sync"), "CG312", "multiplies like with like"),
    ],
)
def test_what_is_refused_of_operands_of_8_bits(text: str, code: str, says: str) -> None:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    check(resolve(spec, report), report)
    found = [d for d in report.diagnostics if d.severity == "error"]
    assert {d.code for d in found} == {code} and says in found[0].message
    assert code in ("CG302", "CG306") or "{atom: wgmma}" in (found[0].help or "")


def test_what_has_no_columns_is_read_by_element() -> None:
    scaled = HEAD.replace("  C:", "  S: {shape: [M], dtype: f32}\n  T: {shape: [N], dtype: f32}\n  C:")
    scaled = scaled.replace("A @ B.T", "A @ B.T * S * T") + "divisible: {N: 8}\n"
    plan, _ = planned(scaled)
    assert [plan.spec.tensor(name).align for name in "ST"] == [4, 8]
    assert {o.tensor.name: o.vector for o in plan.pointwise.operands} == {"S": 1, "T": 2, "C": 2}
    once, each = (a for a in FAMILY.accesses(plan) if a.space == "global")  # C is stored by tensor maps
    assert (once.tensor, each.tensor) == ("S", "T") and mode_sizes(once.layout) == (256, 2)
    threads, values = ([*offsets(layout_mode(once.layout, i))] for i in (0, 1))
    assert [threads[5] + v for v in values] == [1, 9] and threads[130] == 64


def test_the_names_that_kernels_call_their_own_are_all_known() -> None:
    """A scalar keeps its name in the kernel: one that the kernel assigns would be another value there."""
    schedules = (
        "  warps: {roles: pingpong}\n  cluster: {M: 2, N: 2}\n  tiler: {N: 160}\n  copies: {C: {stages: 3}}\n",
        "  copies: {C: {atom: universal}}\n",
        "  cluster: {M: 2, N: 2, K: 2}\n  scheduler: {kind: persistent}\n",
        "  cluster: {K: 2}\n",
    )
    for schedule in schedules:
        made = generate(HEAD.replace("A @ B.T", "where(coord(M) > 3, A @ B.T, 0)") + schedule, "specs/x.yaml")
        kernel = next(
            node
            for node in ast.walk(ast.parse(made.modules[0].text))
            if isinstance(node, ast.FunctionDef) and node.name == "product_kernel"
        )
        names = {arg.arg for arg in kernel.args.args}
        names |= {
            node.id for node in ast.walk(kernel) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        names -= {"_", "coord_M", "coords_M", "x0"}  # of expressions, which have names that are free
        own = {name for name in names if not re.search(r"[ABC](_|$|[a-z][ABC])", name)}
        assert own <= {*LOCALS, *RESERVED_ARGUMENTS}, own - {*LOCALS, *RESERVED_ARGUMENTS}


def test_each_case_that_a_kernel_is_verified_on_tells_something_of_it() -> None:
    plan, _ = planned(HEAD.replace("bf16", "bf16, align: 16"))
    assert [case.name for case in derive_cases(plan)] == [
        *("tile integers", "all one less", "all one more", "all 1", "primes"),
        *("tiles in turn", "long tiles in turn", "few tiles in turn"),
        *("K = 0", "K below a tile", "K 1 tiles", "K 17 tiles and 1", "offset primes", "special values"),
        *("M = 0", "N = 0"),
    ]
    masked, _ = planned(HEAD + "  copies: {C: {atom: universal}}\n")
    assert {"M one less", "M = 1", "N one more", "offset residue"} <= {case.name for case in derive_cases(masked)}


def test_what_is_measured_beside_it_multiplies_operands_as_they_are() -> None:
    """Widened before the product, as the reference has them, they would miss cuBLAS's tensor cores."""
    plan, _ = planned(HEAD)
    operation = plan.spec.operation
    assert operation.eager(plan).statements[0] == "product = (a @ b.T).to(torch.float32)"
    assert operation.reference(plan).statements[0] == "product = a.to(torch.float32) @ b.to(torch.float32).T"


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "  warps: {roles: pingpong}\n",
        "  warps: {roles: pingpong}\n  tiler: {N: 64}\n",
        "  mma: {atom: wgmma, rows: N}\n  tiler: {M: 16}\n",
        "  pipeline: {stages: 1}\n",
        "  tiler: {N: 32}\n  pipeline: {stages: 7}\n  copies: {C: {columns: 32, stages: 9}}\n",
    ],
)
def test_tiles_in_turn_use_each_stage_and_each_buffer_three_times_and_once_more(schedule: str) -> None:
    """Else nothing tells whether they wait until that is free, each time."""
    head = HEAD.replace("  mma: {atom: wgmma}\n", "") if "mma" in schedule else HEAD
    plan, _ = planned(head.replace("bf16", "bf16, align: 16") + schedule)
    extents, found = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True)), {}
    for case in (case for case in derive_cases(plan) if case.name.endswith("tiles in turn")):
        tiles = prod(-(-case.sizes[mode] // extent) for mode, extent in extents.items())
        steps = found[case.name] = -(-case.sizes["K"] // plan.tile["K"])
        rounds = 1 if case.name == "few tiles in turn" else 3
        assert plan.stages and tiles * steps > rounds * plan.stages and case.blocks == plan.cluster_size
        own = -(-tiles // (2 if plan.pingpong else 1))
        assert own > 1 and own * plan.pieces > plan.buffers or case.name == "long tiles in turn"
        assert case.name != "tiles in turn" or own > 3 and own * plan.pieces > 3 * plan.buffers
        assert plan.stages == 1 or steps % plan.stages
    assert found["long tiles in turn"] > plan.stages
    # The phase after two rounds is that of the start, which it is not after one
    assert not plan.pingpong or found["long tiles in turn"] // plan.stages == 2


@pytest.mark.parametrize("name", ["X", "Step", "First", "Tile_M"])
def test_what_the_epilogue_reads_may_be_called_as_a_variable_of_the_kernel(name: str) -> None:
    text = HEAD.replace("  C:", f"  {name}: {{shape: [M, N], dtype: bf16}}\n  C:").replace("B.T", f"B.T + {name}")
    (module,) = generate(text, "specs/x.yaml").modules
    kernel = module.text[module.text.index("def product_kernel(") :]
    own = name.lower() + "_" * (name.lower() in LOCALS)
    assert f" {own} = tCr{name}.load()" in kernel


@pytest.mark.parametrize(
    "name", ["tma_A", "from_sC", "thr_store_C", "PIECES", "x", "share", "sums", "SENT_BYTES", "OWN_N"]
)
def test_scalars_are_not_called_as_what_the_kernel_makes(name: str) -> None:
    with pytest.raises(SpecError, match="CG113"):
        generate(HEAD.replace("A @ B.T", f"{name} * (A @ B.T)") + f"scalars: {{{name}: f32}}\n", "specs/x.yaml")


def test_cases_of_hopper_alone_are_for_hopper_and_copy_what_one_of_them_needs() -> None:
    cases = "  - for: {M: '<= 64'}\n    mma: {atom: wgmma, rows: N}\n  - mma: {atom: wgmma}\n"
    text = HEAD.replace("  mma: {atom: wgmma}\n", cases)
    (module,) = generate(text, "specs/x.yaml").modules
    assert module.spec.targets == ("sm_90a",) and 'PADDED = ("a", "b", "c")' in module.text
    assert module.text.count('"K", 16, "in"') == 2
