"""YAML: what scalars mean, where things are, and that nothing hostile gets further than a diagnostic."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cutegen.language.diagnostics import Span, SpecError, render_text
from cutegen.language.document import MapNode, ScalarNode, parse_documents, plain, spans
from cutegen.language.reader import load_specs, read_specs


def value(text: str) -> object:
    documents, found = parse_documents(f"x: {text}\n")
    assert not found
    return plain(documents[0])["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"), ("none", "none"),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"), ("N", "N"), ("tRUE", "tRUE"),
        ("0", 0), ("12", 12), ("-12", -12), ("+12", 12), ("007", 7), ("0o17", 15), ("0x1F", 31), ("0b11", "0b11"),
        ("-0x1F", "-0x1F"), ("0o8", "0o8"), ("1_000", "1_000"), ("4:1", "4:1"), ("1:30:00", "1:30:00"),
        ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-1.5e-3", -1.5e-3), ("1e3", 1000.0), ("1E+3", 1000.0), ("1e", "1e"),
        (".inf", math.inf), ("-.Inf", -math.inf), ("+.INF", math.inf), ("inf", "inf"), (".iNF", ".iNF"), (".", "."),
        ("2024-01-01", "2024-01-01"), ("(4,1):(1,4)", "(4,1):(1,4)"), ("=", "="), ("1.2.3", "1.2.3"),
        ("'4'", "4"), ('"true"', "true"), ("!!str 4", "4"), ("! 4", "4"), ("!!int '4'", 4), ("!!float 4", 4.0),
        ("!!bool 'true'", True), ("!!null ''", None), ("|\n  a\n  b", "a\nb\n"), (">\n  a\n  b", "a b\n"), ("٤", "٤"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected and type(found) is type(expected)


def test_not_a_number() -> None:
    for text in (".nan", ".NaN", ".NAN"):
        found = value(text)
        assert isinstance(found, float) and math.isnan(found)
    assert value("nan") == "nan"


def test_every_key_and_value_has_a_place() -> None:
    documents, _ = parse_documents("a: {b: 12, 'c': [x, \"yy\"]}\nd:\n  - e: |\n      text\n")
    keys, values = spans(documents[0])
    assert keys == {
        ("a",): Span(1, 1, 1), ("a", "b"): Span(1, 5, 1), ("a", "c"): Span(1, 12, 3), ("d",): Span(2, 1, 1),
        ("d", 0, "e"): Span(3, 5, 1),
    }  # fmt: skip
    assert values["a", "b"] == Span(1, 8, 2)
    assert values["a", "c", 1] == Span(1, 21, 4)
    assert values["a",] == Span(1, 4, 23)
    assert values["d", 0, "e"].line == 3


def test_a_part_of_a_scalar_has_a_place_where_it_stands_as_written() -> None:
    documents, _ = parse_documents("a: abc\nb: 'abc'\nc: \"a\\tc\"\nd: >\n  abc\ne: &x !!str abc\n")
    root = documents[0]
    assert isinstance(root, MapNode)
    at = {}
    for key, node in root.entries:
        assert isinstance(node, ScalarNode)
        at[key.value] = node.place(1, 2)
    assert at["a"] == Span(1, 5, 1)
    assert at["b"] == Span(2, 6, 1)
    assert at["c"] == Span(3, 4, 6)  # escapes: the whole
    assert at["d"].line == 4
    assert at["e"] == Span(6, 14, 1)


def codes(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_specs(text)
    return [d.code for d in caught.value.diagnostics]


def test_aliases_stand_for_what_they_name() -> None:
    documents, found = parse_documents("a: &x {k: [1, 2]}\nb: *x\n? &k key\n: *k\n")
    assert not found
    assert plain(documents[0]) == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "key": "key"}


def test_aliases_are_bounded() -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 20):
        laughs += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    assert codes(laughs) == ["CG009"]
    long_text = "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 9 + "*a]\n"
    assert codes(long_text) == ["CG009"]
    deep = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 80))
    assert codes(deep) == ["CG008"]


def test_anchors_end_with_their_document() -> None:
    _, found = parse_documents("a: &x 1\n---\nb: *x\n")
    assert [d.code for d in found] == ["CG013"]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("", "CG007", (1, 1)),
        ("# only a comment\n", "CG007", (1, 1)),
        ("\n\n", "CG007", (1, 1)),
        ("a: b\n---\n", "CG007", (2, 1)),
        ("- a\n- b\n", "CG103", (1, 1)),
        ("just text\n", "CG103", (1, 1)),
        ("4\n", "CG103", (1, 1)),
        ("a: [1, 2\n", "CG005", (2, 1)),
        ("a: 'x\n", "CG005", (2, 1)),
        ("a: b\n c: d\n", "CG005", (2, 3)),
        ("\tx: 1\n", "CG006", (1, 1)),
        ("a: @x\n", "CG005", (1, 4)),
        ("a: \ud800\n", "CG004", (1, 4)),
        ("%YAML 1.1\n---\na: b\n", "CG016", (1, 1)),
        ("{" * 70, "CG008", (1, 65)),
    ],
)
def test_text_that_is_no_spec(text: str, code: str, place: tuple[int, int]) -> None:
    with pytest.raises(SpecError) as caught:
        read_specs(text)
    first = next(d for d in caught.value.diagnostics if d.code == code)
    assert (first.span.line, first.span.column) == place


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 10_000_000, "CG003"),
        ("[" * 900_000, "CG008"),
        ("{a: " * 200_000, "CG008"),
        ("- " * 400_000, "CG008"),
        ("a: b\n" * 150_000, "CG009"),
        ("x: '" + "\\" * 900_000, "CG005"),
        ("(" * 100_000, "CG103"),
        ("a: " + "9" * 100_000, "CG017"),
        ("&a " * 100_000, "CG005"),
    ],
)
def test_hostile_text_is_refused(text: str, code: str) -> None:
    assert code in codes(text)


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_what_ends_a_line_in_yaml_1_1_only_is_a_character(character: str) -> None:
    (root,), problems = parse_documents(f"a: x{character}y\nb: [1,  # {character}c: 2\n 'z{character}', \"\\N\"]\n")
    assert not problems
    assert plain(root) == {"a": f"x{character}y", "b": [1, f"z{character}", "\x85"]}
    assert isinstance(root, MapNode) and (root.entries[1][0].span.line, root.entries[1][0].span.column) == (2, 1)
    _, (wrong,) = parse_documents(f"a: x{character}y\nb{character}: *q{character}")
    assert (wrong.span.line, wrong.span.column) == (2, 7) and character not in wrong.message
    text = f"cutegen: 1\nkernel: a{character}b\nsummary: {character}\nnothing: 1\n"
    with pytest.raises(SpecError) as caught:
        read_specs(text)
    for found in caught.value.diagnostics:
        assert f"{found.span.line} | {text.split(chr(10))[found.span.line - 1]}" in render_text(found, text)


def test_a_byte_order_mark_is_no_character() -> None:
    documents, found = parse_documents("\ufeffa: 1\n")
    assert not found
    assert spans(documents[0])[0]["a",] == Span(1, 1, 1)


# --------------------------------------------------------------------------------------------------------- files


def load_codes(file: Path) -> tuple[list[str], str, Span]:
    with pytest.raises(SpecError) as caught:
        load_specs(file, "shown.yaml")
    first = caught.value.diagnostics[0]
    return [d.code for d in caught.value.diagnostics], first.path, first.span


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert load_codes(tmp_path / "absent.yaml")[:2] == (["CG001"], "shown.yaml")
    assert load_codes(tmp_path)[0] == ["CG001"]
    assert load_codes(tmp_path / "nul\0.yaml")[0] == ["CG001"]
    assert load_codes(tmp_path / ("long" * 200))[0] == ["CG001"]
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert load_codes(loop)[0] == ["CG001"]
    closed = tmp_path / "closed.yaml"
    closed.write_text("a: b")
    closed.chmod(0)
    if not os.access(closed, os.R_OK):  # root reads everything
        assert load_codes(closed)[0] == ["CG001"]


def help_of(file: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_specs(file)
    return caught.value.diagnostics[0].help or ""


def test_a_large_file_is_not_said_to_be_as_long_as_what_was_read_of_it(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    for text in ("a" * 5_000_000, "ä€" * 2_000_000):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SpecError) as caught:
            load_specs(file)
        assert [(d.code, d.message) for d in caught.value.diagnostics] == [
            ("CG003", "the file has more than 1000000 characters")
        ]


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes("cutegen: 1\nkernel: ä".encode() + b"\xff\n")
    assert load_codes(file) == (["CG002"], "shown.yaml", Span(2, 10))
    file.write_bytes("cutegen: 1\n".encode("utf-16"))
    assert load_codes(file)[0] == ["CG002"]
    assert "UTF-16" in help_of(file)
    file.write_bytes("cutegen: 1\n".encode("utf-16-le"))
    assert load_codes(file)[0] == ["CG004"]
    assert "UTF-16" in help_of(file)
    file.write_bytes(b"cutegen: 1\nkernel: a\0\n")
    assert "UTF-16" not in help_of(file)
    file.write_bytes("ä€".encode() * 2_000_000)
    assert load_codes(file)[0] == ["CG003"]
    file.write_bytes(b"")
    assert load_codes(file)[0] == ["CG007"]


def test_importing_the_room_stays_light() -> None:
    heavy = {"torch", "cutlass", "jsonschema", "rich", "numpy"}
    code = f"import cutegen.language.reader, sys; assert not {heavy!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
