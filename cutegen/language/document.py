"""YAML text to a tree that knows the place of every key and value.

Built from PyYAML's events, so nothing is constructed and nothing recurses; plain scalars are resolved by the rules of
YAML 1.2's core schema (`4:1`, `no` and `1_000` are strings). Bounded in size, depth and in what aliases expand to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import yaml

from cutegen.language.diagnostics import LINE_BREAK, START, Diagnostic, Span
from cutegen.language.kinds import Path
from cutegen.language.names import shown
from cutegen.yaml12.events import events
from cutegen.yaml12.scalars import Plain, resolve

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 64
MAX_NODES = 10_000
CHARACTERS_PER_NODE = 64  # a longer scalar counts as several nodes, so that aliases cannot multiply text either

CORE = "tag:yaml.org,2002:"
UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, eq=False)
class ScalarNode:
    """A leaf. `text` is what was written, without quotes; `value` is what it means."""

    value: Plain
    text: str
    span: Span
    plain: bool  # written without quotes, on one line or more
    exact: int | None = None  # column of the first character of `text`, if the text stands on the line as it is

    def place(self, start: int, end: int) -> Span:
        """The place of `text[start:end]`; of the whole scalar where escapes or line breaks hide it."""
        if self.exact is None:
            return self.span
        return Span(self.span.line, self.exact + start, max(1, end - start))


@dataclass(frozen=True, eq=False)
class SequenceNode:
    span: Span
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class MapNode:
    span: Span
    entries: list[tuple[ScalarNode, Node]] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        return next((value for k, value in self.entries if k.value == key), None)


Node = ScalarNode | SequenceNode | MapNode


def plain(node: Node) -> Any:
    """The tree as Python data: dict, list, str, int, float, bool, None."""
    if isinstance(node, MapNode):
        return {str(key.value): plain(value) for key, value in node.entries}
    if isinstance(node, SequenceNode):
        return [plain(item) for item in node.items]
    return node.value


def spans(root: Node) -> tuple[dict[Path, Span], dict[Path, Span]]:
    """The place of every key and of every value, by path."""
    keys: dict[Path, Span] = {}
    values: dict[Path, Span] = {}
    waiting: list[tuple[Path, Node]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        values[path] = node.span
        if isinstance(node, MapNode):
            for key, value in node.entries:
                inner = (*path, str(key.value))
                keys[inner] = key.span
                waiting.append((inner, value))
        elif isinstance(node, SequenceNode):
            waiting += [((*path, i), item) for i, item in enumerate(node.items)]
    return keys, values


def parse_documents(text: str, path: str = "<spec>") -> tuple[list[Node], list[Diagnostic]]:
    """Every document of the text that could be read, and everything that is wrong with the YAML."""
    composer = _Composer(path)
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_CHARACTERS:
        message = f"the file has more than {MAX_CHARACTERS} characters"  # how many is not known: it is not read whole
        composer.say("CG003", message, START, help="write one file a family of kernels")
        return [], composer.diagnostics
    bad = UNPRINTABLE.search(text)
    if bad:
        message = f"the character U+{ord(bad[0]):04X} is not allowed in YAML"
        help = "remove it, or write it as an escape in quotes"
        if bad[0] == "\0" and text.count("\0") * 3 > len(text):
            help = "the file looks like UTF-16; save it as UTF-8"
        composer.say("CG004", message, _place_of(text, bad.start()), help=help)
        return [], composer.diagnostics
    composer.lines = LINE_BREAK.split(text)
    composer.read(text)
    if not composer.documents and not composer.diagnostics:
        composer.say("CG007", "there is no spec in this file", START, help="`cutegen init` writes a starter spec")
    return composer.documents, composer.diagnostics


def _place_of(text: str, index: int) -> Span:
    before = LINE_BREAK.split(text[:index])
    return Span(len(before), len(before[-1]) + 1)


class _Stop(Exception):
    """Reading on makes no sense; the diagnostic has been said."""


@dataclass(eq=False)
class _Frame:
    """A collection under construction. A mapping's keys and values alternate in `parts`."""

    span: Span
    mapping: bool
    flow: bool
    anchor: str | None
    parts: list[Node] = field(default_factory=list)
    weight: int = 1
    height: int = 1


class _Composer:
    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: list[str] = []
        self.documents: list[Node] = []
        self.diagnostics: list[Diagnostic] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Node | None] = {}  # None while under construction
        self.cost: dict[int, tuple[int, int]] = {}  # id of an anchored node -> expanded weight, height
        self.total = 0
        self.start = START  # of the document

    def say(self, code: str, message: str, span: Span, *, notes: tuple[str, ...] = (), help: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, self.path, notes=notes, help=help))

    def read(self, text: str) -> None:
        try:
            for event in events(text):
                self.event(event)
        except _Stop:
            return
        except yaml.MarkedYAMLError as error:
            self.syntax_error(error)
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML's own limits, on hostile escapes
            self.say("CG005", f"this is not YAML: {shown(str(error), 100)}", START)

    def syntax_error(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        span = Span(mark.line + 1, mark.column + 1) if mark else START
        problem = " ".join(str(error.problem or error.context or "syntax error").split())
        notes: tuple[str, ...] = ()
        if error.context and error.context_mark and error.problem:
            notes = (f"{error.context} that starts at line {error.context_mark.line + 1}",)
        if "'\\t'" in problem:
            self.say("CG006", "a tab cannot indent or start a value in YAML", span, help="indent with spaces")
            return
        help = None
        if "mapping values are not allowed" in problem:
            help = "a text that holds `: ` must be quoted"
        elif "could not find expected ':'" in problem:
            help = "write `key: value`, with a space after the colon"
        self.say("CG005", f"this is not YAML: {problem}", span, notes=notes, help=help)

    # ------------------------------------------------------------------------------------------------- events

    def event(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self.anchors, self.cost, self.total, self.start = {}, {}, 0, self.span(event)
                if event.version and tuple(event.version) != (1, 2):
                    version = ".".join(map(str, event.version))
                    message = f"the file says it is YAML {version}; specs are YAML 1.2"
                    self.say("CG016", message, self.span(event), help="remove the %YAML line")
            case yaml.AliasEvent():
                self.alias(event)
            case yaml.ScalarEvent():
                self.add(self.scalar(event), event.anchor, 1 + len(event.value) // CHARACTERS_PER_NODE, 1)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self.open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.close(event)

    def span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column
        if end.line != start.line:
            line = self.lines[start.line] if start.line < len(self.lines) else ""
            length = len(line.rstrip()) - start.column
        return Span(start.line + 1, start.column + 1, max(1, length))

    def open(self, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self.too_deep(self.span(event))
        mapping = isinstance(event, yaml.MappingStartEvent)
        span = self.span(event)
        self.check_tag(event.tag, "map" if mapping else "seq", span)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(span, mapping, bool(event.flow_style), event.anchor))

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        span = frame.span
        if frame.flow and event.end_mark.line + 1 == span.line:
            span = Span(span.line, span.column, event.end_mark.column + 1 - span.column)
        node: Node
        if frame.mapping:
            pairs = list(zip(frame.parts[::2], frame.parts[1::2], strict=False))
            node = MapNode(span, list(self.entries(self.mend_mapping(pairs) if frame.flow else pairs)))
        else:
            node = SequenceNode(span, self.mend_sequence(frame.parts) if frame.flow else frame.parts)
        self.add(node, frame.anchor, 0, frame.height, frame.weight)

    def add(self, node: Node, anchor: str | None, fresh: int, height: int, weight: int | None = None) -> None:
        """A finished node goes to its parent. `fresh` is what it adds to the document, `weight` what an alias would."""
        weight = fresh if weight is None else weight
        self.count(fresh, node.span)
        if anchor:
            self.anchors[anchor] = node
            self.cost[id(node)] = (weight, height)
        if not self.stack:
            if isinstance(node, ScalarNode) and node.value is None:
                self.say("CG007", "there is no spec in this document", self.start, help="remove the extra `---`")
            else:
                self.documents.append(node)
            return
        parent = self.stack[-1]
        parent.parts.append(node)
        parent.weight += weight
        parent.height = max(parent.height, height + 1)

    def count(self, fresh: int, span: Span) -> None:
        self.total += fresh
        if self.total > MAX_NODES:
            message = f"the spec holds more than {MAX_NODES} values once its aliases are followed"
            self.say("CG009", message, span, help="write fewer values, or split the file")
            raise _Stop

    def too_deep(self, span: Span) -> None:
        self.say("CG008", f"nested deeper than {MAX_DEPTH} levels", span, help="a spec needs about six levels")
        raise _Stop

    def alias(self, event: Any) -> None:
        span, name = self.span(event), event.anchor
        node = self.anchors.get(name)
        if node is None:
            cyclic = name in self.anchors
            reason = "is inside the value that it refers to" if cyclic else "refers to nothing"
            known = ", ".join(f"&{a}" for a, n in self.anchors.items() if n is not None)
            help = None if cyclic else f"anchors so far: {known[:200] or 'none'}"
            self.say("CG013", f"the alias `*{shown(name)}` {reason}", span, help=help)
            self.add(ScalarNode(None, "", span, True), None, 1, 1)
            return
        weight, height = self.cost[id(node)]
        if len(self.stack) + height > MAX_DEPTH:
            self.too_deep(span)
        self.add(node, None, weight, height)

    # ------------------------------------------------------------------------------------------------ scalars

    def scalar(self, event: Any) -> ScalarNode:
        span, text, tag = self.span(event), event.value, event.tag
        is_plain = not event.style
        whole = span
        exact = None
        if event.start_mark.line == event.end_mark.line:
            quote = 0 if is_plain else 1
            first, last = event.start_mark.column + quote, event.end_mark.column - quote
            # An anchor or tag stands before the scalar and inside its marks.
            first = max(first, last - len(text)) if (event.anchor or tag) else first
            if self.lines[event.start_mark.line][first:last] == text:
                exact = first + 1
                if event.anchor or tag:
                    span = Span(span.line, exact - quote, max(1, len(text) + 2 * quote))
        value: Plain = text
        try:
            if tag is None or tag == "!":
                value = resolve(text) if is_plain and tag is None else text
            elif self.check_tag(tag, "scalar", whole) and tag != CORE + "str":
                value = resolve(text)
                kinds: dict[str, type | tuple[type, ...]] = {
                    "int": int,
                    "float": (int, float),
                    "bool": bool,
                    "null": type(None),
                }
                name = tag.removeprefix(CORE)
                if not isinstance(value, kinds[name]) or (isinstance(value, bool) and name != "bool"):
                    self.say("CG017", f"`{shown(text)}` does not match its tag !!{name}", span)
                elif name == "float" and isinstance(value, int):
                    value = float(value)
        except (ValueError, OverflowError) as error:
            self.say("CG017", str(error), span)
            value = text
        return ScalarNode(value, text, span, is_plain, exact)

    def check_tag(self, tag: str | None, kind: str, span: Span) -> bool:
        allowed = ("str", "int", "float", "bool", "null") if kind == "scalar" else (kind,)
        if tag is None or tag == "!" or tag in [CORE + name for name in allowed]:
            return True
        help = "leave the tag out; types follow from the key"
        self.say("CG012", f"the tag `{shown(tag.replace(CORE, '!!'))}` is not supported here", span, help=help)
        return False

    # ----------------------------------------------------------------------------------------------- mappings

    def entries(self, pairs: list[tuple[Node, Node]]) -> Iterator[tuple[ScalarNode, Node]]:
        first: dict[str, Span] = {}
        for key, value in pairs:
            if not isinstance(key, ScalarNode) or not isinstance(key.value, str):
                kind = f"`{shown(key.text)}`" if isinstance(key, ScalarNode) else "a list or mapping"
                help = f'quote it: "{key.text}"' if isinstance(key, ScalarNode) and key.text else None
                self.say("CG011", f"a key must be a string, not {kind}", key.span, help=help)
            elif key.value == "<<" and key.plain:
                help = "repeat the keys, or give the whole value an &anchor"
                self.say("CG014", "YAML 1.2 has no merge key `<<`", key.span, help=help)
            elif key.value in first:
                note = f"first at line {first[key.value].line}, column {first[key.value].column}"
                self.say("CG010", f"the key `{shown(key.value)}` is written twice", key.span, notes=(note,))
            else:
                first[key.value] = key.span
                yield key, value

    def mend_mapping(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        """`{A: (4,1), ...}` arrives as `A: "(4"` and the key `1)`: say so, and put the pieces together again."""
        mended: list[tuple[Node, Node]] = []
        at = 0
        while at < len(pairs):
            key, value = pairs[at]
            follow = [k for k, _ in takewhile(lambda pair: _is_empty(pair[1]), pairs[at + 1 : at + 65])]
            joined, used = self.joined(value, follow) if _is_cut(value) else (value, 0)
            mended.append((key, joined))
            at += 1 + used
        return mended

    def mend_sequence(self, items: list[Node]) -> list[Node]:
        mended: list[Node] = []
        at = 0
        while at < len(items):
            joined, used = self.joined(items[at], items[at + 1 : at + 65]) if _is_cut(items[at]) else (items[at], 0)
            mended.append(joined)
            at += 1 + used
        return mended

    def joined(self, start: Node, pieces: list[Node]) -> tuple[Node, int]:
        assert isinstance(start, ScalarNode)
        text, used = start.text, 0
        for piece in pieces:
            complete = text.count("(") <= text.count(")")
            if complete or not isinstance(piece, ScalarNode) or not piece.plain:
                break
            comma = ", " if "=" in text else ","
            text, used = f"{text}{comma}{piece.text}", used + 1
        if not used:
            return start, 0
        what = "assignment" if "=" in text else "layout"  # no layout has that sign
        message = f"YAML cut this {what} at its commas, as it does inside {{ }} and [ ]"
        self.say("CG015", message, start.span, help=f'quote it: "{shown(text, 80)}"')
        return ScalarNode(text, text, start.span, True), used


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.plain and node.text == ""


def _is_cut(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.plain and node.text.count("(") > node.text.count(")")
