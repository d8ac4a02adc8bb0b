"""Specs that editors know without being told: the schema beside them, and the line that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.errors import CutegenError
from cutegen.language.schema import schema_text
from cutegen.project.editors import HEADER, SCHEMA_NAME, connect
from cutegen.project.starter import starter_text

TEXT = starter_text("mine", "elementwise").removeprefix(HEADER)


def test_a_spec_of_ones_own_is_connected_once(tmp_path: Path) -> None:
    spec, other = tmp_path / "a" / "mine.yaml", tmp_path / "b" / "mine.yml"
    for path in (spec, other):
        path.parent.mkdir()
        path.write_text(TEXT)
    other.write_text(f"# yaml-language-server: $schema=../schema.json\n{TEXT}")
    done = connect([spec, other])
    assert done.specs == (spec,) and set(done.schemas) == {spec.parent / SCHEMA_NAME, other.parent / SCHEMA_NAME}
    assert spec.read_text() == HEADER + TEXT and json.loads((spec.parent / SCHEMA_NAME).read_text())
    before, after = (generate(text, "a").modules[0].text for text in (TEXT, spec.read_text()))
    assert before == after  # so that no module is stale for it
    again = connect([spec, other])
    assert (again.specs, again.schemas) == ((), ())


def test_the_schema_of_another_version_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SCHEMA_NAME).write_text('{"title": "cutegen kernel spec, version 0"}')
    (tmp_path / "mine.yaml").write_text(HEADER + TEXT)
    assert connect([tmp_path / "mine.yaml"]).schemas == (tmp_path / SCHEMA_NAME,)
    assert (tmp_path / SCHEMA_NAME).read_text() == schema_text()


def test_a_file_of_others_stays_and_no_spec_is_changed(tmp_path: Path) -> None:
    (tmp_path / SCHEMA_NAME).write_text('{"title": "mine"}')
    (tmp_path / "mine.yaml").write_text(TEXT)
    with pytest.raises(CutegenError, match="not a schema of cutegen"):
        connect([tmp_path / "mine.yaml"])
    assert (tmp_path / "mine.yaml").read_text() == TEXT


@pytest.mark.parametrize(("before", "end"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n")])
def test_marks_and_ends_of_lines_stay(tmp_path: Path, before: bytes, end: bytes) -> None:
    spec, body = tmp_path / "mine.yaml", TEXT.encode().replace(b"\n", end)
    spec.write_bytes(before + body)
    connect([spec])
    assert spec.read_bytes() == before + HEADER.encode().replace(b"\n", end) + body
