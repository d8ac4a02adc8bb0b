"""The printers of a contraction's rows, and the variables that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen.codegen.texts import PRODUCT, SUM, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Binary, Call, Expr, Literal_, Local, is_scalar
from cutegen.families.common.row_printing import NumberedPrinter
from cutegen.language.model import Tensor
from cutegen.ops.folding import Folded

TWO_LOG2_E = "2.8853900817779268"


@dataclass
class VectorPrinter(NumberedPrinter):
    """Prints on vectors of a thread's columns. `power` is how exponentials of `folded` are printed; `inverses` has the
    variables with the inverses of numbers that vectors are divided by. With `fast_math`, vectors are multiplied by the
    reciprocals of `scalars` and of literals as well, and `tanh` is computed by an exponential.
    """

    scalars: frozenset[str] = frozenset()
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
        if node.op == "/" and self.is_fast(node) and is_scalar(node.right, self.scalars):
            inverse = f"(1.0 / {self.print(node.right).text})"
            if isinstance(node.right, Literal_):
                inverse = repr(1.0 / node.right.value)
            return Text(f"{self.print(node.left).inside(PRODUCT)} * {inverse}", PRODUCT)
        return super().binary(node)

    def is_fast(self, node: Expr) -> bool:
        """Whether elements of f32 are computed by approximate functions."""
        return self.fast_math and node.dtype is Dtype.f32 and self.is_tensor(node)

    def call(self, node: Call, arguments: list[Text]) -> Text:
        """The text of a call. tanh(x) = 1 - 2 / (exp(2 x) + 1), and a reciprocal is the square of `rsqrt`."""
        if node.function == "tanh" and self.is_fast(node):
            power = self.name(Text(f"cute.math.exp2({arguments[0].inside(PRODUCT)} * {TWO_LOG2_E}, fastmath=True)"))
            root = self.name(Text(f"cute.math.rsqrt({power.text} + 1.0, fastmath=True)"))
            return Text(f"1.0 - 2.0 * {root.text} * {root.text}", SUM)
        return super().call(node, arguments)


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
