"""Modules of several projects in one folder: each says which spec it is of, and none is overwritten for another's."""

from __future__ import annotations

from pathlib import Path

import pytest
from building_kit import spec_text

from cutegen.console import PlainProgress
from cutegen.project.selection import select
from cutegen.verbs.building.build import Options, build

FLAGS = Options(compile=False, verify=False)


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("marked", [False, True], ids=["no project", "project"])
def test_two_specs_of_one_name_do_not_take_each_others_file(tmp_path: Path, folder: bool, marked: bool) -> None:
    specs = {}
    for name, more in (("a", ""), ("b", "divisible: {N: 8}\n")):
        specs[name] = tmp_path / name / "one.yaml"
        specs[name].parent.mkdir()
        specs[name].write_text(spec_text("one", more))
        if marked:
            (tmp_path / name / "pyproject.toml").touch()
    asked = {name: file.parent if folder else file for name, file in specs.items()}
    out = tmp_path / "modules"
    for again in ("written", "unchanged"):
        report = build(select([asked["a"]], out), FLAGS, PlainProgress())
        assert [k.action for k in report.kernels] == [again]
    before = (out / "one.py").read_bytes()
    assert b" from ../a/one.yaml: edit that" in before

    report = build(select([asked["b"]], out), FLAGS, PlainProgress())
    (problem,) = report.problems
    assert report.exit_code == 1 and "it is generated from ../a/one.yaml, which has a kernel" in problem.message
    assert (out / "one.py").read_bytes() == before

    specs["a"].unlink()
    assert build(select([asked["b"]], out), FLAGS, PlainProgress()).exit_code == 0, "there is nothing to keep it for"


def test_inside_of_a_project_names_start_at_its_root(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    file = tmp_path / "one.yaml"
    file.write_text(spec_text("one"))
    assert [spec.name for spec in select([file], tmp_path / "elsewhere" / "modules").files] == ["one.yaml"]
