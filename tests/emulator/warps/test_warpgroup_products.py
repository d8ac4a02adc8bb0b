"""Loads by tensor maps and products of warpgroups: a gemm that uses both, right to the bit, and each mistake seen."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hopper_kit import F8, built, module_text, product, run
from sweep_kit import sampled

from cutegen.emulator import FaultError, UnsupportedInstruction
from cutegen.emulator.host.builds import Build
from cutegen.emulator.warps.product_types import cut

pytest.importorskip("cutlass")

DEEP = (128, 64, 320)  # more tiles along k than stages, in one block


@pytest.mark.parametrize(
    ("a", "b", "dtype", "tile", "swizzle"),
    [
        ("K", "K", "BFloat16", (128, 64, 64), 128),
        ("M", "N", "Float16", (64, 128, 32), 64),
        ("K", "N", "BFloat16", (64, 32, 32), 64),
        ("M", "K", "BFloat16", (64, 96, 16), 32),
        ("K", "K", "Float8E4M3FN", (64, 64, 128), 128),
        ("K", "K", "Float8E5M2 Float8E4M3FN", (128, 32, 64), 64),
    ],
)
def test_right_to_the_bit(a: str, b: str, dtype: str, tile: tuple[int, int, int], swizzle: int, tmp_path: Path) -> None:
    """Of whole numbers; in tiles that are whole and not, in one block and several, along few and many tiles of k."""
    made = built(module_text(a, b, dtype, tile, swizzle), tmp_path)
    m, n, k = tile
    for sizes in ((m, n, k), (m + 9, 2 * n - 3, 5 * k + 7), (1, 1, 1)):
        assert run(made, sizes, a, b, dtype, orders=2), sizes


@lru_cache(maxsize=1)
def gemm(folder: Path) -> Build:
    return built(module_text(), folder)


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return gemm(tmp_path_factory.getbasetemp())


TRY = r"mbarrier\.try_wait\.parity\.shared\.b64 P1, .*;"
MISTAKES = {
    "the product before its operands have come": (TRY, 1, "setp.eq.u32 P1, 0, 0;", "in-flight"),
    "a load before its stage is free": (TRY, 0, "setp.eq.u32 P1, 0, 0;", "in-flight|race"),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", 0, "", "wgmma"),
    "no group": (r"wgmma\.commit_group\.sync\.aligned;", 0, "", "in-flight"),
    "no wait for the product": (r"wgmma\.wait_group\.sync\.aligned\s+0;", 0, "", "in-flight"),
    "a wait that leaves the last product": (r"(wgmma\.wait_group\.sync\.aligned\s+)0;", 0, r"\g<1>1;", "race"),
    "no fence of the mbarriers": (r"fence\.mbarrier_init\.release\.cluster;", 0, "", "mbarrier"),
    "no barrier behind them": (r"bar\.sync\s+0;", 0, "", "mbarrier"),
    "a stage is never given back": (r"mbarrier\.arrive\.shared\.b64 .*;", 0, "", "deadlock"),
    "too many bytes are expected": (r"(mbarrier\.arrive\.expect_tx\S+ \S+ \S+) \S+;", 0, r"\g<1> 32768;", "deadlock"),
    "too few bytes are expected": (r"(mbarrier\.arrive\.expect_tx\S+ \S+ \S+) \S+;", 0, r"\g<1> 16384;", "in-flight"),
    "a load of other coordinates": (r"\{(%r\d+), (%r\d+)\}\], \[%r\d+\]", 0, None, "wrong"),
    "one operand is not loaded": (r"cp\.async\.bulk\.tensor\.2d.*;", 1, "", "deadlock"),
    "the other one's tensor map": (r"cvta\.param\.u64\s+\S+\s+(%rd\d+);", 0, None, "deadlock"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, made: Build) -> None:
    pattern, number, text, expected = MISTAKES[mistake]
    found = list(re.finditer(pattern, made.ptx))[number]
    if text is None:  # what another place has
        other = list(re.finditer(pattern, made.ptx))[1]
        put = found[0].replace(found[1], other[1]) if "map" in mistake else found[0].replace(found[1], found[2])
    else:
        put = found.expand(text)
    wrong = replace(made, ptx=made.ptx[: found.start()] + put + made.ptx[found.end() :])
    try:
        seen = "right" if run(wrong, DEEP) else "wrong"
    except FaultError as error:
        seen = error.fault.kind
    assert seen in expected.split("|"), seen


def test_the_same_without_a_mistake(made: Build) -> None:
    assert run(made, DEEP, orders=3)


def test_registers_that_are_touched_in_flight(made: Build) -> None:
    """An accumulator that is written while a product writes it, and one that is written between fence and product."""
    product = re.search(r"wgmma\.mma_async\S+ \{(%r\d+),", made.ptx)
    assert product is not None
    touch = f"mov.b32 {product[1]}, 0;\n"
    after = made.ptx.replace("wgmma.commit_group.sync.aligned;", touch + "wgmma.commit_group.sync.aligned;")
    with pytest.raises(FaultError, match="written while a product"):
        run(replace(made, ptx=after), DEEP)
    before = re.sub(r"(wgmma\.fence\.sync\.aligned;)", rf"\1\nmov.b32 {product[1]}, 7;", made.ptx)
    with pytest.raises(FaultError, match=r"written since the warp's last wgmma\.fence"):
        run(replace(made, ptx=before), DEEP)
    start = before.replace(f"mov.b32 {product[1]}, 7;", f"mov.b32 {product[1]}, 0;")
    run(replace(made, ptx=start), DEEP)  # a zero from which another sum starts


def test_a_product_of_three_warps_never_ends(made: Build) -> None:
    """A warp that exits before its part leaves the others waiting."""
    exits = "{\n.reg .pred out; .reg .b32 t;\nmov.u32 t, %tid.x;\nsetp.ge.u32 out, t, 352;\n@out exit;\n}\n"
    text = re.sub(r"wgmma\.fence\.sync\.aligned;", rf"{exits}\g<0>", made.ptx)
    with pytest.raises(FaultError, match="never starts") as caught:
        run(replace(made, ptx=text), (128, 64, 64))
    assert caught.value.fault.kind == "deadlock"


@pytest.mark.parametrize(("left", "right"), [("Float8E4M3FN", "Float8E4M3FN"), ("Float8E4M3FN", "Float8E5M2")])
def test_products_of_8_bits_are_those_of_f32(left: str, right: str, tmp_path: Path) -> None:
    """Of every number of a type, subnormals and NaNs too, with a power of two of the other."""
    made = built(module_text(dtype=f"{left} {right}", tile=(64, 64, 32), swizzle=32), tmp_path)
    every, eighths = torch.arange(256, dtype=torch.uint8), torch.eye(32) / 8
    for of_a in (True, False):
        rows = torch.zeros(256, 32).to(F8[left if of_a else right])
        rows[every.long(), every.long() % 32] = every.view(rows.dtype)
        others = eighths.to(F8[right if of_a else left])
        found = product(made, rows, others) if of_a else product(made, others, rows).T
        finite = rows.float().isfinite().all(1)
        assert torch.equal(found[finite], (rows.float() @ eighths).to(torch.bfloat16)[finite])
        assert found[~finite].isnan().any(1).all() and finite.sum() >= 248


def test_sums_of_8_bits_keep_14() -> None:
    """The sum in hardware: integers up to 2^14, and the leading 14 bits of larger ones, truncated toward zero."""
    whole = np.arange(-(2**14), 2**14 + 1).astype(np.float64)
    assert np.array_equal(cut(whole, 14), whole)
    assert cut(np.asarray([2.0**14 + 1, -(2.0**15) - 3, 2.0**15 - 1e-9]), 14).tolist() == [2**14, -(2**15), 2**15 - 2]
    odd = cut(np.asarray([np.inf, -np.inf, 0.0, -0.0]), 14)
    assert (
        odd.tolist() == [np.inf, -np.inf, 0.0, 0.0] and np.signbit(odd[3]) and np.isnan(cut(np.asarray([np.nan]), 14))
    )


def test_types_that_wgmma_does_not_have_together(made: Build) -> None:
    for types in ("f32.e4m3.bf16", "f16.e4m3.e4m3", "f32.e4m3.e5m2"):  # the last of another depth
        text = re.sub(r"(m64n64k16)\.f32\.bf16\.bf16", rf"\1.{types}", made.ptx)
        assert text != made.ptx
        with pytest.raises(UnsupportedInstruction, match=r"with these types|types together"):
            run(replace(made, ptx=text), (128, 64, 64))
