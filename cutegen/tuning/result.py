"""How far a search goes, and what it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen.tuning.model import LOST, WRONG, Candidate, Dropped, Place, Score
from cutegen.tuning.space import Space


@dataclass(frozen=True)
class Options:
    """How far a search goes.

    `most` candidates, the most promising first, are compiled and timed before the best are refined. After `budget`
    seconds no further candidate is looked at, compiled or timed but the first few. `targets` is what to compile for
    without a timer.
    """

    most: int = 256
    budget: float | None = None
    seed: int = 0
    jobs: int | None = None
    cache: bool = True
    targets: tuple[str, ...] = ()


@dataclass
class Result:
    """The result of a search.

    `ranking` has the candidates timed in the last run, best first, without the spec as it is. `text` is the spec file
    with the winner's schedule, None without a winner; `stopped` says why nothing could be timed.
    """

    space: Space
    incumbent: Candidate
    pruned: Counter[str] = field(default_factory=Counter)  # code of lint, or `duplicate` -> schedules
    tried: int = 0  # schedules that were looked at
    candidates: list[Candidate] = field(default_factory=list)  # that compiled, the most promising first
    dropped: list[Dropped] = field(default_factory=list)  # after pruning
    left_out: int = 0  # candidates beyond `most`
    unseen: int = 0  # schedules that were not looked at any more, since the budget was spent
    uncompiled: list[Candidate] = field(default_factory=list)  # that were not compiled any more for that reason
    ranking: list[tuple[Candidate, Score]] = field(default_factory=list)
    incumbent_us: Mapping[str, float] = field(default_factory=dict)
    place: Place | None = None
    gpus: int = 0
    late: bool = False  # the budget was spent before everything was tried
    winner: Candidate | None = None
    stopped: str = ""
    notices: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Dropped]:
        """The candidates that lint accepts, and that compute something else or end their process."""
        return [dropped for dropped in self.dropped if dropped.by in (WRONG, LOST)]

    @property
    def untried(self) -> int:
        """How many candidates were not compiled any more."""
        return len(self.uncompiled)

    @property
    def text(self) -> str | None:
        """The spec file with the winner's schedule, None without a winner."""
        return None if self.winner is None else self.winner.text
