"""The inferred schedule of gemms in tensor memory, the specs that they refuse, and which of them are chosen."""

from __future__ import annotations

import pytest

import cutegen
from cutegen.analysis.claims import claims
from cutegen.codegen import Module, generate
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.planning import resolve
from cutegen.planning.report import Report

SPEC = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  mma: {atom: tcgen05}
targets: [sm_100a]
"""
BY_TARGET = SPEC.replace("schedule:\n  mma: {atom: tcgen05}\n", "")


def module(text: str = SPEC, **changes: str) -> Module:
    return generate(changed(text, **changes), "specs/product.yaml").modules[0]


def changed(text: str = SPEC, *, old: str = "", new: str = "", more: str = "") -> str:
    assert not old or old in text
    return text.replace(old, new) + more if old else text + more


def plan_of(text: str = SPEC, **changes: str) -> Tcgen05Plan:
    plan = module(text, **changes).plan
    assert isinstance(plan, Tcgen05Plan)
    return plan


@pytest.mark.parametrize(
    ("more", "tile", "stages", "columns"),
    [
        ("", (128, 128, 64), 3, 128),
        ("static: {N: 24}\n", (128, 32, 64), 5, 32),
        ("static: {N: 80}\n", (128, 80, 64), 4, 128),
        ("static: {K: 100}\n", (128, 128, 64), 2, 128),
        ("static: {N: 4096, K: 4096}\n", (128, 128, 64), 3, 128),
    ],
    ids=["free", "few columns", "columns of no power of two", "short sum", "fixed"],
)
def test_tiles_stages_and_columns(more: str, tile: tuple[int, int, int], stages: int, columns: int) -> None:
    plan = plan_of(more=more)
    assert tuple(plan.tile[mode] for mode in "MNK") == tile
    assert (plan.stages, plan.columns) == (stages, columns)
    assert 2 * (plan.smem_bytes + 1024) <= 228 * 1024  # of two blocks
    assert plan.empty_sum == ("K" not in more)


def test_a_wide_tile_takes_all_shared_memory() -> None:
    plan = plan_of(old="  mma:", new="  tiler: {N: 256}\n  mma:")
    assert (plan.stages, plan.columns) == (4, 256) and 113 * 1024 < plan.smem_bytes <= 227 * 1024


@pytest.mark.parametrize(
    ("change", "vector"),
    [
        ({}, 1),
        ({"more": "divisible: {N: 4}\n"}, 4),
        ({"more": "divisible: {N: 64}\n"}, 8),
        ({"old": "role: out}", "new": "role: out, align: 4}", "more": "divisible: {N: 64}\n"}, 2),
        ({"old": "role: out}", "new": "role: out, major: M}", "more": "divisible: {N: 64, M: 64}\n"}, 1),
        (
            {
                "old": "C: {shape: [M, N], dtype: bf16",
                "new": "C: {shape: [M, N], dtype: f32",
                "more": "static: {N: 96}\n",
            },
            4,
        ),
    ],
)
def test_accesses_to_c(change: dict[str, str], vector: int) -> None:
    plan = plan_of(**change)
    assert plan.pointwise.vector == vector
    assert all(claim.holds for claim in claims(plan))


@pytest.mark.parametrize("text", [SPEC, BY_TARGET, changed(more="divisible: {N: 8}\n")])
def test_inference_is_idempotent(text: str) -> None:
    (spec,) = read_specs(text)
    found = resolve(spec, Report(spec.source))
    (again,) = read_specs(write_spec(found))
    assert resolve(again, Report(again.source)) == found
    assert module(write_spec(found)).text.partition("\n")[2] == module(text).text.partition("\n")[2]


@pytest.mark.parametrize(
    ("old", "new", "code", "said", "help"),
    [
        ("  mma:", "  tiler: {M: 256}\n  mma:", "CG319", "the tile has 256 rows", "write `M: 128`"),
        ("  mma:", "  tiler: {N: 100}\n  mma:", "CG319", "the tile has 100 columns", "write `N: 112`"),
        ("  mma:", "  tiler: {N: 512}\n  mma:", "CG319", "a multiple of 16 from 16 to 256", "write `N: 256`"),
        ("  mma:", "  tiler: {K: 24}\n  mma:", "CG319", "the tile is 24 deep along K", "write `K: 32`"),
        ("  mma:", "  smem: {A: {swizzle: 128}}\n  tiler: {K: 32}\n  mma:", "CG319", "64 bytes along K", "swizzle: 64"),
        ("dtype: bf16}", "dtype: f32}", "CG320", "`A` is f32", "write `dtype: bf16`, or"),
        ("A: {shape: [M, K], dtype: bf16", "A: {shape: [M, K], dtype: bf16, align: 8", None, "", ""),
        ("targets: [sm_100a]", "targets: [sm_103a]", "CG320", "sm_103a has no kernels with tcgen05 here", "[sm_100a]"),
        ("targets: [sm_100a]", "targets: [sm_100a]\nstatic: {M: 1}", "CG320", "M is fixed at 1", "leave `M` out"),
        ("  mma:", "  tiler: {N: 256}\n  pipeline: {stages: 5}\n  mma:", "CG321", "5 stages take", "write `stages: 4`"),
        ("  mma:", "  copies: {C: {bits: 256}}\n  mma:", "CG104", "", ""),
        ("  mma:", "  copies: {C: {bits: 8}}\n  mma:", "CG236", "narrower than an element", "write `bits: 128`"),
        ("role: out}", "role: out, major: M}", None, "", ""),
        ("  mma:", "  copies: {A: {bits: 128}}\n  mma:", "CG203", "it has no `bits`", "leave it out"),
        ("  mma:", "  copies: {C: {atom: tma}}\n  mma:", "CG203", "outputs are stored by universal", "universal"),
        ("  mma:", "  cluster: {M: 2}\n  mma:", "CG101", "cluster", ""),
        ("[M, K], dtype: bf16}", "[M, K], dtype: bf16, at: {M: rows}}", "CG143", "", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(old: str, new: str, code: str | None, said: str, help: str) -> None:
    if "at:" in new:
        new += "\n  rows: {shape: [M], dtype: i32}"
    found = [one for one in cutegen.check(changed(old=old, new=new), "x.yaml") if one.severity == "error"]
    if code is None:
        assert found == []
        return
    assert code in [one.code for one in found]
    one = next(one for one in found if one.code == code)
    assert said in one.message and help in (one.help or "")


TWO = changed(old="compute: C = A @ B.T", new="compute: C = (A @ B.T) * (A @ U.T)")
TWO = changed(TWO, old="  C: {", new="  U: {shape: [N, K], dtype: bf16}\n  C: {")


def test_several_products_have_sums_side_by_side() -> None:
    plan = plan_of(TWO)
    assert (plan.tile["N"], plan.columns, len(plan.b)) == (64, 128, 2)
    assert all(claim.holds for claim in claims(plan))
    wide = plan_of(TWO, old="  mma:", new="  tiler: {N: 256}\n  pipeline: {stages: 2}\n  mma:")
    assert wide.columns == 512


def test_several_products_are_alike() -> None:
    text = changed(TWO, old="U: {shape: [N, K], dtype: bf16", new="U: {shape: [N, K], dtype: bf16, major: N")
    (found,) = (one for one in cutegen.check(text, "x.yaml") if one.severity == "error")
    assert found.code == "CG320" and "one major" in found.message and "write `major: K`" in (found.help or "")


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("", "", {"tcgen05"}),
        ("[sm_100a]", "[sm_90a]", {"wgmma"}),
        ("[sm_100a]", "[sm_80, sm_100a]", {"mma_sync", "tcgen05"}),
        ("[sm_100a]", "[sm_103a]", {"mma_sync"}),
        ("bf16", "f8e5m2", {"tcgen05"}),
        ("bf16", "f32", {"fma"}),
        ("targets: [sm_100a]\n", "", {"wgmma", "mma_sync"}),
    ],
)
def test_a_target_that_has_it_gets_it(old: str, new: str, wanted: set[str]) -> None:
    plan = module(BY_TARGET, old=old, new=new).plan
    assert {kernel.spec.schedule.mma.atom for kernel in plan.kernels} == wanted


def test_the_module_and_the_choice_say_where_it_has_been_run() -> None:
    (spec,) = read_specs(BY_TARGET)
    report = Report(spec.source)
    resolve(spec, report)
    assert "executed on the CPU, never on a GPU" in report.inferred["schedule", "mma", "atom"]
    assert "never on a GPU" in module().text
