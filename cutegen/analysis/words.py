"""Numbers as a report says them."""

from __future__ import annotations

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def count(number: int | str, what: str) -> str:
    """`1 pass`, `2 passes`. A number may be text, as it was rounded."""
    return f"{number} {what}{'' if str(number) == '1' else 'es' if what.endswith('s') else 's'}"


def duration(seconds: float) -> str:
    """In the largest unit of which it is at least one, nanoseconds at the least: `94.16 ns`, `7.048 ms`."""
    factor, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / factor:.4g} {unit}"
