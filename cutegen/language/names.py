"""What may be a name, and which known name a wrong one was meant to be."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
MAX_KERNEL_NAME = 64
MAX_NAME = 32

# Names that a generated module defines or imports: a kernel of that name would shadow them.
RESERVED = (
    "annotations", "argparse", "bench", "check", "compile", "compiled", "cuda", "cutegen", "cutlass", "cute", "device",
    "dlpack", "functools", "from_dlpack", "host", "inputs", "jit", "kernel", "kernel_name", "launch", "main",
    "make_inputs", "math", "operator", "pathlib", "reference", "stream", "sys", "test", "time", "torch", "tvm_ffi",
    "typing",
    # Builtins that the module calls.
    "abs", "all", "any", "bool", "dict", "enumerate", "float", "getattr", "int", "isinstance", "len", "list", "max",
    "min", "print", "range", "round", "set", "str", "sum", "super", "tuple", "type", "zip",
)  # fmt: skip

# Names that a parameter of the generated functions cannot take, for the same reason.
RESERVED_ARGUMENTS = ("arch", "cuda", "cute", "cutlass", "functools", "math", "self", "stream", "sys", "torch")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` most likely stands for, if any is close; case does not count."""
    from difflib import get_close_matches

    names = list(known)
    folded = {name.lower(): name for name in reversed(names)}
    found = get_close_matches(word[:80].lower(), list(folded), 1)
    return folded[found[0]] if found else None


def suggestion(word: str, known: Iterable[str], noun: str = "known") -> str:
    """`did you mean ...?`, or what there is."""
    names = list(known)
    near = nearest(word, names)
    if near:
        return f"did you mean `{near}`?"
    return f"{noun}: {', '.join(names)}" if names else f"{noun}: none"


def name_problem(name: str, limit: int = MAX_NAME) -> str | None:
    """Why `name` cannot be an identifier of the generated code, or None."""
    if not name:
        return "is empty"
    if len(name) > limit:
        return f"has {len(name)} characters; at most {limit} are allowed"
    if not IDENTIFIER.match(name):
        return "is not an identifier (a letter, then letters, digits and `_`)"
    if keyword.iskeyword(name) or keyword.iskeyword(name.lower()) or name.lower() in ("none", "true", "false"):
        return "is a keyword of Python"
    return None


def shown(value: object, limit: int = 40) -> str:
    """A value of the spec as a message quotes it: one short line."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
