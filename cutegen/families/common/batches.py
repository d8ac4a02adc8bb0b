"""What the families of gemms have in common where there is a batch, the first mode of all tensors."""

from __future__ import annotations

from collections.abc import Iterable

from cutegen.language.context import Context


def without_batch(ctx: Context, batch: str | None, names: Iterable[str] | None, field: str) -> list[str]:
    """The modes that a field of the schedule names, without that of the batch, which has no place there: it says so."""
    found = list(names or ())
    if batch in found:
        message = f"`{batch}` is the batch, of which a tile has one matrix"
        ctx.say("CG203", message, "schedule", field, batch, key=True, help=f"leave `{batch}` out")
        found.remove(batch)
    return found
