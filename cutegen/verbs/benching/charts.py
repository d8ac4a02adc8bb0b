"""Pictures of what `cutegen bench` measured: a roofline, and curves over a sweep."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cutegen.analysis.roofline import arithmetic
from cutegen.atoms.gpus import Arithmetic, tensor_rate
from cutegen.drawing.charts import (
    HUES,
    MARGIN,
    SHAPES,
    SMALL,
    Axis,
    Key,
    Plot,
    at_values,
    decades,
    draw_keys,
    linear,
    marker,
    picture,
)
from cutegen.drawing.colours import INK
from cutegen.drawing.svg_parts import line, text, text_width
from cutegen.measuring import Limits, Measured
from cutegen.measuring.asked import op_of
from cutegen.measuring.model import time_text
from cutegen.measuring.shapes import shape_text
from cutegen.verbs.benching.bench import BenchReport
from cutegen.verbs.benching.output import machine_lines, rate_text

_WIDTH, _HEIGHT = 520.0, 360.0  # of the plot
_ROW, _ROW_WIDTH = 22.0, 380.0  # of the plot of shares
_OURS = HUES[0]


@dataclass(frozen=True)
class Dot:
    """One kernel at one shape, as a dot in a picture."""

    name: str
    rate: str
    measured: Measured
    arithmetic: Arithmetic | None = None  # of a kernel that computes

    @property
    def figure(self) -> str:
        """The time and the rate of the dot's kernel, in words."""
        return f"{time_text(self.measured.timing.us)}, {self.rate}"


def roofline(report: BenchReport) -> ET.Element:
    """Draws the two plots of a roofline.

    The first has operations a second over operations a byte below the measured roof, for kernels that compute. The
    second has a row for every kernel: how near it and its peers come to the limit.
    """
    dots = [
        Dot(
            f"{b.unit.kernel}, {shape_text(m.shape)}{', warm L2' * (m.l2 == 'warm')}",
            rate_text(b, m),
            m,
            arithmetic(b.unit.module.plan.spec) if m.operations else None,
        )
        for b in report.kernels
        for m in b.result.measured
    ]
    limits = None if report.machine is None else report.machine.limits
    computing = [dot for dot in dots if dot.measured.operations]
    roofs = _roofs(computing, report)
    peers = peer_keys(name for dot in dots for name in dot.measured.peers)
    left = MARGIN + 56
    names = max(text_width(dot.name, SMALL) for dot in dots) + 12
    figures = max(text_width(dot.figure, SMALL) for dot in dots) + 12
    second = MARGIN + (_WIDTH + 56 + 40 if computing else 0) + names
    width = second + _ROW_WIDTH + figures + MARGIN
    height = max(_HEIGHT if computing else 0, _ROW * len(dots) + 8) + 130
    root = picture(title("Roofline", report), remarks(report), width, height)
    end = draw_keys(root, [Key("the kernel", "circle", _OURS), *peers.values()], MARGIN, 62, width - 2 * MARGIN)
    top = end + 34
    if computing:
        plot = Plot(root, *_roofline_axes(computing, limits, roofs), left, top, _WIDTH, _HEIGHT)
        plot.draw_axes()
        if limits is not None:
            _draw_roofs(plot, limits, roofs)
        for dot in computing:
            _points(plot, dot, peers)
    _rows(root, dots, peers, second, top)
    return root


def title(what: str, report: BenchReport) -> str:
    """The title of a picture."""
    return what if report.machine is None else f"{what} on {report.machine.gpu}"


def remarks(report: BenchReport) -> list[str]:
    """The lines below a title: the machine, and how its figures were taken."""
    lines = [] if report.machine is None else machine_lines(report.machine)
    return [*lines, "Medians; all contenders ran in turn on the same random data."]


def peer_keys(names: Iterable[str]) -> dict[str, Key]:
    """Gives each peer an outline in a shape and a hue of its own."""
    return {
        name: Key(name, SHAPES[1 + i % (len(SHAPES) - 1)], HUES[1 + i % (len(HUES) - 1)], hollow=True)
        for i, name in enumerate(dict.fromkeys(names))
    }


def _tflops(measured: Measured, us: float) -> float:
    """The rate of a call that takes `us` microseconds, in TFLOP/s."""
    return measured.operations / us / 1e6


def _roofs(dots: Sequence[Dot], report: BenchReport) -> dict[str, float]:
    """The limits of arithmetic on the machine, in TFLOP/s: its measured multiply-adds, and the peak of its tensor cores
    by the data sheet for each type that these kernels multiply.
    """
    limits = None if report.machine is None else report.machine.limits
    if report.machine is None or limits is None:
        return {}
    found = {"multiply-add": limits.fma} if limits.fma is not None else {}
    for kind in dict.fromkeys(dot.arithmetic for dot in dots if dot.arithmetic is not None):
        rate = tensor_rate(report.machine.gpu, kind)
        if rate is not None:
            bits = {32: "tf32", 16: "bf16 and f16", 8: "f8"}[kind.dtype.bits]
            found[f"{bits} by data sheet"] = rate / 1e12
    return found


def _roofline_axes(dots: Sequence[Dot], limits: Limits | None, roofs: Mapping[str, float]) -> tuple[Axis, Axis]:
    """The axes of the roofline, which hold all dots, all peers and the bends of the roofs."""
    intensities = [dot.measured.operations / dot.measured.bytes for dot in dots]
    rates = [
        _tflops(dot.measured, timing.us)
        for dot in dots
        for timing in (dot.measured.timing, *dot.measured.peers.values())
    ]
    if limits is not None:
        rates += roofs.values()
        intensities += [1e3 * rate / limits.copy for rate in roofs.values()]
    x = decades("operations a byte", min(intensities) / 1.2, max(intensities) * 1.2)
    return x, decades("TFLOP/s", min(rates) / 1.2, max(rates) * 1.2)


def _draw_roofs(plot: Plot, limits: Limits, roofs: Mapping[str, float]) -> None:
    """Draws the roofs, each the lower of what memory feeds and what the arithmetic units do."""
    start = max(plot.x.low, 1e3 * plot.y.low / limits.copy)
    highest = start
    for name, rate in roofs.items():
        bend = 1e3 * rate / limits.copy  # operations a byte at which both bind
        highest = max(highest, bend)
        plot.curve([(bend, rate), (plot.x.high, rate)], INK, dashed=name != "multiply-add")
        text(plot.root, plot.across(plot.x.high) - 6, plot.down(rate) - 12,
             f"{name} {rate:.3g} TFLOP/s", SMALL, anchor="end")  # fmt: skip
    if roofs:
        plot.curve([(start, start * limits.copy / 1e3), (highest, highest * limits.copy / 1e3)], INK)
        middle = (start * highest) ** 0.5
        text(plot.root, plot.across(middle) - 8, plot.down(middle * limits.copy / 1e3) - 8,
             f"copy {limits.copy:.0f} GB/s", SMALL, anchor="end")  # fmt: skip


def _points(plot: Plot, dot: Dot, peers: dict[str, Key]) -> None:
    """Draws a kernel and its peers below the roof."""
    measured = dot.measured
    x = measured.operations / measured.bytes
    for name, timing in measured.peers.items():
        key = peers[name]
        tooltip = f"{name}, {dot.name}: {time_text(timing.us)}"
        plot.mark(x, _tflops(measured, timing.us), key.shape, key.colour, tooltip, hollow=True)
    y = _tflops(measured, measured.timing.us)
    plot.mark(x, y, "circle", _OURS, f"{dot.name}: {dot.figure}")


def _rows(root: ET.Element, dots: Sequence[Dot], peers: dict[str, Key], left: float, top: float) -> None:
    """Draws a row for each kernel: the share of its limit that it reaches, and its peers."""
    shares = [
        measured.limit_us / timing.us
        for measured in (dot.measured for dot in dots)
        for timing in (measured.timing, *measured.peers.values())
        if measured.limit_us is not None
    ]
    axis = linear("share of the limit", 100 * max([1.0, *shares]), unit=" %")
    height = _ROW * len(dots) + 8
    plot = Plot(root, axis, Axis("", 0, 1, ()), left, top, _ROW_WIDTH, height)
    plot.draw_axes()
    line(root, plot.across(100), top, plot.across(100), top + height, 2)
    for i, dot in enumerate(dots):
        measured, middle = dot.measured, top + 4 + _ROW * (i + 0.5)
        text(root, left - 8, middle, dot.name, SMALL, anchor="end")
        text(root, left + _ROW_WIDTH + 10, middle, dot.figure, SMALL, anchor="start")
        if measured.limit_us is None:
            continue
        line(root, left, middle, left + _ROW_WIDTH, middle, 0.6, "#b0b0b0")
        for name, timing in measured.peers.items():
            key = peers[name]
            share = 100 * measured.limit_us / timing.us
            marker(
                root, plot.across(share), middle, key.shape, key.colour, f"{name}: {time_text(timing.us)}", hollow=True
            )
        share = 100 * measured.limit_us / measured.timing.us
        marker(root, plot.across(share), middle, "circle", _OURS, f"{dot.name}: {dot.figure}")


def curves(report: BenchReport) -> ET.Element:
    """Draws the rate of each kernel and of its peers over the sizes of a sweep.

    There is a plot for each kernel, one below the other, with the limit where it is known.
    """
    kernels = [benched for benched in report.kernels if benched.result.measured]
    width = MARGIN + 70 + 2 * _WIDTH * 0.7 + 2 * MARGIN
    block = _HEIGHT + 140
    root = picture(title("Sweep", report), remarks(report), width, block * len(kernels) + 20)
    for number, benched in enumerate(kernels):
        measured = sorted(benched.result.measured, key=lambda m: m.bytes)
        unit = op_of(benched.unit.module.spec).rate
        amount = {id(m): m.operations / 1e6 if unit == "TFLOP/s" else m.bytes / 1e3 for m in measured}
        rates = {"": [(m, amount[id(m)] / m.timing.us) for m in measured]}
        for name in dict.fromkeys(name for m in measured for name in m.peers):
            rates[name] = [(m, amount[id(m)] / m.peers[name].us) for m in measured if name in m.peers]
        limit = [(m, amount[id(m)] / m.limit_us) for m in measured if m.limit_us is not None]
        swept = [k for k in measured[0].shape if len({m.shape[k] for m in measured}) > 1] or list(measured[0].shape)
        fixed = [f"{k} = {v}" for k, v in measured[0].shape.items() if k not in swept]
        places = {id(m): float(m.shape[swept[0]]) for m in measured}
        x = at_values(
            " = ".join(swept) + (f" ({', '.join(fixed)})" if fixed else ""),
            list(places.values()),
            [str(m.shape[swept[0]]) for m in measured],
        )
        y = linear(f"{benched.unit.kernel}, {unit}", max(r for series in [*rates.values(), limit] for _, r in series))
        peers = peer_keys(list(rates)[1:])
        keys = [Key(benched.unit.kernel, "circle", _OURS), *peers.values()]
        keys += [Key("limit, measured", "circle", INK, dashed=True)] if limit else []
        base = 62 + block * number
        top = draw_keys(root, keys, MARGIN, base, width - 2 * MARGIN) + 34
        plot = Plot(root, x, y, MARGIN + 50, top, width - 2 * MARGIN - 60, _HEIGHT)
        plot.draw_axes()
        if limit:
            plot.curve([(places[id(m)], rate) for m, rate in limit], INK, dashed=True)
        for name, series in reversed(rates.items()):
            key = peers.get(name, Key(benched.unit.kernel, "circle", _OURS))
            plot.curve([(places[id(m)], rate) for m, rate in series], key.colour)
            for m, rate in series:
                tooltip = f"{key.name}, {shape_text(m.shape)}: {rate:.4g} {unit}"
                plot.mark(places[id(m)], rate, key.shape, key.colour, tooltip, hollow=key.hollow)
    return root
