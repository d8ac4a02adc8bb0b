"""How the functions of `compute` are called, for messages about calls that are wrong."""

from __future__ import annotations

import ast

from cutegen.expressions.absent import ABSENT_FORMS
from cutegen.expressions.functions import FUNCTIONS
from cutegen.expressions.tree import ALONG, SELECTIONS

OWN = {"cast": "cast(x, bf16)", "coord": "coord(N)", "len": "len(N)"}
"""Names that are called like functions, of a type or of a mode -> how the call is written."""


def wrong_modes(name: str) -> str:
    """Says what a function along a mode takes, of a call with other arguments."""
    if name in SELECTIONS:
        return f"`{name}` takes a value, the mode that it goes along, and a mode for what it selects"
    return f"`{name}` takes a value and the mode that it goes along"


def form_of(name: str, node: ast.Call | None = None) -> str:
    """How a function, or one along a mode, is called; `node` is a call of it with other arguments."""
    if name in ABSENT_FORMS:
        return ABSENT_FORMS[name]
    if name in OWN:
        return f"write it as `{OWN[name]}`"
    if name in SELECTIONS:
        sizes = [x.value for x in node.args[2:] if isinstance(x, ast.Constant)] if node else []
        number = next((size for size in sizes if isinstance(size, int) and size > 0), 8)
        return f"write it as `{name}(x, N, K)`, with the size of K in `static: {{K: {number}}}`"
    if name in ("max", "min") and node is not None:
        side = "larger" if name == "max" else "smaller"
        return f"write it as `{name}(x, N)`; the {side} of two values is `{name}imum(x, y)`"
    if name in ALONG:
        return f"write it as `{name}(x, N)`"
    return f"write it as `{name}({', '.join(FUNCTIONS[name].parameters)})`"


def available() -> str:
    """Everything that an expression may be made of."""
    return "+ - * / // % ** << >> & | ^ ~, comparisons, and, or, not, cast, coord, len, " + ", ".join(
        (*FUNCTIONS, *ALONG)
    )
