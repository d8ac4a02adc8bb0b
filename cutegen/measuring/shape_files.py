"""Files of shapes for `bench --sweep FILE`: a shape a line, or a table with a head.

A line is `M=256, N=8192, K=8192`, or as specs have it under `bench.shapes`, `- {M: 256, N: 8192, K: 8192}`. A table has
a head that names modes, and a line of sizes for each shape, all separated by commas, semicolons or tabs; its column
`name` says what a shape is called. `#` begins a comment: behind the sizes of a line without a head, it is the name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen.language.model import KernelSpec
from cutegen.measuring.shapes import LARGEST, RefusedShape, ShapeError, complete, whole_number

MOST = 4096  # shapes of a file
NAME = "name"  # the column of a table that holds no size
_FORM = "write a shape as M=256, N=8192, K=8192, or begin with a head such as M,N,K"
_PART = re.compile(r"\s*[\"']?([A-Za-z_]\w*)[\"']?\s*[=:]\s*([^\s,;]+)\s*")


@dataclass(frozen=True)
class Entry:
    """The sizes that a line of a file gives, and what the shape is called there."""

    line: int
    sizes: Mapping[str, int]
    name: str = ""


@dataclass(frozen=True)
class Unfit:
    """A shape of a file that a kernel refuses, and why."""

    entry: Entry
    why: str


@dataclass(frozen=True)
class Listed:
    """The shapes of a file that are for one kernel, every mode of it with its size.

    `entries` says where each of `shapes` stands; `repeated` says which lines repeat others.
    """

    file: str
    shapes: tuple[dict[str, int], ...]
    entries: tuple[Entry, ...]
    unfit: tuple[Unfit, ...] = ()
    repeated: tuple[str, ...] = ()


def read_shapes(path: Path, where: str) -> tuple[Entry, ...]:
    """Reads a file of shapes, which `where` names in messages.

    Raises ShapeError with the file, the line, and what would work.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ShapeError(f"{where}: {error.strerror}", "give a file of shapes, or sizes as M=1024..16384") from None
    except UnicodeDecodeError:
        raise ShapeError(f"{where}: this is not a text", _FORM) from None
    entries = tuple(parse_shapes(text, where))
    if not 0 < len(entries) <= MOST:
        raise ShapeError(f"{where}: it has {len(entries) or 'no'} shapes", _FORM if not entries else f"{MOST} at most")
    return entries


def parse_shapes(text: str, where: str) -> Iterator[Entry]:
    """The shapes of a text, which `where` names in messages. Raises ShapeError."""
    head: list[str] | None = None
    separator = ","
    for number, whole in enumerate(text.splitlines(), 1):
        content, _, comment = whole.partition("#")
        if not content.strip():
            continue
        place = f"{where}:{number}"
        if head is None and not re.search(r"[=:]", content):
            separator = next((one for one in ",;\t" if one in content), ",")
            head = _head(_cells(content, separator), place)
        elif head is None:
            yield Entry(number, _sizes(content, place), comment.strip())
        else:
            sizes, name = _row(_cells(content, separator), head, place)
            yield Entry(number, sizes, name or comment.strip())


def _sizes(content: str, place: str) -> dict[str, int]:
    """The sizes of a line that names its modes."""
    inner = content.strip().removeprefix("- ").strip().removesuffix(",")
    inner = inner.removeprefix("{").removesuffix("}")
    sizes: dict[str, int] = {}
    at = 0
    for part in _PART.finditer(inner):
        if inner[at : part.start()].strip(" \t,;"):
            break
        mode, number = part.groups()
        if mode in sizes:
            raise ShapeError(f"{place}: {mode} occurs twice", "a shape has each mode once, and a line to itself")
        sizes[mode] = _size(number, mode, place)
        at = part.end()
    rest = inner[at:].strip(" \t,;")
    if rest or not sizes:
        raise ShapeError(f"{place}: `{(rest or content.strip())[:40]}` is not a mode and a size", _FORM)
    return sizes


def _head(names: Sequence[str], place: str) -> list[str]:
    """The columns of a table."""
    for name in names:
        if not name.isidentifier():
            raise ShapeError(f"{place}: `{name[:40]}` is not the name of a mode", _FORM)
        if names.count(name) > 1:
            raise ShapeError(f"{place}: the column {name} occurs twice", "a head has each mode once")
    return list(names)


def _row(cells: Sequence[str], head: Sequence[str], place: str) -> tuple[dict[str, int], str]:
    """The sizes of a line of a table, and the shape's name."""
    if len(cells) != len(head):
        raise ShapeError(f"{place}: it has {len(cells)} cells, and the head has {len(head)}", f"give {', '.join(head)}")
    given = dict(zip(head, cells, strict=True))
    name = given.pop(NAME, "")
    return {mode: _size(text, mode, place) for mode, text in given.items()}, name


def _cells(line: str, separator: str) -> list[str]:
    (cells,) = csv.reader([line.strip()], delimiter=separator, skipinitialspace=True)
    return [cell.strip() for cell in cells]


def _size(text: str, mode: str, place: str) -> int:
    size = whole_number(text)
    if size is None:
        help = f"sizes are whole numbers from 1 to {LARGEST}; other columns than modes: only `{NAME}`"
        raise ShapeError(f"{place}: {mode} cannot be `{text[:40]}`", help)
    return size


def list_shapes(path: Path, where: str, specs: Sequence[KernelSpec]) -> list[Listed | None]:
    """Reads a file of shapes, which `where` names, for several kernels: a shape is for each whose modes it names, fixed
    ones or not.

    None for a kernel that no shape is for. Raises ShapeError for a line that is for none of them, and where the kernels
    refuse all shapes.
    """
    entries = read_shapes(path, where)
    for entry in entries:
        if not any(_is_for(entry, spec) for spec in specs):
            raise ShapeError(f"{where}:{entry.line}: {_why_for_none(entry, specs)}", _modes_of(specs))
    found = [_listed(where, [entry for entry in entries if _is_for(entry, spec)], spec) for spec in specs]
    if not any(one is not None and one.shapes for one in found):
        first = next(one for one in found if one is not None).unfit[0]
        raise ShapeError(f"{where}: every shape is refused, as in line {first.entry.line}: {first.why}")
    return found


def _is_for(entry: Entry, spec: KernelSpec) -> bool:
    return set(entry.sizes) <= set(spec.modes) <= {*entry.sizes, *spec.static}


def _why_for_none(entry: Entry, specs: Sequence[KernelSpec]) -> str:
    """Returns the reason why a shape is for none of the kernels."""
    known = {mode for spec in specs for mode in spec.modes}
    if unknown := [mode for mode in entry.sizes if mode not in known]:
        return f"there is no mode `{unknown[0]}`"
    if len(specs) == 1:
        missing = [mode for mode in specs[0].modes if mode not in {*entry.sizes, *specs[0].static}]
        return f"{', '.join(missing)} missing for {specs[0].kernel}"
    return f"no kernel has just the modes {', '.join(entry.sizes)}"


def _modes_of(specs: Sequence[KernelSpec]) -> str:
    """The modes of the kernels, in words."""
    said: dict[str, list[str]] = {}
    for spec in specs:
        modes = [f"{mode} ({spec.static[mode]})" if mode in spec.static else mode for mode in spec.modes]
        said.setdefault(", ".join(modes), []).append(spec.kernel)
    return "; ".join(f"{kernels[0]} has the modes {modes}" for modes, kernels in said.items())


def _listed(where: str, entries: Sequence[Entry], spec: KernelSpec) -> Listed | None:
    """Those entries as shapes of a kernel; None where there is none."""
    if not entries:
        return None
    lines: dict[tuple[int, ...], int] = {}
    taken: list[tuple[Entry, dict[str, int]]] = []
    unfit, repeated = [], []
    for entry in entries:
        try:
            shape = complete(entry.sizes, spec)
        except RefusedShape as error:
            unfit.append(Unfit(entry, error.message + (f" ({error.help})" if error.help else "")))
            continue
        first = lines.setdefault(tuple(shape.values()), entry.line)
        if first == entry.line:
            taken.append((entry, shape))
        else:
            repeated.append(f"{where}:{entry.line} repeats line {first}")
    shapes, kept = tuple(shape for _, shape in taken), tuple(entry for entry, _ in taken)
    return Listed(where, shapes, kept, tuple(unfit), tuple(repeated))
