"""Properties of a layout as a function from coordinates to offsets."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import ComposedLayout, Layout

from cutegen.layouts import MAX_ENUMERATED, elements, first_offsets, is_injective, leaves, reach


@dataclass(frozen=True)
class Facts:
    """`injective`: no two coordinates share an offset; `surjective`: every offset from 0 to cosize - 1 has one.

    None where telling would take enumerating more than 65536 coordinates. As CuTe's, the cosize of a swizzled layout
    is that of the layout inside.
    """

    size: int
    cosize: int
    injective: bool | None
    surjective: bool | None

    def text(self) -> str:
        """A line for people."""
        last = f"0 to {self.cosize - 1}" if self.cosize > 1 else "0"
        if self.injective is None or self.surjective is None:
            onto = f"whether offsets repeat or are left out is counted for up to {MAX_ENUMERATED} coordinates only"
        elif self.injective and self.surjective:
            onto = f"every offset from {last} once"
        elif self.surjective:
            onto = f"every offset from {last}, some more than once"
        else:
            onto = f"some offsets from {last}, {'each once' if self.injective else 'some more than once'}"
        return f"size {self.size}, cosize {self.cosize}: {onto}"


def facts(layout: Layout | ComposedLayout) -> Facts:
    """The facts of a layout, swizzled or not."""
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    size, cosize = elements(inner.shape), reach(inner)
    # A swizzle exchanges offsets and makes none equal; but it may move them beyond the cosize.
    surjective: bool | None = _is_gapless(inner)
    if isinstance(layout, ComposedLayout):
        enumerable = max(size, cosize) <= MAX_ENUMERATED
        surjective = set(all_offsets(layout, size)) >= set(range(cosize)) if enumerable else None
    injective = is_injective(inner) if size <= cosize else False
    return Facts(size, cosize, injective, surjective)


def _is_gapless(layout: Layout) -> bool:
    """Whether every offset below the cosize is reached.

    By growing strides: what the modes before reach without gaps, a mode continues if it steps at most that far. If it
    steps further, the offset after them is reached by none.
    """
    reached = 1
    for stride, size in sorted((d, s) for s, d in leaves(layout) if s != 1):
        if stride > reached:
            return False
        reached += (size - 1) * stride
    return True


def all_offsets(layout: Layout | ComposedLayout, count: int) -> list[int]:
    """The offsets of the first `count` indices, swizzled if the layout is."""
    if isinstance(layout, ComposedLayout):
        return [layout.outer(layout.offset + offset) for offset in first_offsets(layout.inner, count)]
    return first_offsets(layout, count)
