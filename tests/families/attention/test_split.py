"""The words of a walk that blocks share: what is refused, what is inferred, and how many parts a call takes."""

from __future__ import annotations

import pytest
from lint_kit import found_in

from cutegen.analysis.claims import claims
from cutegen.codegen import generate
from cutegen.families.attention.mma_sync.filling import filling, parts_at
from cutegen.families.attention.mma_sync.merge_claims import largest, tiles_of
from cutegen.families.attention.mma_sync.plan import AttentionPlan

SPEC = """\
cutegen: 1
kernel: decode
op: contract
tensors:
  Q: {{shape: [B, M, G, R, D], dtype: bf16}}
  K: {{shape: [B, N, G, D], dtype: bf16}}
  V: {{shape: [B, N, G, D], dtype: bf16}}
  O: {{shape: [B, M, G, R, D], dtype: bf16, role: out}}
compute:
  - s = where(coord(N) <= coord(M), sum(Q * K, D), -inf)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
static: {static}
schedule: {schedule}
targets: [sm_80, sm_90a]
"""


def text(schedule: str, static: str = "{D: 64}") -> str:
    return SPEC.format(schedule=schedule, static=static)


def plan(schedule: str, static: str = "{D: 64}") -> AttentionPlan:
    found = generate(text(schedule, static), "decode.yaml").modules[0].plan
    assert isinstance(found, AttentionPlan)
    return found


@pytest.mark.parametrize(
    ("schedule", "code", "said"),
    [
        ("{split: {M: 4}}", "CG203", "`M` is not walked"),
        ("{split: {X: 4}}", "CG203", "`X` is not walked"),
        ("{tiler: {M*G: 16}, split: {N: 4}}", "CG203", "`G` is no mode that `Q` has alone"),
        ("{tiler: {M*R*R: 16}, split: {N: 4}}", "CG203", "`R` stands there twice"),
        ("{tiler: {M: 16, M*R: 16}, split: {N: 4}}", "CG203", "stand in the tiler twice"),
        ("{tiler: {M*R: 24}, mma: {warps: 2}, split: {N: 4}}", "CG268", "1 warp cannot share 24 rows"),
        ("{tiler: {M*R: 16, N: 48}, mma: {warps: 2}, split: {N: 4}}", "CG268", "in each of 2 warps"),
        ("{tiler: {M*R: 16}, mma: {warps: 2}}", "CG268", "2 warps cannot share 16 rows"),
        ("{tiler: {M*R: 128}, mma: {atom: wgmma}}", "CG203", "rows along `M` alone"),
    ],
)
def test_what_does_not_fit_is_refused(schedule: str, code: str, said: str) -> None:
    found = [one for one in found_in(text(schedule)) if one.severity == "error"]
    assert any(one.code == code and said in one.message for one in found), found


@pytest.mark.parametrize("parts", ["1", "1025", "many"])
def test_parts_are_a_number_or_the_word(parts: str) -> None:
    assert [one for one in found_in(text(f"{{split: {{N: {parts}}}}}")) if one.severity == "error"]


@pytest.mark.parametrize(
    ("schedule", "static", "tile", "warps", "stages"),
    [
        ("{split: {N: 4}}", "{D: 64}", ("M*R", 16), 4, 2),
        ("{split: {N: auto}}", "{D: 128}", ("M*R", 16), 4, 2),
        ("{split: {N: 4}}", "{D: 256}", ("M*R", 16), 4, 1),
        ("{split: {N: 4}}", "{D: 48}", ("M*R", 16), 1, 2),  # whose rows more threads do not copy
        ("{split: {N: 4}, tiler: {M: 32}}", "{D: 64}", ("M", 32), 2, 2),
        ("{mma: {atom: mma_sync}}", "{D: 64, M: 4}", ("M*R", 16), 1, 2),
        ("{mma: {atom: mma_sync}}", "{D: 64, M: 64}", ("M", 64), 4, 2),
    ],
)
def test_inferred(schedule: str, static: str, tile: tuple[str, int], warps: int, stages: int) -> None:
    found = plan(schedule, static).spec.schedule
    assert next(iter((found.tiler or {}).items())) == tile
    assert (found.mma.warps, found.pipeline.stages) == (warps, stages)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_have_all_tiles_in_their_order(parts: int) -> None:
    for tiles in range(3 * parts + 2):
        each = [tiles_of(tiles, part, parts) for part in range(parts)]
        assert [tile for own in each for tile in own] == [*range(tiles)]
        assert max(map(len, each)) - min(map(len, each)) <= 1


def test_parts_fill_the_gpu() -> None:
    assert filling(8, 2048, 64, 132) == 29  # 232 blocks of 264: 0.85 of a whole round
    assert filling(64, 512, 64, 132) == 4
    assert filling(256, 64, 64, 132) == 1  # full by itself
    assert filling(8, 11, 64, 132) == 2  # parts of four tiles
    assert filling(8, 3, 64, 132) == filling(8, 0, 64, 132) == 1
    assert filling(1, 10**6, 64, 132) == 55  # of the 64 that are allowed


def test_the_module_takes_as_many_parts() -> None:
    module = generate(text("{split: {N: auto}}"), "decode.yaml").modules[0]
    start, end = (module.text.index(mark) for mark in ("@functools.lru_cache(4096)\ndef _parts", "def _part_space"))
    names: dict[str, object] = {"functools": __import__("functools"), "PARTS": 256}
    exec(module.text[start:end], names)
    own = names["_parts"]
    assert callable(own)
    for blocks in (0, 1, 8, 100, 264, 265, 1000):
        for tiles in (0, 3, 4, 9, 100, 5000):
            for sms in (1, 46, 132):
                assert own(blocks, tiles, sms) == filling(blocks, tiles, 256, sms)


def test_the_blocks_of_a_call() -> None:
    found = plan("{split: {N: auto}}")
    sizes = {"B": 1, "G": 8, "R": 4, "M": 1, "D": 64, "N": 131072}
    assert parts_at(found, sizes) == 29
    assert parts_at(plan("{split: {N: 6}}"), sizes) == 6


def test_grids_of_the_largest_sizes_are_counted() -> None:
    found = plan("{split: {N: 4}}")
    beside = {"B": 3, "G": 2, "R": 5, "M": 7}
    for mode, size in largest(found, beside).items():
        for more, fits in ((0, True), (1, False)):
            sizes = beside | {mode: size + more}
            rows, outer = sizes["M"] * sizes["R"], sizes["B"] * sizes["G"]
            counted = -(-rows // 16) * outer * 4 <= 2**31 - 1 and rows * outer <= 2**31 - 2**12
            assert counted == fits, (mode, size)


def test_a_tile_of_an_output_of_f32_has_room_in_shared_memory() -> None:
    wide = text("{mma: {atom: mma_sync, warps: 2}, tiler: {M: 32, N: 16}, pipeline: {stages: 1}}", "{D: 256}")
    (module,) = generate(wide.replace("dtype: bf16, role", "dtype: f32, role"), "decode.yaml").modules
    found = module.plan
    assert isinstance(found, AttentionPlan)
    assert found.o.bytes == 32 * 256 * 4 <= found.smem_bytes


def test_shared_memory_holds_what_warps_give() -> None:
    found = plan("{split: {N: 4}, tiler: {M*R: 16, N: 64}, mma: {warps: 4}, pipeline: {stages: 1}}")
    assert found.smem_bytes == max(found.q.bytes + found.k.bytes + found.v.bytes, 4 * 16 * 68 * 4)


@pytest.mark.parametrize("static", ["{D: 64}", "{D: 32}", "{D: 128}"])
@pytest.mark.parametrize(
    "schedule", ["{split: {N: 3}}", "{split: {N: auto}, tiler: {M: 32, N: 64}}", "{split: {N: 2}, tiler: {N: 128}}"]
)
def test_all_claims_hold(schedule: str, static: str) -> None:
    found = claims(plan(schedule, static))
    assert [claim.text for claim in found if not claim.holds] == [] and len(found) > 12
