"""Loads by tensor maps and products of warpgroups: a gemm that uses both, right to the bit, and each mistake seen."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hopper_kit import built, module_text, run

from cutegen.emulator import FaultError
from cutegen.emulator.host.builds import Build

pytest.importorskip("cutlass")

DEEP = (128, 64, 320)  # more tiles along k than stages, in one block


@pytest.mark.parametrize(
    ("a", "b", "dtype", "tile", "swizzle"),
    [
        ("K", "K", "BFloat16", (128, 64, 64), 128),
        ("M", "N", "Float16", (64, 128, 32), 64),
        ("K", "N", "BFloat16", (64, 32, 32), 64),
        ("M", "K", "BFloat16", (64, 96, 16), 32),
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


@pytest.mark.parametrize("mistake", MISTAKES)
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
