"""Which specs are found, what headers call them, and where their modules go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cutegen.project.paths import quoted, readable, shown
from cutegen.project.selection import SelectionError, project_root, select


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("files", "spec", "root", "name"),
    [
        (["a/pyproject.toml", "a/specs/x.yaml"], "a/specs/x.yaml", "a", "specs/x.yaml"),
        (["a/.git", "a/k/deep/x.yaml"], "a/k/deep/x.yaml", "a", "k/deep/x.yaml"),
        (["a/pyproject.toml", "a/b/.git", "a/b/x.yaml"], "a/b/x.yaml", "a/b", "x.yaml"),
        (["a/specs/gemm/x.yaml"], "a/specs/gemm/x.yaml", "a", "specs/gemm/x.yaml"),
        (["a/specs/pyproject.toml", "a/specs/x.yaml"], "a/specs/x.yaml", "a/specs", "x.yaml"),
        (["a/kernels/x.yaml"], "a/kernels/x.yaml", "a/kernels", "x.yaml"),
    ],
)
def test_the_root_names_the_spec(tmp_path: Path, files: list[str], spec: str, root: str, name: str) -> None:
    make(tmp_path, *files)
    (found,) = select([tmp_path / spec]).files
    assert (found.root, found.name, found.out) == (tmp_path / root, name, tmp_path / root / "generated")


def test_the_name_does_not_depend_on_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "p/pyproject.toml", "p/specs/x.yaml", "elsewhere/y")
    names = set()
    for here, argument in (("p", "specs/x.yaml"), ("p/specs", "x.yaml"), ("elsewhere", "../p/specs/x.yaml")):
        monkeypatch.chdir(tmp_path / here)
        names |= {(spec.name, spec.out) for spec in select([Path(argument)]).files}
    assert names == {("specs/x.yaml", tmp_path / "p" / "generated")}


def test_a_folder_is_searched_in_one_order_and_each_file_taken_once(tmp_path: Path) -> None:
    make(tmp_path, "pyproject.toml", *(f"specs/{n}" for n in ("b.yaml", "a.yml", "sub/c.yaml", "notes.txt")))
    make(tmp_path, "specs/.hidden.yaml", "specs/.venv/d.yaml")
    names = [spec.name for spec in select([tmp_path / "specs", tmp_path / "specs/b.yaml"]).files]
    assert names == ["specs/a.yml", "specs/b.yaml", "specs/sub/c.yaml"]


def test_out_is_where_everything_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/pyproject.toml", "a/x.yaml", "b/pyproject.toml", "b/y.yaml")
    monkeypatch.chdir(tmp_path)
    assert {spec.out for spec in select([Path("a"), Path("b")], Path("o")).files} == {tmp_path / "o"}


def test_a_scope_holds_what_was_asked_for_and_no_more(tmp_path: Path) -> None:
    make(tmp_path, "pyproject.toml", "specs/x.yaml", "specs/sub/y.yaml")
    (folder,) = select([tmp_path / "specs"]).scopes
    (one,) = select([tmp_path / "specs/x.yaml"]).scopes
    (whole,) = select([tmp_path]).scopes
    held = {name: [folder.holds(name), one.holds(name), whole.holds(name)] for name in
            ("specs/x.yaml", "specs/gone.yaml", "specs/sub/gone.yaml", "specsx/z.yaml", "z.yaml")}  # fmt: skip
    assert held == {
        "specs/x.yaml": [True, True, True],
        "specs/gone.yaml": [True, False, True],
        "specs/sub/gone.yaml": [True, False, True],
        "specsx/z.yaml": [False, False, True],
        "z.yaml": [False, False, True],
    }


def test_projects_inside_a_folder_have_scopes_of_their_own(tmp_path: Path) -> None:
    make(tmp_path, "pyproject.toml", "kernels/x.yaml", "kernels/inner/pyproject.toml", "kernels/inner/y.yaml")
    scopes = {(scope.root.name, scope.name) for scope in select([tmp_path / "kernels"]).scopes}
    assert scopes == {(tmp_path.name, "kernels"), ("inner", "")}


def test_what_cannot_be_selected_says_why(tmp_path: Path) -> None:
    make(tmp_path, "sgemm.yaml", "empty/readme.txt", "bad\nname.yaml")
    for argument, message, help in (
        ("sgem.yaml", "does not exist", "did you mean"),
        ("empty", "no specs in", "cutegen init"),
        ("bad\nname.yaml", "cannot be printed", "rename"),
        ("nowhere/x.yaml", "does not exist", ""),
    ):
        with pytest.raises(SelectionError, match=message) as caught:
            select([tmp_path / argument])
        assert help in (caught.value.help or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, "specs/x.yaml", "specs/closed/y.yaml")
    (tmp_path / "specs/closed").chmod(0)
    try:
        with pytest.raises(SelectionError, match="closed cannot be read"):
            select([tmp_path / "specs"])
    finally:
        (tmp_path / "specs/closed").chmod(0o700)


def test_the_root_of_a_folder_of_specs_is_that_of_its_specs(tmp_path: Path) -> None:
    make(tmp_path, "specs/x.yaml")
    assert project_root(tmp_path / "specs", folder=True) == project_root(tmp_path / "specs/x.yaml") == tmp_path


@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_pipe_or_a_socket_is_refused_before_it_is_read(tmp_path: Path, named: str) -> None:
    make(tmp_path, "specs/x.yaml")
    os.mkfifo(tmp_path / "specs/pipe.yaml")
    with pytest.raises(SelectionError, match="pipe.yaml is a pipe, not a file"):
        select([tmp_path / "specs" if named == "folder" else tmp_path / "specs/pipe.yaml"])
    with pytest.raises(SelectionError, match="/dev/zero is a device"):
        select([Path("/dev/zero")])
    (tmp_path / "specs/pipe.yaml").unlink()
    os.symlink("x.yaml", tmp_path / "specs/link.yaml")
    assert len(select([tmp_path / "specs"]).files) == 2


def test_paths_that_are_not_text_can_be_printed(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"b\xff") / "x.yaml"
    assert shown(odd).endswith("/b\\xff/x.yaml") and readable("\ud800é") == "\\ud800é"
    shown(odd).encode("utf-8")
    assert quoted(tmp_path / "my x.yaml").endswith("my x.yaml'") and quoted("x.yaml") == "x.yaml"
