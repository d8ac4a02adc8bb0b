"""quack's gemm for Hopper, where quack is installed: right to the bit as it is, with a scheduler and turns of warps."""

from __future__ import annotations

import pytest
import torch
from cutlass_kit import matrices

from cutegen.emulator import on_device
from cutegen.emulator.host.emulated import Emulated

quack_gemm_kit = pytest.importorskip("quack_gemm_kit", exc_type=ImportError)
Setting = tuple[tuple[int, int], tuple[int, int], bool, str]
SETTINGS: list[Setting] = [
    ((128, 192), (1, 1), False, "KKN"),
    ((128, 128), (1, 2), False, "MNM"),
    ((256, 128), (2, 1), False, "KKN"),
    ((128, 192), (2, 1), True, "KKN"),
    ((64, 128), (1, 1), True, "MNM"),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_right_to_the_bit(setting: Setting) -> None:
    majors = setting[3]
    m, n, k, batch = 264, 200, 200, 2
    a, b, d = (
        matrices(rows, columns, batch, by_rows=major in second).permute(2, 0, 1)
        for (rows, columns, second), major in zip(((m, k, "K"), (n, k, "K"), (m, n, "N")), majors, strict=True)
    )
    emulated = Emulated([quack_gemm_kit.built(*setting)], ["a", "b", "d"], {"a": "in", "b": "in", "d": "out"}, orders=2)
    emulated(*map(on_device, (a, b, d)))
    assert torch.equal(d, torch.einsum("lmk,lnk->lmn", a.double(), b.double()).to(torch.bfloat16))
