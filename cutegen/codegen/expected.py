"""The typed tree of `compute` on values that carry an error bound, as a generated module's `expected` prints it.

The formulas of the bounds, those of `verification.arithmetic`, are in `templates/near.j2`: a class `_Near` of the
module, whose operators are printed only where an expression uses them. What is exact in a kernel is printed in its own
types, as in `reference`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cutegen.codegen.asked import op_of
from cutegen.codegen.exactness import NARROW, Near, is_exact, rounds_twice
from cutegen.codegen.expressions import Printer, is_number
from cutegen.codegen.texts import ATOM, NEGATE, Text
from cutegen.codegen.torch_expressions import TorchPrinter, takes_numbers, torch_call
from cutegen.dtypes import Dtype
from cutegen.expressions.constants import nearest
from cutegen.expressions.functions import FUNCTIONS, TO_WHOLE, function_of
from cutegen.expressions.parsing import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Expr,
    Literal_,
    Local,
    Name,
    Reduce,
    Unary,
)
from cutegen.expressions.tree import parameter_of

if TYPE_CHECKING:
    from cutegen.planning.plan import Plan

_ON_INTEGERS = {
    **{"&": "torch.bitwise_and", "|": "torch.bitwise_or", "^": "torch.bitwise_xor"},
    **{"<<": "torch.bitwise_left_shift", ">>": "torch.bitwise_right_shift", "//": "_quotient", "%": "_remainder"},
}
_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
TWICE = 0.5002  # half an ulp and what rounding to f32 before adds to it, at most 2**-12 of that


@dataclass
class NearPrinter(Printer):
    """Prints text on objects of `_Near`.

    `raw` prints what is exact, in the kernel's types: its lines come first, in `raw_lines`. Then the variables that are
    read become objects: `lifted` has their types.
    """

    raw: TorchPrinter = field(kw_only=True)
    near: Near = field(kw_only=True)
    fast_math: bool = field(default=False, kw_only=True)  # as the schedule has it
    raw_lines: list[str] = field(default_factory=list)
    lifted: dict[str, Dtype] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # of texts in `raw_lines`
    used: set[str] = field(default_factory=set)

    def keep(self, value: Expr, name: str, variable: str) -> list[str]:
        if is_exact(value, self.raw.locals):
            self.raw.next_number = self.next_number
            lines = self.raw.keep(value, name, variable)
            self.raw_lines += [*self.raw.statements, *lines]
            self.raw.statements = []
            self.next_number = self.raw.next_number
            return []
        self.locals[name] = variable
        return self.run(value, variable)

    def print(self, node: Expr) -> Text:
        if is_exact(node, self.raw.locals):
            return self.lift(node)
        if isinstance(node, Binary) and node.op in COMPARISONS:
            compared = f"torch.{_COMPARED[node.op]}"
            if (infinity := _infinity(node.right)) is not None:
                return self.method(node.left, "beside", compared, infinity)
            return self.method(node.left, "compare", compared, node.right)
        if isinstance(node, Binary) and node.op in _ON_INTEGERS:
            return self.print_whole(node)
        match node:
            case Cast():
                return self.print_cast(node)
            case Call(body=None):
                return self.print_call(node)
            case Binary():
                self.used.add("*" if node.op == "**" else node.op)
            case Unary():
                self.used.add(f"unary {node.op}")
                return self.wrapped(super().print(node), node)
        return super().print(node)

    def negation(self, x: Text) -> Text:
        return Text(f"~{x.inside(NEGATE)}", NEGATE)

    def lift(self, node: Expr) -> Text:
        """The object of an exact value."""
        while isinstance(node, Cast) and _of(node.x).compute is _of(node) and _of(node.x).is_float:
            node = node.x  # bf16 to f32, say: objects hold more than either
        dtype = _of(node).compute
        if isinstance(node, Literal_) and _of(node) in NARROW and nearest(node.value, _of(node)) != node.value:
            return self.object(self.raw.tensor(node, self.literal(node)), dtype)
        if isinstance(node, Literal_):
            number = self.object(self.literal(node).text, dtype)
            if dtype is not Dtype.f32 or _is_single(node.value):
                return number
            self.used.add("to")
            return Text(f"{number.text}.to(torch.float32)")
        text = self.raw_text(node)
        if isinstance(node, Name | Local):
            self.lifted[text] = dtype
            return Text(text)
        return self.object(text, dtype)

    def object(self, text: str, dtype: Dtype) -> Text:
        of_type = f", dtype=torch.{dtype.torch}" if self.near.mixed and dtype is not self.near.default else ""
        return Text(f"_Near({text}{of_type})")

    def raw_text(self, node: Expr, *, stays: bool = False) -> str:
        """The variable of an exact value, or its text where that is a number.

        With `stays` the variable is one that never becomes an object, for a condition.
        """
        self.raw.next_number = self.next_number
        printed = self.raw.print(node)
        text = self.raw.tensor(node, printed) if _of(node) is Dtype.bool else printed.text
        if stays and isinstance(node, Name | Local):
            text = f"{text} != 0"
        if not is_number(node):
            if text not in self.variables:
                self.variables[text] = self.raw.name(Text(text)).text
            text = self.variables[text]
        self.raw_lines += self.raw.statements
        self.raw.statements = []
        self.next_number = self.raw.next_number
        return text

    def defined(self, node: Call) -> Text:
        """What the definition of a function gives, around the value that torch's own function has."""
        assert node.body is not None
        texts: dict[str, str] = {}
        for name, x in node.bound:
            texts[name] = self.raw_variable(x) if is_exact(x, self.raw.locals) else self.name(self.print(x)).text
        exact = {name: _of(x).compute for name, x in node.bound if is_exact(x, self.raw.locals)}
        for name, text in texts.items():
            self.raw.locals.pop(name, None)  # of another call
            (self.raw.locals if name in exact else self.locals)[name] = text
        self.lifted |= {texts[name]: dtype for name, dtype in exact.items()}
        found = self.print(node.body)
        value = self.torch_value(node, texts)
        if value is None:
            return found
        self.used.add("valued")
        valued = Text(f"{self.fit(found, self.width // 2).inside(ATOM)}.valued({value})")
        return self.fit(self.wrapped(valued, node), 16)

    def torch_value(self, node: Call, texts: Mapping[str, str]) -> str | None:
        """The call of torch's own function on the values of objects; None where it takes no such arguments."""
        if not texts:
            return None
        function, numbers = function_of(node.function), takes_numbers(node)
        names = (parameter_of(node.function, name) for name in function.parameters)
        anchor = next(iter(texts.values()))
        parts = []
        for at, (name, x) in enumerate(zip(names, node.arguments, strict=True)):
            if not isinstance(x, Literal_):
                parts.append(f"{texts[name]}.value")
                continue
            value = nearest(x.value, _of(x)) if _of(x).is_float else x.value  # as the kernel has it
            number = self.literal(replace(x, value=value)).text
            parts.append(number if at in numbers else f"torch.full_like({anchor}.value, {number})")
        return torch_call(node, parts)

    def raw_variable(self, node: Expr) -> str:
        """A variable of an exact value."""
        if not is_number(node):
            return self.raw_text(node)
        self.raw.next_number = self.next_number
        text = self.raw.name(Text(self.raw.tensor(node, self.raw.print(node)))).text
        self.raw_lines += self.raw.statements
        self.raw.statements = []
        self.next_number = self.raw.next_number
        return text

    def method(self, receiver: Expr, name: str, *arguments: str | Expr) -> Text:
        """The call of a method, whose arguments are text or expressions; what is long is named before."""
        self.used.add(name)
        budget = self.width // 2
        x = self.fit(self.print(receiver), budget)
        parts = [a if isinstance(a, str) else self.fit(self.print(a), budget).text for a in arguments]
        text = f"{x.inside(ATOM)}.{name}({', '.join(parts)})"
        if len(text) <= self.width - 16:
            return Text(text)
        parts = [self.name(Text(p)).text if len(p) > 20 else p for p in parts]
        return Text(f"{self.name(x).text}.{name}({', '.join(parts)})")

    def wrapped(self, printed: Text, node: Expr) -> Text:
        """What has no rounding error, as a number of its type: the negative of the least integer is itself."""
        return Text(f"{printed.inside(ATOM)}.rounded()") if _of(node).is_integer else printed

    def print_cast(self, node: Cast) -> Text:
        source, dtype = _of(node.x), _of(node)
        if source is dtype:
            return self.print(node.x)
        torch = f"torch.{dtype.torch}"
        if dtype is Dtype.bool:
            zero = Literal_(0.0 if source.is_float else 0, dtype=source)
            return self.method(node.x, "compare", "torch.ne", zero)
        if dtype.is_integer:
            if source is Dtype.bool:
                return self.method(node.x, "typed", torch)
            return self.method(node.x, "truncated" if source.is_float else "rounded", f"dtype={torch}")
        if dtype.is_f8:
            slack = ["2**-23"] if rounds_twice(source, dtype) else []
            return self.method(node.x, "saturated", torch, *slack)
        if rounds_twice(source, dtype):
            return self.method(node.x, "rounded", str(TWICE), torch)
        if dtype is Dtype.f64 or (dtype is Dtype.f32 and source in NARROW):
            if source is Dtype.i64:  # which float64 must round
                return self.method(node.x, "to", torch)
            return self.method(node.x, "typed", torch) if self.near.mixed else self.print(node.x)
        return self.method(node.x, "to", torch)

    def print_whole(self, node: Binary) -> Text:
        function = _ON_INTEGERS[node.op]
        if function.startswith("_"):
            self.used |= {function, "_quotient"}
        name = "between" if node.op in ("//", ">>") else "where_sure"
        return self.wrapped(self.method(node.left, name, function, node.right), node)

    def print_call(self, node: Call) -> Text:
        name, x = node.function, node.arguments[0]
        match name:
            case "where":
                self.used.add("where")
                condition = self.raw_text(x, stays=True) if self.near.sure_conditions else self.print(x).text
                parts = [condition, *(self.print(a).text for a in node.arguments[1:])]
                parts = [self.name(Text(p)).text if len(p) > self.width // 4 else p for p in parts]
                return Text(f"_where({', '.join(parts)})")
            case "minimum" | "maximum":
                return self.method(x, "pick", f"torch.{name}", node.arguments[1])
            case "abs":
                self.used.add("abs")
                return self.wrapped(Text(f"abs({self.fit(self.print(x), self.width // 2).text})"), node)
            case "exp" if self.fast_math and _of(node) is Dtype.f32:
                self.used.add("apply")
                return self.method(x, "power_of_e")
            case "relu" | "gelu" | "gelu_tanh" | "silu":
                return self.method(x, name)
            case _ if name in TO_WHOLE:
                return self.method(x, "whole", f"torch.{name}")
            case "pow" | "fmod":
                return self.method(x, name, node.arguments[1])
        function = FUNCTIONS[name]
        if function.slope is not None:
            return self.method(x, "sloped", f"torch.{name}", str(function.slope))
        if function.even:
            x = Call("abs", (x,), dtype=x.dtype)
        return self.method(x, "apply", f"torch.{name}")

    def reduction(self, node: Reduce, x: Text) -> Text:
        name = {"max": "amax", "min": "amin"}.get(node.function, node.function)
        self.used |= {"mean", "sum", "/"} if name == "mean" else {name}
        self.used |= {"mean", "sum", "/", "-", "*"} if name == "var" else set()
        axes = [str(self.axes[reduction.mode]) for reduction in node.nested]
        if name == "prod":
            return Text(self.fit(x, self.width // 2).inside(ATOM) + "".join(f".prod({axis})" for axis in axes))
        self.used |= {"axes"} if len(axes) > 1 else set()
        return Text(f"{self.fit(x, self.width // 2).inside(ATOM)}.{name}({', '.join(axes)})")


def expected_context(plan: Plan) -> dict[str, Any]:
    """What `templates/expected.j2` prints, besides what the host side of a module has."""
    expected = op_of(plan.spec).expected(plan)
    return {
        "expected_lines": expected.lines,
        "near": expected.near,
        "summed": expected.product,
        "plain_product": expected.factors,
        "exactly_reference": expected.is_reference,
    }


def _infinity(node: Expr) -> str | None:
    """The text of a number that is infinite; None of all else."""
    if isinstance(node, Unary) and node.op == "-" and isinstance(node.x, Literal_) and node.x.value == math.inf:
        return "-torch.inf"
    if isinstance(node, Literal_) and node.value in (math.inf, -math.inf):
        return "torch.inf" if node.value > 0 else "-torch.inf"
    return None


def _is_single(value: float) -> bool:
    """Whether a number is one of f32. Those that overflow there are not written in a spec."""
    try:
        return value != value or bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
