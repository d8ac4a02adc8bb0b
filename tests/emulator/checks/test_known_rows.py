"""Rows that members share, against a matrix with a row for each member."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.checks.known_rows import KnownRows


def test_rows_that_are_shared_are_those_of_each_member() -> None:
    random = np.random.default_rng(1)
    rows, dense = KnownRows(5), [np.zeros((3, 40, 5), np.int32) for _ in range(2)]
    holders = [rows.holder((3, 40)) for _ in dense]
    for step in range(600):
        holder, matrix = holders[step % 2], dense[step % 2]
        some = random.random((3, 40)) < random.choice([0.02, 0.3, 1.0])
        where = np.nonzero(some)
        count = int(random.integers(1, 4))
        groups = random.integers(0, count, len(where[0]))
        if step == 300:
            rows.widen(2)
            dense = [np.pad(one, ((0, 0), (0, 0), (0, 2))) for one in dense]
        elif step % 7 == 5:  # as a fence keeps what is known
            holder[where], matrix[where] = holders[1 - step % 2][where], dense[1 - step % 2][where]
        elif len(set(groups.tolist())) == count:
            most = max(1, step // int(random.choice([1, 300])))  # what all know is told, and what they don't
            more = random.integers(0, most, (count, rows.width)).astype(np.int32)
            rows.learn(holder, np.flatnonzero(some), groups, more)
            matrix[where] = np.maximum(matrix[where], more[groups])
            largest = [matrix[where][groups == group].max(axis=0) for group in range(count)]
            assert (rows.largest(holder[where], groups, count) == largest).all()
        for one, other in zip(holders, dense, strict=True):
            assert (rows.of(one) == other).all()
            assert (rows.of(one, slice(1, 3)) == other[..., 1:3]).all()
    columns = random.integers(0, 7, (3, 40))
    assert (rows.times(holders[0], columns) == np.take_along_axis(dense[0], columns[..., None], 2)[..., 0]).all()


def test_members_that_learn_the_same_share_a_row_and_what_nobody_holds_is_forgotten() -> None:
    rows = KnownRows(4)
    holder = rows.holder((2, 64))
    everyone, groups = np.arange(128), np.repeat([0, 1], 64)
    for time in range(1, 1000):
        rows.learn(holder, everyone[: 1 + time % 128], np.zeros(1 + time % 128, np.int64), np.full((1, 4), 2 * time))
        rows.learn(holder, everyone, groups, np.asarray([[2 * time + 1, 2 * time, 0, 0], [0, 0, 0, 2 * time + 1]]))
    assert [len(set(part.tolist())) for part in holder] == [1, 2]
    assert len(rows._rows) < 64
