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
        more = random.integers(0, step + 1, rows.width).astype(np.int32)
        if step == 300:
            rows.widen(2)
            dense = [np.pad(one, ((0, 0), (0, 0), (0, 2))) for one in dense]
        elif step % 7 == 3:
            own = random.integers(0, step + 1, (len(where[0]), rows.width)).astype(np.int32)
            rows.replaced(holder, where, own)
            matrix[where] = own
        elif step % 7 == 5:  # as a fence keeps what is known
            holder[where], matrix[where] = holders[1 - step % 2][where], dense[1 - step % 2][where]
        elif len(where[0]):

            def join(known: np.ndarray, more: np.ndarray = more) -> None:
                np.maximum(known, more, out=known)

            rows.changed(holder, where, join)
            matrix[where] = np.maximum(matrix[where], more)
            assert (rows.largest(holder[where]) == matrix[where].max(axis=0)).all()
        for one, other in zip(holders, dense, strict=True):
            assert (rows.of(one) == other).all()
    columns = random.integers(0, 7, (3, 40))
    assert (rows.times(holders[0], columns) == np.take_along_axis(dense[0], columns[..., None], 2)[..., 0]).all()


def test_members_that_learn_the_same_share_a_row_and_what_nobody_holds_is_forgotten() -> None:
    rows = KnownRows(4)
    holder = rows.holder((2, 64))
    everyone = tuple(index.reshape(-1) for index in np.indices((2, 64)))
    for time in range(1, 1000):

        def join(known: np.ndarray, time: int = time) -> None:
            known[:, 0] = time

        rows.changed(holder, everyone, join)
        assert len(set(holder.reshape(-1).tolist())) == 1
    assert len(rows._rows) < 64
