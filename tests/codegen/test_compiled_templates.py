"""Compiled templates are kept between runs, and decide nothing about what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from cutegen.codegen import compiled_templates
from cutegen.codegen.compiled_templates import CompiledTemplates


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "templates"


class Counting(Environment):
    """Counts what it compiles."""

    compiled = 0

    def _generate(self, *args: object, **named: object) -> str:
        self.compiled += 1
        return super()._generate(*args, **named)  # type: ignore[arg-type]


def printed(text: str) -> tuple[str, int]:
    """The text of a template as in a fresh process, and the number of templates compiled for it."""
    environment = Counting(loader=DictLoader({"a": text}), bytecode_cache=CompiledTemplates())
    return environment.get_template("a").render(x=3), environment.compiled


def test_a_template_is_compiled_once() -> None:
    assert [printed("{{ x }}"), printed("{{ x }}")] == [("3", 1), ("3", 0)]


def test_an_edit_is_seen_and_leaves_no_second_entry(folder: Path) -> None:
    printed("{{ x }}")
    assert printed("{{ x + 1 }}") == ("4", 1)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("tool", ["jinja2.__version__", "cutegen.codegen.compiled_templates.__version__"])
def test_what_another_version_compiled_is_not_used(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed("{{ x }}")
    compiled_templates._tools.cache_clear()
    monkeypatch.setattr(tool, "99.0")
    assert printed("{{ x }}") == ("3", 1)
    compiled_templates._tools.cache_clear()


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:-9] + bytes(9), lambda data: b""])
def test_a_damaged_entry_is_made_again(damage: object, folder: Path) -> None:
    printed("{{ x }}")
    (entry,) = folder.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))  # type: ignore[operator]
    assert printed("{{ x }}") == ("3", 1)
    assert printed("{{ x }}") == ("3", 0)


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.parent.write_text("a file")
    assert [printed("{{ x }}"), printed("{{ x }}")] == [("3", 1), ("3", 1)]


def test_nothing_is_left_where_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert printed("{{ x }}") == ("3", 1) and not list(folder.iterdir())
