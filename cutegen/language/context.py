"""The state that the checks of one variant share: its data, its places in the text, and the problems found so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tensor_layouts import Layout

from cutegen.language.counts import Count
from cutegen.language.diagnostics import Diagnostic, Span
from cutegen.language.kinds import MAX_INT
from cutegen.language.matrix import Variant
from cutegen.language.names import shown, suggestion
from cutegen.layouts import (
    MAX_ENUMERATED,
    LayoutSyntaxError,
    compact_like,
    format_layout,
    is_compact,
    is_injective,
    moving_leaves,
    parse_layout,
)

_COUNT = re.compile(r"\s*(==|!=|>=|<=|>|<)?\s*([0-9]{1,10})\s*\Z")


class Context:
    """One variant under check. Its data is known to follow the schema."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.data: Mapping[str, Any] = variant.data
        self.source = variant.source
        self.found: list[Diagnostic] = []

    def say(
        self,
        code: str,
        message: str,
        *path: str | int,
        key: bool = False,
        span: Span | None = None,
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> None:
        self.found.append(self.source.diagnostic(code, message, *path, key=key, span=span, notes=notes, help=help))

    def unknown_mode(self, mode: str, known: tuple[str, ...], *path: str | int, key: bool = True) -> None:
        help = suggestion(mode, known, "modes")
        self.say("CG116", f"`{shown(mode)}` is not a mode here", *path, key=key, help=help)

    def known_modes(self, names: Iterable[str], known: tuple[str, ...] | None, *path: str | int) -> None:
        """Says which keys of the mapping at `path` are no modes; nothing where `known`, the modes, are not known."""
        for name in names:
            if known is not None and name not in known:
                self.unknown_mode(name, known, *path, name)

    def unknown_tensor(self, name: str, known: tuple[str, ...], *path: str | int) -> None:
        help = suggestion(name, known, "tensors")
        self.say("CG204", f"`{shown(name)}` is not a tensor of this kernel", *path, name, key=True, help=help)

    def count(self, value: int | str, *path: str | int) -> Count:
        """The bound on a number that is written at `path`; `== 0` where, once said, it cannot be read."""
        if isinstance(value, int):
            return Count("==", value)
        match = _COUNT.match(value)
        if not match or int(match[2]) > MAX_INT:
            help = "write a number, or a bound such as `>= 512`"
            self.say("CG119", f"`{shown(value)}` is not a count", *path, help=help)
            return Count("==", 0)
        relation: Any = match[1] or "=="
        return Count(relation, int(match[2]))

    def layout(self, value: Any, *path: str | int, injective: bool = True, compact: bool = True) -> Layout | None:
        """The layout written at `path`; None where nothing is written or, once said, where it cannot be used.

        A layout that deals out threads or values must be `injective` and `compact`: cute.make_layout_tv inverts it.
        """
        if value is None:
            return None
        try:
            layout = parse_layout(value)
        except LayoutSyntaxError as error:
            span = self.variant.place(path, error.offset, error.length)
            self.say("CG201", error.message, span=span, help=error.help)
            return None
        if not injective:
            return layout
        verdict = is_injective(layout)
        modes = moving_leaves(layout)
        total = 1
        for size, _ in modes:
            total *= size
        text = format_layout(layout)
        better = f"compact would be {format_layout(compact_like(layout.shape, layout.stride))}"
        if path[-2:] == ("mma", "thread_layout") and isinstance(layout.shape, tuple) and len(layout.shape) == 3:
            better = f"compact would be {format_layout(_without_k(layout))}"
        if verdict is None:
            notes = (f"{text} has {total} elements; at most {MAX_ENUMERATED} are counted",)
            self.say(
                "CG205", "the layout is too large to tell whether it repeats places", *path, notes=notes, help=better
            )
            return None
        if not verdict:
            self.say("CG202", f"the layout {text} is not injective", *path, notes=_repetition(modes), help=better)
            return None
        if compact and not is_compact(layout):
            reach = 1 + sum((size - 1) * stride for size, stride in modes)
            notes = (f"{total} coordinates are spread over {reach} places",)
            self.say("CG206", f"the layout {text} has gaps", *path, notes=notes, help=better)
            return None
        return layout


def _without_k(layout: Layout) -> Layout:
    """Compact, with all threads along m and n: there can be none along k."""
    shape, stride = cast(tuple[Any, ...], layout.shape), cast(tuple[Any, ...], layout.stride)
    plane = compact_like(shape[:2], stride[:2])
    return Layout((*shape[:2], 1), (*cast(tuple[Any, ...], plane.stride), 0))


def _repetition(modes: list[tuple[int, int]]) -> tuple[str, ...]:
    still = [size for size, stride in modes if stride == 0]
    if still:
        return (f"the mode of size {still[0]} has stride 0: all of it lands in one place",)
    places, total = {0}, 1
    for size, stride in modes:
        places = {place + i * stride for place in places for i in range(size)}
        total *= size
    return (f"{total} coordinates reach only {len(places)} places",)
