"""The keys of selections as text: integers that order as the values of a row and their places do."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.dtypes import Dtype
from cutegen.expressions.selecting import KEY, KEY_PLACE, KEY_VALUE, WIDE
from cutegen.expressions.tree import Call, Expr, Literal_, walk
from cutegen.families.rowwise.plan import RowwisePlan


@dataclass(frozen=True)
class KeyFunction:
    """A function of the module that makes keys of values, or takes one apart."""

    name: str
    kind: str
    is_float: bool
    bits: int  # of a place

    @property
    def wide(self) -> bool:
        """Whether keys have 64 bits."""
        return self.bits == WIDE

    @property
    def places(self) -> str:
        """The bits of a place, as a number."""
        return f"0x{(1 << min(self.bits, 31)) - 1:X}"


def function_of(node: Call) -> KeyFunction:
    """The function that a call of one of the `_key` functions comes to."""
    value = node.arguments[0] if node.function == KEY else node
    dtype = Dtype.i32 if node.function == KEY_PLACE else value.dtype
    assert dtype is not None
    last = node.arguments[-1]
    assert isinstance(last, Literal_)
    bits = int(last.value)
    names = {KEY: f"keys_{dtype.value}", KEY_VALUE: f"key_value_{dtype.value}", KEY_PLACE: "key_place"}
    name = names[node.function] + ("" if bits == WIDE else f"_{bits}")
    return KeyFunction(name, node.function.removeprefix("_"), dtype.is_float, bits)


def functions(plan: RowwisePlan) -> list[KeyFunction]:
    """The functions on keys that a plan calls, each once."""
    values: list[Expr] = [value for one in plan.program.walks for value in one.values]
    values += [step.value for step in plan.program.rows]
    nodes = [node for value in values for node in walk(value) if isinstance(node, Call)]
    found = (function_of(node) for node in nodes if node.function in (KEY, KEY_VALUE, KEY_PLACE))
    return list(dict.fromkeys(found))
