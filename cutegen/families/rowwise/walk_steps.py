"""The steps of a row kernel, in the order in which a block comes to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.drawing.timelines import Sheet
from cutegen.families.rowwise.order import exchanges_of, is_backwards, loaded_ahead, loaded_once, loads_of, pieces_of
from cutegen.families.rowwise.plan import RowwisePlan

ROWS, WALKED_ROWS = 3, 2  # that a block is drawn to have one after another, held in registers and walked in pieces
PIECES = 3  # that a block is drawn to have of a row whose size is not fixed
MOST_PIECES = 4  # of a block that are drawn one by one


@dataclass(frozen=True)
class Turn:
    """One walk over one row: numbers of steps."""

    load: int | None  # in which what it needs is on its way
    pieces: tuple[tuple[int, tuple[int, ...]], ...]  # each with its pieces of the row; without any if that is held
    exchanges: tuple[int, ...]
    after: int | None  # in which the values of the row as a whole are computed

    @property
    def start(self) -> int:
        return self.pieces[0][0]

    @property
    def walked(self) -> int:
        """The step after the row's last piece."""
        return self.pieces[-1][0] + 1

    @property
    def end(self) -> int:
        """The step after all that belongs to this walk."""
        return 1 + max([self.pieces[-1][0], *self.exchanges, *([] if self.after is None else [self.after])])


@dataclass(frozen=True)
class Steps:
    """All rows that a block is drawn to have, each with its walks."""

    first: int  # in which the first rows, and what is the same for all, are on their way, of blocks that load ahead
    rows: tuple[tuple[Turn, ...], ...]
    end: int  # after the last row


def steps_of(plan: RowwisePlan, sheet: Sheet) -> Steps:
    """Writes the steps of a plan on a sheet."""
    first = sheet.step("load") if plan.ahead else 0
    walks = range(len(plan.program.walks))
    rows = tuple(tuple(_turn(plan, sheet, row, number) for number in walks) for row in range(rows_drawn(plan)))
    return Steps(first, rows, sheet.step("end") if plan.program.columns and not plan.walked else sheet.now)


def _turn(plan: RowwisePlan, sheet: Sheet, row: int, number: int) -> Turn:
    if number == 0 and plan.persistent and not plan.walked:
        sheet.mark(f"{unit(plan)} {row}")
    load = sheet.step("load") if _loads(plan, number) else None
    pieces: list[tuple[int, tuple[int, ...]]] = []
    if plan.walked:
        whose = f"{unit(plan)} {row}, " if plan.persistent else ""
        sheet.mark(f"{whose}walk {number}{', backwards' * is_backwards(plan, number)}")
        for own in _grouped(pieces_of(plan, number, 0, pieces_drawn(plan))):
            pieces.append((sheet.step(f"piece {own[0]}" if len(own) == 1 else f"{len(own)} more"), own))
    else:
        pieces.append((sheet.step(f"walk {number}"), ()))
    numbers = [i for i, exchange in enumerate(exchanges_of(plan)) if exchange.walk == number]
    exchanges = tuple(sheet.step(f"exchange {i}") for i in numbers)
    after = sheet.step("of the row") if plan.program.walks[number].after else None
    return Turn(load, tuple(pieces), exchanges, after)


def _loads(plan: RowwisePlan, number: int) -> bool:
    """Whether something is on its way, or is computed, before a walk begins."""
    if plan.ahead:
        return bool(set(loads_of(plan, number)) - {*loaded_ahead(plan), *loaded_once(plan)})
    first = number == 0 and bool(plan.row_tensors or plan.kept or plan.program.before)
    return first or (not plan.walked and bool(loads_of(plan, number)))


def unit(plan: RowwisePlan) -> str:
    """The unit of rows that a block walking many of them has at a time: `row` or `tile`."""
    return "row" if plan.rows == 1 else "tile"


def rows_drawn(plan: RowwisePlan) -> int:
    """Rows, or tiles of several, that a block is drawn to have."""
    return (WALKED_ROWS if plan.walked else ROWS) if plan.persistent else 1


def pieces_drawn(plan: RowwisePlan) -> int:
    """Pieces of a row: as many as it has if its size is fixed."""
    size = plan.flat.static.get(plan.row)
    return PIECES * plan.cluster if size is None else -(-size // plan.tile[plan.row])


def _grouped(pieces: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The pieces one by one, but where there are many, those between the first ones and the last one together."""
    if len(pieces) <= MOST_PIECES:
        yield from ((piece,) for piece in pieces)
        return
    yield from ((piece,) for piece in pieces[: MOST_PIECES - 2])
    yield pieces[MOST_PIECES - 2 : -1]
    yield pieces[-1:]
