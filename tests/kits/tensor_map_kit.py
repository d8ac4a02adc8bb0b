"""Small PTX kernels that copy boxes of a tensor of words, which a tensor map of theirs describes.

Each block has 64 threads, and the box 16 words by 4: one word for each thread of one block. The tensor has 20 words by
5, which lie in the first of 6 rows of 24 words.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from cluster_kit import cluster_kernel
from emulator_kit import fault, go, tensors

from cutegen.emulator import BoundTensor

THREADS, ROWS, COLUMNS = 64, 6, 24
SIZES, BOX = (20, 5), (16, 4)
_U32 = 2


def tensor_map(
    address: int,
    sizes: tuple[int, ...] = SIZES,
    strides: tuple[int, ...] = (4 * COLUMNS,),
    box: tuple[int, ...] = BOX,
    swizzle: int = 0,
    kind: int = _U32,
    more: int = 0,
) -> bytes:
    """The map of a tensor of words: the strides are in bytes, without the first one; swizzled over 16 << `swizzle`.

    It is of another type where `kind` is the number of that; `more` are further bits of its fields.
    """
    low, high = [stride // 16 & 0xFFFFFFFF for stride in strides], [stride // 16 >> 32 for stride in strides]
    low += [0] * (4 - len(low))
    halves = [2 | (len(sizes) - 1) << 4 | kind << 7 | swizzle << 13 | 1 << 18 | more, *low]
    halves.append(sum(more << 4 * i for i, more in enumerate(high)))
    halves += [size - 1 for size in sizes] + [0] * (5 - len(sizes)) + [box[0] - 1 << 24]
    rest = sum(size - 1 << 8 * i for i, size in enumerate(box[1:]))
    return struct.pack("<Q12IQ", address, *halves, rest) + bytes(64)


def mapped_kernel(body: str) -> str:
    """A kernel of that body, as `cluster_kernel` has it, with the address of the map in %rd20."""
    text = cluster_kernel("mov.b64 %rd20, k_map;\n" + body)
    text = text.replace(".align 16 .b8 smem", ".align 1024 .b8 smem")
    return text.replace(".param .u64 k_p1", ".param .u64 k_p1,\n.param .align 64 .b8 k_map[128]")


def bound(role: str, blocks: int) -> tuple[list[BoundTensor], np.ndarray]:
    """A, the rows of the tensor, and B, a word for each thread; `role` is that of A, whose array is returned."""
    a = np.arange(1000, 1000 + ROWS * COLUMNS, dtype=np.uint32).reshape(ROWS, COLUMNS)
    return tensors((a, role), (np.zeros(blocks * THREADS, np.uint32), "inout")), a  # type: ignore[arg-type]


def _extra(given: list[BoundTensor], more: dict[str, Any]) -> bytes:
    return bytes(48) + tensor_map(given[0].told, **more)


def run(
    body: str, role: str = "in", *, blocks: int = 1, seed: int = 0, early: bool = False, **more: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A and B after a kernel of that body, in one cluster; `more` is as for `tensor_map`, the rest for `launch`."""
    given, a = bound(role, blocks)
    launched = {"grid": blocks, "block": THREADS, "cluster": blocks, "seed": seed, "early": early}
    report = go(mapped_kernel(body), given, extra=_extra(given, more), **launched)
    assert report.ok, str(report)
    return a, given[1].bytes().view(np.uint32).copy()


def wrong(body: str, role: str = "in", *, blocks: int = 1, seed: int = 0, early: bool = False, **more: Any) -> Any:
    """The fault of the same."""
    given, _ = bound(role, blocks)
    launched = {"grid": blocks, "block": THREADS, "cluster": blocks, "seed": seed, "early": early}
    return fault(mapped_kernel(body), given, extra=_extra(given, more), **launched)
