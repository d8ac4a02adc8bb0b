"""A kernel spec as YAML text: keys in the language's order, compact, with every field that is filled in.

`read_specs(write_spec(spec))[0] == spec` holds for every spec that `read_specs` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

from tensor_layouts import Layout

from cutegen.language.cases import Cases
from cutegen.language.counts import Count
from cutegen.language.kinds import Path, Record, block_paths
from cutegen.language.model import LANGUAGE, KernelSpec
from cutegen.layouts import format_layout
from cutegen.yaml12.scalars import resolve

# Lists whose items stand on a line of their own each.
_LISTS: tuple[Path, ...] = (("compute",), ("verify", "shapes"), ("bench", "shapes"))
# A plain scalar that YAML reads back unchanged in any context.
_PLAIN = re.compile(r"[A-Za-z0-9_.(/+$][^\x00-\x1f\x7f-\uffff\U00010000-\U0010ffff]*\Z")
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\x85": "\\N",
    "\u2028": "\\L",
    "\u2029": "\\P",
}


def write_spec(spec: KernelSpec, comments: Mapping[Path, str] | None = None, header: str = "") -> str:
    """The spec's text. `header` comes first, as it is.

    `comments` puts `# text` behind the value at a path, or above its line where the value is inside braces. A path
    that the text does not hold belongs to the nearest enclosing one that it does.
    """
    spec = spec.by_argument
    cases = spec.schedule.cases if isinstance(spec.schedule, Cases) else ()
    blocks = block_paths(KernelSpec) | block_paths(type(spec.schedule), ("schedule",))
    for number, case in enumerate(cases):
        blocks |= block_paths(type(case.schedule), ("schedule", number))
    writer = _Writer({path: " ".join(text.split()) for path, text in (comments or {}).items()}, blocks)
    for key, value in as_data(spec).items():
        writer.entry((key,), value)
    head = header if not header or header.endswith("\n") else header + "\n"
    return head + "\n".join(writer.lines) + "\n"


def as_data(spec: KernelSpec) -> dict[str, Any]:
    """The spec as plain data in the language's order of keys; layouts and counts stay as they are."""
    return {"cutegen": LANGUAGE, **Record(KernelSpec).write(spec.by_argument)}


class _Writer:
    def __init__(self, comments: Mapping[Path, str], blocks: Set[Path]) -> None:
        """`blocks` are the mappings whose entries stand on a line of their own each; what is inside of such an entry is
        in flow style."""
        self.blocks = blocks
        self.comments = dict(comments)
        self.lines: list[str] = []

    def entry(self, path: Path, value: Any) -> None:
        """`key: value` at `path`, over as many lines as it takes."""
        margin = "  " * (sum(isinstance(step, str) for step in path) - 1)
        start = f"{margin}{_text(str(path[-1]), flow=False)}:"
        if isinstance(value, dict) and value and path in self.blocks:
            self.line(start, margin, path, self.own(path) + self.stray(path, value))
            for key, inner in value.items():
                self.entry((*path, key), inner)
        elif path == ("schedule",) and isinstance(value, list):
            self.line(start, margin, path, self.own(path))
            for i, item in enumerate(value):
                self.case((*path, i), item)
        elif path in _LISTS and isinstance(value, list):
            self.line(start, margin, path, self.own(path))
            for i, item in enumerate(value):
                self.leaf(f"{margin}  - {_value(item, flow=False)}", margin + "  ", (*path, i))
        else:
            self.leaf(f"{start} {_value(value, flow=False)}", margin, path)

    def case(self, path: Path, value: Mapping[str, Any]) -> None:
        """An entry of a list that is a mapping itself, a line for each of its keys."""
        if not value:
            self.leaf("  - {}", "  ", path)
            return
        first = len(self.lines)
        stray = self.own(path) + self.stray(path, value)
        for key, inner in value.items():
            self.entry((*path, key), inner)
        own = [f"  {line}" if line else line for line in self.lines[first:]]
        start = next(i for i, line in enumerate(own) if not line.lstrip().startswith("#"))
        own[start] = own[start].replace("    ", "  - ", 1)
        self.lines[first:] = [*(f"    # {remark}" for remark in stray), *own]

    def leaf(self, text: str, margin: str, path: Path) -> None:
        for inner in [p for p in self.comments if len(p) > len(path) and p[: len(path)] == path]:
            place = ".".join(map(str, inner[len(path) :]))
            self.lines.append(f"{margin}# {place}: {self.comments.pop(inner)}")
        self.line(text, margin, path, self.own(path))

    def own(self, path: Path) -> list[str]:
        return [self.comments.pop(path)] if path in self.comments else []

    def stray(self, path: Path, value: Mapping[str, Any]) -> list[str]:
        """Comments below a block whose key the block does not hold."""
        depth = len(path)
        inner = [p for p in self.comments if len(p) > depth and p[:depth] == path and p[depth] not in value]
        return [f"{'.'.join(map(str, p[depth:]))}: {self.comments.pop(p)}" for p in inner]

    def line(self, text: str, margin: str, path: Path, remarks: list[str]) -> None:
        self.lines += [f"{margin}# {remark}" for remark in remarks[1:]]
        self.lines.append(f"{text}  # {remarks[0]}" if remarks else text)


def _flow(value: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{_text(str(k), flow=True)}: {_value(v, flow=True)}" for k, v in value.items()) + "}"


def _value(value: Any, flow: bool) -> str:
    match value:
        case dict():
            return _flow(value)
        case list():
            return "[" + ", ".join(_value(item, flow=True) for item in value) + "]"
        case Layout():
            return _text(format_layout(value), flow)
        case Count():
            return str(value) if value.relation == "==" else _text(str(value), flow)
        case float():
            return _number(value)
        case int():
            return str(value)
    return _text(str(value), flow)


def _number(value: float) -> str:
    """A float that is one in every version of YAML: `1e-05` is a text in 1.1, `1.0e-05` is not."""
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _text(text: str, flow: bool) -> str:
    """A text that holds no placeholder, as a scalar."""
    return scalar(text.replace("{", "{{").replace("}", "}}"), flow)


def scalar(text: str, flow: bool) -> str:
    """A text as a scalar: plain where that reads back as the same text, else in double quotes. `flow`: inside { }."""
    safe = (
        _PLAIN.match(text)
        and not text.endswith((" ", ":"))
        and ": " not in text
        and " #" not in text
        and not text.startswith("...")
        and not (flow and any(c in text for c in ",?[]{}"))
        and isinstance(resolve(text[:300]), str)
    )
    if safe:
        return text
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escape(c)) for c in text) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"
