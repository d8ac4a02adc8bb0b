"""What may be a name, and which known name a wrong one was meant to be."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
MAX_KERNEL_NAME = 64
MAX_NAME = 32

# Names that a generated module defines, imports or looks up: a kernel of that name would shadow them. A test derives
# them from rendered modules.
RESERVED = (
    "Callable", "LARGEST", "STAGES", "TARGETS", "THREADS", "TILER", "VALUES", "VECTOR", "args", "argparse", "compile",
    "cpasync", "cuda", "cutegen", "cute", "cutlass", "fits", "launch", "main", "make_fake_stream", "make_fake_tensor",
    "make_inputs", "n_first", "number", "numbers", "on_device", "random", "reference", "sys", "threading",
    "torch", "tvm_ffi", "vectors",
    # Builtins that the module calls, or might.
    "AttributeError", "LookupError", "RuntimeError", "TypeError", "ValueError", "abs", "all", "any", "bool", "dict",
    "divmod", "enumerate", "float", "getattr", "int", "isinstance", "len", "list", "max", "min", "object", "print",
    "range", "round", "set", "sorted", "str", "sum", "super", "tuple", "type", "zip",
    # Modules that would be imported in place of others from the folder of the generated ones.
    "annotations", "functools", "math", "operator", "pathlib", "test", "time", "typing",
)  # fmt: skip

# Names in the functions where tensors, scalars and modes are variables.
RESERVED_ARGUMENTS = (
    *RESERVED,
    "accumulators", "arch", "bench", "bidx", "bidy", "compiler", "coord", "coord_k", "coord_mn", "device", "fetch",
    "generator", "grid", "grid_m", "grid_n", "has_tile", "help", "in_bounds", "in_k", "k_block", "k_block_next",
    "k_tile", "k_tiles", "mode_offsets", "options", "probe_index", "product", "residue", "rest", "rest_k",
    "rest_mn", "rest_v", "result", "seed", "self", "smem", "smem_next", "smem_read", "smem_write", "stage",
    "stream", "thr_layout", "thr_mma", "thread_offsets", "tidx", "tile", "tiled_mma", "tiles", "tv_layout",
    "val_layout", "value_idx", "value_offsets", "vector",
)  # fmt: skip

# What generated code calls things of the spec: each {} is a tensor, a mode or the kernel.
DERIVED = (
    "BLK_{}", "atom_{}", "c{}", "copy_{}", "g{}", "m{}", "s{}", "s{}_layout", "store_{}", "t{}c{}", "t{}g{}", "t{}p{}",
    "t{}p{}_0", "t{}p{}_first", "t{}r{}", "t{}r{}_in", "t{}r{}_out", "t{}s{}", "thr_copy_{}", "tile_{}",
    "tiled_copy_{}", "{}_kernel",
)  # fmt: skip


def derived_from(name: str, others: Iterable[str]) -> str | None:
    """What generated code makes `name` of, `tCrA` of C and A, if it makes that name at all.

    `others` are the names of the spec's tensors and modes, and of its kernel.
    """
    one = "|".join(sorted(map(re.escape, others), key=len, reverse=True))
    for pattern in DERIVED:
        expression = re.escape(pattern).replace(r"\{\}", f"({one})").replace("_0", r"_[0-9]+")
        match = re.fullmatch(expression, name, re.IGNORECASE if pattern.startswith("BLK") else 0)
        if match:
            return " and ".join(dict.fromkeys(f"`{group}`" for group in match.groups()))
    return None


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
