"""Where in the text stands what a case has that was made of a whole schedule, or of another case, and why it is so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from cutegen.language.kinds import Path
from cutegen.language.model import Source

T = TypeVar("T")


def spread(source: Source, origins: Sequence[Path]) -> Source:
    """The places of a spec: for each case, by its number, the path of its text in `source`."""
    return Source(source.path, spread_paths(source.keys, origins), spread_paths(source.values, origins))


def spread_paths(places: Mapping[Path, T], origins: Sequence[Path]) -> dict[Path, T]:
    """Copies `places` to the paths of a spec in which case number i is what was written at `origins[i]`."""
    found = {path: place for path, place in places.items() if path[:1] != ("schedule",) or len(path) == 1}
    for number, origin in enumerate(origins):
        inner = {path[len(origin) :]: place for path, place in places.items() if path[: len(origin)] == origin}
        found |= {("schedule", number, *path): place for path, place in inner.items()}
    return found
