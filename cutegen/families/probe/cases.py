"""A probe's cases of verification. There is one size, so that they differ in strides, addresses and data."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.verification.case_request import CaseRequest


def requests() -> Iterator[CaseRequest]:
    """Every case of a probe."""
    yield CaseRequest("compact", "the layout's own tile", data="integers")
    yield CaseRequest("random", "the layout's own tile")
    yield CaseRequest("special values", "numbers that other types lack", data="special")
    yield CaseRequest("padded", "rows further apart than they are long", layout="padded")
    yield CaseRequest("offset", "a slice at the least alignment that the spec allows", layout="offset")
    yield CaseRequest(
        "offset integers", "a slice at the least alignment that the spec allows", {}, "offset", "integers"
    )
