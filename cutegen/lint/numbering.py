"""A precondition on a schedule's layouts that every spec read from text meets: they number their places once each."""

from __future__ import annotations

from tensor_layouts import size

from cutegen import layouts
from cutegen.language.model import KernelSpec
from cutegen.layouts import compact_like, format_layout
from cutegen.lint.asked import family_of


def require_numbering(spec: KernelSpec) -> None:
    """Raises ValueError for a layout of threads or values that does not number its places 0, 1, 2, ... once each.

    No rule says so, since reading a spec does (CG202, CG206): it is the mistake of a program that made a `KernelSpec`.
    Layouts that are too large to count through are left to the family's rules.
    """
    for path, layout, most in family_of(spec).numbered_layouts(spec):
        if int(size(layout)) > most or layouts.is_permutation(layout):
            continue
        missing, repeated = layouts.coverage(layout, int(size(layout)))
        raise ValueError(
            f"{spec.kernel}: {'.'.join(map(str, path))}: {format_layout(layout)} does not number {size(layout)} places "
            f"once each: it never meets {', '.join(map(str, missing))}, and meets twice or out of range "
            f"{', '.join(map(str, repeated))}; {format_layout(compact_like(layout.shape, layout.stride))} would"
        )
