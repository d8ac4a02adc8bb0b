"""The verb: what it asks to be measured, what it prints, and how it ends."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from benching_kit import FakeSession, run
from click.testing import Result

from cutegen.measuring import Failure, KernelResult, Request


def as_data(result: Result) -> Any:
    return json.loads(result.stdout)


def test_without_a_gpu_nothing_is_measured(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "no driver")
    result = run(specs, "--on", "gpu")
    assert result.exit_code == 2 and result.stdout == ""
    assert "nothing was measured: no driver" in result.stderr
    data = as_data(run(specs, "--format", "json"))
    assert data["ok"] is False and data["exit_code"] == 2 and "nothing was measured" in data["error"]


def test_a_table_of_figures(specs: Path, fake: type[FakeSession]) -> None:
    result = run(specs)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Test GPU, driver 580.1") and "torch 2.11" in lines[0]
    assert "copy 4000 GB/s" in lines[2] and "60 TFLOP/s" in lines[2]
    add = next(line for line in lines if line.startswith("add "))
    us = 2 * 3 * 8192**2 * 4 / 4000e9 * 1e6
    assert f"{us:.1f} us" in add and "2000 GB/s" in add and "50.0%" in add and "1.2%" in add and "cold" in add
    assert f"torch.add {us * 2 / 3:.1f} us, 0.667x" in add
    rows = [line for line in lines if line.startswith("mm ")]
    assert "4096 cubed" in rows[0] and "8192 cubed" in rows[1] and "30 TFLOP/s" in rows[0]
    assert "cuBLAS best layout" in rows[0]
    assert any("CPU time of a call" in line for line in lines)


def test_json_has_everything(specs: Path, fake: type[FakeSession]) -> None:
    data = as_data(run(specs, "--l2", "warm", "--rounds", 12, "--format", "json"))
    assert (data["verb"], data["ok"], data["exit_code"], data["l2"], data["rounds"]) == ("bench", True, 0, "warm", 12)
    assert data["machine"]["gpu"] == "Test GPU" and data["machine"]["limits"]["copy"] == 4000.0
    (add, mm) = data["kernels"]
    assert add["kernel"] == "add" and add["spec"].endswith("add.yaml") and len(add["code_hash"]) == 64
    (entry,) = add["measured"]
    assert entry["shape"] == {"M": 8192, "N": 8192} and entry["l2"] == "warm"
    assert entry["timing"]["rounds"] == 12 and entry["timing"]["spread"] == 0.012
    assert entry["against"] == {"torch.add": pytest.approx(2 / 3)}
    assert entry["of_limit"] == pytest.approx(0.5) and entry["gbs"] == pytest.approx(2000.0)
    assert mm["host"]["call"]["us"] == 4.0 and len(mm["measured"]) == 2


def test_what_is_asked_for(specs: Path, fake: type[FakeSession], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(*a): pass\n")
    sizes = ("--sizes", "M=64,N=128", "--sizes", "M=8,N=8")
    assert run(specs / "add.yaml", *sizes, "--vs", "mine.py:f", "--vs", "torch:add", "--l2", "warm").exit_code == 0
    (request,) = fake.asked
    assert request.shapes == ({"M": 64, "N": 128}, {"M": 8, "N": 8})
    assert request.vs == (f"{tmp_path.resolve()}/mine.py:f", "torch:add")
    assert (request.l2, request.peers, request.limits, request.host, request.check) == ("warm", True, True, True, True)


def test_one_kernel_of_several(specs: Path, fake: type[FakeSession]) -> None:
    run(specs, "--kernel", "mm")
    assert [request.plan.spec.kernel for request in fake.asked] == ["mm"]
    wrong = run(specs, "--kernel", "mmm")
    assert wrong.exit_code == 2 and "there are add, mm" in wrong.stderr


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("spread", 1, "varies"),
        ("wrong", 1, "varies"),
        ("crashed", 1, "the measurement ended: varies"),
        ("hung", 1, "the measurement hung: varies"),
        ("cannot run", 2, "not measured: varies"),
    ],
)
def test_how_it_ends_where_a_figure_is_missing(
    specs: Path, fake: type[FakeSession], kind: Any, code: int, words: str
) -> None:
    failure = Failure(kind, "add", {"M": 8192, "N": 8192}, "varies")

    def change(result: KernelResult) -> KernelResult:
        return KernelResult(result.kernel, "", (), (failure,)) if result.kernel == "add" else result

    fake.change = staticmethod(change)
    result = run(specs)
    assert result.exit_code == code
    assert f"error: add at 8192 x 8192: {words}" in result.stderr
    assert not any(line.startswith("add ") for line in result.stdout.splitlines()), "no figure"
    assert any(line.startswith("mm ") for line in result.stdout.splitlines()), "the others have theirs"
    data = as_data(run(specs, "--format", "json"))
    assert (data["ok"], data["exit_code"]) == (False, code)
    assert data["kernels"][0]["failures"][0]["kind"] == kind


def test_a_device_that_cannot_be_used_is_tried_once(specs: Path, fake: type[FakeSession]) -> None:
    fake.lost = True
    result = run(specs, "--device", 7)
    assert result.exit_code == 2 and "no such device" in result.stderr
    assert len(fake.asked) == 1


def test_a_peer_without_a_figure_is_named(specs: Path, fake: type[FakeSession]) -> None:
    def change(result: KernelResult) -> KernelResult:
        from dataclasses import replace

        measured = tuple(
            replace(m, peers={}, absent={"torch.compile": "not available: no triton"}) for m in result.measured
        )
        return replace(result, measured=measured)

    fake.change = staticmethod(change)
    result = run(specs / "add.yaml")
    assert result.exit_code == 0
    assert "note: add at 8192 x 8192: no figure of torch.compile: not available: no triton" in result.stderr


def test_a_peer_that_is_missing_everywhere_has_one_line(specs: Path, fake: type[FakeSession]) -> None:
    def change(result: KernelResult) -> KernelResult:
        from dataclasses import replace

        absent = {"quack": "not there", "Liger": f"differs from {result.kernel}"}
        return replace(result, measured=tuple(replace(m, peers={}, absent=absent) for m in result.measured))

    fake.change = staticmethod(change)
    shapes = ("--sizes", "M=64,N=64,K=64", "--sizes", "M=128,N=64,K=64")
    result = run(specs / "mm.yaml", *shapes)
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert notes[0] == "note: mm at 64 cubed and 1 more: no figure of quack: not there"
    assert notes[1] == "note: mm at 64 cubed and 1 more: no figure of Liger: differs from mm"
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "M=64"], "N missing"),
        (["--sizes", "M=64,N=6"], "multiple of 4"),
        (["--sweep", "M=64"], "not a sweep"),
        (["--sweep", "M=64..128", "--sizes", "M=1,N=4"], "takes no --sizes"),
        (["--vs", "nothing"], "not MODULE:FUNCTION"),
        (["--vs", "no_file.py:f"], "no file no_file.py"),
        (["-o", "picture.jpg"], "ends neither in"),
        (["--rounds", "1"], "rounds"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(
    specs: Path, fake: type[FakeSession], arguments: list[str], words: str
) -> None:
    add = specs / "add.yaml"
    add.write_text(add.read_text() + "schedule: {copy: {fallback: refuse}}\n", encoding="utf-8")
    result = run(add, *arguments)
    assert result.exit_code == 2 and words in result.stderr
    assert not fake.asked


def test_a_probe_alone_is_nothing_to_measure(tmp_path: Path, fake: type[FakeSession]) -> None:
    spec = tmp_path / "p.yaml"
    spec.write_text(
        "cutegen: 1\nkernel: p\nop: probe\ntensors:\n  A: {shape: [M], dtype: i32}\n"
        "  D: {shape: [T, V], dtype: i32, role: out}\ncompute: D = A\n"
        "schedule: {tv_layout: '(2,3):(3,1)', tiler: {M: 6}}\n"
    )
    result = run(spec)
    assert result.exit_code == 2 and "nothing to measure" in result.stderr


def test_a_roofline_has_every_kernel_its_peers_and_its_limits(specs: Path, fake: type[FakeSession]) -> None:
    result = run(specs, "-o", "out/roofline.svg", "-o", "out/roofline.png")
    assert result.exit_code == 0 and "wrote out/roofline.svg" in result.stdout
    assert Path("out/roofline.png").read_bytes().startswith(b"\x89PNG")
    root = ET.parse("out/roofline.svg").getroot()
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"add, 8192 x 8192", "mm, 4096 cubed", "cuBLAS", "torch.add", "copy 4000 GB/s"} <= texts
    assert "multiply-add 60 TFLOP/s" in texts
    tips = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(tip.startswith("mm, ") for tip in tips) == 4, "both shapes in both plots"


def test_places_on_the_roofline_are_the_figures(specs: Path, fake: type[FakeSession]) -> None:
    """The kernel at half of its limit lies in the middle between 0 % and 100 %."""
    run(specs / "add.yaml", "-o", "r.svg")
    root = ET.parse("r.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    ticks = {t.text: float(t.get("x", "0")) for t in root.iter(f"{space}text") if (t.text or "").endswith(" %")}
    dots = [c for c in root.iter(f"{space}circle") if (c.findtext(f"{space}title") or "").startswith("add, ")]
    places = [float(dot.get("cx", "0")) for dot in dots]
    assert any(abs(place - (ticks["0 %"] + ticks["100 %"]) / 2) < 0.11 for place in places)


def test_a_sweep_draws_a_curve_for_each_contender(specs: Path, fake: type[FakeSession]) -> None:
    result = run(specs / "mm.yaml", "--sweep", "M=N=K=1024..4096", "-o", "sweep.svg")
    assert result.exit_code == 0, result.output
    (request,) = fake.asked
    assert [shape["K"] for shape in request.shapes] == [1024, 2048, 4096]
    root = ET.parse("sweep.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    lines = [line.get("points", "").split() for line in root.iter(f"{space}polyline")]
    assert len(lines) == 4, "kernel, two peers, limit"
    assert all(len(points) == 3 for points in lines)
    for points in lines:  # the same share of one limit at each size
        heights = {float(point.split(",")[1]) for point in points}
        assert max(heights) - min(heights) < 0.2


def test_receipts_keep_the_figures(specs: Path, fake: type[FakeSession]) -> None:
    result = run(specs / "add.yaml", "--receipts", "--format", "json")
    assert result.exit_code == 0, result.output
    (written,) = as_data(result)["written"]
    assert "receipts" in written and "Test GPU" in Path(written).read_text()


def test_what_was_measured_is_kept_when_a_later_kernel_ends_the_run(
    specs: Path, fake: type[FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = fake.measure

    def until_the_second(self: FakeSession, request: Request) -> KernelResult:
        if request.plan.spec.kernel == "mm":
            raise KeyboardInterrupt
        return measure(self, request)

    monkeypatch.setattr(fake, "measure", until_the_second)
    assert run(specs, "--receipts").exit_code == 130
    assert [path.stem for path in specs.parent.glob("generated/receipts/*/*.json")] == ["add"]
