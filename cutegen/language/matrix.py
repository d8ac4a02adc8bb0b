"""One document to its variants: the product of its matrix, with every placeholder filled in.

A variant keeps, for every text, where each of its characters came from, so that a diagnostic about a part of a layout
or of `compute` points at what was written.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cutegen.language.diagnostics import Diagnostic, Span
from cutegen.language.document import MapNode, Node, ScalarNode, SequenceNode, spans
from cutegen.language.kinds import ByName, Items, Kind, Path, Scalars
from cutegen.language.kinds import Text as AnyText
from cutegen.language.model import Source
from cutegen.language.names import shown, suggestion

MAX_VARIANTS = 1024
MAX_EXPANDED = 500_000  # values of all variants together

OF_ALL_KERNELS: dict[str, tuple[Kind, str]] = {  # the keys of no single kernel, and what they mean
    "matrix": (
        ByName(
            Items(Scalars(), least=1, most=1024, different=True),
            "The values that this placeholder takes, in order.",
            least=1,
        ),
        "Variants: one kernel for every combination. `{a}` in any text stands for the value; a text that is exactly "
        "`{a}` takes the value's type; `{{` and `}}` are literal braces.",
    ),
    "modules": (
        Items(AnyText(), "The name of a kernel of this spec.", least=1, most=1024, different=True),
        "The kernels of the matrix for which `cutegen build` writes modules. The others are verified, measured and "
        "explained, but have no files.",
    ),
}

_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")

NAMES: tuple[Path, ...] = (("kernel",), ("torch", "op"), ("torch", "backward"))
"""Where values of a matrix are parts of names of functions, in lower case."""


@dataclass(frozen=True)
class Text:
    """A scalar after expansion. `origin[i]` is the place in the written text that character i came from."""

    node: ScalarNode
    origin: tuple[int, ...] | None = None  # None: nothing was filled in

    def place(self, start: int, end: int) -> Span:
        if self.origin is None:
            return self.node.place(start, end)
        if not self.origin:
            return self.node.span
        last = len(self.origin) - 1
        first, final = self.origin[min(start, last)], self.origin[min(max(start, end - 1), last)]
        return self.node.place(first, max(first, final) + 1)


@dataclass(frozen=True)
class Variant:
    """One combination of the matrix: plain data, the place of all of it, and its texts by path."""

    data: Any
    source: Source
    texts: Mapping[Path, Text]
    has_module: bool = True  # whether `cutegen build` writes its module

    def place(self, path: Path, start: int, length: int) -> Span:
        """The place of `length` characters of the text at `path`, from `start`."""
        if path in self.texts:
            return self.texts[path].place(start, start + max(1, length))
        return self.source.at(*path)


def source_of(node: Node, path: str) -> Source:
    keys, values = spans(node)
    return Source(path, keys, values)


def expand(root: MapNode, path: str) -> tuple[list[Variant], list[Diagnostic]]:
    """Every variant of a document whose `matrix` the schema allows, and what its placeholders lack.

    The first matrix key varies slowest. A document without a matrix has one variant.
    """
    matrix = _matrix(root)
    names = list(matrix)
    count = math.prod(len(values) for values in matrix.values())
    weight = _weight(root)
    if count > MAX_VARIANTS or count * weight > MAX_EXPANDED:
        sizes = " x ".join(str(len(values)) for values in matrix.values())
        source = source_of(root, path)
        limit = min(MAX_VARIANTS, MAX_EXPANDED // weight)
        notes = (f"{sizes} = {count} variants; at most {limit} of this spec are built",)
        return [], [source.diagnostic("CG108", "the matrix is too large", "matrix", key=True, notes=notes)]
    variants, problems = [], []
    for combination in itertools.product(*matrix.values()):
        filler = _Filler(dict(zip(names, combination, strict=True)), path)
        data = filler.value(root, ())
        variants.append(Variant(data, Source(path, filler.keys, filler.values), filler.texts))
        problems += filler.problems
        if problems:  # the other variants have the same texts
            return [], problems
    return variants, problems


def _matrix(root: MapNode) -> dict[str, list[ScalarNode]]:
    node = root.get("matrix")
    if not isinstance(node, MapNode):
        return {}
    lists = [(str(key.value), value) for key, value in node.entries if isinstance(value, SequenceNode)]
    return {key: [item for item in value.items if isinstance(item, ScalarNode)] for key, value in lists}


def _weight(node: Node) -> int:
    if isinstance(node, MapNode):
        return 1 + sum(_weight(key) + _weight(value) for key, value in node.entries)
    if isinstance(node, SequenceNode):
        return 1 + sum(map(_weight, node.items))
    return 1 + len(node.text) // 64


class _Filler:
    """Fills one combination into a document."""

    def __init__(self, combination: Mapping[str, ScalarNode], path: str) -> None:
        self.combination = combination
        self.path = path
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.texts: dict[Path, Text] = {}
        self.problems: list[Diagnostic] = []

    def value(self, node: Node, path: Path) -> Any:
        self.values[path] = node.span
        if isinstance(node, MapNode):
            return dict(self.entries(node, path))
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.items)]
        if not isinstance(node.value, str):
            return node.value
        value, text = self.fill(node, lower=path[:2] in NAMES)
        self.texts[path] = text
        return value

    def entries(self, node: MapNode, path: Path) -> Iterator[tuple[str, Any]]:
        taken: dict[str, Span] = {}
        for key, value in node.entries:
            if path == () and key.value in OF_ALL_KERNELS:
                continue
            filled, _ = self.fill(key) if path else (key.value, None)
            name = filled if isinstance(filled, str) else self.combination[key.text[1:-1]].text
            if name in taken:
                note = f"first at line {taken[name].line}, column {taken[name].column}"
                message = f"the key `{shown(name)}` is written twice once its placeholders are filled in"
                self.problems.append(Diagnostic("CG010", message, key.span, self.path, notes=(note,)))
                continue
            taken[name] = key.span
            inner = (*path, name)
            self.keys[inner] = key.span
            yield name, self.value(value, inner)

    def fill(self, node: ScalarNode, lower: bool = False) -> tuple[Any, Text]:
        written = str(node.value)
        if "{" not in written and "}" not in written:
            return written, Text(node)
        whole = _PIECE.fullmatch(written)
        if whole and whole[1] in self.combination and not lower:
            chosen = self.combination[whole[1]]
            return chosen.value, Text(node, (0,) * len(chosen.text))
        out: list[str] = []
        origin: list[int] = []
        at = 0
        for piece in _PIECE.finditer(written):
            text = self.piece(node, piece)
            text = text.lower() if lower else text
            out += (written[at : piece.start()], text)
            origin += [*range(at, piece.start()), *[piece.start()] * len(text)]
            at = piece.end()
        out.append(written[at:])
        origin += range(at, len(written))
        return "".join(out), Text(node, tuple(origin))

    def piece(self, node: ScalarNode, piece: re.Match[str]) -> str:
        if piece[0] in ("{{", "}}"):
            return piece[0][0]
        if piece[1] in self.combination:
            return self.combination[piece[1]].text
        span = node.place(piece.start(), piece.end())
        if piece[1]:
            known = list(self.combination)
            message = f"unknown placeholder `{shown(piece[0])}`"
            help = suggestion(piece[1], known, "matrix keys") if known else "the spec has no `matrix:`"
            help += "; a literal brace is written twice, `{{`"
        else:
            message = f"a lone `{piece[0]}`, which starts or ends a placeholder"
            help = f"a literal brace is written twice, `{piece[0] * 2}`"
        self.problems.append(Diagnostic("CG107", message, span, self.path, help=help))
        return piece[0]
