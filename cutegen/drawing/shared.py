"""Shared memory as its 32 banks, with the lanes of one warp that access each word in one instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.analysis.access import Access
from cutegen.analysis.memory import Conflicts, conflicts, lanes_of_pass
from cutegen.analysis.words import count
from cutegen.atoms.targets import BANK_BYTES, BANKS, WARP
from cutegen.drawing.colours import OKABE_ITO, SHADES, mix
from cutegen.drawing.grids import MOST_ROWS, images, number_axis
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Legend, Subject, Swatch
from cutegen.drawing.threads import numbers

ROW = BANKS * BANK_BYTES  # bytes


def draw_bank_use(found: Sequence[Access], tensor: str, subjects: tuple[Subject, ...]) -> Figure:
    """The figure of a tensor's accesses to shared memory side by side, each by the warp that meets most conflicts."""
    palette = tuple(mix(hue, white) for hue in OKABE_ITO for white in SHADES[:2])
    panels = [_grid(access, conflicts(access)) for access in found]
    met = {tuple(cell.facts["passes"]) for panel in panels for row in panel.cells for cell in row} - {()}
    hues = _hues(sorted(met, key=lambda passes: (len(passes), passes)))
    panels = [_coloured(panel, hues) for panel in panels]
    meanings: dict[int, list[tuple[int, ...]]] = {}
    for passes, hue in hues.items():
        meanings.setdefault(hue, []).append(passes)
    legend = Legend("passes", tuple(Swatch(2 * hue, _passes_text(which)) for hue, which in meanings.items()))
    name = f"banks-{tensor.lower()}"
    title = f"{tensor} in the banks of shared memory"
    notes = [
        "Each panel is one instruction of one warp. Lanes of one pass that want different words of one bank wait for "
        "each other; the same word is shared. Rows that no lane touches are left out."
    ]
    if any("way" in line for panel in panels for row in panel.cells for cell in row for line in cell.lines):
        notes.append("2-way: two different words of that bank are wanted in one pass.")
    return Figure(name, title, tuple(panels), palette, legend, notes=tuple(notes), subjects=subjects)


def _hues(met: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """A hue for each set of passes that touches a word; the last one for all others if there are too many."""
    return {passes: min(i, len(OKABE_ITO) - 1) for i, passes in enumerate(met)}


def _passes_text(which: Sequence[tuple[int, ...]]) -> str:
    if len(which) > 1:
        return "other passes"
    first, last = which[0][0], which[0][-1]
    if first == last:
        return f"pass {first}"
    return f"passes {f'{first}-{last}' if last - first + 1 == len(which[0]) else ','.join(map(str, which[0]))}"


def _coloured(panel: Grid, hues: Mapping[tuple[int, ...], int]) -> Grid:
    """The panel with its colours: a cell's hue says its passes, its shade tells neighbouring lanes apart."""

    def coloured(cell: Cell) -> Cell:
        threads, passes = cell.facts["threads"], tuple(cell.facts["passes"])
        return replace(cell, colour=2 * hues[passes] + threads[0] % 2) if threads else cell

    return replace(panel, cells=tuple(tuple(map(coloured, row)) for row in panel.cells))


def _grid(access: Access, cost: Conflicts) -> Grid:
    """The grid of an access in rows of 128 bytes; a column is a bank, or as many banks as one lane has."""
    first = cost.warp * WARP
    users = _users(access, first)
    pass_of = {thread: (thread - first) // lanes_of_pass(access) for thread in range(first, first + WARP)}
    wanted: dict[tuple[int, int], set[int]] = {}  # (pass, bank) -> words
    for word, threads in users.items():
        for thread in threads:
            wanted.setdefault((pass_of[thread], word % BANKS), set()).add(word)
    step = max(1, access.bytes // BANK_BYTES)
    if any(users.get(word) != users.get(word - word % step) for word in range(max(users) + 1)):
        step = 1  # lanes start at any bank

    def cell(row: int, column: int) -> Cell:
        bank = column * step
        word = row * BANKS + bank
        banks = f"bank {bank}" if step == 1 else f"banks {bank}-{bank + step - 1}"
        place = f"bytes {word * BANK_BYTES}-{(word + step) * BANK_BYTES - 1}, {banks}"
        threads = users.get(word, ())
        passes = sorted({pass_of[thread] for thread in threads})
        ways = max((len(wanted[number, bank]) for number in passes), default=0)
        facts = {"byte": word * BANK_BYTES, "bank": bank, "threads": list(threads), "passes": passes, "ways": ways}
        if not threads:
            return Cell(("·",), None, f"{place}: not touched", facts)
        lines = (f"T{numbers(threads)}", *([f"{ways}-way"] if ways > 1 else []))
        about = f"{place}: threads {', '.join(map(str, threads))} in pass {', '.join(map(str, passes))}"
        about += f", {ways} words of a bank in one pass" if ways > 1 else ""
        return Cell(lines, None, about, facts)

    touched = sorted({word // BANKS for word in users})
    drawn = touched[:MOST_ROWS]
    rows = Axis("byte", len(touched), tuple(str(row * ROW) for row in drawn))
    columns = number_axis("bank", BANKS, step, BANKS)
    cells = tuple(tuple(cell(row, column) for column in range(BANKS // step)) for row in drawn)
    lines = ("thread",) if cost.free else ("thread", "conflict")
    title = f"{access.name}, warp {cost.warp}, {access.bytes} bytes a lane"
    return Grid(title, rows, columns, cells, lines, caption=_cost(access, cost))


def _users(access: Access, first: int) -> dict[int, tuple[int, ...]]:
    """The threads that access each word, of the warp whose first thread is `first`."""
    found: dict[int, dict[int, None]] = {}
    offsets = images(access.first)
    for thread in range(first, min(first + WARP, access.threads)):
        for value in range(access.vector):
            start = offsets[thread + access.threads * value] * access.dtype.bytes
            for word in range(start // BANK_BYTES, (start + access.dtype.bytes - 1) // BANK_BYTES + 1):
                found.setdefault(word, {})[thread] = None
    return {word: tuple(threads) for word, threads in found.items()}


def _cost(access: Access, cost: Conflicts) -> str:
    done, passes = (
        "is written" if access.kind == "write" else "is read",
        f"{count(cost.passes, 'pass')} of {lanes_of_pass(access)} lanes",
    )
    if cost.free:
        return f"{access.tensor} {done} without bank conflicts: {passes}, as few as there can be."
    words = f"{cost.ways} words of bank {cost.bank} are wanted in one pass"
    return f"{access.tensor} {done} with conflicts: {passes} where {cost.least} would do, {words}."
