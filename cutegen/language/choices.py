"""Suggestions for a value that a key of a spec does not accept."""

from __future__ import annotations

from typing import Any

from cutegen.dtypes import Dtype
from cutegen.foreign_dtypes import instead_of_dtype, meant_dtype
from cutegen.language.names import nearest
from cutegen.registry import ops


def near_choice(value: Any, choices: list[str]) -> str | None:
    """The choice that was probably meant. A dtype that is not to be had here is no misspelling of another one."""
    if not isinstance(value, str) or value in Dtype.__members__:
        return None
    if all(choice.startswith("sm_") for choice in choices):  # sm_81 is no sm_89, but sm_90 is meant for sm_90a
        word = value.lower().replace("_", "").strip()
        return next((c for c in choices if len(word) > 3 and c.replace("_", "").startswith(word)), None)
    meant: str | None = next((op.name for op in ops() if value.lower() in op.called), None)
    if meant is not None and meant in choices:
        return meant
    return meant_dtype(value, choices) if _are_dtypes(choices) else nearest(value, choices)


def choice_help(value: Any, choices: list[str]) -> str | None:
    """A help text on what to write instead of `value`; None where there is no suggestion."""
    near = near_choice(value, choices)
    if near:
        return f"did you mean `{near}`?"
    return instead_of_dtype(value) if isinstance(value, str) and _are_dtypes(choices) else None


def _are_dtypes(choices: list[str]) -> bool:
    return all(choice in Dtype.__members__ for choice in choices)
