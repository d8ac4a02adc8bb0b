"""A file of shapes: what is asked for, what the shapes come to, and that one which fails does not end the rest."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benching_kit import FakeSession, run

from cutegen.measuring import Failure, KernelResult, Measured, Timing
from cutegen.measuring.model import SWEEP_ROUNDS, Kind
from cutegen.verbs.benching.bench import GIVEN_UP

GEMM_SHAPES = "".join(f"M={size}, N=4096, K=4096  # {size} rows\n" for size in (128, 256, 512, 1024, 2048, 4096, 8192))
RATIOS = {128: 1.25, 256: 0.96, 512: 0.5, 1024: 0.9, 2048: 1.0, 4096: 0.8, 8192: 0.97}


def standing(ratios: Mapping[int, float]) -> Callable[[KernelResult], KernelResult]:
    """The best of two peers takes that many times as long as the kernel, by the size of M."""

    def change(result: KernelResult) -> KernelResult:
        return replace(result, measured=tuple(map(beside, result.measured)))

    def beside(m: Measured) -> Measured:
        us = ratios[m.shape["M"]] * m.timing.us
        return replace(m, peers={"near": Timing(us, 0.01, 12), "far": Timing(2 * us, 0.01, 12)})

    return change


def failing(kinds: Mapping[int, Kind]) -> Callable[[KernelResult], KernelResult]:
    """The kernel has no figure at those sizes of M."""

    def change(result: KernelResult) -> KernelResult:
        lost = [m for m in result.measured if m.shape["M"] in kinds]
        failures = tuple(Failure(kinds[m.shape["M"]], result.kernel, m.shape, "it failed") for m in lost)
        return replace(result, measured=tuple(m for m in result.measured if m not in lost), failures=failures)

    return change


@pytest.fixture
def gemm_shapes(specs: Path) -> Path:
    path = specs.parent / "shapes.txt"
    path.write_text(GEMM_SHAPES)
    return path


def swept(specs: Path, *arguments: object) -> Any:
    (found,) = json.loads(run(specs / "mm.yaml", *arguments, "--format", "json").stdout)["sweeps"]
    return found


def test_a_file_is_measured_shape_by_shape_in_fewer_rounds(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path
) -> None:
    assert run(specs / "mm.yaml", "--sweep", gemm_shapes).exit_code == 0
    assert [request.shapes[0]["M"] for request in fake.asked] == list(RATIOS)
    assert {request.rounds for request in fake.asked} == {SWEEP_ROUNDS}
    assert [request.host for request in fake.asked] == [True] + [False] * 6, "one call's time on the CPU is enough"
    fake.asked.clear()
    run(specs / "mm.yaml", "--sweep", gemm_shapes, "--rounds", 50)
    assert {request.rounds for request in fake.asked} == {50}


def test_what_the_shapes_come_to(specs: Path, fake: type[FakeSession], gemm_shapes: Path) -> None:
    fake.change = staticmethod(standing(RATIOS))
    found = swept(specs, "--sweep", gemm_shapes)
    mean = 1.0
    for ratio in RATIOS.values():
        mean *= ratio ** (1 / 7)
    assert found["geometric_mean"] == pytest.approx(mean)
    assert (found["limit"], found["behind"], found["share_behind"]) == (0.97, 4, pytest.approx(4 / 7))
    assert [(w["shape"]["M"], w["line"]) for w in found["worst"]] == [
        (512, 3),
        (4096, 6),
        (1024, 4),
        (256, 2),
        (8192, 7),
    ]
    assert [w["name"] for w in found["worst"]][:2] == ["512 rows", "4096 rows"]
    assert {w["best"] for w in found["worst"]} == {"near"} and all(w["why"] for w in found["worst"])
    assert found["against"]["far"]["geometric_mean"] == pytest.approx(2 * mean)
    assert (found["measured"], found["compared"], len(found["shapes"])) == (7, 7, 7)


def test_the_table_has_a_line_for_each_shape_and_then_what_they_come_to(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path
) -> None:
    fake.change = staticmethod(standing(RATIOS))
    result = run(specs / "mm.yaml", "--sweep", gemm_shapes)
    lines = result.stdout.splitlines()
    head = next(line for line in lines if line.startswith("shape "))
    assert all(column in head for column in ("time", "near", "far", "against the best", "name"))
    rows = [line for line in lines if line.endswith(" rows")]
    assert [row.split()[0] for row in rows] == ["128", "256", "512", "1024", "2048", "4096", "8192"]
    assert "  0.500  " in rows[2]
    assert "against the best peer at each of 7 shapes: 0.883 times as fast (geometric mean)" in lines
    assert "below 0.97 of the best peer: 4 of 7 shapes, 57.1%" in lines
    worst = lines[lines.index("the worst 5") + 2 :]
    assert [line.split()[0] for line in worst[:5]] == ["512", "4096", "1024", "256", "8192"] and worst[5] == ""


def test_a_shape_that_the_kernel_refuses_is_told_and_is_no_failure(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path
) -> None:
    gemm_shapes.write_text("M=130, N=4096, K=4096  # odd\nM=128, N=4096, K=4096\nM=128, N=4096, K=4096\n")
    result = run(specs / "mm.yaml", "--sweep", gemm_shapes)
    assert result.exit_code == 0 and len(fake.asked) == 1
    assert "1 shape measured, 1 shape refused" in result.stdout
    assert "line 1, M=130, N=4096, K=4096: M must be a multiple of 4, not 130 (128 would work)" in result.stdout
    assert "shapes.txt:3 repeats line 2" in result.stderr
    (refused,) = swept(specs, "--sweep", gemm_shapes)["refused"]
    assert (refused["line"], refused["name"], refused["sizes"]["M"]) == (1, "odd", 130)


@pytest.mark.parametrize(("kind", "code"), [("spread", 1), ("wrong", 1), ("crashed", 1), ("cannot run", 2)])
def test_a_shape_that_fails_does_not_end_the_rest(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path, kind: Kind, code: int
) -> None:
    fake.change = staticmethod(failing({256: kind, 1024: kind}))
    result = run(specs / "mm.yaml", "--sweep", gemm_shapes)
    assert result.exit_code == code and len(fake.asked) == 7
    assert "5 shapes measured, 2 failures" in result.stdout
    assert "  256 x 4096 x 4096: it failed" in result.stdout.splitlines()
    assert "error: mm at 256 x 4096 x 4096: " in result.stderr


def test_a_kernel_that_breaks_down_again_and_again_is_given_up(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path
) -> None:
    fake.change = staticmethod(failing(dict.fromkeys((256, 1024, 2048, 4096), "hung")))
    result = run(specs / "mm.yaml", "--sweep", gemm_shapes)
    assert result.exit_code == 1
    assert [request.shapes[0]["M"] for request in fake.asked][-1] == 4096, "which is the third in a row"
    assert f"1 more shape not tried, since {GIVEN_UP} in a row crashed or hung" in result.stdout
    assert "2 shapes measured" in result.stdout


def test_a_module_that_does_not_load_is_tried_once(specs: Path, fake: type[FakeSession], gemm_shapes: Path) -> None:
    fake.change = staticmethod(
        lambda result: KernelResult(result.kernel, "", (), (Failure("cannot run", result.kernel, None, "no"),))
    )
    assert run(specs / "mm.yaml", "--sweep", gemm_shapes).exit_code == 2
    assert len(fake.asked) == 1


def test_ctrl_c_leaves_what_was_measured(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = fake.measure

    def until(self: FakeSession, request: Any) -> KernelResult:
        if request.shapes[0]["M"] == 512:
            raise KeyboardInterrupt
        return measure(self, request)

    monkeypatch.setattr(fake, "measure", until)
    result = run(specs, "--kernel", "mm", "--sweep", gemm_shapes, "--receipts")
    assert result.exit_code == 130
    assert "2 shapes measured" in result.stdout and "interrupted: shapes are missing" in result.stderr
    assert "wrote " in result.stdout


def test_shapes_go_to_the_kernels_that_have_their_modes(specs: Path, fake: type[FakeSession]) -> None:
    Path("f.csv").write_text("M,N\n64,128\n8,8\n")
    result = run(specs, "--sweep", "f.csv")
    assert result.exit_code == 0
    assert [request.plan.spec.kernel for request in fake.asked] == ["add", "add"]
    assert "no shape of f.csv is for mm, which has the modes M, N, K" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("M=64, N=64\nM=64, N=6x\n", "--sweep: f.txt:2: N cannot be `6x`"),
        ("M=64, Q=64\n", "--sweep: f.txt:1: there is no mode `Q`"),
        ("", "--sweep: f.txt: it has no shapes"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(
    specs: Path, fake: type[FakeSession], text: str, words: str
) -> None:
    Path("f.txt").write_text(text)
    result = run(specs / "add.yaml", "--sweep", "f.txt")
    assert result.exit_code == 2 and words in result.stderr and not fake.asked


def test_a_file_that_is_not_there_is_named(specs: Path, fake: type[FakeSession]) -> None:
    result = run(specs, "--sweep", "none.txt")
    assert result.exit_code == 2 and "--sweep: none.txt: No such file" in result.stderr and "M=1024.." in result.stderr


def test_without_peers_there_is_a_table_and_no_mean(specs: Path, fake: type[FakeSession], gemm_shapes: Path) -> None:
    fake.change = staticmethod(
        lambda result: replace(result, measured=tuple(replace(m, peers={}) for m in result.measured))
    )
    result = run(specs / "mm.yaml", "--sweep", gemm_shapes, "-o", "r.svg")
    assert result.exit_code == 0 and "no peer has a figure" in result.stdout and "worst" not in result.stdout
    assert swept(specs, "--sweep", gemm_shapes)["geometric_mean"] is None


def test_the_picture_has_a_mark_for_each_shape_the_worst_first(specs: Path, fake: type[FakeSession]) -> None:
    sizes = list(RATIOS)
    Path("f.txt").write_text("".join(f"M={m}, N={4096 + 64 * i}, K={512 * (1 + i % 3)}\n" for i, m in enumerate(sizes)))
    fake.change = staticmethod(standing(RATIOS))
    assert run(specs / "mm.yaml", "--sweep", "f.txt", "-o", "r.svg").exit_code == 0
    root = ET.parse("r.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    marks = [
        (m.findtext(f"{space}title") or "") for m in root.iter() if (m.findtext(f"{space}title") or "")[:1].isdigit()
    ]
    assert [tip.split(" ")[0] for tip in marks] == ["512", "4096", "1024", "256", "8192", "2048", "128"]


def test_a_file_in_which_one_mode_changes_is_drawn_as_a_curve(
    specs: Path, fake: type[FakeSession], gemm_shapes: Path
) -> None:
    assert run(specs / "mm.yaml", "--sweep", gemm_shapes, "-o", "r.svg").exit_code == 0
    root = ET.parse("r.svg").getroot()
    lines = [line.get("points", "").split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert len(lines) == 4 and all(len(points) == 7 for points in lines), "kernel, two peers, limit"


def test_receipts_keep_every_shape(specs: Path, fake: type[FakeSession]) -> None:
    Path("f.txt").write_text("".join(f"M={8 * i}, N={64 * i}\n" for i in range(1, 101)))
    result = run(specs / "add.yaml", "--sweep", "f.txt", "--receipts", "--format", "json")
    assert result.exit_code == 0, result.output
    (written,) = json.loads(result.stdout)["written"]
    text = Path(written).read_text()
    assert text.count('"timing"') == 100 and len(text) < 50_000
