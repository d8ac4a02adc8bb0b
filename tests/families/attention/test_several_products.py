"""Contractions with several products of two tensors, and several along the walk, as gradients of attention have."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from attention_gradients_kit import STATEMENTS, spec
from sweep_kit import sampled
from tree_mistakes import about, mistakes

from cutegen.codegen import Module, generate
from cutegen.families.attention.mma_sync.mainloop import body
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.attention.mma_sync.synchronisation import counts, run_of
from cutegen.language.diagnostics import SpecError
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body
from cutegen.reference.bounds import evaluate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

torch = pytest.importorskip("torch")

OUTER = {"B": 2, "G": 2, "R": 2, "D": 32, "E": 48}
TEXTS = {kind: spec(kind, "sm_80", 32, 32, 2) for kind in STATEMENTS}
CASES = (
    Case("tiles", "", {**OUTER, "M": 37, "N": 101}, "padded", "random", 1, {"scale": 0.2}),
    Case("more rows", "", {**OUTER, "M": 101, "N": 37}, "compact", "random", 2, {"scale": 0.2}),
    Case("whole numbers", "", {**OUTER, "R": 3, "M": 65, "N": 64}, "padded", "integers", 3, {"scale": 0.25}),
)


@cache
def made(kind: str, stages: int = 2) -> Module:
    return generate(spec(kind, "sm_80", 32, 32, stages), "specs/small.yaml").modules[0]


def plan(kind: str, stages: int = 2) -> AttentionPlan:
    found = made(kind, stages).plan
    assert isinstance(found, AttentionPlan)
    return found


def failed(kind: str, text: str, folder: Path) -> list[str]:
    """The messages of the cases that a module with this text fails."""
    path = folder / "small.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    reports = [verify_case(made(kind).plan, case, loaded, executor) for case in CASES]
    return [one.message for one in reports if one.status != "passed"]


@pytest.mark.parametrize("kind", TEXTS)
def test_they_are_right(kind: str, tmp_path: Path) -> None:
    assert failed(kind, made(kind).text, tmp_path) == []


FREE = "        # Until no thread reads this stage\n"
WAIT = "        cute.arch.cp_async_wait_group(STAGES - 1)\n        cute.arch.sync_threads()\n"
END = "cutlass.Int32(cute.ceil_div(cutlass.max(end_place, 0), BLK_N))"
MISTAKES = {
    "q": {
        "scores of the other pair": ("scores_2 = scores_mn_2[row", "scores_2 = scores_mn[row"),
        "rows of the tile that are not loaded": ("+ ahead) * BLK_N, size_N", "+ ahead) * BLK_N, 70"),
        "sums that are kept": ("        acc_S_2.fill(0.0)\n", ""),
        "no wait for a stage": (WAIT, "        cute.arch.sync_threads()\n"),
        "a stage that is still read": (f"{FREE}        cute.arch.sync_threads()\n", FREE),
        "a mask one tile early": (END, "cutlass.Int32(cutlass.max(end_place, 0) // BLK_N)"),
        "the sums of another head": ("mdelta[at_B, at_G, at_R,", "mdelta[at_B, at_G, 0,"),
        "without the factor": ("dQ_value = sums * scale", "dQ_value = sums"),
    },
    "kv": {
        "a head left out": ("rounds = tiles * size_R", "rounds = tiles * (size_R - 1)"),
        "the first head's tiles": ("ahead // tiles * every_tile + along", "along"),
        "the first head's sums": ("mlse[at_B, at_G, at_R, None]", "mlse[at_B, at_G, 0, None]"),
        "the head before": ("at_R = tile // tiles", "at_R = (tile + 1) // tiles % size_R"),
        "tiles of all queries": ("every_tile = cute.ceil_div(size_M, BLK_M)", "every_tile = tiles"),
        "the other factor": ("tOrP_2[None", "tOrP[None"),
        "both outputs in one place": ("storage + 3072, swizzle_dK", "storage, swizzle_dK"),
        "places of another tile": ("start = (first_tile + tile % tiles)", "start = (first_tile + tile)"),
        "a mask one tile late": ("cutlass.Int32(first_place // BLK_M)", "cutlass.Int32(first_place // BLK_M + 1)"),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mistake"), sampled([(kind, mistake) for kind, every in MISTAKES.items() for mistake in every])
)
def test_each_mistake_is_seen(kind: str, mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[kind][mistake]
    text = made(kind).text
    assert old in text, f"{old} is not in the module: adapt the mistake"
    assert failed(kind, text.replace(old, new), tmp_path)


# ------------------------------------------------------------------------------------------------------------ trees


def refused(found: AttentionPlan, tree: Body) -> str:
    """The kind of fault that a proof finds in a tree, or that a name has no value; empty where it finds none."""
    try:
        for tiles in counts(found):
            prove(run_of(found, tiles, tree))
    except Unproved as error:
        return error.fault.kind
    except (NameError, ZeroDivisionError):
        return "text"
    return ""


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_they_are_right_in_every_order(kind: str, stages: int) -> None:
    found = plan(kind, stages)
    assert not found.by_turns and refused(found, body(found)) == ""


@pytest.mark.parametrize(("kind", "stages"), sampled([("q", 2), ("kv", 2), ("q", 3), ("kv", 3)]))
def test_each_mistake_in_a_tree_is_refused(kind: str, stages: int) -> None:
    found = plan(kind, stages)
    tried = list(mistakes(body(found)))
    kinds = {str(one): (about(one), refused(found, one.tree)) for one in tried}
    assert len(tried) > 60
    # At the end all groups with copies have been waited for
    assert {key for key, said in kinds.values() if not said} <= {
        ("CpAsyncWaitGroup", what, "0") for what in ("by one warp", "left out", "one group less")
    }


# -------------------------------------------------------------------------------------------------------- gradients


def test_the_statements_are_the_gradients_of_attention() -> None:
    """Against torch's own derivative of attention, in float64."""
    generator = torch.Generator().manual_seed(5)
    sizes = {**OUTER, "M": 9, "N": 13}

    def random(*modes: str) -> torch.Tensor:
        return torch.randn([sizes[m] for m in modes], generator=generator).bfloat16().double()

    q, do = random("B", "M", "G", "R", "D"), random("B", "M", "G", "R", "E")
    k, v = random("B", "N", "G", "D"), random("B", "N", "G", "E")
    for x in (q, k, v):
        x.requires_grad_()
    s = torch.einsum("bmgrd,bngd->bgrmn", q, k) * 0.25
    late = torch.arange(13)[None, :] - 13 > torch.arange(9)[:, None] - 9
    s = s.masked_fill(late, -torch.inf)
    o = torch.einsum("bgrmn,bnge->bmgre", s.softmax(-1), v)
    gradients = dict(zip(("dQ", "dK", "dV"), torch.autograd.grad(o, (q, k, v), do), strict=True))
    given = {"Q": q.detach(), "K": k.detach(), "V": v.detach(), "dO": do}
    given["lse"] = s.logsumexp(-1).detach()
    given["delta"] = (do * o).sum(-1).permute(0, 2, 3, 1).detach()
    for kind in TEXTS:
        for name, one in evaluate(made(kind).plan.spec, given, {"scale": 0.25}).items():
            assert torch.allclose(one.value, gradients[name], rtol=0, atol=1e-12), name


# ---------------------------------------------------------------------------------------------------------- language


def said(text: str) -> str:
    with pytest.raises(SpecError) as error:
        generate(text, "specs/small.yaml")
    return " ".join(f"{one.code} {one.message}; {one.help}" for one in error.value.diagnostics)


def test_a_second_product_has_the_modes_of_the_first() -> None:
    text = TEXTS["q"].replace("  dO: {shape: [B, M, G, R, E]", "  dO: {shape: [B, M, G, E]")
    assert "CG127 a second product of two tensors has the modes `B`, `M`, `G`, `N`, and the first one has" in said(text)


def test_a_sum_goes_along_all_that_is_walked() -> None:
    text = TEXTS["kv"].replace("sum(sum(cast(P, bf16) * dO, M), R)", "sum(cast(P, bf16) * dO, M)")
    assert "CG127" in said(text) and "reduce along both, `sum(sum(x, M), R)`" in said(text)


def test_a_mistake_is_said_at_its_statement() -> None:
    text = TEXTS["q"].replace("P * (sum", "P * dO * (sum")
    with pytest.raises(SpecError) as error:
        generate(text, "specs/small.yaml")
    (found,) = error.value.diagnostics
    line = 1 + next(number for number, one in enumerate(text.splitlines()) if "- dS = " in one)
    assert "`dS` differs along `E`" in found.message and found.span.line == line


PLAIN = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  O: {shape: [B, M, G, R, E], dtype: bf16, role: out}
compute:
  - s = sum(Q * K, D)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N)
static: {D: 32, E: 32}
schedule: {tiler: {M: 32, N: 32}, pipeline: {stages: 1}}
targets: [sm_80]
"""
OF_HEADS = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  dO: {shape: [B, M, G, R, E], dtype: bf16}
  dV: {shape: [B, N, G, E], dtype: bf16, role: out}
compute:
  - p = where(coord(N) <= coord(M), exp(sum(Q * K, D)), 0)
  - dV = sum(sum(cast(p, bf16) * dO, M), R)
static: {D: 32, E: 32}
schedule: {tiler: {M: 32, N: 32}, pipeline: {stages: 1}}
targets: [sm_80]
"""
TWO_OUTPUTS = PLAIN.replace("compute:", "  P: {shape: [B, M, G, R, E], dtype: bf16, role: out}\ncompute:").replace(
    "static:", "  - P = O * 2\nstatic:"
)
OF_ONE_TENSOR = "".join(line for line in PLAIN.splitlines(True) if "V: {" not in line).replace("* V", "* K")
TWO_SUMS = OF_HEADS.replace("  dV:", "  dK: {shape: [B, N, G, D], dtype: bf16, role: out}\n  dV:").replace(
    "static:", "  - dK = sum(sum(cast(p, bf16) * Q, M), R)\nstatic:"
)
MORE_THAN_ONE = {
    "2 products of two tensors": TEXTS["q"],
    "2 products along M": TWO_SUMS,
    "sums along M and R": OF_HEADS,
    "two products with `K`": OF_ONE_TENSOR.replace("R, E]", "R, D]").replace("D: 32, E: 32", "D: 32"),
    "2 outputs of rows along E": TWO_OUTPUTS,
}


@pytest.mark.parametrize("several", MORE_THAN_ONE)
def test_a_split_walk_takes_one_pair(several: str) -> None:
    text = MORE_THAN_ONE[several]
    walked = "M" if "dV" in text else "N"
    assert generate(text, "specs/small.yaml").modules
    found = said(text.replace("schedule: {", f"schedule: {{split: {{{walked}: 4}}, "))
    assert f"CG318 statements have {several}, and a split walk multiplies one pair" in found
    assert "leave `split` out" in found


@pytest.mark.parametrize("several", [one for one, text in MORE_THAN_ONE.items() if "dV" not in text])
def test_rows_of_several_modes_take_one_pair(several: str) -> None:
    found = said(MORE_THAN_ONE[several].replace("tiler: {M: 32", "tiler: {M*R: 32"))
    assert f"CG318 statements have {several}, and rows of `M*R` are for one pair" in found
    assert "write `M` for `M*R` in the tiler" in found


@pytest.mark.parametrize("schedule", ["split: {N: 4}, tiler: {M: 32", "tiler: {M*R: 32"])
def test_one_pair_is_split_and_has_rows_of_several_modes(schedule: str) -> None:
    assert generate(PLAIN.replace("tiler: {M: 32", schedule), "specs/small.yaml").modules


def test_sums_fit_the_registers_of_a_thread() -> None:
    text = TEXTS["kv"].replace("D: 32, E: 48", "D: 256, E: 256")
    found = said(text.replace("M: 32, N: 32", "M: 16, N: 32").replace("sm_80", "sm_90a"))
    assert "CG317 a thread needs" in found and "write a kernel for each output" in found


def test_warps_that_share_keys_have_all_rows_in_their_registers() -> None:
    schedule = "split: {N: 4}, mma: {warps: 4}, tiler: {M: 16, N: 704"
    found = said(PLAIN.replace("tiler: {M: 32, N: 32", schedule).replace("D: 32, E: 32", "D: 64, E: 256"))
    assert "CG317 a thread needs 260 registers" in found


@pytest.mark.parametrize("d", [32, 48, 80, 112, 128, 208])
@pytest.mark.parametrize("e", [48, 64, 96, 160])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_tile_is_inferred_that_threads_copy_and_registers_hold(kind: str, d: int, e: int) -> None:
    text = TEXTS[kind].replace("schedule: {tiler: {M: 32, N: 32}, pipeline: {stages: STAGES}}\n", "")
    found = generate(text.replace("D: 32, E: 48", f"D: {d}, E: {e}"), "specs/small.yaml").modules[0].plan
    assert isinstance(found, AttentionPlan) and found.smem_bytes <= 163 << 10


def test_a_tensor_may_be_multiplied_twice_along_the_walk(tmp_path: Path) -> None:
    text = (
        TEXTS["q"]
        .replace("STAGES", "2")
        .replace("  dQ: ", "  dQ2: {shape: [B, M, G, R, D], dtype: bf16, role: out}\n  dQ: ")
    )
    text = text.replace("static:", "  - dQ2 = sum(cast(P, bf16) * K, N)\nstatic:")
    module = generate(text, "specs/small.yaml").modules[0]
    (tmp_path / "small.py").write_text(module.text, encoding="utf-8")
    loaded = load_module(tmp_path / "small.py")
    assert verify_case(module.plan, CASES[0], loaded, EmulatorExecutor(lines=False)).status == "passed"


def test_what_is_written_is_not_read() -> None:
    text = TEXTS["q"].replace("STAGES", "2").replace("dtype: bf16, role: out", "dtype: bf16, role: inout")
    assert "CG127 `dQ` is `inout`" in said(text) and "role: out" in said(text)


def test_without_an_atom_single_warps_multiply_several_pairs() -> None:
    (found,) = generate(TEXTS["q"].replace("STAGES", "2").replace("sm_80", "sm_90a"), "specs/small.yaml").modules
    assert isinstance(found.plan, AttentionPlan)
