"""A probe's cases of verification. There is one size, so that they differ in strides, addresses and data."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.verification.wish import Wish


def wishes() -> Iterator[Wish]:
    """Every case of a probe."""
    yield Wish("compact", "the layout's own tile", data="integers")
    yield Wish("random", "the layout's own tile")
    yield Wish("special values", "numbers that other types have not", data="special")
    yield Wish("padded", "rows further apart than they are long", layout="padded")
    yield Wish("offset", "a slice at the least alignment that the spec allows", layout="offset")
    yield Wish("offset integers", "a slice at the least alignment that the spec allows", {}, "offset", "integers")
