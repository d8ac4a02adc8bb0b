"""What tests of compiled code have in common, whose fixture `compiler` is in `conftest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutegen.compiling import Job, Outcome

Compiler = Callable[[Sequence[Job]], list[Outcome]]
"""What compiles jobs, and gives the outcome of each."""
