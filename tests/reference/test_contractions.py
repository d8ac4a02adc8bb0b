"""Sums of products of what was computed: errors of kernels that round on the way stay within the bounds."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.language.model import KernelSpec  # noqa: E402
from cutegen.language.reader import read_specs  # noqa: E402
from cutegen.reference.bounds import Expected, evaluate  # noqa: E402

SPEC = """\
cutegen: 1
kernel: attention
op: contract
tensors:
  Q: {shape: [M, D], dtype: DTYPE}
  K: {shape: [N, D], dtype: DTYPE}
  V: {shape: [N, E], dtype: DTYPE}
  O: {shape: [M, E], dtype: f32, role: out}
  lse: {shape: [M], dtype: f32, role: out}
scalars: {scale: f32}
compute:
  - s = SCORES
  - m = max(s, N)
  - p = exp(s - m)
  - l = sum(p, N)
  - O = sum(cast(p, DTYPE) * V, N) / l
  - lse = m + log(l)
static: {D: 32, E: 32}
"""
FULL = "sum(Q * K, D) * scale"
CAUSAL = "where(coord(N) <= coord(M), sum(Q * K, D) * scale, -inf)"
SIZES = {"M": 24, "N": 40, "D": 32, "E": 32}
LN2 = float(torch.tensor(math.log(2), dtype=torch.float32))


def spec(scores: str = FULL, dtype: str = "bf16") -> KernelSpec:
    return read_specs(SPEC.replace("DTYPE", dtype).replace("SCORES", scores))[0]


def data(dtype: torch.dtype, whole: bool = False, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def one(rows: str, columns: str, most: int) -> torch.Tensor:
        shape = SIZES[rows], SIZES[columns]
        if whole:
            return torch.randint(-most, most + 1, shape, generator=generator).to(dtype)
        return torch.randn(shape, generator=generator).to(dtype)

    return {"Q": one("M", "D", 1), "K": one("N", "D", 1), "V": one("N", "E", 4)}


def walked(x: dict[str, torch.Tensor], scale: float, tile: int, causal: bool = False) -> dict[str, torch.Tensor]:
    """A kernel's way, in f32: tile by tile, with factors rounded relative to the largest score so far."""
    q, k, v = (x[name].float() for name in "QKV")
    dtype, rows = x["Q"].dtype, len(q)
    largest, total = torch.full((rows,), -math.inf), torch.zeros(rows)
    sums = torch.zeros(rows, v.shape[1])
    for start in range(0, len(k), tile):
        s = q @ k[start : start + tile].T * scale
        if causal:
            places = torch.arange(start, start + s.shape[1])
            s = s.masked_fill(places[None, :] > torch.arange(rows)[:, None], -math.inf)
        new = torch.maximum(largest, s.amax(1))
        p, grown = torch.exp(s - new[:, None]), torch.exp(largest - new)
        total = total * grown + p.sum(1)
        sums = sums * grown[:, None] + p.to(dtype).float() @ v[start : start + tile]
        largest = new
    return {"O": sums / total[:, None], "lse": largest + torch.log(total)}


def walked_late(x: dict[str, torch.Tensor], scale: float, tile: int) -> dict[str, torch.Tensor]:
    """The same where powers of 2 are of one multiply-add of scores each, above a product that is rounded on its own."""
    q, k, v = (x[name].float() for name in "QKV")
    steep = torch.tensor(scale) * torch.tensor(math.log2(math.e))
    largest, total = torch.full((len(q),), -math.inf), torch.zeros(len(q))
    sums = torch.zeros(len(q), v.shape[1])
    for start in range(0, len(k), tile):
        scores = q @ k[start : start + tile].T
        new = torch.maximum(largest, scores.amax(1))
        power = scores.double() * steep.double() - (new * steep).double()[:, None]
        p, grown = torch.exp2(power.float()), torch.exp2((largest - new) * steep)
        total = total * grown + p.sum(1)
        sums = sums * grown[:, None] + p.to(x["Q"].dtype).float() @ v[start : start + tile]
        largest = new
    return {"O": sums / total[:, None], "lse": largest * scale + torch.log(total)}


def within(found: dict[str, torch.Tensor], expected: dict[str, Expected]) -> dict[str, float]:
    """The largest error of each output as a share of its bound."""
    return {name: float(((found[name].double() - one.value).abs() / one.bound).max()) for name, one in expected.items()}


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("tile", [1, 8, 40])
@pytest.mark.parametrize("scale", [0.18, 1.0])
def test_a_kernel_that_walks_stays_within_the_bounds(dtype: str, tile: int, scale: float) -> None:
    made = data(torch.bfloat16 if dtype == "bf16" else torch.float16)
    scale = float(torch.tensor(scale, dtype=torch.float32))
    expected = evaluate(spec(dtype=dtype), made, {"scale": scale})
    shares = within(walked(made, scale, tile), expected)
    assert all(share <= 1 for share in shares.values()), shares
    assert shares["O"] > 0.02, "and the bound is no wider than it must be"


@pytest.mark.parametrize("factor", [1, 16])
def test_scores_that_are_scaled_late_stay_within_the_bounds_of_fast_functions(factor: int) -> None:
    """Scores of hundreds: the product that powers are above is off by as much as their sums are."""
    made = data(torch.bfloat16, whole=True)
    made["Q"] *= factor
    text = SPEC.replace("DTYPE", "bf16").replace("SCORES", FULL) + "schedule: {math: MATH}\ntargets: [sm_80]\n"
    fast, precise = (
        generate(text.replace("MATH", math), "specs/x.yaml").modules[0].plan.spec for math in ("fast", "precise")
    )
    expected = evaluate(fast, made, {"scale": 1.0})
    for tile in (8, 40):
        shares = within(walked_late(made, 1.0, tile), expected)
        assert all(share <= 1 for share in shares.values()), shares
    shares = within(walked_late(made, 1.0, 8), evaluate(precise, made, {"scale": 1.0}))
    assert (shares["lse"] > 1) == (factor > 1)


def test_powers_of_two_are_exact_factors() -> None:
    """Whole scores times ln 2: what is left are roundings of f32, and a factor that is off shows."""
    made = data(torch.bfloat16, whole=True)
    expected = evaluate(spec(), made, {"scale": LN2})
    assert float((expected["O"].bound / (expected["O"].value.abs() + 1)).max()) < 2e-5
    assert all(share <= 1 for share in within(walked(made, LN2, 8), expected).values())
    other = evaluate(spec(), made, {"scale": 0.7})
    assert float((other["O"].bound / (other["O"].value.abs() + 1)).max()) > 1e-3


def test_a_mask_excludes_what_it_should() -> None:
    made = data(torch.bfloat16)
    expected = evaluate(spec(CAUSAL), made, {"scale": 0.25})
    assert all(share <= 1 for share in within(walked(made, 0.25, 8, causal=True), expected).values())
    assert within(walked(made, 0.25, 8), expected)["O"] > 1


def test_rows_without_an_element_are_nan() -> None:
    expected = evaluate(
        spec("where(coord(N) < coord(M), sum(Q * K, D) * scale, -inf)"), data(torch.bfloat16), {"scale": 1.0}
    )
    for one in expected.values():
        assert one.value[0].isnan().all() and (one.bound[0] == 0).all()
        assert one.value[1:].isfinite().all() and one.bound[1:].isfinite().all()


def test_nothing_is_said_of_zero_times_nan_that_a_mask_excludes() -> None:
    made = data(torch.bfloat16)
    made["V"][30, 3] = math.nan  # which the causal rows up to 23 never see
    made["V"][10, 5] = math.inf
    expected = evaluate(spec(CAUSAL), made, {"scale": 0.25})["O"]
    assert expected.bound[:, 3].isinf().all()
    assert expected.bound[:10, 5].isinf().all() and expected.bound[:, 4].isfinite().all()


def test_a_certain_nan_among_the_factors_is_known() -> None:
    made = data(torch.bfloat16)
    made["Q"][2, 0] = math.nan
    made["V"][7, 1] = math.nan
    expected = evaluate(spec(), made, {"scale": 0.25})["O"]
    assert expected.value[2].isnan().all() and (expected.bound[2] == 0).all()
    assert expected.value[:, 1].isnan().all() and (expected.bound[:, 1] == 0).all()
    assert expected.value[3, 2:].isfinite().all()


LENGTHS = """\
cutegen: 1
kernel: attention
op: contract
tensors:
  Q: {shape: [H, M, D], dtype: bf16}
  K: {shape: [H, N, D], dtype: bf16}
  V: {shape: [H, N, D], dtype: bf16}
  O: {shape: [H, M, D], dtype: f32, role: out}
compute:
  - s = sum(Q * K, D) * cast(coord(H) + 1, f32) / cast(len(H), f32)
  - p = where(coord(N) - len(N) <= coord(M) - len(M), sigmoid(s), 0)
  - O = sum(cast(p, bf16) * V, N)
static: {D: 32}
"""


def of_lengths(heads: int, rows: int, keys: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(heads)
    shapes = {"Q": (heads, rows, 32), "K": (heads, keys, 32), "V": (heads, keys, 32)}
    return {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in shapes.items()}


def test_lengths_are_those_of_the_call_where_a_part_of_it_is_evaluated() -> None:
    """Of many heads, which are evaluated some at a time, and of a call that has some keys only."""
    made = of_lengths(heads=40, rows=64, keys=96)
    q, k, v = (made[name].double() for name in "QKV")
    s = q @ k.mT * ((torch.arange(40) + 1) / 40)[:, None, None].double()
    there = torch.arange(96)[None] - 96 <= torch.arange(64)[:, None] - 64
    wanted = (torch.sigmoid(s) * there).bfloat16().double() @ v
    (spec_of_lengths,) = read_specs(LENGTHS)
    found = evaluate(spec_of_lengths, made, {})["O"]
    assert bool(((found.value - wanted).abs() <= found.bound + 0.02).all())

    made = of_lengths(heads=1, rows=64, keys=96)
    gone = slice(32, 64)
    made["V"][:, gone] = 0
    some = [i for i in range(96) if i not in range(*gone.indices(96))]
    near = made | {name: made[name][:, some] for name in "KV"}
    found = evaluate(spec_of_lengths, near, {}, {"N": some}, whole={"N": 96})["O"]
    assert torch.equal(found.value, evaluate(spec_of_lengths, made, {})["O"].value)


def test_the_order_of_a_sum_decides_which_infinity_it_overflows_to() -> None:
    """Unless all of its terms have one sign."""
    x = data(torch.bfloat16)
    x["Q"][:2] = 1e19
    x["Q"][1, 1::2] = 0.0
    x["K"][:, ::2], x["K"][:, 1::2] = -1e20, 5e19
    found = evaluate(spec(), x, {"scale": 1.0})["lse"]
    assert found.bound[0].isinf()
    assert found.bound[1] == 0 and found.value[1].isnan()
