"""Random layouts and expressions, and CuTeDSL's own values of expressions, many in one compile."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

from cutegen.algebra.syntax import Apply, Call, Compose, Group, Hole, Item, Literal, Node, Number, SwizzleLiteral, parse

SIZES = (1, 2, 3, 4, 6, 8)


def random_shape(chance: random.Random, depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.5:
        return str(chance.choice(SIZES))
    return f"({','.join(random_shape(chance, depth - 1) for _ in range(chance.randint(1, 3)))})"


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.replace("(", " ").replace(")", " ").replace(",", " ").split()]


def with_numbers(text: str, numbers: Iterable[int]) -> str:
    """`text` with other numbers in the place of its own."""
    found, given, i = "", iter(numbers), 0
    while i < len(text):
        j = i
        while j < len(text) and text[j].isdigit():
            j += 1
        found += str(next(given)) if j > i else text[i]
        i = max(j, i + 1)
    return found


def random_layout(chance: random.Random, kind: str = "any", depth: int = 2, largest: int = 2**24) -> str:
    """`compact`: a bijection; `gaps`: injective; `zeros`: one mode stands still; `any`: any strides."""
    shape = random_shape(chance, depth)
    while prod(_numbers(shape)) > largest:
        shape = random_shape(chance, depth)
    sizes = _numbers(shape)
    strides, step = [0] * len(sizes), chance.choice((1, 2, 4)) if kind == "gaps" else 1
    for i in chance.sample(range(len(sizes)), len(sizes)):
        strides[i], step = step, step * sizes[i]
        if kind == "gaps" and chance.random() < 0.3:
            step *= chance.choice((2, 3))
    if kind == "any":
        strides = [chance.choice((0, 1, 2, 3, 4, 6, 8, 12, 16)) for _ in sizes]
    if kind == "zeros":
        strides[chance.randrange(len(strides))] = 0
    return f"{shape}:{with_numbers(shape, strides)}"


def random_tiler(chance: random.Random, layout: str) -> str:
    """A tuple for some of the layout's modes: mostly sizes that divide, sometimes others, layouts and tuples."""

    def part(node: Node) -> str:
        total = prod(_sizes(node))
        luck = chance.random()
        if luck < 0.1:
            return str(chance.randint(1, 8))
        if luck < 0.2:
            return f"{chance.choice((1, 2, 3, 4))}:{chance.choice((1, 2, 4))}"
        if luck < 0.3 and isinstance(node, Group):
            return several(node)
        return str(chance.choice([n for n in range(1, min(total, 512) + 1) if total % n == 0]))

    def several(node: Node) -> str:
        items = node.items if isinstance(node, Group) else (node,)
        return f"({','.join(part(item) for item in items[: chance.randint(1, len(items))])})"

    literal = parse(layout)
    assert isinstance(literal, Literal)
    return several(literal.shape)


def _sizes(node: Node) -> Iterator[int]:
    if isinstance(node, Number):
        yield node.value
    elif isinstance(node, Group):
        for item in node.items:
            yield from _sizes(item)


# CuTeDSL's values

_SCRIPT = """
import json, sys
import cutlass, cutlass.cute as cute

def value(node):
    kind = node[0]
    if kind == "number": return node[1]
    if kind == "hole": return None
    if kind == "group": return tuple(map(value, node[1]))
    if kind == "layout": return cute.make_layout(value(node[1]), stride=value(node[2]))
    if kind == "swizzled": return cute.make_composed_layout(cute.make_swizzle(*node[1]), node[2], value(node[3]))
    if kind == "compose": return cute.composition(value(node[1]), value(node[2]))
    if kind == "apply": return value(node[1])(value(node[2]))
    if kind == "item": return value(node[1])[node[2]]
    arguments, keywords = list(map(value, node[2])), {k: value(v) for k, v in node[3].items()}
    name = node[1]
    if name in ("select", "get", "size", "cosize", "rank") and len(arguments) > 1:
        keywords["mode"] = arguments.pop()
    if "mode" in keywords:
        keywords["mode"] = list(keywords["mode"]) if isinstance(keywords["mode"], tuple) else [keywords["mode"]]
    if name == "coalesce" and len(arguments) > 1: keywords["target_profile"] = arguments.pop()
    if name in ("local_tile", "local_partition"):
        pointer = cute.make_ptr(cutlass.Float32, 0, cute.AddressSpace.gmem, assumed_align=16)
        arguments[0] = cute.make_tensor(pointer, arguments[0])
        if name == "local_partition": arguments[2] = cutlass.Int32(arguments[2])
        return getattr(cute, name)(*arguments, **keywords).layout
    if name == "compact": return cute.make_layout(arguments[0])
    return getattr(cute, name)(*arguments, **keywords)

def plain():
    for node in json.load(open(sys.argv[1])):
        try:
            found = str(value(node))
        except Exception as error:
            found = "refused: " + " ".join(str(error).split())[:200]
        print("=", found, flush=True)

@cute.jit
def main():
    plain()

main()
"""


def cutedsl_values(expressions: list[str], folder: Path) -> list[str]:
    """CuTeDSL's values, printed without spaces, or `refused: ...`. All in one process, which some inputs end."""
    script, cases = folder / "values.py", folder / "cases.json"
    script.write_text(_SCRIPT)
    cases.write_text(json.dumps([_node(parse(expression)) for expression in expressions]))
    command = [sys.executable, str(script), str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = [line[2:] for line in done.stdout.splitlines() if line.startswith("= ")]
    assert len(found) == len(expressions), (expressions[len(found)], done.returncode, done.stderr[-2000:])
    return [line if line.startswith("refused") else line.replace(" ", "").replace(",)", ")") for line in found]


def _node(node: Node) -> list[Any]:
    if isinstance(node, Number):
        return ["number", node.value]
    if isinstance(node, Hole):
        return ["hole"]
    if isinstance(node, Group):
        return ["group", list(map(_node, node.items))]
    if isinstance(node, Literal):
        return ["layout", _node(node.shape), _node(node.stride)]
    if isinstance(node, Compose):
        return _composed(list(node.parts))
    if isinstance(node, Apply):
        return ["apply", _unwrapped(node.target), _node(node.coordinate)]
    if isinstance(node, Item):
        return ["item", _unwrapped(node.target), node.number]
    assert isinstance(node, Call)
    keywords = {name: _node(value) for name, _, value in node.keywords}
    return ["call", node.name, list(map(_unwrapped, node.arguments)), keywords]


def _composed(parts: list[Node]) -> list[Any]:
    first = parts.pop(0)
    offset = parts.pop(0).value if isinstance(parts[0], Number) else 0
    inner = _node(parts[0]) if len(parts) == 1 else _composed(parts)
    if isinstance(first, SwizzleLiteral):
        return ["swizzled", [first.bits, first.base, first.shift], offset, inner]
    return ["compose", _node(first), inner]


def _unwrapped(node: Node) -> list[Any]:
    """Without the parentheses around a swizzled layout, which CuTe would take for a tuple."""
    if isinstance(node, Group) and len(node.items) == 1 and isinstance(node.items[0], Compose):
        return _node(node.items[0])
    return _node(node)
