"""A row kernel over time: what is loaded, computed, exchanged and stored in which step of a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cutegen.analysis.words import count
from cutegen.drawing.model import Timeline
from cutegen.drawing.timelines import STORED, Sheet, hue
from cutegen.expressions.tree import Expr, Local, Name, walk
from cutegen.families.rowwise.order import exchanges_of, loaded_ahead, loaded_once, loads_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walk_steps import Turn, steps_of, unit
from cutegen.families.rowwise.walks import RowStep, Store, Walk

COMPUTE, EXCHANGE = "each thread", "across threads"  # lanes: no tensor has such a name
HELD, FLIGHT = "registers", "in flight"


def timeline_of(plan: RowwisePlan) -> Timeline:
    """The timeline of a plan: lanes for what is loaded, then for what is computed, then for what is stored."""
    return _Rows(plan).timeline()


class _Rows:
    """The sheet of one plan, on which steps are written first, and then the bars of each row."""

    def __init__(self, plan: RowwisePlan) -> None:
        self.plan, self.sheet, self.walks = plan, Sheet(), plan.program.walks
        self.steps = steps_of(plan, self.sheet)
        self.early, self.once = loaded_ahead(plan), loaded_once(plan)
        self.ahead = f"{', '.join((*self.early, *plan.row_tensors))} ahead"
        for row, turns in enumerate(self.steps.rows):
            self._before(row, turns)
            for number, (turn, one) in enumerate(zip(turns, self.walks, strict=True)):
                self._computed(row, number, turn, one)
                self._columns(row, number, turn, one)
                (self._read if plan.walked else self._held)(row, number, one)
        for name in self.once:
            colour = hue(len(self.steps.rows))
            self._load(name, self.steps.first, self.steps.end, colour, "what is the same for all rows")

    def timeline(self) -> Timeline:
        tensors = [tensor.name for tensor in self.plan.flat.tensors]
        values = [self._lane(named.name) for one in self.walks for named in one.elements]
        read = [lane for name in tensors for lane in (_smem(name), name)]
        written = [lane for name in tensors for lane in (_sums(name), _store(name))]
        lanes = dict.fromkeys([self.ahead, *read, *values, COMPUTE, EXCHANGE, *written])
        return self.sheet.timeline("steps", [lane for lane in lanes if self.sheet.has(lane)])

    # ------------------------------------------------------------------------------------------------ what is loaded

    def _before(self, row: int, turns: tuple[Turn, ...]) -> None:
        """Draws what is on its way before the first walk over a row, and what is computed meanwhile."""
        plan, colour, load = self.plan, self._colour(row, 0), turns[0].load
        for name in plan.row_tensors:
            what = f"one element of {self._whose(row)}"
            until = max(_last_use(turn, one, name) for turn, one in zip(turns, self.walks, strict=True))
            if plan.ahead:
                self._hold(name, turns[0].start, until, colour, what)
            elif load is not None:
                self._load(name, load, until, colour, what)
        if plan.ahead:
            start = self.steps.rows[row - 1][0].start if row else self.steps.first
            about = f"{self._whose(row)} is on its way{', while a block computes on the one before' * bool(row)}"
            self.sheet.bar(self.ahead, start, turns[0].start, f"{unit(plan)} {row}", colour, about, faint=True)
        if load is None:
            return
        if plan.program.before:
            self._of_row(plan.program.before, load, colour)
        for name in plan.kept:
            last = max(turn.walked for turn, one in zip(turns, self.walks, strict=True) if name in one.reads)
            about = f"bulk copies bring all pieces of {name} that this block has to shared memory"
            self.sheet.bar(_smem(name), load, load + 1, "bulk copies", colour, about, faint=True)
            about = f"{name} waits in shared memory"
            self.sheet.bar(_smem(name), load + 1, last, "in shared memory", colour, about)

    def _read(self, row: int, number: int, one: Walk) -> None:
        """Draws what a walk reads of each piece."""
        turns, before = self.steps.rows[row], {name for earlier in self.walks[:number] for name in earlier.reads}
        for step, pieces in turns[number].pieces:
            for name in one.reads:
                kept, again = name in self.plan.kept, name in before
                label = "from smem" if kept else "again" if again else "read"
                about = f"{name} is read{' again' * again} from {'shared' if kept else 'global'} memory{_of(pieces)}"
                self.sheet.bar(name, step, step + 1, label, self._colour(row, number, pieces), about)

    def _held(self, row: int, number: int, one: Walk) -> None:
        """Draws what is in registers from a walk on: tensors that it is the first to have, and what it computes."""
        turns, colour = self.steps.rows[row], self._colour(row, number)
        for name in loads_of(self.plan, number):
            until = max(turn.walked for turn, other in zip(turns, self.walks, strict=True) if name in other.reads)
            if name in self.early:
                self._hold(name, turns[number].start, until, colour, self._whose(row))
            elif name not in self.once and (load := turns[number].load) is not None:
                self._load(name, load, until, colour, self._whose(row))
        for named in one.elements:
            later = zip(turns[number + 1 :], self.walks[number + 1 :], strict=True)
            uses = [turn.walked for turn, other in later if _uses(other.values, named.name)]
            if uses:
                what = f"computed of each element of {self._whose(row)}"
                self._hold(self._lane(named.name), turns[number].start, max(uses), colour, what)

    def _load(self, name: str, start: int, end: int, colour: int, what: str) -> None:
        """Draws what is on its way for one step, and then in registers up to another one."""
        self.sheet.bar(name, start, start + 1, FLIGHT, colour, f"{name} is on its way: {what}", faint=True)
        self._hold(name, start + 1, end, colour, what)

    def _hold(self, lane: str, start: int, end: int, colour: int, what: str) -> None:
        self.sheet.bar(lane, start, end, HELD, colour, f"{lane} is in registers: {what}")

    # -------------------------------------------------------------------------------------- what is computed and stored

    def _computed(self, row: int, number: int, turn: Turn, one: Walk) -> None:
        """Draws what a walk computes and stores, what its threads exchange, and what follows of the row."""
        functions = _counted(reduction.function for reduction in one.reductions)
        parts = [*functions, *(store.tensor for store in one.stores)]
        label = ", ".join(parts or [column.tensor for column in one.columns])
        for step, pieces in turn.pieces:
            self.sheet.bar(COMPUTE, step, step + 1, label, self._colour(row, number, pieces), f"{label}{_of(pieces)}")
            for store in one.stores:
                about = f"{store.tensor} is stored{_of(pieces)}"
                self.sheet.bar(_store(store.tensor), step, step + 1, "store", STORED, about)
        met = [exchange for exchange in exchanges_of(self.plan) if exchange.walk == number]
        for step, exchange in zip(turn.exchanges, met, strict=True):
            label = ", ".join(_counted(reduction.function for reduction in exchange.reductions))
            names = ", ".join(reduction.name for reduction in exchange.reductions)
            about = f"the threads of a row put together what each has of {names}"
            self.sheet.bar(EXCHANGE, step, step + 1, label, self._colour(row, number), about)
        if turn.after is not None:
            self._of_row(one.after, turn.after, self._colour(row, number))

    def _of_row(self, steps: Iterable[RowStep], at: int, colour: int) -> None:
        """Draws what is computed and stored of a row as a whole."""
        stores = [step.tensor for step in steps if isinstance(step, Store)]
        names = list(dict.fromkeys([*(step.name for step in steps if not isinstance(step, Store)), *stores]))
        label = names[0] if len(names) == 1 else count(len(names), "value")
        self.sheet.bar(COMPUTE, at, at + 1, label, colour, f"of the row as a whole: {', '.join(names)}")
        for name in stores:
            self.sheet.bar(_store(name), at, at + 1, "store", STORED, f"{name} is stored: one element of each row")

    def _columns(self, row: int, number: int, turn: Turn, one: Walk) -> None:
        """Draws what a block has of the outputs that are reduced over the rows."""
        later, name = self.steps.rows[row + 1 :], unit(self.plan)
        label = f"{name}s 0-{row}" if row else f"{name} 0"
        for column in one.columns:
            if self.plan.walked:
                about = f"what the block has of {column.tensor} so far is read from its workspace and written there"
                for step, pieces in turn.pieces:
                    colour = self._colour(row, number, pieces)
                    self.sheet.bar(_sums(column.tensor), step, step + 1, "add", colour, about + _of(pieces))
                continue
            until = later[0][number].start if later else self.steps.end
            about = f"what the block has of {column.tensor}, of its rows so far, is in registers"
            self.sheet.bar(_sums(column.tensor), turn.start, until, label, self._colour(row, number), about)
            if not later:
                end, about = self.steps.end, f"what the block has of {column.tensor} is written to its workspace"
                self.sheet.bar(_store(column.tensor), end, end + 1, "store", STORED, about)

    # ---------------------------------------------------------------------------------------------- names and colours

    def _colour(self, row: int, number: int, pieces: tuple[int, ...] = ()) -> int:
        """Rows that follow one another have colours of their own; of one row, its pieces or its walks."""
        if self.plan.persistent:
            return hue(row)
        return hue(pieces[0] // self.plan.cluster if pieces else 0) if self.plan.walked else hue(number)

    def _whose(self, row: int) -> str:
        return f"{unit(self.plan)} {row}" if self.plan.persistent else "the row"

    def _lane(self, value: str) -> str:
        """The lane of a value of each element; an `inout` has another one for what it was."""
        return f"new {value}" if any(tensor.name == value for tensor in self.plan.flat.tensors) else value


def _smem(name: str) -> str:
    return f"{name} in smem"


def _sums(name: str) -> str:
    return f"sums of {name}"


def _store(name: str) -> str:
    return f"store {name}"


def _of(pieces: tuple[int, ...]) -> str:
    """The pieces, as the end of a sentence; empty for a row that is held whole."""
    return f", piece{'s' * (len(pieces) > 1)} {', '.join(map(str, pieces))}" if pieces else ""


def _counted(found: Iterable[str]) -> list[str]:
    return [name if number == 1 else f"{number} x {name}" for name, number in Counter(found).items()]


def _uses(values: Iterable[Expr], name: str) -> bool:
    return any(isinstance(node, Name | Local) and node.id == name for value in values for node in walk(value))


def _last_use(turn: Turn, one: Walk, name: str) -> int:
    """The step after the last one of a walk that uses a tensor; 0 if none does."""
    if _uses((step.value for step in one.after), name):
        return turn.end
    return turn.walked if _uses(one.values, name) else 0
