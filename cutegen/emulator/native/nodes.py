"""Expressions of the core's operations: what a result of an instruction is computed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Constant:
    """A constant of so many bytes."""

    bits: int
    size: int


@dataclass(frozen=True)
class Call:
    """An operation of the core, by its name, and its operands."""

    name: str
    operands: tuple[Node, ...]


Node: TypeAlias = "Call | Constant | int"
"""An expression; a whole number stands for the source with that number."""


def call(name: str, *operands: Node) -> Call:
    """An operation of the core on operands."""
    return Call(name, operands)


def resized(node: Node, width: int, wanted: int, signed: bool = False) -> Node:
    """An expression of `width` bits with `wanted` bits: cut, or extended by the sign or by zeros."""
    if width == wanted:
        return node
    if wanted < width:
        return call(f"tr{width}_{wanted}", node)
    return call(f"{'s' if signed else 'z'}x{width}_{wanted}", node)


def constant(bits: int, width: int) -> Constant:
    """A constant of `width` bits."""
    return Constant(bits & ((1 << width) - 1), width // 8)
