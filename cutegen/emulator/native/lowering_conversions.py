"""Which operations of the core do what a cvt does."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.emulator.native.nodes import Node, call, resized
from cutegen.emulator.ptx.types import TYPES, Type

_WHOLE = ("rni", "rzi", "rmi", "rpi")


def lower_conversion(modifiers: Sequence[str], arguments: Sequence[Node], width: int, wanted: int) -> Node | None:
    """The expression of a cvt from a register of `width` bits to one of `wanted`, or None where the core has none."""
    *words, to, of = modifiers
    result, source = TYPES[to], TYPES[of]
    flags = set(words)
    if result.lanes > 1 or source.lanes > 1:
        pair = source.name == "f32" and result.name in ("bf16x2", "f16x2") and flags == {"rn"}
        return call(f"f32_{result.name}", *arguments) if pair and wanted == 32 else None
    node = _converted(result, source, flags, resized(arguments[0], width, source.width))
    return None if node is None else resized(node, result.width, wanted, result.kind == "s")


def _converted(result: Type, source: Type, flags: set[str], node: Node) -> Node | None:
    """A value of the type `source` as one of the type `result`."""
    whole = [kind.kind in ("s", "u") for kind in (source, result)]
    if all(whole):
        return None if flags else resized(node, source.width, result.width, source.kind == "s")
    if whole[0]:
        return _from_whole(result, source, flags, node)
    if whole[1]:
        return _to_whole(result, source, flags, node)
    if (source.name, result.name) == ("f32", "f32"):
        return _rounded(flags, node)
    if source.name == "f32" and result.name in ("bf16", "f16") and flags == {"rn"}:
        return call(f"f32_{result.name}", node)
    if result.name == "f32" and source.name in ("bf16", "f16") and not flags:
        return call(f"{source.name}_f32", node)
    if source.name == "f32" and result.name == "tf32" and flags in ({"rna"}, {"rn"}):
        return call(f"{min(flags)}tf32", node)
    return None


def _from_whole(result: Type, source: Type, flags: set[str], node: Node) -> Node | None:
    """A whole number as a float."""
    if flags != {"rn"} or result.name not in ("f32", "f64") or result.name == "f64" and source.width == 64:
        return None
    width = max(32, source.width)
    return call(f"{source.kind}{width}_{result.name}", resized(node, source.width, width, source.kind == "s"))


def _to_whole(result: Type, source: Type, flags: set[str], node: Node) -> Node | None:
    """A float32 as a whole number."""
    modes = flags - {"ftz"}
    if source.name != "f32" or result.width < 32 or len(modes) != 1 or not modes <= set(_WHOLE):
        return None
    (mode,) = modes
    node = call("ftzf32", node) if "ftz" in flags else node
    return call(f"f32_{result.name}", call(f"{mode}f32", node))


def _rounded(flags: set[str], node: Node) -> Node | None:
    """A float32 as another one: without its fraction, or as it is, with `.ftz` and `.sat`."""
    modes = flags - {"ftz", "sat"}
    if len(modes) > 1 or not modes <= set(_WHOLE):
        return None
    node = call("ftzf32", node) if "ftz" in flags else node
    node = call(f"{min(modes)}f32", node) if modes else call("canonf32", node)
    node = call("ftzf32", node) if "ftz" in flags and modes else node
    return call("satf32", node) if "sat" in flags else node
