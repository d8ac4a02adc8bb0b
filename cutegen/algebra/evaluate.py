"""The value of an expression, with the steps that led to it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from tensor_layouts import ComposedLayout, Layout, Swizzle

from cutegen.algebra import coordinates, divides, inverses, making, products, questions, structure, tiles
from cutegen.algebra.arguments import COORDINATE, LAYOUT, NUMBERS
from cutegen.algebra.registry import FUNCTIONS, OTHER_NAMES
from cutegen.algebra.steps import Step, Steps
from cutegen.algebra.syntax import (
    AlgebraError,
    Apply,
    Attribute,
    Call,
    Compose,
    Group,
    Hole,
    Item,
    Literal,
    Node,
    Number,
    SwizzleLiteral,
    parse,
)
from cutegen.algebra.values import MAX_VALUE, NotDefined, Table, ThreadValue, Value, is_shape, text_of, what
from cutegen.layouts import elements, flat, reach

DERIVED = ("algebra", "divides", "products", "tiles")  # groups whose results are worth a word
MODULES = (
    coordinates,
    divides,
    inverses,
    making,
    products,
    questions,
    structure,
    tiles,
)  # they register functions


@dataclass(frozen=True)
class Evaluation:
    """`value` of `expression`; `steps` in the order of computing, the last one being the whole expression's."""

    expression: str
    value: Value
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def evaluate(expression: str) -> Evaluation:
    """Computes an expression of layout algebra, such as `zipped_divide((16,32):(32,1), (2,4))`.

    Sizes and offsets are exact up to 2**63 - 1. The only exception is `AlgebraError`, which has the place and a help.
    """
    node = parse(expression)
    evaluator = _Evaluator()
    value = evaluator.value(node)
    if isinstance(node, (Number, Group, Hole)):
        value = evaluator.argument(node, LAYOUT, value)
    return Evaluation(expression, value, tuple(evaluator.steps.steps), tuple(evaluator.steps.notes))


class _Evaluator:
    def __init__(self) -> None:
        self.steps = Steps()

    def value(self, node: Node) -> Value:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Hole):
            return None
        if isinstance(node, Group):
            return self.group(node)
        if isinstance(node, Literal):
            return self.literal(node)
        if isinstance(node, SwizzleLiteral):
            return self.placed(node, (), making.make_swizzle, node.bits, node.base, node.shift)
        if isinstance(node, Compose):
            return self.compose(node)
        if isinstance(node, Apply):
            return self.apply(node)
        if isinstance(node, Item):
            return self.item(node)
        if isinstance(node, Attribute):
            return self.attribute(node)
        assert isinstance(node, Call)
        return self.call(node)

    def group(self, node: Group) -> Value:
        values = tuple(self.value(item) for item in node.items)
        for item, value in zip(node.items, values, strict=True):
            if isinstance(value, (Swizzle, ThreadValue, Table)):
                raise _at(item, f"{what(value)} cannot be part of a tuple")
        return values

    def literal(self, node: Literal) -> Layout:
        parts = []
        for part in (node.shape, node.stride):
            value = self.value(part)
            if isinstance(value, tuple) and any(isinstance(inner, Layout) for inner in value):
                raise _at(part, "a layout has one `:`, between all of its sizes and all of its strides", "(4,8):(8,1)")
            parts.append(self.placed(part, (), NUMBERS.check, value))
        return self.fitting(node, self.placed(node, (node.shape, node.stride), making.make_literal, *parts))

    def compose(self, node: Compose) -> Value:
        """The value of a composition, from the right: A o B o C is A o (B o C).

        A number may stand between a swizzle and a layout.
        """
        for part in node.parts:
            if isinstance(part, (Apply, Item, Attribute)):
                raise _at(part, "this binds more tightly than `o`", "parentheses: (A o B)(c) and A o (B(c)) differ")
        result, place = self.value(node.parts[-1]), node.parts[-1]
        offset: int | None = None
        for part in reversed(node.parts[:-1]):
            value = self.value(part)
            if isinstance(value, int) and offset is None:
                offset = value
                continue
            whole = Node(part.start, node.end)
            if isinstance(value, Swizzle):
                inner = self.argument(place, LAYOUT, result)
                if isinstance(inner, ComposedLayout):
                    raise _at(place, f"{text_of(inner)} is swizzled already", "one swizzle before one layout")
                result = self.fitting(whole, ComposedLayout(value, inner, offset=offset or 0))
                offset = None
            elif offset is None:
                result = self.run(whole, "composition", [(part, value), (place, result)])
            else:
                break
            place = whole
        if offset is not None:
            raise _at(node, f"{offset} has no swizzle before it", "S<3,4,3> o 0 o (8,8):(8,1)")
        return result

    def apply(self, node: Apply) -> Value:
        layout = self.argument(node.target, LAYOUT, self.value(node.target))
        coordinate = self.placed(node.coordinate, (), COORDINATE.check, self.value(node.coordinate))
        if isinstance(layout.shape, int) and isinstance(coordinate, tuple) and len(coordinate) == 1:
            coordinate = coordinate[0]
        target, place = (node.target, layout), (node.coordinate, coordinate)
        if coordinates.has_hole(coordinate):
            return self.run(node, "slice_", [target, place])
        return self.run(node, "crd2idx", [place, target])

    def item(self, node: Item) -> Value:
        target = self.value(node.target)
        if isinstance(target, tuple) and not is_shape(target):
            target = self.argument(node.target, LAYOUT, target)
        if isinstance(target, ThreadValue):
            if node.number > 1:
                raise _at(node, f"there is no [{node.number}]", "[0] is the tiler, [1] the layout")
            return target.layout if node.number else target.tiler
        if isinstance(target, (Layout, ComposedLayout)) or is_shape(target):
            return self.run(node, "get", [(node.target, target), (node, node.number)])
        raise _at(node, f"{what(target)} has no modes to choose from", "a layout or a shape before [0]")

    def attribute(self, node: Attribute) -> Value:
        target = self.argument(node.target, LAYOUT, self.value(node.target))
        if node.name == "stride" and isinstance(target, ComposedLayout):
            raise _at(node, "a swizzled layout has no strides", "the layout without its swizzle")
        return getattr(target, node.name)

    def call(self, node: Call) -> Value:
        function = FUNCTIONS.get(node.name)
        if function is None:
            close = difflib.get_close_matches(node.name, FUNCTIONS, 1, 0.6)
            known = OTHER_NAMES.get(node.name.lower(), close[0] if close else None)
            lists = "`cutegen layout --help` lists the functions; there are no variables"
            help = f"did you mean `{known}`?" if known else lists
            raise AlgebraError(f"there is no function `{node.name}`", node.place, len(node.name), help)
        names = [name for name, _ in function.parameters]
        slots: list[tuple[Node, Value] | None] = [None] * len(names)
        if len(node.arguments) > len(names):
            message = f"{node.name} takes {len(names)} argument{'s' * (len(names) > 1)}, not {len(node.arguments)}"
            raise _at(node.arguments[len(names)], message, function.usage)
        for i, argument in enumerate(node.arguments):
            slots[i] = argument, self.value(argument)
        for keyword, place, argument in node.keywords:
            if keyword not in names:
                raise AlgebraError(f"{node.name} has no argument `{keyword}`", place, len(keyword), function.usage)
            if slots[names.index(keyword)] is not None:
                raise AlgebraError(f"`{keyword}` is given twice", place, len(keyword), function.usage)
            slots[names.index(keyword)] = argument, self.value(argument)
        for slot, (name, kind) in zip(slots, function.parameters, strict=True):
            if slot is None and not kind.optional:
                called = node.arguments and isinstance(node.arguments[-1], Apply)
                comma = "is a comma missing? A layout before parentheses is taken at a coordinate"
                raise _at(node, f"{node.name} also needs `{name}`", comma if called else function.usage)
        return self.run(node, node.name, slots)

    def run(self, node: Node, name: str, slots: list[Any]) -> Value:
        """A function of values with their places; None for what was left out."""
        function = FUNCTIONS[name]
        arguments: list[Value] = []
        shown: list[Value] = []
        for slot, (_, kind) in zip(slots, function.parameters, strict=True):
            if slot is None or slot[1] is None and kind.optional:
                arguments.append(None)
                continue
            value = self.argument(slot[0], kind, slot[1])
            arguments.append(value)
            shown += [None] * (len(arguments) - 1 - len(shown))
            shown.append(value if kind.made else slot[1])
        places = [slot[0] if slot else node for slot in slots]
        result = self.fitting(node, self.placed(node, places, function.run, arguments, self.steps))
        why = function.summary if function.group in DERIVED else ""
        self.steps.show(name, tuple(shown), None if isinstance(result, Table) else result, why, 0)
        return result

    def argument(self, node: Node, kind: Any, value: Value) -> Value:
        """A value as a parameter takes it."""
        taken = self.fitting(node, self.placed(node, (), kind.check, value))
        if kind.made and is_shape(value):
            self.steps.show("make_layout", (value,), taken, "no strides: compact, the first mode fastest", 0)
        return taken

    def placed(self, node: Node, places: Any, operation: Any, *arguments: Any) -> Any:
        """`operation(*arguments)`; errors point to the argument, or to the whole node."""
        try:
            return operation(*arguments)
        except NotDefined as error:
            chosen = node if error.argument is None or error.argument >= len(places) else places[error.argument]
            raise _at(chosen, error.message, error.help) from None

    def fitting(self, node: Node, value: Value) -> Value:
        """Refuses what does not fit into 64-bit offsets."""
        layout = value.inner if isinstance(value, ComposedLayout) else value
        if isinstance(layout, Layout):
            largest = max(elements(layout.shape), reach(layout))
        else:
            largest = max(flat(value)) if is_shape(value) else 0
        if largest > MAX_VALUE:
            raise _at(node, f"{text_of(value)} reaches {largest}; sizes and offsets go up to {MAX_VALUE}")
        return value


def _at(node: Node, message: str, help: str | None = None) -> AlgebraError:
    return AlgebraError(message, node.start, node.end - node.start, help)
