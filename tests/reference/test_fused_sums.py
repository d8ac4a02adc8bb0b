"""The error bound of a product that is summed in fewer bits, compared with a bit-by-bit model of such sums."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from cutegen.atoms.mma import ADA_F8, BLACKWELL_SUMS, HOPPER_F8, FusedSum, SumOrder  # noqa: E402
from cutegen.codegen import generate  # noqa: E402
from cutegen.dtypes import Dtype  # noqa: E402
from cutegen.language.reader import read_specs  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.reference.fused_sums import error, spans  # noqa: E402

E4M3, E5M2 = Dtype.f8e4m3, Dtype.f8e5m2


def parts_of(x: float, lowest: int) -> tuple[float, int]:
    """A number as (significand, exponent): from 1 to 2, or below that at the lowest exponent of its type."""
    fraction, exponent = math.frexp(x)
    exponent = max(exponent - 1, lowest) if x else -300
    return (math.ldexp(x, -exponent) if x else 0.0), exponent


def instruction(a: list[float], b: list[float], c: float, lowest: tuple[int, int], fused: FusedSum) -> float:
    """One product: its terms and the accumulator, each cut below the point of the largest exponent, then the sum."""
    places, kept = fused.bits - 1, fused.result_bits - 1
    terms = [parts_of(c, -126)]
    for x, y in zip(a, b, strict=True):
        (s, e), (t, f) = parts_of(x, lowest[0]), parts_of(y, lowest[1])
        terms.append((s * t, e + f))
    top = max(exponent for _, exponent in terms)
    total = sum(math.trunc(math.ldexp(s, places + e - top)) for s, e in terms)
    s, e = parts_of(math.ldexp(total, top - places), -126)
    return math.ldexp(math.trunc(math.ldexp(s, kept)), e - kept)


HOPPER = SumOrder(HOPPER_F8)


def summed(a: torch.Tensor, b: torch.Tensor, order: SumOrder = HOPPER) -> torch.Tensor:
    """The product a @ b.T as hardware sums it: in the order of k, by `order.shares` blocks, and from either end."""
    lowest, terms, size = {torch.float8_e4m3fn: -6, torch.float8_e5m2: -14}, order.fused.terms, a.shape[1]
    tiles, first = -(-size // order.tile), size % terms if order.ends_whole else 0
    ends = [min(tiles * i // order.shares * order.tile, size) for i in range(order.shares + 1)]
    found = torch.zeros(len(a), len(b), dtype=torch.float64)
    for i, row in enumerate(a.double().tolist()):
        for j, column in enumerate(b.double().tolist()):
            for start, stop in pairwise(ends):
                c = 0.0
                for k in range(first - terms if first else start, stop, terms):
                    place = slice(max(k, start), min(k + terms, stop))
                    c = instruction(row[place], column[place], c, (lowest[a.dtype], lowest[b.dtype]), order.fused)
                found[i, j] = float((found[i, j] + c).float())
    return found


def bound(a: torch.Tensor, b: torch.Tensor, order: SumOrder = HOPPER) -> torch.Tensor:
    return error_of_parts(a, b, spans(order, a.shape[1]), order.fused)


def error_of_parts(
    a: torch.Tensor, b: torch.Tensor, shares: list[list[tuple[int, int]]], fused: FusedSum = HOPPER_F8
) -> torch.Tensor:
    kinds = {torch.float8_e4m3fn: E4M3, torch.float8_e5m2: E5M2}
    least = kinds[a.dtype].least_normal, kinds[b.dtype].least_normal
    return error(a.double(), b.double(), (1, 1), least, lambda x, y: x @ y.T, fused, shares)


def data(name: str, rows: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    normal = torch.randn(rows, k, generator=generator)
    match name:
        case "positive":  # the sum outgrows its terms, and what is cut has one sign
            normal = normal.abs()
        case "alternating":  # it stays small beside them
            normal = normal.abs() * torch.tensor([1.0, -1.0]).repeat(k // 2 + 1)[:k]
        case "subnormal":
            normal = normal * torch.finfo(dtype).tiny
        case "spread":  # of all exponents, so that nearly all bits of small terms are cut
            normal = normal * 2.0 ** torch.randint(-12, 6, (rows, k), generator=generator)
        case "cancelling":
            normal[:, k // 2 : 2 * (k // 2)] = -normal[:, : k // 2]
    return normal.to(dtype)


@pytest.mark.parametrize("name", ["normal", "positive", "alternating", "subnormal", "spread", "cancelling"])
@pytest.mark.parametrize(
    "types", [(torch.float8_e4m3fn, torch.float8_e4m3fn), (torch.float8_e5m2, torch.float8_e4m3fn)], ids=str
)
def test_sums_of_hardware_stay_within(name: str, types: tuple[torch.dtype, torch.dtype]) -> None:
    a, b = data(name, 3, 330, types[0]), data(name, 4, 330, types[1])
    off = (summed(a, b) - a.double() @ b.double().T).abs()
    allowed = bound(a, b)
    assert (off <= allowed).all(), (off / allowed).max()
    if name != "subnormal":  # which are whole multiples of so little that nothing is cut
        assert (off > allowed / 200).any(), "and the bound is no wider than it must be"


@pytest.mark.parametrize("name", ["positive", "alternating", "spread"])
def test_sums_that_are_cut_to_fewer_bits_than_their_terms_stay_within(name: str) -> None:
    order = SumOrder(BLACKWELL_SUMS["f8f6f4"])
    a, b = data(name, 3, 330, torch.float8_e5m2), data(name, 4, 330, torch.float8_e5m2)
    off = (summed(a, b, order) - a.double() @ b.double().T).abs()
    allowed = bound(a, b, order)
    assert (off <= allowed).all() and (off > allowed / 400).any(), (off / allowed).max()


def test_the_worst_that_can_be_cut_is_what_is_allowed() -> None:
    """Half of the bound, which counts a unit for each term: of a large sum, and products that lose nearly one each."""
    a, b = torch.full((1, 64), 2.0**-9), torch.full((1, 64), 1.0)
    a[0, 0], b[0, 0] = 16.0, 16.0  # 2^8, whose unit is 2^-5
    a[0, 1:32], a[0, 32:] = 2.0**-6 * 1.875, 2.0**-6 * 1.875  # just below
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    off = float(a.double() @ b.double().T - summed(a, b))
    assert 0.45 * float(bound(a, b)) < off <= float(bound(a, b))


def test_small_whole_numbers_are_exact_and_larger_ones_are_not() -> None:
    ones = torch.full((1, 2048), 4.0).to(torch.float8_e4m3fn)
    assert float(summed(ones[:, :1024], ones[:, :1024])) == 2**14
    odd = ones.clone()
    odd[0, -1] = 1 / 4
    assert float(summed(ones, odd)) == 2**15 - 16 != float(ones.double() @ odd.double().T)


def test_instructions_are_told_by_coordinates() -> None:
    assert spans(HOPPER, 70) == [[(0, 32), (32, 64), (64, 70)]] and spans(HOPPER, 0) == [[]]
    assert spans(HOPPER, 98, (0, 31, 32, 96, 97)) == [[(0, 2), (2, 3), (3, 5)]]


def test_instructions_may_end_with_k_and_blocks_share_it() -> None:
    ada = SumOrder(ADA_F8, ends_whole=True)
    assert spans(ada, 40) == [[(0, 8), (8, 24), (24, 40)]] and spans(ada, 32) == [[(0, 16), (16, 32)]]
    assert spans(ada, 2**20 + 8, (0, 7, 8, 2**20 - 8, 2**20)) == [[(0, 2), (2, 3), (3, 5)]]
    three = SumOrder(HOPPER_F8, shares=3, tile=64)
    assert spans(three, 300) == [pairs(0, 64), pairs(64, 192), pairs(192, 300)]
    assert spans(three, 64) == [[], [], pairs(0, 64)]


def pairs(start: int, stop: int) -> list[tuple[int, int]]:
    return [(at, min(at + 32, stop)) for at in range(start, stop, 32)]


ORDERS = {
    "ends with k": SumOrder(ADA_F8, ends_whole=True),
    "starts with k": SumOrder(ADA_F8),
    "two blocks": SumOrder(HOPPER_F8, shares=2, tile=64),
    "three blocks": SumOrder(HOPPER_F8, shares=3, tile=32),
}


def hidden(k: int, at: int, other: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Products of 7.5, but for two large ones that cancel each other: what is beside one of them is cut."""
    a, b = torch.full((1, k), 2.5), torch.full((1, k), 3.0)
    a[:, at], b[:, at], a[:, other], b[:, other] = 256.0, 256.0, -256.0, 256.0
    return a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)


@pytest.mark.parametrize("name", ORDERS)
def test_sums_in_any_order_stay_within_their_bound(name: str) -> None:
    """Also where large products stand at the borders of instructions and of shares."""
    order = ORDERS[name]
    for k in (232, 256, 264):
        tried = [(data("spread", 2, k, torch.float8_e4m3fn), data("spread", 3, k, torch.float8_e5m2))]
        tried += [hidden(k, at, at + 1) for at in (7, 15, 31, 63, 127, k % 16 + 15, k % 16 + 31)]
        for a, b in tried:
            off = (summed(a, b, order) - a.double() @ b.double().T).abs()
            assert (off <= bound(a, b, order)).all(), (k, off / bound(a, b, order))


def test_a_sum_in_another_order_would_not() -> None:
    """Of large products in one instruction others lose all, and of one each in two much less."""
    a, b = (torch.cat([one] * 40, dim=1) for one in hidden(32, 7, 8))
    a, b = (one[:, :1272] for one in (a, b))
    of, other = ORDERS["ends with k"], ORDERS["starts with k"]
    off = (summed(a, b, of) - a.double() @ b.double().T).abs()
    assert (off <= bound(a, b, of)).all() and (off > bound(a, b, other)).all()


SPEC = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f8e4m3}
  B: {shape: [N, K], dtype: f8e5m2}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  mma: {atom: wgmma}
"""


def test_what_is_expected_of_a_kernel_is_the_exact_sum_with_this_bound() -> None:
    spec = read_specs(SPEC, "x.yaml")[0]
    a, b = data("normal", 5, 100, torch.float8_e4m3fn), data("normal", 6, 100, torch.float8_e5m2)
    found = evaluate(spec, {"A": a, "B": b}, {})["C"]
    assert torch.equal(found.value, a.double() @ b.double().T)
    assert (found.bound >= bound(a, b)).all(), "and are f32 in the end"
    assert torch.allclose(found.bound, bound(a, b), rtol=1e-3)
    apart = evaluate(spec, {"A": a[:, :40], "B": b[:, :40]}, {}, {"K": [*range(8), *range(2**20, 2**20 + 32)]})["C"]
    assert torch.allclose(apart.bound, error_of_parts(a[:, :40], b[:, :40], [[(0, 8), (8, 40)]]), rtol=1e-3)
    whole = {"A": a.float().round().to(a.dtype), "B": b.float().round().to(b.dtype)}
    assert not evaluate(spec, whole, {})["C"].bound.any(), "small whole numbers are exact"
    large = {"A": torch.full_like(a, 16.0), "B": torch.full_like(b, 16.0)}
    assert evaluate(spec, large, {})["C"].bound.all(), "100 * 2^8 has more than 14 bits"


CASES = """\
schedule:
  - for: {target: sm_90a}
    mma: {atom: wgmma}
    tiler: {M: 64, N: 64, K: 64}
    cluster: {K: 2}
  - mma: {atom: mma_sync}
targets: [sm_89, sm_90a]
"""


@pytest.mark.parametrize("schedule", ["two blocks", "ends with k", "cases"])
def test_the_bound_holds_for_the_order_of_each_schedule(schedule: str) -> None:
    text = SPEC.replace("f8e5m2", "f8e4m3")
    head = text[: text.index("schedule:")]
    text = {
        "two blocks": text + "  tiler: {M: 64, N: 64, K: 64}\n  cluster: {K: 2}\n",
        "ends with k": text.replace("wgmma", "mma_sync") + "targets: [sm_89]\ndivisible: {K: 8}\n",
        "cases": head + CASES,
    }[schedule]
    made = generate(text, "x.yaml").modules[0]
    orders = made.spec.family.sum_orders(made.spec)
    assert len(orders) == 1 + (schedule == "cases")
    for k in (136, 256):
        a, b = hidden(k, 7, 8) if k == 136 else (data("spread", rows, k, torch.float8_e4m3fn) for rows in (5, 6))
        found = evaluate(made.spec, {"A": a, "B": b}, {})["C"]
        for order in orders:
            off = (summed(a, b, order) - a.double() @ b.double().T).abs()
            assert (off <= found.bound).all()
