"""Bank conflicts of shared memory and sectors of global memory, counted on an access's layout.

Shared memory has 32 banks of 4 bytes. A warp's instruction moves at most 128 bytes at a time: accesses of 8 bytes take
two halves of the warp after each other, accesses of 16 bytes four quarters, and lanes conflict only within one of those
(CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"). Global memory moves in sectors of 32 bytes.

What Nsight Compute counts as wavefronts can be fewer: two passes of a read go together where every lane of both wants
what its neighbour wants (lane ^ 1), or every lane what the one after that does (lane ^ 2). That rule is not documented.
It gives what an H200 counts (`l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld`) for 17 products in f32, which read
fragments of 8 and 16 bytes in several arrangements of lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tensor_layouts import ComposedLayout, Layout, size
from tensor_layouts.analysis import per_group_bank_conflicts

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.atoms.targets import BANK_BYTES, BANKS, SECTOR, WARP

_PASS = BANKS * BANK_BYTES  # bytes


@dataclass(frozen=True)
class Conflicts:
    """Bank conflicts of the first instruction of a block's worst warp.

    `ways` is the most words that lanes of one pass want from one bank. The warp's other instructions are the same,
    shifted, and conflict alike where the shift is a whole number of words.

    `lanes` are the lanes of the worst pass in bank `bank`, `words` what each of them wants there (offset / 4 bytes).
    """

    ways: int
    passes: int  # that the warp needs
    least: int  # that it needs without conflicts
    wavefronts: int  # passes of a read that go together counted once
    warp: int  # the worst one
    bank: int
    lanes: tuple[int, ...]  # of the block: thread numbers
    words: tuple[int, ...]

    @property
    def free(self) -> bool:
        return self.ways == 1


@dataclass(frozen=True)
class Sectors:
    """Sectors of global memory that the first instruction of a block's worst warp touches.

    `over_tile` counts what all instructions of that warp for one tile touch. The tile starts at a sector; its rows lie
    as `strides_of` has them.
    """

    sectors: int
    least: int  # that hold as many bytes
    bytes: int  # that the warp asks for, each counted once
    over_tile: int
    least_over_tile: int
    warp: int  # the worst one: with most sectors for the least that it needs

    @property
    def ratio(self) -> float:
        return self.sectors / self.least


def lanes_of_pass(access: Access) -> int:
    """How many lanes of a warp shared memory serves at once."""
    return min(WARP, max(1, _PASS // max(access.bytes, BANK_BYTES)))


def conflicts(access: Access) -> Conflicts:
    """Bank conflicts of an access in the worst warp of the block. Raises ValueError unless it is to shared memory."""
    if access.space != "shared":
        raise ValueError(f"{access.name}: only shared memory has banks")
    found = _conflicts(access.first, access.dtype.bytes, lanes_of_pass(access))
    if access.kind == "write" or access.bytes <= BANK_BYTES:
        return found
    return replace(found, wavefronts=_wavefronts(access.first, access.dtype.bytes, lanes_of_pass(access)))


@lru_cache(maxsize=512)
def _conflicts(layout: Layout | ComposedLayout, element_bytes: int, lanes: int) -> Conflicts:
    found = per_group_bank_conflicts(layout, element_bytes=element_bytes, group_size=lanes)
    groups = found["groups"]
    a_warp = max(1, WARP // lanes)
    warps = [groups[i : i + a_warp] for i in range(0, len(groups), a_warp)]
    passes = [sum(group["max_ways"] for group in warp) for warp in warps]
    warp = max(range(len(warps)), key=lambda i: (passes[i], -i))
    part = max(range(len(warps[warp])), key=lambda i: (warps[warp][i]["max_ways"], -i))
    number = warp * a_warp + part
    bank, lanes_there, words = _worst_bank(layout, element_bytes, number, lanes, groups[number]["bank_to_threads"])
    ways, total, least = groups[number]["max_ways"], passes[warp], len(warps[warp])
    return Conflicts(ways, total, least, total, warp, bank, lanes_there, words)


@lru_cache(maxsize=512)
def _wavefronts(layout: Layout | ComposedLayout, element_bytes: int, lanes: int) -> int:
    """The most wavefronts of any warp, where two passes of `lanes` each go together if their lanes agree in pairs."""
    threads, values = (int(size(mode)) for mode in layout.shape)
    wanted = [tuple(int(layout(thread, value)) for value in range(values)) for thread in range(threads)]
    counts: dict[int, int] = {}  # of each warp
    for start in range(0, threads, 2 * lanes):
        both = wanted[start : start + 2 * lanes]
        paired = any(
            all(both[i] == both[i ^ step] for i in range(len(both)) if i ^ step < len(both)) for step in (1, 2)
        )
        parts = [both] if paired else [part for part in (both[:lanes], both[lanes:]) if part]
        for part in parts:
            words = {place * element_bytes // BANK_BYTES for places in part for place in places}
            counts[start // WARP] = counts.get(start // WARP, 0) + max(Counter(word % BANKS for word in words).values())
    return max(counts.values())


def _worst_bank(
    layout: Layout | ComposedLayout, element_bytes: int, group: int, lanes: int, users: dict[int, list[int]]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The bank that most words are wanted from, the first lane that wants each of them, and the words."""
    best: tuple[int, dict[int, int]] = (0, {})
    for bank, threads in sorted(users.items()):
        words: dict[int, int] = {}
        for thread in dict.fromkeys(threads):
            for value in range(int(size(layout.shape[1]))):
                word = int(layout(thread, value)) * element_bytes // BANK_BYTES
                if word % BANKS == bank:
                    words.setdefault(word, thread)
        if len(words) > len(best[1]):
            best = (bank, words)
    return best[0], tuple(best[1].values()), tuple(best[1])


def sectors(access: Access) -> Sectors:
    """Sectors of an access in the worst warp of the block. Raises ValueError unless it is to global memory."""
    if access.space != "global":
        raise ValueError(f"{access.name}: only global memory has sectors")
    return _sectors(access.layout, access.vector, access.dtype.bytes, access.threads)


@lru_cache(maxsize=512)
def _sectors(layout: Layout, vector: int, element_bytes: int, threads: int) -> Sectors:
    # tensor-layouts' segment_analysis knows the first warp only, and moves its least address to the start of a sector.
    starts, values = (layouts.offsets(mode) for mode in layouts.modes_of(layout))
    starts = starts[:threads]
    warps = [starts[i : i + WARP] for i in range(0, len(starts), WARP)]
    found = [_touched(warp, values[:vector], element_bytes) for warp in warps]
    worst = max(range(len(warps)), key=lambda i: (found[i][0] / _least(found[i][1]), -i))
    (one, asked), (whole, over_tile) = found[worst], _touched(warps[worst], values, element_bytes)
    return Sectors(one, _least(asked), asked, whole, _least(over_tile), worst)


def _touched(starts: Sequence[int], values: Sequence[int], element_bytes: int) -> tuple[int, int]:
    """The number of sectors, and of bytes in them, that the values behind all starts touch.

    An element lies in one sector.
    """
    elements = {start + value for start in dict.fromkeys(starts) for value in values}
    return len({element * element_bytes // SECTOR for element in elements}), len(elements) * element_bytes


def _least(count: int) -> int:
    return -(-count // SECTOR)
