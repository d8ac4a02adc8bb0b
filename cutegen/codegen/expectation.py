"""The text of a module's `expected`, as the op of the kernel gives it."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.atoms.mma import FusedSum, SumOrder
from cutegen.codegen.exactness import Near


@dataclass(frozen=True)
class Product:
    """The numbers of the bound on `A @ B.T`.

    `units` is the sum of two unit roundoffs: the accumulator's and that of float64, in which the value is computed.
    """

    dtype: str  # of the accumulator, in torch's words
    units: str
    roundings: int  # of one term, besides one for each sum
    least: str  # a term that underflows errs by no more
    largest: str
    cut: str = ""  # of a term, relatively, what is lost of its factors before they are multiplied; empty: nothing
    orders: tuple[SumOrder, ...] = ()  # where the accumulator keeps fewer bits than its type has
    normal: tuple[str, str] = ("", "")  # then the least normal numbers of the factors' types
    batched: bool = False  # whether there is a mode before those of the matrices

    @property
    def fused(self) -> FusedSum | None:
        """How an instruction sums, if all do so from the first k on, one after the other."""
        order = self.orders[0] if len(self.orders) == 1 else None
        return order.fused if order is not None and order.shares == 1 and not order.ends_whole else None


@dataclass(frozen=True)
class Expected:
    """The body of the function, with `near` what it needs of the class `_Near` (None: nothing) and `product` of
    `_product`.
    """

    lines: tuple[str, ...]
    near: Near | None = None
    product: Product | None = None
    factors: tuple[str, str] | None = None  # the matrices, where their product is all: then there are no `lines`
    is_reference: bool = False  # whether it is what `reference` gives, to the bit
