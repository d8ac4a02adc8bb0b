"""Rules for the names in a spec, and the known name that a wrong one probably stands for."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
MAX_KERNEL_NAME = 64
MAX_NAME = 32

# Names that a generated module defines, imports or looks up: a kernel of that name would shadow them. A test derives
# them from rendered modules.
_USED = (
    "ALL", "BLOCKS_OF", "COSTS", "Callable", "DIVISIBLE", "INPUTS", "Iterator", "LARGEST", "MOST_TILES", "OUTPUTS",
    "SIZES", "CLUSTER", "SLICE", "STAGES", "STATIC", "SWIZZLE", "Sequence", "TARGETS", "TENSORS", "THREADS", "TILER",
    "ENDS", "PLACES", "TOLERANCE", "Timer", "VALUES", "VECTOR", "annotations", "argparse", "args", "arguments",
    "compile_for", "copy_tile", "cpasync", "cuda", "cuda_dialect", "cute", "cutegen", "cutlass", "failure", "functools",
    "in_bounds", "itertools", "known_tensors", "launch", "launch_kernel", "load_values", "main", "make_fake_stream",
    "make_fake_tensor", "make_inputs", "make_outputs", "math", "moved_access", "n_first", "numbers", "operator",
    "predicates", "reference", "slices", "store_values", "suppress", "sys", "threading", "torch", "tvm_ffi", "vectors",
    # Builtins that the module calls, or might.
    "Exception", "RuntimeError", "TypeError", "ValueError", "abs", "all", "any", "bool", "dict",
    "divmod", "enumerate", "float", "getattr", "hex", "int", "isinstance", "len", "list", "max", "min", "next",
    "object", "print", "range", "round", "set", "sorted", "str", "sum", "super", "tuple", "type", "vars", "zip",
)  # fmt: skip

# A kernel `copy` is a file `copy.py`, and the folder of generated modules is often on the path of imports: what imports
# Python's own `copy` would get the kernel. Every public module of the standard libraries of Python 3.10 to 3.14, since
# what a spec may say must not depend on which Python reads it; then what generated modules and their imports import.
_MODULES = """
abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb
binascii binhex bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections
colorsys compileall compression concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes
curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno
faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext
glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress
itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap
modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator
optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath
pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib
resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site sitecustomize smtpd
smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string
stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios
test textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle
turtledemo types typing unicodedata unittest urllib usercustomize uu uuid venv warnings wave weakref webbrowser
winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo

attr attrs click colorama cuda cutegen cutlass distutils filelock fsspec functorch google isympy jinja2 jsonschema
jsonschema_specifications markdown_it markupsafe mdurl ml_dtypes mpmath networkx numpy nvidia nvidia_cutlass_dsl
pip pkg_resources platformdirs pygments referencing resvg_py rich rpds setuptools sympy tensor_layouts torch torchgen
triton tvm_ffi typing_extensions yaml ziafont
"""
MODULES = frozenset(_MODULES.split())

# Variables of the module's `main`, which calls the kernel by its name.
_BESIDE_THE_CALL = (
    "atol", "bench", "candidate", "candidates", "eps", "i", "inputs", "mode", "moved", "name", "nearby", "operations",
    "outputs", "parser", "results", "rtol", "seconds", "size", "sizes", "tensors", "timer", "unequal", "wanted", "x",
    "z",
)  # fmt: skip

# What a kernel cannot be named.
RESERVED = (*_USED, *_BESIDE_THE_CALL, *sorted(MODULES - set(_USED)))

# Names in the functions where tensors, scalars and modes are variables.
RESERVED_ARGUMENTS = (
    *_USED,
    "acc", "accessed", "accesses_fit", "arrived", "band", "bench", "bidx", "bidy", "block_rows", "cluster_idx",
    "clusters", "column_idx", "coord", "device", "fetch", "first_value", "generator", "grid", "grid_m", "grid_n",
    "has_tile", "help", "in_bounds", "in_k", "in_warp", "is_held", "is_short", "k_block", "k_next", "k_size", "k_tile",
    "k_tiles", "lane_step", "mode_offsets", "name", "narrow_layout", "one", "own_values", "part", "place",
    "place_offset", "probe_index", "product", "rank", "residue", "rest", "rest_mn", "rest_v", "result", "row_size",
    "row_start", "row_threads", "seed", "self", "sizes", "smem", "smem_next", "smem_read", "smem_write", "stage",
    "stream", "tensors", "thr_layout", "thr_mma", "thread_offsets", "tidx", "tidy", "tile", "tiled_mma", "tiles",
    "turn", "tv_layout", "val_layout", "value_idx", "value_offsets", "vector", "walked_shape", "wants_gradient",
    "width", "words_fit",
)  # fmt: skip

# What CuTeDSL calls the parameters and functions that it makes of a branch or a loop: inside they hide an argument.
# Tensors are not concerned, of whose names a prefix or the case makes others.
COMPILERS_OWN = re.compile(
    r"pred|((ifexp_)?(then|else)|while_(before|after))_block_\d+|(if|elif|while)_region_\d+|loop_body_\d+"
)

# What generated code calls things of the spec: each {} is a tensor, a mode or the kernel.
DERIVED = (
    "BLK_{}", "SPACE_{}", "atom_{}", "c{}", "copy_{}", "g{}", "m{}", "place_{}", "pred_{}", "step_{}_{}", "s{}",
    "s{}_elements", "s{}_layout", "s{}_memory", "store_{}", "t{}c{}", "t{}g{}", "t{}p{}", "t{}p{}_0", "t{}p{}_first",
    "t{}p{}_next", "t{}r{}", "t{}g{}_at", "t{}r{}_at", "t{}r{}_in", "t{}r{}_out", "t{}s{}", "thr_copy_{}", "tile_{}",
    "tiled_copy_{}", "tiles_{}", "workspace_{}", "{}_kernel", "{}_longer_kernel", "{}_workspace_{}_kernel",
)  # fmt: skip


# Those of them that name constants of a module: a kernel of that name would take their place.
DERIVED_CONSTANTS = ("BLK_{}", "SPACE_{}")


def derived_from(name: str, others: Collection[str], patterns: Sequence[str] = DERIVED) -> str | None:
    """The names that generated code derives `name` from, as text: C and A for `tCrA`; None if it derives no such name.

    `others` are the names of the spec's tensors and modes, and of its kernel.
    """
    for pattern in patterns:
        if _derived(pattern, ".+").fullmatch(name) is None:  # most names: to ask for the very names takes a while
            continue
        match = _derived(pattern, "|".join(sorted(map(re.escape, others), key=len, reverse=True))).fullmatch(name)
        if match:
            return " and ".join(dict.fromkeys(f"`{group}`" for group in match.groups()))
    return None


@lru_cache(maxsize=256)
def _derived(pattern: str, one: str) -> re.Pattern[str]:
    """The pattern of names that one of DERIVED makes from names that match `one`."""
    expression = re.escape(pattern).replace(r"\{\}", f"({one})").replace("_0", r"_[0-9]+")
    return re.compile(expression, re.IGNORECASE if pattern.startswith("BLK") else 0)


@lru_cache(maxsize=1)
def _reserved_parts() -> dict[str, str]:
    """Maps a tensor's name to the name in the functions that DERIVED would make from it, such as `ute` to `cute`."""
    found: dict[str, str] = {}
    for pattern in (one for one in DERIVED if one.count("{}") == 1):
        before, after = pattern.split("{}")
        for name in RESERVED_ARGUMENTS:
            if name.startswith(before) and name.endswith(after) and len(name) > len(pattern) - 2:
                found.setdefault(name[len(before) : len(name) - len(after)], name)
    return found


def reserved_made_of(name: str) -> str | None:
    """The name in the functions of a module that generated code would make of a tensor's, if it is one of those."""
    return _reserved_parts().get(name)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` most likely stands for, if any is close; case does not count."""
    from difflib import get_close_matches

    names = list(known)
    folded = {name.lower(): name for name in reversed(names)}
    found = get_close_matches(word[:80].lower(), list(folded), 1)
    return folded[found[0]] if found else None


def suggestion(word: str, known: Iterable[str], noun: str = "known") -> str:
    """`did you mean ...?`, or the existing names."""
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
        if IDENTIFIER.match(name.strip()):
            return "begins or ends with white space"
        return "is not an identifier (a letter, then letters, digits and `_`)"
    if keyword.iskeyword(name) or keyword.iskeyword(name.lower()) or name.lower() in ("none", "true", "false"):
        return "is a keyword of Python"
    return None


def name_help(name: str) -> str | None:
    """A help with a name like `name` that is an identifier; None where nothing of it is left."""
    near = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[: MAX_NAME - 1]
    near = f"x{near}" if near[:1].isdigit() else near
    near = f"{near}_" if near and name_problem(near) else near
    return f"write `{near}`, or another name" if near and near != name and name_problem(near) is None else None


def shown(value: object, limit: int = 40) -> str:
    """A value of the spec as a message quotes it: one short line. White space at its ends stays visible."""
    text = value if isinstance(value, str) else repr(value)
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= limit else text[: limit - 3] + "..."
