"""Figures as data for other programs: what the pictures show, as far as it is drawn at most."""

from __future__ import annotations

from typing import Any

from cutegen.drawing.model import Axis, Figure, Grid, Panel


def as_json(figure: Figure) -> dict[str, Any]:
    """A figure as plain data: `{name, title, remarks, legend, arrows, panels}`.

    A grid is `{kind: grid, title, rows, columns, labels, cells}` with axes as `{name, size, drawn, step, labels}` and
    rows of cells `{label, colour, about, ...}`, which say besides what they stand for; a timeline is `{kind: timeline,
    title, lanes, ticks, size, bars, marks}`. Colours are #rrggbb, null for what is nobody's.
    """
    return {
        "name": figure.name,
        "title": figure.title,
        "remarks": list(figure.remarks()),
        "legend": None
        if figure.legend is None
        else {
            "title": figure.legend.title,
            "colours": [{"colour": figure.palette[s.colour], "text": s.text} for s in figure.legend.swatches],
        },
        "arrows": list(figure.arrows),
        "panels": [_panel(panel, figure.palette) for panel in figure.panels],
    }


def _panel(panel: Panel, palette: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(panel, Grid):
        cells = [
            [
                {
                    "label": list(cell.lines),
                    "colour": None if cell.colour is None else palette[cell.colour],
                    "about": cell.about,
                    **cell.facts,
                }
                for cell in row
            ]
            for row in panel.cells
        ]
        sides = {"rows": _axis(panel.rows), "columns": _axis(panel.columns)}
        return {"kind": "grid", "title": panel.title, **sides, "labels": list(panel.line_names), "cells": cells}
    bars = [
        {
            "lane": panel.lanes[bar.lane],
            "start": bar.start,
            "end": bar.end,
            "label": bar.label,
            "waiting": bar.faint,
            "about": bar.about,
            "colour": palette[bar.colour],
        }
        for bar in panel.bars
    ]
    return {
        "kind": "timeline",
        "title": panel.title,
        "lanes": list(panel.lanes),
        "ticks": list(panel.ticks),
        "size": panel.size,
        "bars": bars,
        "marks": [{"at": mark.at, "label": mark.label} for mark in panel.marks],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "size": axis.size,
        "drawn": axis.drawn,
        "step": axis.step,
        "labels": list(axis.labels),
    }
