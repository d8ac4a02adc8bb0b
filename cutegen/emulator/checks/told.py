"""The knowledge of the past that lanes pass on at barriers and mbarriers, as rows of times (`checks.clocks`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array


@dataclass(frozen=True)
class Told:
    """The knowledge that lanes release: a row for each of them, or one row for several together.

    `known` has, for each of the `warps` of the cluster, the time up to which it is known to have run; then, for each
    member and agent, the time up to which its actions are ordered before. `proxy` has in the same columns, for each
    member, the time up to which a proxy fence covers its writes; its other columns mean nothing. It is None where no
    proxy fence counts.
    """

    known: Array
    warps: int
    proxy: Array | None

    @property
    def after(self) -> Array:
        """Up to which time each warp is known to have run."""
        return self.known[:, : self.warps]

    @property
    def order(self) -> Array:
        """Up to which time what each member and agent did is ordered before."""
        return self.known[:, self.warps :]

    def joined(self, rows: Array | slice = slice(None)) -> Told:
        """The knowledge of those rows together, as one row."""
        proxy = None if self.proxy is None else self.proxy[rows].max(axis=0, keepdims=True)
        return Told(self.known[rows].max(axis=0, keepdims=True), self.warps, proxy)

    def and_what(self, other: Told | None) -> Told:
        """The knowledge of this and another one together; one of them may know of fewer agents."""
        if other is None:
            return self
        proxy = self.proxy if other.proxy is None else _larger(self.proxy, other.proxy)
        return Told(_larger(self.known, other.known), self.warps, proxy)

    def of_agent(self, agent: int, time: int) -> Told:
        """The same, and that what an agent did before that time is before."""
        more = np.zeros((len(self.known), max(0, self.warps + agent + 1 - self.known.shape[1])), self.known.dtype)
        known = np.concatenate([self.known, more], axis=1)
        known[:, self.warps + agent] = time
        return Told(known, self.warps, self.proxy)

    def relaxed(self) -> Told:
        """The same for who only knows that others have run."""
        return Told(self.after, self.warps, None)


def _larger(one: Array | None, other: Array) -> Array:
    """The larger of two arrays entry by entry; one may have fewer columns."""
    if one is None:
        return other
    one, other = (one, other) if one.shape[1] >= other.shape[1] else (other, one)
    width = other.shape[1]
    if width == one.shape[1]:
        return np.maximum(one, other)
    return np.concatenate([np.maximum(one[:, :width], other), one[:, width:]], axis=1)
