"""Numbers as a report says them."""

from __future__ import annotations

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def count(number: int | str, what: str) -> str:
    """A number with a noun, such as `1 pass` or `2 passes`. The number may be text that was rounded already."""
    return f"{number} {what}{'' if str(number) == '1' else 'es' if what.endswith('s') else 's'}"


def duration(seconds: float) -> str:
    """A time in the largest unit that does not exceed it, such as `94.16 ns`; nanoseconds if there is none."""
    factor, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / factor:.4g} {unit}"
