"""Another schedule in a spec's text, with every byte of the rest left as it is.

No YAML library writes back exactly what it read (ruamel.yaml keeps comments, but sets blanks, indentation and line
breaks anew), so single pieces of the text are exchanged, at the places where the parser found them. The result is read
again: unless it says what was wanted and nothing else, there is no edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.errors import CutegenError
from cutegen.language.document import parse_documents, plain
from cutegen.language.schema import schema
from cutegen.language.writer import scalar
from cutegen.tuning.pieces import MapPiece, Piece, ScalarPiece, documents

INDENT = 2  # of a file that has no indented key


class EditError(CutegenError):
    """Says that a spec's text cannot be edited without changing what else it says."""


@dataclass(frozen=True)
class Edit:
    """A change of a text: `text[start:end]` gives way to `new`."""

    start: int
    end: int
    new: str


class Sheet:
    """A spec file's text, with its own line ends, and the schedule of one of its documents, counted from 0."""

    def __init__(self, text: str, document: int = 0) -> None:
        """Reads the text of a spec that has no errors."""
        self.text = text
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        self._body = text.removeprefix(self._mark)
        self._data = _data(self._body)
        self._document = document
        self._editor = _Editor(self._body)
        self._root = documents(self._body)[document]

    @property
    def data(self) -> Mapping[str, Any]:
        """The document as plain data, with placeholders as they are written."""
        data: Mapping[str, Any] = self._data[self._document]
        return data

    @property
    def schedule(self) -> Mapping[str, Any]:
        """The schedule as plain data."""
        schedule: Mapping[str, Any] = self.data.get("schedule", {})
        return schedule

    @property
    def has_comments(self) -> bool:
        """Whether there are comments between the lines of the schedule, which cases are written in place of."""
        entry = self._root.entry("schedule") if isinstance(self._root, MapPiece) else None
        written = "" if entry is None else self._body[entry[0].start : entry[1].end]
        return re.search(r"(^|\s)#", written) is not None

    def with_schedule(self, schedule: Mapping[str, Any]) -> str:
        """The text with another schedule, which is plain data. Values that stay the same stay as they are written.

        An empty schedule removes the key. Raises EditError where that cannot be done without touching the rest.
        """
        wanted = {key: value for key, value in self.data.items() if key != "schedule"}
        if schedule:
            wanted["schedule"] = schedule
        return self._edited(self._editor.edits(self._root, self.data, wanted), wanted)

    def with_cases(self, cases: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
        """The text with a schedule of cases: what each is `for`, which says nothing of the rest, and its schedule.

        They are written anew, in the place of the schedule, each on lines of its own; `tune`, which is for a spec with
        one schedule, is taken out. Raises EditError where that cannot be done without touching the rest.
        """
        listed = [({"for": dict(conditions)} if conditions else {}) | dict(own) for conditions, own in cases]
        wanted = {key: value for key, value in self.data.items() if key != "tune"} | {"schedule": listed}
        return self._edited(list(self._editor.cases(self._root, listed)), wanted)

    def _edited(self, edits: Sequence[Edit], wanted: Mapping[str, Any]) -> str:
        """The text after edits. Raises EditError unless its document then says what is wanted, and others the same."""
        edited = apply_edits(self._body, edits)
        at = self._document
        if not same_value(_data(edited), [*self._data[:at], wanted, *self._data[at + 1 :]]):
            raise EditError("the edited text would say something else")
        return self._mark + edited


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text after all edits, which do not overlap. Of several edits at one place, the first one comes first."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*parts, text[at:]])


def same_value(one: Any, other: Any) -> bool:
    """Whether two plain values say the same to YAML: `1` is neither `1.0` nor `true`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return type(one) is type(other) and bool(one == other)


def _data(text: str) -> list[Any]:
    """All documents of a text as plain data. Raises EditError where the text is not YAML."""
    found, problems = parse_documents(text.replace("\r\n", "\n").replace("\r", "\n"))
    if problems:
        raise EditError(f"the edited text would not be YAML: {problems[0].message}")
    return [plain(document) for document in found]


class _Editor:
    """Finds the edits that bring the text of a mapping to other values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = next(iter(re.findall(r"\r\n|\n|\r", text)), "\n")

    def edits(self, root: Piece, data: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Edit]:
        """The edits that give a document's root other values."""
        if not isinstance(root, MapPiece):
            raise EditError("the document is not a mapping")
        schedule = schema()["definitions"].get(f"{data.get('op')}_schedule", {})
        node = {"properties": {**schema()["properties"], "schedule": schedule}}
        return list(self.mapping(root, data, wanted, node))

    def mapping(
        self, piece: MapPiece, data: Mapping[str, Any], wanted: Mapping[str, Any], node: Mapping[str, Any]
    ) -> Iterator[Edit]:
        """The edits that bring a mapping from `data` to `wanted`, which have at least one key in common.

        `node` is what the schema says of the mapping.
        """
        entries: dict[str, tuple[Piece, Piece]] = {}
        for key, old in data.items():
            entry = piece.entry(key)
            if entry is not None:
                entries[key] = entry
            elif key not in wanted or not same_value(old, wanted[key]):
                raise EditError(f"the key `{key}` is not written as a word")
        kept = [key for key in entries if key in wanted]
        if not kept:
            raise EditError("nothing is left to write the new keys beside")
        for key, entry in entries.items():
            if key not in wanted:
                yield self.removed(piece, entry, [entries[k][0].start for k in kept])
            elif not same_value(data[key], wanted[key]):
                yield from self.value(entry, piece.flow, data[key], wanted[key], _inner(node, key))
        new = {key: wanted[key] for key in wanted if key not in data}
        yield from self.inserted(piece, {key: entries[key] for key in kept}, new, list(node.get("properties", {})))

    def cases(self, root: Piece, cases: Sequence[Mapping[str, Any]]) -> Iterator[Edit]:
        """The edits that give a document's root a schedule of cases, where it has one or behind its last line."""
        if not isinstance(root, MapPiece) or root.flow:
            raise EditError("the document is not a block of keys")
        step, lines = " " * self.indentation(), ["schedule:"]
        for case in cases:
            keys = [f"{scalar(key, False)}: {self.shown(value, False, None)}" for key, value in case.items()]
            lines += [f"{step}{'- ' if number == 0 else '  '}{line}" for number, line in enumerate(keys or ["{}"])]
        text = "".join(line + self.newline for line in lines)
        named = root.entry("tune")
        if named is not None:
            yield Edit(self.line_start(named[0].start), self.line_end(named[1].end), "")
        entry = root.entry("schedule")
        if entry is not None:
            yield Edit(self.line_start(entry[0].start), self.line_end(entry[1].end), text)
            return
        at = self.line_end(root.entries[-1][1].end)
        yield Edit(at, at, text if self.text[at - 1] in "\r\n" else self.newline + text)

    def value(
        self, entry: tuple[Piece, Piece], flow: bool, old: Any, new: Any, node: Mapping[str, Any]
    ) -> Iterator[Edit]:
        """The edits that give the value of an entry another one."""
        key, piece = entry
        if isinstance(piece, MapPiece) and isinstance(new, Mapping) and any(name in new for name in old):
            yield from self.mapping(piece, old, new, node)
            return
        if isinstance(piece, MapPiece) and not piece.flow:  # a block becomes one line behind its key
            colon = self.text.index(":", key.end) + 1
            yield Edit(colon, colon, " " + self.shown(new, flow, None))
            yield Edit(self.line_start(piece.start), self.line_end(piece.end), "")
            return
        written = self.text[piece.start : piece.end]
        tail = written[len(written.rstrip()) :]  # of a block scalar: its line break
        style = piece.style if isinstance(piece, ScalarPiece) else None
        yield Edit(piece.start, piece.end, self.shown(new, flow, style) + tail)

    def shown(self, value: Any, flow: bool, style: str | None) -> str:
        """A value as it is written on one line; `style` is the quotes of the text that stood there."""
        if isinstance(value, Mapping):
            entries = (f"{scalar(str(k), True)}: {self.shown(v, True, None)}" for k, v in value.items())
            return "{" + ", ".join(entries) + "}"
        if isinstance(value, str):
            if style == "'" and value.isprintable():
                return "'" + value.replace("'", "''") + "'"
            if style == '"' and value.isprintable() and not set(value) & set('"\\'):
                return f'"{value}"'
            return scalar(value, flow)
        return str(value)

    # --------------------------------------------------------------------------------------------- fewer and more

    def removed(self, piece: MapPiece, entry: tuple[Piece, Piece], kept: Sequence[int]) -> Edit:
        """The edits that remove an entry. Comments of the entries around it stay; `kept` is where those begin."""
        key, value = entry
        if not piece.flow:
            self.margin(key)
            return Edit(self.line_start(key.start), self.line_end(value.end), "")
        number = next(i for i, (k, _) in enumerate(piece.entries) if k is key)
        if any(start > key.start for start in kept):  # with the comma behind it
            following = piece.entries[number + 1][0].start
            gap = self.text[value.end : following]
            return Edit(key.start, following if "#" not in gap else value.end + gap.index(",") + 1, "")
        before = piece.entries[number - 1][1].end  # with the comma before it
        return Edit(before if "#" not in self.text[before : key.start] else key.start, value.end, "")

    def inserted(
        self,
        piece: MapPiece,
        kept: Mapping[str, tuple[Piece, Piece]],
        new: Mapping[str, Any],
        order: Sequence[str],
    ) -> Iterator[Edit]:
        """The edits that insert new entries, each behind the last of those kept that the language puts before it."""

        def rank(key: str) -> int:
            return order.index(key) if key in order else -1

        places: dict[str | None, list[str]] = {}
        for key in sorted(new, key=rank):
            earlier = [k for k in kept if key not in order or rank(k) < rank(key)]
            places.setdefault(earlier[-1] if earlier else None, []).append(key)
        for place, keys in places.items():
            beside, value = kept[place] if place is not None else next(iter(kept.values()))
            if piece.flow:
                quote = self.text[beside.start] if self.text[beside.start] in "\"'" else ""
                texts = [f"{quote}{k}{quote}: {self.shown(new[k], True, quote or None)}" for k in keys]
                if place is None:
                    yield Edit(beside.start, beside.start, "".join(f"{t}, " for t in texts))
                else:
                    yield Edit(value.end, value.end, "".join(f", {t}" for t in texts))
                continue
            margin = self.margin(beside)
            lines = [line for k in keys for line in self.lines(k, new[k], margin)]
            at = self.line_start(beside.start) if place is None else self.line_end(value.end)
            if place is None or self.text[at - 1] in "\r\n":
                yield Edit(at, at, "".join(line + self.newline for line in lines))
            else:  # behind a last line without a line break
                yield Edit(at, at, "".join(self.newline + line for line in lines))

    def margin(self, key: Piece) -> str:
        """Returns the indentation of a key of a block mapping. Raises EditError where other text precedes the key."""
        margin = self.text[self.line_start(key.start) : key.start]
        if margin.strip():
            raise EditError("a key shares its line with something else")
        return margin

    def lines(self, key: str, value: Any, margin: str) -> list[str]:
        """A new entry of a block mapping. A schedule that was not there is a block too, as in every example."""
        if key == "schedule" and not margin:
            step = " " * self.indentation()
            return [f"{key}:", *(f"{step}{scalar(k, False)}: {self.shown(v, False, None)}" for k, v in value.items())]
        return [f"{margin}{scalar(key, False)}: {self.shown(value, False, None)}"]

    def indentation(self) -> int:
        """How many spaces the text indents by."""
        found = re.search(r"^( +)[^\s#-]", self.text, re.MULTILINE)
        return len(found[1]) if found else INDENT

    def line_start(self, at: int) -> int:
        """Where the line begins that holds the character at `at`."""
        while at > 0 and self.text[at - 1] not in "\r\n":
            at -= 1
        return at

    def line_end(self, at: int) -> int:
        """The end of the line that holds the character before `at`, behind its line break."""
        if at > 0 and self.text[at - 1] in "\r\n":  # a block scalar ends with its line
            return at
        while at < len(self.text) and self.text[at] not in "\r\n":
            at += 1
        return at + 2 if self.text[at : at + 2] == "\r\n" else min(at + 1, len(self.text))


def _inner(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns the schema of the value of one key of a mapping; empty where there is none."""
    found = node.get("properties", {}).get(key, node.get("additionalProperties"))
    return found if isinstance(found, Mapping) else {}
