"""The text of a spec as a tree that knows where each piece begins and ends, for edits that touch nothing else.

`language.document` knows lines and columns of what the language reads; an edit also has to know ends, flow or block
style and aliases. Values are those of `language.document`: this tree is only asked where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from cutegen.yaml12.events import events


@dataclass(eq=False)
class Piece:
    """A value of YAML at `text[start:end]`. The `end` of a block collection is behind its last value, not its lines."""

    start: int
    end: int


@dataclass(eq=False)
class ScalarPiece(Piece):
    """A plain or quoted scalar."""

    text: str  # without quotes
    style: str | None  # the quote, `|` or `>`; None for a plain scalar


@dataclass(eq=False)
class AliasPiece(Piece):
    """An alias, such as `*name`."""


@dataclass(eq=False)
class ListPiece(Piece):
    """A list and its items."""

    items: list[Piece] = field(default_factory=list)


@dataclass(eq=False)
class MapPiece(Piece):
    """A mapping and its entries."""

    flow: bool
    entries: list[tuple[Piece, Piece]] = field(default_factory=list)

    def entry(self, key: str) -> tuple[Piece, Piece] | None:
        """The entry with that key, if there is one."""
        return next(((k, v) for k, v in self.entries if isinstance(k, ScalarPiece) and k.text == key), None)


def documents(text: str) -> list[Piece]:
    """The root of every document in a text. Raises `yaml.YAMLError` where the text is not YAML."""
    all_events = events(text)
    found = []
    for event in all_events:
        if isinstance(event, yaml.DocumentStartEvent):
            found.append(_piece(next(all_events), all_events))
    return found


def _piece(event: Any, events: Iterator[Any]) -> Piece:
    """The value that begins with an event; takes from `events` all up to its end."""
    start, end = event.start_mark.index, event.end_mark.index
    match event:
        case yaml.AliasEvent():
            return AliasPiece(start, end)
        case yaml.ScalarEvent():
            return ScalarPiece(start, end, event.value, event.style)
        case yaml.MappingStartEvent():
            entries = []
            while not isinstance(closing := next(events), yaml.MappingEndEvent):
                key = _piece(closing, events)
                entries.append((key, _piece(next(events), events)))
            flow = bool(event.flow_style)
            return MapPiece(start, _end(closing) if flow else entries[-1][1].end, flow, entries)
    items = []
    while not isinstance(closing := next(events), yaml.SequenceEndEvent):
        items.append(_piece(closing, events))
    return ListPiece(start, _end(closing) if event.flow_style else items[-1].end, items)


def _end(event: Any) -> int:
    """Where the text of an event ends."""
    end: int = event.end_mark.index
    return end
