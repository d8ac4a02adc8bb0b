"""Receipts on the command line: `build --check`, `verify --receipts`, `receipts`, and the table in the docs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from building_kit import StandInCompiler, StandInVerifier, project, put, snapshot, spec_text, units_of
from click.testing import CliRunner, Result
from receipts_kit import MACHINE, measured, put_receipt, receipt
from specs_kit import modules_of

from cutegen.cli import cli
from cutegen.measuring.model import Timing
from cutegen.project.selection import select
from cutegen.project.sources import Unit
from cutegen.receipts.beside_modules import receipt_of, receipt_states, units_by_file
from cutegen.receipts.receipt_text import parse
from cutegen.receipts.table import END, NONE, START, markdown, put_into

ROOT = Path(__file__).parents[2]
FOLDER = "generated/receipts/nvidia-test-9"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", StandInCompiler())
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: "no emulator in this test")
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def cutegen(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def built(folder: Path, *names: str) -> Path:
    specs = project(folder, *names)
    put(specs)
    for unit in units_of(specs):
        put_receipt(unit)
    return specs


def test_check_names_each_receipt_and_what_to_do(tmp_path: Path) -> None:
    specs = built(tmp_path, "current", "stale", "edited", "invalid", "orphaned")
    (specs / "stale.yaml").write_text(spec_text("stale").replace("A + B", "A * B"))
    folder = tmp_path / FOLDER
    (folder / "edited.json").write_text((folder / "edited.json").read_text().replace('"us": 10', '"us": 1'))
    (folder / "invalid.json").write_text((folder / "invalid.json").read_text()[:200])
    (specs / "orphaned.yaml").unlink()
    (folder / "foreign.json").write_text("{}")
    before = snapshot(tmp_path)
    result = cutegen("build", "--check", specs)
    assert result.exit_code == 1 and snapshot(tmp_path) == before
    said = dict(line.split(": ", 2)[:2] for line in result.stdout.splitlines() if line.startswith(FOLDER))
    assert said == {f"{FOLDER}/{name}.json": name for name in ("edited", "invalid", "orphaned", "stale")}
    assert "`cutegen bench specs/stale.yaml --receipts` measures again" in result.stdout
    assert "6 of 10 generated files are not current" in result.stderr
    data = json.loads(cutegen("build", "--check", specs, "--format", "json").stdout)
    kinds = {f["file"]: (f["kind"], f["state"]) for f in data["files"]}
    assert kinds[f"{FOLDER}/current.json"] == ("receipt", "current")
    assert kinds["generated/current.py"] == ("module", "current") and len(kinds) == 10


def test_after_a_build_check_is_green_without_a_gpu(tmp_path: Path) -> None:
    specs = built(tmp_path, "one", "two")
    assert cutegen("build", "--check", specs).exit_code == 0
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A * B"))
    assert cutegen("build", "--check", specs).exit_code == 1
    result = cutegen("build", specs, "--no-verify")
    assert result.exit_code == 0 and f"removed {FOLDER}/one.json" in result.stdout
    assert "cutegen bench specs/one.yaml --receipts" in result.stderr
    assert cutegen("build", "--check", specs).exit_code == 0


def test_the_diff_shows_what_a_build_does_to_receipts(tmp_path: Path) -> None:
    specs = built(tmp_path, "one")
    assert cutegen("build", "--diff", specs).exit_code == 0
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A * B"))
    result = cutegen("build", "--diff", specs)
    assert result.exit_code == 1 and f"--- a/{FOLDER}/one.json\n+++ /dev/null\n" in result.stdout


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier())
    monkeypatch.setattr("cutegen.measuring.machine.this_machine", lambda: MACHINE)


def test_verify_keeps_what_it_found_only_if_asked(tmp_path: Path, gpu: None) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    before = snapshot(tmp_path)
    assert cutegen("verify", specs, "--on", "gpu").exit_code == 0 and snapshot(tmp_path) == before
    result = cutegen("verify", specs, "--on", "gpu", "--receipts")
    assert result.exit_code == 0 and f"{FOLDER}/one.json written" in result.stdout
    found = parse((tmp_path / FOLDER / "one.json").read_bytes())
    assert found.verified is not None and not found.measured and found.gpu.name == MACHINE.gpu
    assert [dict(case.shape) for case in found.verified.cases] == [{"M": 3, "N": 5}]
    data = json.loads(cutegen("verify", specs, "--on", "gpu", "--receipts", "--format", "json").stdout)
    assert data["ok"] and data["receipts"] == {"written": [f"{FOLDER}/one.json"], "notices": [], "problems": []}
    assert cutegen("build", "--check", specs).exit_code == 0


def test_verify_fails_where_a_receipt_cannot_be_kept(tmp_path: Path, gpu: None) -> None:
    specs = project(tmp_path, "one")
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "one.json").write_text("mine")
    result = cutegen("verify", specs, "--on", "gpu", "--receipts")
    assert (
        result.exit_code == 1
        and f"error: {FOLDER}/one.json: nothing was recorded: a file that is no receipt" in result.stderr
    )


def test_a_kernel_that_fails_leaves_no_receipt(tmp_path: Path, gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier("failed"))
    specs = project(tmp_path, "one")
    assert cutegen("verify", specs, "--on", "gpu", "--receipts").exit_code == 1
    assert not (tmp_path / "generated").exists()


def test_the_emulator_leaves_no_receipts(tmp_path: Path) -> None:
    result = cutegen("verify", project(tmp_path, "one"), "--on", "cpu", "--receipts")
    assert result.exit_code == 2 and "--on gpu" in result.stderr


# the table


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_table_says_what_was_measured(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    one, two = units_of(specs)
    peers = {"torch.add": Timing(50.0, 0.01, 30), "a|b": Timing(25.0, 0.01, 30)}
    big = measured({"M": 8192, "N": 4096}, 50.0, bytes=100_000_000, limit_us=40.0, peers=peers)
    warm = measured({"M": 8, "N": 8}, 2.5, bytes=10_000, limit_us=None, peers={}, l2="warm")
    put_receipt(one, receipt(one, big, warm))
    put_receipt(two, receipt(two, machine=replace(MACHINE, driver="7.7")))
    result = cutegen("receipts", specs)
    assert result.exit_code == 0
    assert "On NVIDIA Test 9, cutegen 0.0, driver 1.2, torch 3.4:" in result.stdout
    assert "On NVIDIA Test 9, cutegen 0.0, driver 7.7, torch 3.4:" in result.stdout
    found = {tuple(row[:2]): row[2:] for row in rows(result.stdout)}
    assert found["one", "M 8192, N 4096"] == ["50.00 us", "2000 GB/s", "80 %", "torch.add 1.00, a\\|b 0.50"]
    assert found["one", "M 8, N 8, L2 warm"] == ["2.500 us", "4 GB/s", "-", "-"]
    assert found["two", "M 8, N 16"] == ["10.00 us", "4 GB/s", "80 %", "torch.add 0.50"]


def test_a_matrix_product_is_told_in_operations(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/sgemm_mmajor.yaml").write_bytes((ROOT / "specs/sgemm_mmajor.yaml").read_bytes())
    (unit,) = units_of(tmp_path / "specs")
    put_receipt(unit, receipt(unit, measured({"M": 4096, "N": 4096, "K": 4096}, 2748.8, operations=2 * 4096**3)))
    assert rows(cutegen("receipts", "specs").stdout)[-1][:4] == [
        "sgemm_mmajor",
        "M 4096, N 4096, K 4096",
        "2749 us",
        "50 TFLOP/s",
    ]


def test_products_on_tensor_cores_are_held_to_the_data_sheet(tmp_path: Path) -> None:
    """Also in a receipt whose limit counts memory alone, and of no GPU whose data sheet is not known."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/gemm_f8.yaml").write_bytes((ROOT / "specs/gemm_f8.yaml").read_bytes())
    (unit,) = units_of(tmp_path / "specs")
    sizes = {"M": 8192, "N": 8192, "K": 8192}
    for gpu, share in (("NVIDIA H200", f"{2 * 8192**3 / 1979e12 / 800e-6:.0%}"), ("NVIDIA Test 9", "5%")):
        one = measured(sizes, 800.0, operations=2 * 8192**3, limit_us=40.0)
        path = put_receipt(unit, receipt(unit, one, machine=replace(MACHINE, gpu=gpu)))
        assert rows(cutegen("receipts", "specs").stdout)[-1][4] == share.replace("%", " %")
        path.unlink()


def test_what_does_not_belong_is_left_out_and_named(tmp_path: Path) -> None:
    specs = built(tmp_path, "one", "two")
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A * B"))
    result = cutegen("receipts", specs)
    assert result.exit_code == 1 and [row[0] for row in rows(result.stdout)] == ["kernel", "---", "two"]
    assert f"{FOLDER}/one.json is left out: stale" in result.stderr and "cutegen bench" in result.stderr
    data = json.loads(cutegen("receipts", specs, "--format", "json").stdout)
    assert not data["ok"] and [r["file"] for r in data["receipts"]] == [f"{FOLDER}/two.json"]
    assert data["receipts"][0]["measured"][0]["timing"]["us"] == 10
    assert [(f["file"], f["state"]) for f in data["left_out"]] == [(f"{FOLDER}/one.json", "stale")]


def test_without_receipts_it_says_how_they_come(tmp_path: Path) -> None:
    result = cutegen("receipts", project(tmp_path, "one"))
    assert (result.exit_code, result.stdout) == (0, f"{NONE}\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_table_goes_between_its_marks(tmp_path: Path, end: str) -> None:
    specs = built(tmp_path, "one")
    page = tmp_path / "page.md"
    page.write_bytes(f"# é{end}{START} old {END}{end}after{end}".encode())
    result = cutegen("receipts", specs, "--into", page)
    assert result.exit_code == 0 and not result.stdout and "page.md written" in result.stderr
    text = page.read_bytes().decode()
    table = cutegen("receipts", specs).stdout.replace("\n", end)
    assert text == f"# é{end}{START}{end}{end}{table}{end}{END}{end}after{end}"
    before = snapshot(tmp_path)
    again = cutegen("receipts", specs, "--into", page)
    assert again.exit_code == 0 and "page.md unchanged" in again.stderr and snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", START, END, f"{END}\n{START}", f"{START}{START}{END}", f"{START}{END}{END}"])
def test_a_page_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    specs = built(tmp_path, "one")
    (tmp_path / "page.md").write_text(text)
    result = cutegen("receipts", specs, "--into", "page.md")
    assert result.exit_code == 2 and START in result.stderr and (tmp_path / "page.md").read_text() == text


def test_a_page_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    specs = built(tmp_path, "one")
    (tmp_path / "page.md").write_bytes(b"\xff")
    assert "UTF-8" in cutegen("receipts", specs, "--into", "page.md").stderr
    assert cutegen("receipts", specs, "--into", "none.md").exit_code == 2


def test_the_documentation_says_what_the_receipts_say() -> None:
    """`make receipts-table` writes it."""
    selection = select([ROOT / "specs"])
    units = tuple(Unit(file, module) for file in selection.files for module in modules_of(file.file.stem).values())
    states = receipt_states(units, selection.scopes)
    made = units_by_file(states, units)
    assert {state.state for state in states} <= {"current"}
    table = markdown([(made[state.path], receipt_of(state)) for state in states])
    page = (ROOT / "docs/receipts.md").read_text(encoding="utf-8")
    assert put_into(page, table) == page, "run `make receipts-table`"
