"""A and B as the rules go through them, and changes of how one of them is read that several rules suggest."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.layouts import format_layout
from cutegen.lint.rule import Candidate
from cutegen.lint.trial import as_written, changed, written

_RUNS = (8, 4, 2, 1)  # neighbours of a thread, to suggest


def other_permutations(spec: Spec, mode: str, side: int) -> Iterator[Candidate]:
    """Changed kernels in which a thread of the mma has other runs of neighbours along a mode.

    `side` is 0 for m and 1 for n.
    """
    assert spec.schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(spec.schedule.mma.thread_layout)[side]
    given = as_written(spec).schedule.mma.permutation
    for run in _RUNS:
        layout = Layout((threads, run), (run, 1)) if run > 1 else Layout(threads, 1)
        text = f'write `permutation: {{{mode}: "{format_layout(layout)}"}}`'
        yield written(text), changed(spec, {"mma.permutation": {**given, mode: layout}})
