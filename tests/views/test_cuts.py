"""Where the elements of views lie: torch's own indexing says it, and what is said for all sizes holds for each."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest
import torch

from cutegen.dtypes import Dtype
from cutegen.language.reader import read_specs
from cutegen.language.tensor import Tensor
from cutegen.reference.taking import view_of
from cutegen.views.cuts import aligned, apart, cuts, is_covered, stepped
from cutegen.views.sizes import sizes_of


@dataclass(frozen=True)
class Packed:
    """An argument's shape and its views, each a shape and an index."""

    shape: tuple[str, ...]
    views: tuple[tuple[tuple[str, ...], str], ...]
    covers: bool
    divisible: tuple[str, ...] = ()
    overlaps: tuple[tuple[int, int], ...] = ()

    @property
    def argument(self) -> Tensor:
        return Tensor("X", self.shape, Dtype.bf16, align=16)

    def tensors(self) -> list[Tensor]:
        return [Tensor(f"V{i}", shape, Dtype.bf16, view=text) for i, (shape, text) in enumerate(self.views)]

    @property
    def modes(self) -> list[str]:
        return sorted({mode for shape, _ in self.views for mode in shape} | {"HK"})


PACKED = [
    Packed(("M", "2*N"), ((("M", "N"), "X[:, :N]"), (("M", "N"), "X[:, N:]")), True),
    Packed(("M", "2*N"), ((("M", "N"), "X[:, -N:]"), (("M", "N"), "X[..., :-N]")), True),
    Packed(("M", "2*N"), ((("M", "N"), "X[:, ::2]"), (("M", "N"), "X[:, 1::2]")), True),
    Packed(("M", "2*N"), ((("M", "N"), "X[:, ::2]"), (("M", "N"), "X[:, N:]")), False, overlaps=((0, 1),)),
    Packed(("M", "3*N"), ((("M", "N"), "X[:, 2::3]"), (("M", "N"), "X[:, 1::3]")), False),
    Packed(("T", "3", "H", "D"), ((("T", "H", "D"), "X[:, 0]"), (("T", "H", "D"), "X[:, 2]")), False),
    Packed(("2", "M", "N"), ((("M", "N"), "X[0]"), (("M", "N"), "X[1]")), True),
    Packed(("M", "N", "2"), ((("M", "N"), "X[..., 1]"), (("M", "N"), "X[:, :, 0]")), True),
    Packed(
        ("T", "(HQ + 2*HK)*D"),
        (
            (("T", "HQ", "D"), "X[:, :HQ*D]"),
            (("T", "HK", "D"), "X[:, HQ*D:(HQ + HK)*D]"),
            (("T", "HK", "D"), "X[:, (HQ + HK)*D:]"),
        ),
        True,
    ),
    Packed(("T", "H + HK", "2*D"), ((("T", "H", "D"), "X[:, :H, 1::2]"), (("T", "H", "D"), "X[:, HK:, ::2]")), False),
    Packed(("T + 1", "D"), ((("T", "D"), "X[:-1]"), (("T", "D"), "X[1:]")), False, overlaps=((0, 1),)),
    Packed(("T", "2*H*D"), ((("T", "H", "D"), "X[:, ::2]"), (("T", "H", "D"), "X[:, 1::2]")), True),
]


def some_sizes(packed: Packed, numbers: random.Random, step: int = 1) -> dict[str, int]:
    return {mode: step * numbers.randint(0, 4) for mode in packed.modes}


@pytest.mark.parametrize("packed", PACKED, ids=lambda packed: " ".join(text for _, text in packed.views))
def test_a_view_is_what_torch_indexes(packed: Packed) -> None:
    spec, numbers = read_specs(COPY)[0], random.Random(3)
    for _ in range(8):
        sizes = some_sizes(packed, numbers)
        shape = packed.argument.extents(sizes)
        x = torch.arange(math.prod(shape)).view(shape)
        for view, (modes, text) in zip(packed.tensors(), packed.views, strict=True):
            names = {mode: size for mode, size in sizes.items() if not (text.count(f"-{mode}") and size == 0)}
            found = view_of(spec, packed.argument, view, x, sizes)
            if names == sizes:  # x[-0:] is all of it in torch
                assert torch.equal(found, eval(text, {}, {"X": x, **sizes}).reshape([sizes[m] for m in modes]))
            assert found.numel() == 0 or found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        found_sizes = sizes_of([packed.argument, Tensor("K", tuple(packed.modes), Dtype.f32)], {}, {
            "X": shape, "K": [sizes[mode] for mode in packed.modes]
        })  # fmt: skip
        assert {mode: found_sizes[mode] for mode in packed.modes} == sizes


@pytest.mark.parametrize("packed", PACKED, ids=lambda packed: " ".join(text for _, text in packed.views))
def test_views_that_are_apart_share_nothing_and_those_that_cover_leave_nothing(packed: Packed) -> None:
    spec, numbers, views = read_specs(COPY)[0], random.Random(4), packed.tensors()
    pairs = [(i, j) for i in range(len(views)) for j in range(i)]
    told = {
        (i, j): apart(cuts(packed.argument, views[i], {}), cuts(packed.argument, views[j], {}), {}) for i, j in pairs
    }
    covers = is_covered(packed.argument, views, {}) and all(told.values())
    assert covers == packed.covers
    seen = dict.fromkeys(pairs, False)
    for _ in range(12):
        sizes = some_sizes(packed, numbers)
        shape = packed.argument.extents(sizes)
        x = torch.arange(math.prod(shape)).view(shape)
        own = [set(view_of(spec, packed.argument, view, x, sizes).flatten().tolist()) for view in views]
        for i, j in pairs:
            shared = bool(own[i] & own[j])
            seen[i, j] |= shared
            assert not (told[i, j] and shared)
        if covers:
            assert set().union(*own) == set(range(x.numel()))
    for first, second in packed.overlaps:
        assert seen[second, first] and not told[second, first]


@pytest.mark.parametrize("step", [1, 4, 8, 16])
@pytest.mark.parametrize("packed", PACKED, ids=lambda packed: " ".join(text for _, text in packed.views))
def test_a_view_is_as_aligned_as_is_said(packed: Packed, step: int) -> None:
    spec, numbers, best = read_specs(COPY)[0], random.Random(5), 16
    for view in packed.tensors():
        said = aligned(packed.argument, view, {}, dict.fromkeys(packed.modes, step))
        mode, along = stepped(packed.argument, view, {})
        assert said in (2, 4, 8, 16)
        for _ in range(8):
            sizes = {m: max(step, size) for m, size in some_sizes(packed, numbers, step).items()}
            shape = packed.argument.extents(sizes)
            strides = [1] * len(shape)
            for i in reversed(range(len(shape) - 1)):  # as the alignment of the argument asks
                strides[i] = -(-strides[i + 1] * shape[i + 1] // 8) * 8
            room = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            x = torch.zeros(room, dtype=torch.bfloat16).as_strided(shape, strides)
            found = view_of(spec, packed.argument, view, x, sizes)
            outer = [s for m, s in zip(view.shape, found.stride(), strict=True) if m != mode]
            own = math.gcd(2 * found.storage_offset(), *(2 * s for s in outer)) or 16
            assert own % said == 0
            best = min(best, own & -own)
            if along and mode is not None:
                assert found.stride(view.shape.index(mode)) == along
        if along == 1 and step >= 8:
            assert said == 16


COPY = """
cutegen: 1
kernel: same
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32}
  B: {shape: [M, N], dtype: f32, role: out}
compute: B = A
"""
