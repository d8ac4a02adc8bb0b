"""Which lanes use the same mbarrier is found in the order of first uses, whatever the lanes use."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation import mbarrier_uses
from cutegen.emulator.synchronisation.mbarrier_uses import Uses, sort_uses

INSTRUCTION = Instruction("mbarrier", ("arrive", "b64"), None, (), 1, None, "mbarrier.arrive.b64")


def given(blocks: int, share: float, places: int, peers: bool, seed: int) -> Uses:
    """The uses of a share of the lanes, of some mbarriers in each lane's own block or in any."""
    draw = np.random.default_rng(seed)
    lanes = draw.random((24, blocks)) < share
    lanes[3, 0] = True
    count = int(lanes.sum())
    own = np.nonzero(lanes)[1]
    used = draw.integers(0, blocks, count) if peers else own
    return Uses(lanes, 16 + 8 * draw.integers(0, places, count), used, INSTRUCTION)


@pytest.mark.parametrize("blocks", [1, 3, 16, 300])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("peers", [False, True])
def test_uses_are_sorted_by_their_first_ones(blocks: int, share: float, places: int, peers: bool) -> None:
    uses = given(blocks, share, places, peers, seed=blocks)
    found = sort_uses(uses)
    entries: dict[tuple[int, int], list[int]] = {}
    for entry, key in enumerate(zip(uses.blocks.tolist(), uses.offsets.tolist(), strict=True)):
        entries.setdefault(key, []).append(entry)
    assert found.keys == [*entries]
    assert [index.tolist() for index in found.index] == [*entries.values()]
    assert [found.keys[number] for number in found.numbers.tolist()] == [
        *zip(uses.blocks.tolist(), uses.offsets.tolist(), strict=True)
    ]
    lanes = [*zip(*(axis.tolist() for axis in np.nonzero(uses.lanes)), strict=True)]
    assert [uses.lane(entry) for entry in range(len(lanes))] == lanes


def test_uses_of_all_threads_are_not_sorted_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise AssertionError("entry by entry")

    monkeypatch.setattr(mbarrier_uses, "groups_of", wrong)
    assert len(sort_uses(given(16, 1.0, 1, peers=False, seed=1)).keys) == 16
    with pytest.raises(AssertionError, match="entry by entry"):
        sort_uses(given(16, 1.0, 2, peers=False, seed=1))
