"""Each state of a generated file, told from its header."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from building_kit import project, put, spec_text, states_of, units_of

from cutegen.codegen import render as render_module
from cutegen.project import state as state_module
from cutegen.project.state import advice, read_header


def test_what_was_just_generated_is_current(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    put(specs)
    assert {name: s.state for name, s in states_of(specs).items()} == {"one.py": "current", "two.py": "current"}


def test_missing(tmp_path: Path) -> None:
    assert states_of(project(tmp_path, "one"))["one.py"].state == "missing"


def test_stale_because_the_spec_changed(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    (specs / "one.yaml").write_text(spec_text("one").replace("C = A + B", "C = A - B"))
    found = states_of(specs)["one.py"]
    assert (found.state, found.why) == ("stale", "its spec changed")


def test_a_comment_in_the_spec_changes_nothing(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    (specs / "one.yaml").write_text("# a comment\n" + spec_text("one"))
    assert states_of(specs)["one.py"].state == "current"


def test_stale_because_another_cutegen_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    monkeypatch.setattr(render_module, "__version__", "9.9.9")
    found = states_of(specs)["one.py"]
    assert found.state == "stale" and "9.9.9" in found.why


def test_stale_because_the_generator_changed(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    path = put(specs) / "one.py"
    head, body = path.read_text().split("\n", 3)[:3], path.read_text().split("\n", 3)[3]
    older = body + "# an older generator wrote this line\n"
    head[2] = f"# body sha256: {render_module.digest(older)}"
    path.write_text("\n".join([*head, older]))
    found = states_of(specs)["one.py"]
    assert (found.state, found.why) == ("stale", "the generator changed")


def test_stale_because_the_spec_was_renamed(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    (specs / "one.yaml").rename(specs / "other.yaml")
    found = states_of(specs)["one.py"]
    assert found.state == "stale" and "specs/one.yaml" in found.why and "specs/other.yaml" in found.why


@pytest.mark.parametrize("where", ["body", "last line"])
def test_edited_by_hand(tmp_path: Path, where: str) -> None:
    specs = project(tmp_path, "one")
    path = put(specs) / "one.py"
    text = path.read_text()
    path.write_text(text.replace("import torch\n", "import torch  # mine\n") if where == "body" else text + "\n")
    assert states_of(specs)["one.py"].state == "edited"


def test_edited_wins_over_stale(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    path = put(specs) / "one.py"
    path.write_text(path.read_text() + "# mine\n")
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A * B"))
    assert states_of(specs)["one.py"].state == "edited"


def test_orphaned_when_the_spec_or_the_kernel_is_gone(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two", "three")
    put(specs)
    (specs / "one.yaml").unlink()
    (specs / "two.yaml").write_text(spec_text("renamed"))
    found = states_of(specs)
    assert {n: s.state for n, s in found.items()} == {
        "one.py": "orphaned",
        "two.py": "orphaned",
        "renamed.py": "missing",
        "three.py": "current",
    }
    assert found["one.py"].why == "specs/one.yaml is gone"
    assert found["two.py"].why == "specs/two.yaml makes no such kernel"
    assert found["one.py"].wanted is None


def test_an_orphan_outside_of_what_was_asked_for_is_not_looked_at(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    put(specs)
    (specs / "two.yaml").unlink()
    assert list(states_of(specs / "one.yaml")) == ["one.py"]
    assert states_of(specs)["two.py"].state == "orphaned"


def test_an_orphan_that_was_edited_counts_as_edited(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    path = put(specs) / "two.py"
    path.write_text(path.read_text() + "# mine\n")
    (specs / "two.yaml").unlink()
    found = states_of(specs)["two.py"]
    assert (found.state, found.wanted) == ("edited", None)


def test_what_is_in_the_way_is_foreign(tmp_path: Path) -> None:
    specs = project(tmp_path, "file", "folder", "binary", "link")
    out = tmp_path / "generated"
    (out / "folder.py").mkdir(parents=True)
    (out / "file.py").write_text("print('mine')\n")
    (out / "binary.py").write_bytes(b"\xff\xfe")
    os.symlink("nowhere", out / "link.py")
    assert {name: s.state for name, s in states_of(specs).items()} == dict.fromkeys(
        ("file.py", "folder.py", "binary.py", "link.py"), "foreign"
    )


def test_other_files_of_the_folder_are_nobodys_business(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    out = put(specs)
    (out / "__init__.py").write_text("")
    (out / "notes.txt").write_text("# Generated by cutegen\n")
    assert list(states_of(specs)) == ["one.py"]


def test_a_module_of_another_spec_is_not_taken_over_unless_both_are_asked_for(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    put(specs)
    (specs / "two.yaml").write_text(spec_text("one"))
    (specs / "one.yaml").write_text(spec_text("two"))
    found = states_of(specs / "two.yaml")
    assert found["one.py"].state == "foreign" and "specs/one.yaml" in found["one.py"].why
    assert {s.state for s in states_of(specs).values()} == {"stale"}


def test_a_header_survives_no_change_of_a_single_character(tmp_path: Path) -> None:
    """Whatever is changed in a generated file, it is not current any more."""
    specs = project(tmp_path, "one")
    path = put(specs) / "one.py"
    data = path.read_bytes()
    for place in [*range(0, 340, 7), *range(341, len(data), 997)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert states_of(specs)["one.py"].state in ("edited", "foreign", "stale"), place
        if place > 400:
            assert states_of(specs)["one.py"].state == "edited", place


def test_the_header_is_read_back(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    header = read_header((put(specs) / "one.py").read_bytes())
    assert header is not None and (header.spec, header.language, header.intact) == ("specs/one.yaml", 1, True)
    first = b"# Generated by cutegen 1 (language 1) from x: edit that, not this.\n"
    damaged = read_header(first)
    assert damaged is not None and (damaged.spec, damaged.intact) == ("x", False)
    assert read_header(b"# mine\n" + first) is None and read_header(first.replace(b"cutegen", b"another")) is None


def test_every_state_that_is_not_current_has_advice(tmp_path: Path) -> None:
    states = {"current", "stale", "missing", "orphaned", "edited", "foreign", "partial"}
    assert set(state_module.ADVICE) == states - {"current"}
    found = states_of(project(tmp_path, "one"))["one.py"]
    assert "cutegen build specs/one.yaml" in advice(found, None)


@pytest.mark.parametrize("spec_is_there", [True, False])
@pytest.mark.parametrize(
    "change", ["crlf", "cr", "bom", "no spec digest", "no body digest", "first line only", "binary"]
)
def test_a_damaged_header_is_an_edit_and_no_foreign_file(tmp_path: Path, change: str, spec_is_there: bool) -> None:
    """So that --force mends it."""
    specs = project(tmp_path, "one", "other")
    path = put(specs) / "one.py"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.write_bytes(
        {
            "crlf": data.replace(b"\n", b"\r\n"),
            "cr": data.replace(b"\n", b"\r"),
            "bom": b"\xef\xbb\xbf" + data,
            "no spec digest": b"".join(lines[:1] + lines[2:]),
            "no body digest": b"".join(lines[:2] + lines[3:]),
            "first line only": lines[0].rstrip(),
            "binary": data + b"\xff",
        }[change]
    )
    if not spec_is_there:
        (specs / "one.yaml").unlink()
    found = states_of(specs)["one.py"]
    assert (found.state, found.spec, found.wanted is None) == ("edited", "specs/one.yaml", not spec_is_there)


def test_advice_on_an_edited_orphan_names_no_spec_that_is_gone(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    path = put(specs) / "two.py"
    path.write_text(path.read_text() + "# mine\n")
    said = advice(states_of(specs)["two.py"], None)
    assert "put the change into" in said and "cutegen build --force specs/two.yaml" in said
    (specs / "two.yaml").unlink()
    said = advice(states_of(specs)["two.py"], None)
    assert "put the change into" not in said and "move it" in said and "--force" in said


def test_suggested_commands_quote_what_a_shell_would_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    specs = project(tmp_path)
    (specs / "my one.yaml").write_text(spec_text("one"))
    (unit,) = units_of(specs)
    assert "`cutegen build 'specs/my one.yaml'`" in advice(states_of(specs)["one.py"], unit)


def test_a_byte_that_is_no_text_is_an_edit_whatever_it_is_read_as(tmp_path: Path) -> None:
    specs = project(tmp_path)
    (specs / "one.yaml").write_text(spec_text("one").replace("op:", "summary: A \ufffd sign.\nop:"), encoding="utf-8")
    path = put(specs) / "one.py"
    data = path.read_bytes()
    assert data.count("\ufffd".encode()) >= 1
    path.write_bytes(data.replace("\ufffd".encode(), b"\xff"))
    assert states_of(specs)["one.py"].state == "edited"
