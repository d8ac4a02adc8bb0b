"""Shared code for tests of compiled code; their fixture `compiler` is in `conftest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutegen.compiling import Job, Outcome

Compiler = Callable[[Sequence[Job]], list[Outcome]]
"""A function that compiles jobs, and returns the outcome of each."""
