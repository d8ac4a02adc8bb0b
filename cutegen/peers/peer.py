"""Something that a kernel is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cutegen.peers.formulas import Recognised

Kind = Literal["copy", "arithmetic", "compile", "eager", "cublas", "cublas best", "cublas eager", "scaled", "library"]


@dataclass(frozen=True)
class Peer:
    """Something to measure a kernel against, by the `name` that is shown.

    `kind` says what runs, of `tensors`: the copied one, or the operands of arithmetic. A library's function runs as
    the formula in the spec that was `found`.
    """

    name: str
    kind: Kind
    tensors: tuple[str, ...] = ()
    function: str = ""  # of torch, for arithmetic
    found: Recognised | None = None
