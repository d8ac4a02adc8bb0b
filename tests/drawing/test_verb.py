"""`cutegen show` through its command line: what it draws of what, where to, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from specs_kit import ROOT

from cutegen.cli import cli
from cutegen.cli.show import DTYPES, _listed
from cutegen.dtypes import Dtype

SPEC = ROOT / "specs/sgemm_mmajor.yaml"
TV = "((2,2),(2,3)):((2,12),(1,4))"


def show(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["show", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_layout_on_the_terminal() -> None:
    result = show("(4,8):(8,1)")
    assert result.exit_code == 0 and result.stderr == ""
    assert "     3 │ 24 25 26 27 28 29 30 31\n" in result.stdout
    assert "\x1b" not in result.stdout  # no colour where there is no terminal


def test_an_expression_of_layout_algebra() -> None:
    assert "((2,4),(2,2)):((8,1),(16,4))" in show("zipped_divide((4,8):(8,1), (2,4))").stdout
    data = json.loads(show("make_layout_tv((4,32):(32,1), (4,4):(4,1))", "--format", "json").stdout)
    (grid,) = data["pictures"][0]["panels"]
    assert grid["cells"][0][31]["label"] == ["T31", "V0-3"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_banks_know_every_type(dtype: str) -> None:
    result = show("(4,8)", "--banks", dtype)
    assert result.exit_code == 0 and f"{Dtype(dtype).bytes}-byte elements" in result.stdout


def test_types_are_those_of_the_language() -> None:
    assert list(DTYPES) == [dtype.value for dtype in Dtype]


def test_json_has_the_pictures(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    data = json.loads(show(TV, "--tv", "--format", "json", "-o", file).stdout)
    assert {key: data[key] for key in ("verb", "ok", "exit_code")} == {"verb": "show", "ok": True, "exit_code": 0}
    assert data["written"] == [str(file)] and file.exists()
    (picture,) = data["pictures"]
    assert picture["kernel"] is None and picture["name"] == "threads"
    owners = [cell["owners"] for row in picture["panels"][0]["cells"] for cell in row]
    assert sorted(owner for mine in owners for owner in mine) == [[t, v] for t in range(4) for v in range(6)]


def test_files_by_their_ending(tmp_path: Path) -> None:
    names = ["a.svg", "deep/b.png", "c.TXT"]
    result = show(TV, "--tv", "--tile", "4x6", *(x for name in names for x in ("-o", tmp_path / name)))
    assert result.stdout == "".join(f"wrote {tmp_path / name}\n" for name in names)
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "deep/b.png").read_bytes().startswith(b"\x89PNG")
    assert "T3 V5" in (tmp_path / "c.TXT").read_text()
    before = (tmp_path / "a.svg").read_bytes()
    show(TV, "--tv", "--tile", "24,1", "-o", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() != before and sorted(os.listdir(tmp_path)) == ["a.svg", "c.TXT", "deep"]


def test_nothing_is_written_if_one_file_cannot_be(tmp_path: Path) -> None:
    result = show("(4,8)", "-o", tmp_path / "a.svg", "-o", tmp_path / "b.pdf")
    assert result.exit_code == 2 and "does not end in .svg, .png, .txt, .html" in result.stderr
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(prefix: str, dir: Path) -> str:
        raise PermissionError(13, "Permission denied", str(dir / f"{prefix}x"))

    monkeypatch.setattr(tempfile, "mkdtemp", denied)
    result = show("(4,8)", "-o", tmp_path / "x.svg")
    assert result.exit_code == 2 and result.stderr == f"error: {tmp_path}: Permission denied\n"


def test_a_kernel_on_the_terminal() -> None:
    result = show(SPEC)
    assert result.exit_code == 0
    for title in ("Which block computes which tile of C", "3 stages of shared memory over time", "How B reaches"):
        assert title in result.stdout


def test_one_picture_of_a_kernel(tmp_path: Path) -> None:
    show(SPEC, "--picture", "pipeline", "-o", tmp_path / "p.svg")
    assert "wait_group 1" in (tmp_path / "p.svg").read_text()
    result = show(SPEC, "--picture", "nothing")
    assert result.exit_code == 2 and "its pictures are tile-walk, pipeline, copy-a" in result.stderr
    result = show(SPEC, "-o", tmp_path / "q.svg")
    assert (
        result.exit_code == 2 and "holds one picture, and there are 7" in result.stderr and "--picture" in result.stderr
    )


def test_pictures_of_many_kernels_are_listed_as_ranges() -> None:
    names = [f"{name}-{number}" for number in range(1, 5) for name in ("roles", "stage-a")] + ["cluster-2", "cluster-4"]
    assert _listed(names) == "roles-1 to roles-4, stage-a-1 to stage-a-4, cluster-2, cluster-4"
    assert _listed(["tile-walk", "pipeline"]) == "tile-walk, pipeline"


def test_a_page(tmp_path: Path) -> None:
    result = show(SPEC, "-o", tmp_path / "page.html")
    assert result.exit_code == 0 and (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_page_for_each_kernel_of_a_matrix(tmp_path: Path) -> None:
    matrix = ROOT / "specs/sgemm.yaml"
    result = show(matrix, "--picture", "tile-walk", "-o", tmp_path / "x.html")
    assert result.exit_code == 2 and "there are 8" in result.stderr and "sgemm_kkn" in result.stderr
    show(matrix, "--kernel", "sgemm_kkn", "-o", tmp_path / "x.html")
    assert "<title>sgemm_kkn</title>" in (tmp_path / "x.html").read_text()
    result = show(matrix, "-o", tmp_path / "pages", "--picture", "tile-walk")
    assert len(os.listdir(tmp_path / "pages")) == 8 and result.stdout.count("wrote") == 8
    assert show(matrix, "--kernel", "other").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["(4,8"], "never closed"),
        (["nothing.yaml"], "nothing.yaml"),
        (["specs/nothing"], "nothing"),
        ([SPEC, "--tv"], "a spec is drawn alone"),
        ([SPEC, "(4,8)"], "a spec is drawn alone"),
        (["(4,8)", "--picture", "x"], "are for a spec"),
        (["(4,8)", "--kernel", "x"], "are for a spec"),
        (["(4,8)", "-o", "x.html"], "a page shows a kernel"),
        (["(4,8)", "-o", "x"], "x would be a page, or a folder of pages, and a page shows a kernel, not a layout"),
        (["(4,8)", "--tile", "4,8"], "a tile is for thread-value layouts"),
        (["(4,8)", "--banks", "f8"], "f8"),
        ([], "Missing argument"),
    ],
)
def test_wrong_use(arguments: list[Any], message: str) -> None:
    result = show(*arguments)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""
    data = json.loads(show(*arguments, "--format", "json").stdout)
    assert data["exit_code"] == 2 and (message in data.get("error", "") or data["diagnostics"])


def test_a_spec_with_errors_is_not_drawn(tmp_path: Path) -> None:
    spec = tmp_path / "bad.yaml"
    spec.write_text(SPEC.read_text().replace("stages: 3", "stages: 300"))
    result = show(spec)
    assert result.exit_code == 2 and "error[CG" in result.stderr and result.stdout == ""


def test_without_the_characters_of_boxes() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "cutegen", "show", "(4,8):(8,1)"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"     3 | 24 25" in run.stdout


@pytest.mark.parametrize("arguments", [["(4,8):(8,1)"], [str(SPEC), "-o", "page.html"]])
def test_neither_torch_nor_a_plotting_library_is_loaded(arguments: list[str], tmp_path: Path) -> None:
    script = (
        "import sys; from cutegen.cli import cli; cli(sys.argv[1:], standalone_mode=False);"
        "print([m for m in ('torch', 'cutlass', 'matplotlib', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, "show", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr.splitlines()[-1] == "[]"
