"""The printers of a contraction's rows, and the variables that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen.codegen.texts import PRODUCT, Text
from cutegen.expressions.tree import Binary, Expr, Local
from cutegen.families.common.row_printing import NumberedPrinter
from cutegen.language.model import Tensor
from cutegen.ops.folding import Folded


@dataclass
class VectorPrinter(NumberedPrinter):
    """Prints on vectors of a thread's columns. `power` is how exponentials of `folded` are printed; `inverses` has the
    variables with the inverses of numbers that vectors are divided by.
    """

    folded: Folded | None = None
    power: str = ""
    inverses: Mapping[str, str] = field(default_factory=dict)

    def print(self, node: Expr) -> Text:
        if self.folded is not None and self.folded.is_exponential(node):
            return Text(self.power)
        return super().print(node)

    def binary(self, node: Binary) -> Text:
        if node.op == "/" and isinstance(node.right, Local) and node.right.id in self.inverses:
            return Text(f"{self.print(node.left).inside(PRODUCT)} * {self.inverses[node.right.id]}", PRODUCT)
        return super().binary(node)


@dataclass(frozen=True)
class Names:
    """Variables of a kernel for what statements read. `places` has that of a block along each outer mode, and of a row
    along theirs; `columns` that of a thread's places along the walked mode or along that of the outputs, and `offsets`
    that of its registers with these places in a tile. `rows` are the modes along which the rows of a tile differ.
    """

    places: dict[str, str]
    columns: dict[str, str]
    offsets: dict[str, str]
    sizes: dict[str, str]
    rows: tuple[str, ...]

    def differ(self, tensor: Tensor) -> bool:
        """Whether rows of a tile have elements of their own of a tensor."""
        return not {*self.rows}.isdisjoint(tensor.shape)
