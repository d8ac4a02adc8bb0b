"""Clocks of lanes: the C core exchanges them as numpy does."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.told import Told


def same(one: Told, other: Told) -> bool:
    proxies = (one.proxy is None) == (other.proxy is None)
    if one.proxy is not None and other.proxy is not None:
        members = slice(one.warps, None)  # its other columns mean nothing
        proxies = bool((one.proxy[:, members] == other.proxy[:, members]).all())
    return proxies and bool((one.known == other.known).all())


@pytest.mark.parametrize("shape,size", [((64, 4), 2), ((100, 3), 1), ((32, 1), 1)])
@pytest.mark.parametrize("seed", range(3))
def test_lanes_learn_and_tell_what_they_do_in_numpy(shape: tuple[int, int], size: int, seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    by_core, by_numpy = Clocks(shape, size), Clocks(shape, size)
    assert by_core._by_core is not None
    by_numpy._by_core = None
    both, kept = (by_core, by_numpy), list[tuple[Told, Told]]()
    clusters = np.arange(shape[1]) // size
    for _ in range(400):
        lanes = np.broadcast_to(random.random((shape[0], 1)) < random.choice([0.02, 0.5, 1]), shape)
        lanes = lanes & (random.random((1, shape[1])) < random.choice([0.5, 1]))
        if not lanes.any():
            continue
        of_block = clusters[None, :] + 0
        groups = random.choice(np.asarray(["one", "lane", "block"]))
        used, blocks = np.unique(clusters[np.nonzero(lanes)[1]], return_inverse=True)
        count = len(used)
        if groups == "one" and count > 1:
            continue
        of_block[0, np.isin(clusters, used)] = np.searchsorted(used, clusters[np.isin(clusters, used)])
        given = {"one": None, "lane": blocks.astype(np.int64), "block": of_block}[str(groups)]
        if random.random() < 0.1:
            for clocks in both:
                clocks.fence_proxies(lanes)
        if random.random() < 0.1:
            assert by_core.add_agents() == by_numpy.add_agents()
        for clocks in both:
            clocks.tick()
        told = [clocks.told_by_groups(lanes, given, count) for clocks in both]
        assert all(same(one, other) for one, other in zip(*told, strict=True))
        kept += zip(*told, strict=True)
        some = [kept[i] for i in random.integers(0, len(kept), count)]
        if random.random() < 0.3 and by_core.agents > by_core.members:
            some = [tuple(t.of_agent(by_core.members, by_core.now) for t in pair) for pair in some]
        by_core.learn_by_groups(lanes, given, [one for one, _ in some])
        by_numpy.learn_by_groups(lanes, given, [other for _, other in some])
        for holder in ("_known", "_covered"):
            rows = [clocks._rows.of(getattr(clocks, holder)) for clocks in both]
            assert (rows[0] == rows[1]).all()
    assert by_core._rows.count <= by_numpy._rows.count + 1
