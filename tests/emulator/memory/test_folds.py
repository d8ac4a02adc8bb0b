"""Tensors of which a kernel is told another address and strides than they have, and of which it may have a part."""

from __future__ import annotations

from itertools import product

import numpy as np
from emulator_kit import fault, go, kernel
from hypothesis import given
from hypothesis import strategies as st

from cutegen.emulator import place
from cutegen.emulator.memory.bound_tensors import NEAR, BoundTensor, Fold, bind, coordinates_of, unfolded


@st.composite
def folded(draw: st.DrawFn) -> tuple[BoundTensor, list[int]]:
    """A tensor of any order of modes, near and as it is told, with gaps; and the coordinates of its folded mode."""
    rank = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    mode = draw(st.integers(0, rank - 1))
    coordinates = sorted(draw(st.sets(st.integers(0, 40), min_size=shape[mode], max_size=shape[mode])))
    order, told, near = draw(st.permutations(range(rank))), [0] * rank, [0] * rank
    reach, step = draw(st.integers(1, 2)), 1
    for m in order:
        told[m], near[m] = reach, step
        reach *= (coordinates[-1] + 1 if m == mode else shape[m]) + draw(st.integers(0, 2))
        step *= shape[m]
    size = draw(st.sampled_from([1, 4]))
    fold = Fold(1 << 50, tuple(s * size for s in told), mode, np.array(coordinates, np.int64))
    return BoundTensor("x", 1 << 20, tuple(shape), tuple(near), size, address=(1 << 50) + NEAR, fold=fold), coordinates


@given(folded())
def test_each_byte_of_an_element_is_found_and_no_other_address_is_changed(case: tuple[BoundTensor, list[int]]) -> None:
    tensor, coordinates = case
    fold = tensor.fold
    assert fold is not None
    where = {}
    for index in product(*map(range, tensor.shape)):
        named = [coordinates[i] if m == fold.mode else i for m, i in enumerate(index)]
        for byte in range(tensor.itemsize):
            at = fold.address + sum(i * s for i, s in zip(named, fold.strides, strict=True)) + byte
            where[at] = (
                tensor.at + sum(i * s for i, s in zip(index, tensor.strides, strict=True)) * tensor.itemsize + byte
            )
    addresses = np.arange(min(where) - 9, max(where) + 99)
    found = dict(zip(addresses.tolist(), unfolded(tensor, addresses).tolist(), strict=True))
    assert {at: to for at, to in found.items() if at != to} == where
    again = unfolded(tensor, np.array(list(where.values())))
    assert again.tolist() == list(where.values()), "what was found is not looked for again"


@given(st.integers(1, 4), st.integers(0, 5), st.sets(st.integers(0, 99), min_size=1, max_size=9), st.integers(1, 3))
def test_some_coordinates_stand_for_all_that_are_not_there(
    length: int, first: int, others: set[int], rows: int
) -> None:
    elsewhere = range(first, first + length)
    there = sorted({*others, *elsewhere})
    size = there[-1] + 1
    fold = Fold(1 << 50, (4 * size, 4), 1, np.array(there, np.int64), elsewhere)
    tensor = BoundTensor("x", 1 << 20, (rows, len(there)), (len(there), 1), 4, address=(1 << 50) + NEAR, fold=fold)
    told = (1 << 50) + np.arange(-8, rows * size * 4 + 8)
    found = unfolded(tensor, told)
    for address, to in zip(told.tolist(), found.tolist(), strict=True):
        row, column = divmod((address - (1 << 50)) // 4, size)
        if address < 1 << 50 or row >= rows:
            assert to == address
            continue
        like = column if column in there else next(e for e in elsewhere if (e - column) % length == 0)
        assert to == tensor.at + (row * len(there) + there.index(like)) * 4 + address % 4
    index, inside = coordinates_of(tensor, told)
    assert index[inside].tolist() == [i // 4 % size for i in range(rows * size * 4)]


# Each block writes its number to its element.
MARK = "mul.wide.u32 %rd9, %r1, 4;\nadd.s64 %rd9, %rd0, %rd9;\nst.global.b32 [%rd9], %r1;"


def marks(blocks: list[int]) -> tuple[np.ndarray, list[BoundTensor]]:
    """An array for those elements of 2^28, and as a kernel is given it."""
    x = np.zeros(len(blocks), np.uint32)
    at = place(x.ctypes.data, 0)
    tensor = bind(x, "x", "out", at + NEAR)
    fold = Fold(at, (4,), 0, np.array(blocks, np.int64))
    return x, [BoundTensor(**{**vars(tensor), "fold": fold})]


def test_of_a_launch_that_is_too_large_some_blocks_run() -> None:
    blocks = [0, 1, 255, 1 << 27, (1 << 28) - 1]
    x, tensors = marks(blocks)
    go(kernel(MARK, 1), tensors, grid=1 << 28, block=1, blocks=blocks).check()
    assert x.tolist() == blocks
    x, tensors = marks(blocks)
    assert fault(kernel(MARK, 1), tensors, grid=1 << 28, block=1, blocks=blocks[:-1]).kind == "output-not-written"
    x, tensors = marks(blocks)
    found = fault(kernel(MARK, 1), tensors, grid=1 << 28, block=1, blocks=[2])
    assert found.kind == "out-of-bounds" and "of x where no element" in found.explanation and found.block == (2, 0, 0)


def test_a_block_that_takes_another_ones_element_is_a_race() -> None:
    cut = "and.b32 %r1, %r1, 65535;\n" + MARK
    _, tensors = marks([0, 1, 65536])
    assert fault(kernel(cut, 1), tensors, grid=1 << 28, block=1, blocks=[0, 1, 65536]).kind == "unordered"
