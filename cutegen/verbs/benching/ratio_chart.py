"""A picture of a sweep over shapes of a file: how a kernel stands to the best of its peers, from the worst on."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from math import floor

from cutegen.drawing.charts import MARGIN, Axis, Key, Plot, decades, draw_keys, linear, picture
from cutegen.drawing.colours import INK
from cutegen.measuring.model import time_text
from cutegen.measuring.shapes import shape_text
from cutegen.measuring.totals import BEHIND
from cutegen.verbs.benching.bench import BenchReport
from cutegen.verbs.benching.charts import peer_keys, remarks, title
from cutegen.verbs.benching.sweep import Swept

_WIDTH, _HEIGHT = 760.0, 320.0  # of a plot
_WIDE = 8.0  # the largest ratio over the smallest, from which an axis is logarithmic


def is_curve(sweep: Swept) -> bool:
    """Whether the shapes differ in one mode alone, or in several that are as long as each other."""
    shapes = [standing.measured.shape for standing in sweep.standings]
    columns = {tuple(shape[mode] for shape in shapes) for mode in (shapes[0] if shapes else ())}
    return sum(len(set(column)) > 1 for column in columns) == 1


def _below(least: float) -> float:
    """The low end of an axis that is not logarithmic: a tenth below the least ratio and the line at `BEHIND`."""
    return max(0.0, floor(10 * min(least, BEHIND) - 0.2) / 10)


def ratios(report: BenchReport, sweeps: Sequence[Swept]) -> ET.Element:
    """Draws a plot for each kernel: a mark for each shape, at the time of the best peer over the kernel's, in the order
    of that; its form says which peer it is.
    """
    drawn = [sweep for sweep in sweeps if sweep.compared]
    block = _HEIGHT + 140
    width = _WIDTH + 2 * MARGIN + 60
    root = picture(title("Against the best peer", report), remarks(report), width, block * len(drawn) + 20)
    for number, sweep in enumerate(drawn):
        hollow = peer_keys(standing.measured.best or "" for _, standing in sweep.compared)
        peers = {name: replace(key, hollow=False) for name, key in hollow.items()}
        keys = [*peers.values(), Key(f"{BEHIND} of the best peer", "circle", INK, dashed=True)]
        top = draw_keys(root, keys, MARGIN, 62 + block * number, width - 2 * MARGIN) + 34
        count = len(sweep.compared)
        values = [ratio for ratio, _ in sweep.compared]
        ticks = tuple((float(i), str(i)) for i in range(1, count + 1) if i == 1 or i % max(1, count // 10) == 0)
        x = Axis(f"{count} shapes, the worst first; geometric mean {sweep.totals.mean:.3f}", 0.0, count + 1.0, ticks)
        label = f"{sweep.benched.unit.kernel}: time of the best peer over the kernel's"
        wide = max(1.0, *values) > _WIDE * min(1.0, *values)
        y = (
            decades(label, min(1.0, *values), max(1.0, *values))
            if wide
            else linear(label, max(1.05, *values), _below(values[0]))
        )
        plot = Plot(root, x, y, MARGIN + 50, top, _WIDTH, _HEIGHT)
        plot.draw_axes()
        plot.curve([(x.low, 1.0), (x.high, 1.0)], INK)
        plot.curve([(x.low, BEHIND), (x.high, BEHIND)], INK, dashed=True)
        for place, (ratio, standing) in enumerate(sweep.compared, 1):
            key, measured = peers[standing.measured.best or ""], standing.measured
            tip = f"{shape_text(measured.shape)}: {ratio:.3f}, {time_text(measured.timing.us)}; {standing.why}"
            plot.mark(place, ratio, key.shape, key.colour, tip)
    return root
