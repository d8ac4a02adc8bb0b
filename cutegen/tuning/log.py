"""The log of a search: a file with one JSON object a line, appended as results become known.

A search that was interrupted reads it and does not repeat timings that were made under the same conditions.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from cutegen.tuning.model import Candidate, Dropped, Shape, Time, Trouble, Verdict

FOLDER = ".cutegen-tune"
VERSION = 1


@dataclass(frozen=True)
class Conditions:
    """Conditions that times depend on besides the code. `incumbent` is the digest of the incumbent's body, by kernel.

    Times of another GPU or other versions, and times against another incumbent, cannot be compared.
    """

    gpu: str
    versions: Mapping[str, str]
    incumbent: Mapping[str, str]


@dataclass(frozen=True)
class Timed:
    """A candidate's verdict at one shape of one kernel, and the incumbent's time in the same run."""

    kernel: str
    body: str
    shape: Shape
    rounds: int
    verdict: Verdict
    incumbent: Time

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of a timing: the kernel, the digest of its body, and the shape as text."""
        return (self.kernel, self.body, shape_text(self.shape))


def shape_text(shape: Shape) -> str:
    """A shape as text, the same for each order of its modes."""
    return ",".join(f"{mode}={size}" for mode, size in sorted(shape.items()))


class Log:
    """Appends what a search finds to a file, one line of JSON each. Raises OSError where it cannot
    be read or written.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        """Opens the log, which is emptied where it is to be `fresh`."""
        self.path = path
        self._old = [] if fresh else list(_read(path))
        self._said = {json.dumps(entry) for entry in self._old}  # a run that goes on says nothing twice
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w" if fresh else "a", encoding="utf-8")
        if not fresh and not _ends_with_line(path):  # the last line was cut off in the middle
            self._file.write("\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def timed(self, conditions: Conditions) -> Iterator[Timed]:
        """Yields the timings that earlier runs made under these conditions, in their order.

        Lines of other kinds or versions are left out, and so are lines that this log did not write.
        """
        wanted = _plain(asdict(conditions))
        for entry in self._old:
            ours = entry.get("kind") == "timed" and entry.get("version") == VERSION
            if ours and entry.get("conditions") == wanted and (timed := _timed(entry)) is not None:
                yield timed

    def run(self, **what: Any) -> None:
        """Notes the start of a run: what it is of, and with what."""
        self._append({"kind": "run", **what})

    def candidate(self, candidate: Candidate, changes: Mapping[str, Any]) -> None:
        """Notes a candidate and what it changes."""
        told = {"number": candidate.number, "schedule": candidate.schedule, "changes": changes}
        self._append({"kind": "candidate", **told, "bodies": dict(candidate.bodies), "excess": candidate.excess})

    def dropped(self, dropped: Dropped) -> None:
        """Notes a schedule that is out, and why."""
        self._append({"kind": "dropped", **asdict(dropped)})

    def add(self, conditions: Conditions, candidate: Candidate, timed: Timed) -> None:
        """Notes what a candidate's timing came to."""
        told = {"number": candidate.number, "schedule": candidate.schedule, **asdict(timed)}
        if isinstance(timed.verdict, Time):
            told["verdict"] = {"kind": "time", **told["verdict"]}
        self._append({"kind": "timed", "conditions": asdict(conditions), **told})

    def _append(self, entry: Mapping[str, Any]) -> None:
        """Appends an entry to the file as a line of JSON, unless it already exists."""
        line = json.dumps({"version": VERSION, **entry})
        if line not in self._said:
            self._said.add(line)
            self._file.write(line + "\n")
            self._file.flush()


def _plain(data: Any) -> Any:
    """Data as JSON holds it: tuples as lists, for example."""
    return json.loads(json.dumps(data))


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """All lines of the file that are JSON objects."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _ends_with_line(path: Path) -> bool:
    """Whether the file's last line is whole, as it is not after an interrupted write."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _timed(entry: Mapping[str, Any]) -> Timed | None:
    """Returns the timing that a line records; None for a line that this log did not write."""
    try:
        kernel, body, shape, rounds = (entry[name] for name in ("kernel", "body", "shape", "rounds"))
        named = isinstance(kernel, str) and isinstance(body, str) and type(rounds) is int
        if not named or not all(type(size) is int for size in shape.values()):
            return None
        return Timed(kernel, body, shape, rounds, _verdict(**entry["verdict"]), _time(**entry["incumbent"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _verdict(kind: str, **fields: Any) -> Verdict:
    """The verdict in a line. Raises TypeError or ValueError where it is none."""
    if kind == "time":
        return _time(**fields)
    if kind not in get_args(get_type_hints(Trouble)["kind"]):
        raise ValueError(f"no verdict is of the kind {kind}")
    return Trouble(**{"kind": kind, **fields})


def _time(us: float, spread: float) -> Time:
    """The time in a line. Raises TypeError or ValueError where it is none."""
    if not (math.isfinite(us) and us > 0 and math.isfinite(spread) and spread >= 0):
        raise ValueError(f"{us} us, {spread} is not a time")
    return Time(us, spread)
