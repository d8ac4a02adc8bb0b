"""The typed tree of `compute` as Python text on torch tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cutegen.codegen.casts import after, ends
from cutegen.codegen.expressions import SQRT_HALF, Printer, is_number
from cutegen.codegen.texts import ATOM, NEGATE, PRODUCT, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.functions import PARTS
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Literal_, Reduce
from cutegen.expressions.tree import QUOTIENTS, Scan, Select


@dataclass
class TorchPrinter(Printer):
    """Prints text on torch tensors; scalars are tensors without dimensions.

    `constants` are the calls that make such tensors of numbers, as they stand in what was printed.
    """

    constants: list[str] = field(default_factory=list)
    sizes: Mapping[str, int] = field(default_factory=dict)  # of modes, where they are fixed
    selections: dict[Expr, Text] = field(default_factory=dict)  # variables of sorted values and their places
    stable: bool = True  # whether equal values are kept in the order of their places

    def negation(self, x: Text) -> Text:
        return Text(f"~{x.inside(NEGATE)}", NEGATE)

    def cast(self, node: Cast, x: Text) -> Text:
        source, dtype = _of(node.x), _of(node)
        x = x if x.strength == ATOM else self.name(x)
        to = f".to(torch.{dtype.torch})"
        if (dtype.is_f8 and not source.is_float) or (source.is_f8 and dtype is not Dtype.f32):
            x = Text(f"{x.text}.float()")  # torch has few functions on 8 bits
        if dtype.is_f8:  # where torch has an infinity or NaN
            return self.fit(Text(f"{x.text}.clamp({-dtype.largest}, {dtype.largest}){to}"), self.width // 4)
        if not node.saturates:
            return Text(x.text + to)
        low, high = dtype.range
        if dtype is Dtype.i64:  # whose largest number no float is
            least, largest = ends(dtype)
            x = self.name(x if source is Dtype.f64 else Text(f"{x.text}.double()"))
            inside = self.name(Text(f"{x.text}.nan_to_num(0.0).clamp(min={least}){to}")).text
            return Text(f"torch.where({x.text} >= {after(dtype)}, {largest}, {inside})")
        holds = source is Dtype.f64 or (source is Dtype.f32 or source.is_f8) and dtype.bits < 32 or dtype.bits < 16
        wide = "" if holds else ".double()"  # holds `high`
        return self.fit(Text(f"{x.text}{wide}.nan_to_num(0.0).clamp({low}, {high}){to}"), self.width // 4)

    def operands(self, node: Binary) -> tuple[Text, Text]:
        """Torch multiplies by a reciprocal, which rounds once more, where it divides a number, and on a GPU where it
        divides by one: there the number is a tensor, unless that makes no difference.
        """
        left, right = super().operands(node)
        if node.op != "/" or is_number(node.left) and is_number(node.right):
            return left, right
        if is_number(node.left) and not _is_one(node.left):
            left = Text(self.tensor(node.left, left))
        if is_number(node.right) and not _is_power_of_two(node.right):
            right = Text(self.tensor(node.right, right))
        return left, right

    def binary(self, node: Binary) -> Text:
        """Torch divides no integer by 0."""
        if node.op not in QUOTIENTS or isinstance(node.right, Literal_):
            return super().binary(node)
        x, y = (self.name(Text(self.tensor(side, self.print(side)))).text for side in (node.left, node.right))
        divided = self.fit(Text(f"{x} {node.op} torch.where({y} == 0, 1, {y})", PRODUCT), self.width // 2)
        return Text(f"torch.where({y} == 0, 0, {divided.text})")

    def typed(self, x: Text, dtype: Dtype) -> Text:
        return Text(self.made(f"torch.tensor({x.text}, dtype=torch.{dtype.torch}, device=device)"))

    def reduction(self, node: Reduce, x: Text) -> Text:
        function = {"max": "amax", "min": "amin"}.get(node.function, node.function)
        dtype = f", dtype=torch.{_of(node).torch}" if function in ("sum", "prod") and _of(node).is_integer else ""
        x = self.fit(x, self.width // 2)
        if function not in ("amax", "amin", "sum", "mean"):
            to = (
                ".to(torch.int32)" if function in ("argmax", "argmin") and _of(node) is Dtype.i32 else ""
            )  # torch's are of i64
            if function in ("var", "std") and _of(node) is not Dtype.f64:  # torch's own sums squares in the type itself
                x, to = Text(f"{x.inside(ATOM)}.double()"), f".to(torch.{_of(node).torch})"
            for reduction in reversed(node.nested):  # torch's take one axis
                x = Text(f"torch.{function}({x.text}, {self.axes[reduction.mode]}, keepdim=True{dtype})")
            return Text(x.text + to)
        axes = [str(self.axes[reduction.mode]) for reduction in node.nested]
        dim = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
        return Text(f"torch.{function}({x.text}, {dim}, keepdim=True{dtype})")

    def scan(self, node: Scan, x: Text) -> Text:
        dtype = f", dtype=torch.{_of(node).torch}" if _of(node).is_integer else ""
        x = self.fit(x, self.width // 2)
        return Text(f"torch.{node.function}({x.text}, {self.axes[node.mode]}{dtype})")

    def selected(self, node: Select) -> Text:
        """Torch's own topk is faster than a stable sort, and has equal values in any order."""
        axis, last, count = self.axes[node.mode], self.axes[node.kept], self.sizes[node.kept]
        same = replace(node, function="topk", dtype=None)
        if same not in self.selections:
            x = self.name(self.print(node.x))
            call = f"torch.sort({x.text}, dim={axis}, descending=True, stable=True)"
            self.selections[same] = self.name(Text(call if self.stable else f"torch.topk({x.text}, {count}, {axis})"))
        whole = f"{self.selections[same].text}[{0 if node.function == 'topk' else 1}]"
        found = self.name(Text(f"{whole}.narrow({axis}, 0, {count}).transpose({axis}, {last})"))
        narrow = node.function == "argtopk" and _of(node) is Dtype.i32
        return Text(f"{found.text}.to(torch.int32)") if narrow else found

    def made(self, call: str) -> str:
        self.constants.append(call)
        return call

    def tensor(self, node: Expr, printed: Text) -> str:
        """A printed value as a tensor, since torch's functions take no bare numbers here."""
        if is_number(node):
            return self.typed(printed, _of(node)).text
        return printed.text

    def defined(self, node: Call) -> Text:
        """The call of torch's own function, so that what a kernel is compared with has not its definition."""
        if node.function == "hardswish":  # torch's own overflows in f32 from a sixth of the largest number on
            (argument,) = node.arguments
            x = self.name(Text(self.tensor(argument, self.print(argument)))).text
            return Text(f"{x} * torch.nn.functional.hardsigmoid({x})", PRODUCT)
        parts = [self.print(x) for x in node.arguments]
        taken = takes_numbers(node)
        texts = [
            text.text if at in taken else self.fit(Text(self.tensor(x, text)), self.width // 4).text
            for at, (x, text) in enumerate(zip(node.arguments, parts, strict=True))
        ]
        text = torch_call(node, texts, _of(node))
        return super().defined(node) if text is None else Text(text)

    def call(self, node: Call, arguments: list[Text]) -> Text:
        name, parts = node.function, []
        if name in ("sigmoid", "silu", "gelu_tanh"):
            x = arguments[0]
            if is_number(node.arguments[0]):
                x = Text(self.tensor(node.arguments[0], x))
            shared = self.common(name, x)
            assert shared is not None
            return shared
        for child, text in zip(node.arguments, arguments, strict=True):
            printed = Text(self.tensor(child, text))
            parts.append(self.name(printed).text if len(printed.text) > self.width // 4 else printed.text)
        match name:
            case "gelu":  # torch's own gives NaN for infinity on some CPUs
                x = self.name(Text(parts[0]))
                return Text(f"0.5 * {x.text} * (1.0 + torch.erf({x.text} * {SQRT_HALF}))", PRODUCT)
        return Text(own_call(f"torch.{name}", parts, _of(node)))


_FUNCTIONAL = ("leaky_relu", "elu", "softplus", "logsigmoid", "mish")
_IN_F64 = ("torch.sinh", "torch.cosh", "torch.fmod", "torch.remainder", "torch.floor_divide")
_NUMBERS = ("leaky_relu", "elu")  # whose parameters torch takes as numbers only


def takes_numbers(node: Call) -> frozenset[int]:
    """The places of a call's arguments that torch's function takes as Python's numbers."""
    rest = range(1, len(node.arguments))
    numbers = all(isinstance(node.arguments[at], Literal_) for at in rest)
    clamps = node.function.startswith("clamp") and not is_number(node.arguments[0])
    return frozenset(rest) if numbers and (clamps or node.function in _NUMBERS) else frozenset()


def torch_call(node: Call, texts: Sequence[str], dtype: Dtype) -> str | None:
    """The call of torch's function for one that is defined by others, of arguments that are printed as `texts`.

    They are of the type `dtype`. Those in `takes_numbers` are numbers. None where torch's function takes no such
    arguments.
    """
    name = node.function
    if name in PARTS or (name in _NUMBERS and not takes_numbers(node)):
        return None
    return own_call(f"torch.{'nn.functional.' * (name in _FUNCTIONAL)}{name}", texts, dtype)


def own_call(function: str, texts: Sequence[str], dtype: Dtype) -> str:
    """The call of a function of torch on what is of a type; in f64 where torch's own is wrong in f32.

    On a CPU `sinh` and `cosh` overflow from half of the largest number on, and `fmod` is NaN where the quotient
    overflows.
    """
    if dtype is not Dtype.f32 or function not in _IN_F64:
        return f"{function}({', '.join(texts)})"
    wide = (f"{text}.double()" if text.isidentifier() else f"({text}).double()" for text in texts)
    return f"{function}({', '.join(wide)}).float()"


def _is_one(node: Expr) -> bool:
    return isinstance(node, Literal_) and abs(node.value) == 1


def _is_power_of_two(node: Expr) -> bool:
    return isinstance(node, Literal_) and abs(math.frexp(node.value)[0]) == 0.5


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
