"""A proof as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.analysis.claim import Claim
from cutegen.analysis.occupancy import Occupancy, most_registers
from cutegen.analysis.proof import Part, Proof, Row
from cutegen.analysis.roofline import Roofline, Waves
from cutegen.analysis.words import count, duration

_BLOCKS = 4  # for which the most registers per thread are printed
_ASSUMED = (
    "    sectors: a tile starts at one, and rows are whole sectors apart; where their size is fixed, a packed tensor's"
)


def as_lines(proof: Proof) -> list[str]:
    """The report as a person reads it, without a line's end or a comment sign."""
    lines = [f"proof of {proof.kernel}, from its plan"]
    titles = {
        "coverage": "coverage",
        "bounds": "bounds, for every size that the host accepts",
        "order": "order of warps",
    }
    for kind, title in titles.items():
        found = [claim for claim in proof.claims if claim.kind == kind]
        if found:
            lines += ["", f"  {title}", *(line for claim in found for line in _claim(claim))]
    assumed = [_ASSUMED]
    for part in proof.parts:
        of_case = f" of {part.case}" if part.case else ""
        if part.rows:
            table = _table([_cells(row) for row in part.rows])
            lines += ["", f"  accesses{of_case}, one instruction of one warp", *table]
            if any(row.sectors is not None for row in part.rows):
                lines += assumed
                assumed = []
        if part.buffers:
            lines += ["", f"  shared memory{of_case}", *_shared(part)]
        lines += ["", f"  occupancy{of_case}", *(f"    {_occupied(o)}" for o in part.occupancy)]
    if proof.scratch:
        lines += ["", "  workspaces, the call's own memory between kernels", *_scratch(proof)]
    if proof.rooflines:
        lines += ["", "  roofline", *_table([_roof(r) for r in proof.rooflines])]
        waves = [[_on(r), *_waves(r.tiled)] for r in proof.rooflines if r.tiled is not None]
        if waves:
            lines += ["", "  waves of tiles, on all multiprocessors", *_table(waves)]
    for choice in proof.choices:
        sizes = " ".join(f"{mode}={size}" for mode, size in choice.sizes.items())
        cells = [
            [case, f"{us:.1f} us", f"taken: {choice.waits_for}" * (case == choice.taken)]
            for case, us in choice.estimates
        ]
        if choice.estimates:
            on = f"on {choice.multiprocessors} multiprocessors"
            lines += ["", f"  estimated time of a call {on}, {sizes}", *_table(cells)]
        else:
            lines += ["", f"  the kernel of a call, {sizes}", f"    {choice.taken}, which is not compared with others"]
    return lines


def _claim(claim: Claim) -> Iterator[str]:
    yield f"    {'holds' if claim.holds else 'FAILS'}: {claim.text}"
    yield from (f"           {line}" for line in claim.because)


def _cells(row: Row) -> list[str]:
    access = row.access
    times = "once" if access.instructions == 1 else count(access.instructions, "time")
    cells = [access.name, f"{access.bytes} B a thread, {times}"]
    if row.conflicts is not None:
        c = row.conflicts
        cost = "no bank conflicts" if c.free else f"{c.ways}-way bank conflicts in warp {c.warp}"
        together = f"; {count(c.wavefronts, 'wavefront')}" if c.wavefronts < c.passes else ""
        cells.append(f"{cost} ({count(c.passes, 'pass')}, least {c.least}{together})")
    if row.sectors is not None and row.width is not None:
        s = row.sectors
        warp = f" in warp {s.warp}" if s.sectors > s.least else ""
        cells.append(f"{count(s.sectors, 'sector')} (least {s.least}){warp}; {row.width.why}")
    return cells


def _shared(part: Part) -> Iterator[str]:
    for b in part.buffers:
        padded = f" + {b.stride - b.rows}" if b.stride > b.rows else ""
        stages, size = count(b.stages, "stage"), count(b.bytes, "byte")
        swizzled = f", swizzled over {b.swizzle} of them" * bool(b.swizzle)
        yield f"    {b.tensor}: ({b.rows}{padded}) * {b.depth} {b.what} * {stages}, {size}{swizzled}"
    yield f"    together {count(part.shared_memory, 'byte')} a block, each buffer at a multiple of 16"


def _scratch(proof: Proof) -> Iterator[str]:
    given = {tuple(r.sizes.items()): r.sizes for r in proof.rooflines}
    for x in proof.scratch:
        sides = [f"({mode} rounded up to {n})" if n > 1 else mode for mode, n in x.rounded]
        times = f" * {x.copies}" if x.copies > 1 else ""
        yield f"    {x.tensor}: {' * '.join(sides)} * {count(x.element, 'byte')}{times}"
        for sizes in given.values():
            at = " ".join(f"{mode}={size}" for mode, size in sizes.items())
            yield f"       {at}: {count(x.bytes(sizes), 'byte')}, moved twice, which the roofline leaves out"


def _occupied(o: Occupancy) -> str:
    registers = [most_registers(o.target, o.threads, blocks) for blocks in range(1, min(o.blocks, _BLOCKS) + 1)]
    needs = ", ".join(f"{count} for {blocks}" for blocks, count in enumerate(registers, 1))
    return f"{o.target}: {o.text}; registers a thread at most {needs}"


def _on(r: Roofline) -> str:
    sizes = " ".join(f"{mode}={size}" for mode, size in r.sizes.items())
    return f"{sizes} on {r.gpu} ({r.target})"


def _waves(w: Waves) -> list[str]:
    whose = f" of clusters of {w.blocks} blocks" if w.blocks > 1 else ""
    if not w.tiles:
        return ["no tiles", "", ""]
    last = f"the last one to {w.last:.0%}".replace("%", " %")
    return [
        f"{count(w.tiles, 'tile')}{whose}, {w.at_once} at once",
        f"{count(w.count, 'wave')}, {last}" if w.count > 1 else f"1 wave, filled to {w.last:.0%}".replace("%", " %"),
        f"{w.busy:.1%} busy, if all tiles take equally long".replace("%", " %"),
    ]


def _roof(r: Roofline) -> list[str]:
    return [
        _on(r),
        f"{count(f'{r.intensity:.3g}', 'operation')} a byte",
        f"bound by {r.bound}: at least {duration(r.seconds)}",
        f"{count(r.blocks, 'block')}, {r.waves:.3g} for each of {r.sms} SMs",
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["    " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
