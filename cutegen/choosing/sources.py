"""Where in the text stands what a case has that was made of a whole schedule, or of another case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutegen.language.kinds import Path
from cutegen.language.model import Source


def spread(source: Source, origins: Sequence[Path]) -> Source:
    """The places of a spec of which each case, by its number, is what was written at a path of `source`."""

    def moved(places: Mapping[Path, Any]) -> dict[Path, Any]:
        found = {path: place for path, place in places.items() if path[:1] != ("schedule",) or len(path) == 1}
        for number, origin in enumerate(origins):
            inner = {path[len(origin) :]: place for path, place in places.items() if path[: len(origin)] == origin}
            found |= {("schedule", number, *path): place for path, place in inner.items()}
        return found

    return Source(source.path, moved(source.keys), moved(source.values))
