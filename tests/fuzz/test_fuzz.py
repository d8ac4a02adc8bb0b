"""The fuzzer itself, and a short run of it: the same specs each time, in the process of the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.project.sources import Unit
from cutegen.registry import ops
from cutegen.verbs.building.compilation import Compilation
from cutegen.verification import KernelReport
from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport
from tests.fuzz import building, trial
from tests.fuzz.building import elements, wanted
from tests.fuzz.chance import Chance
from tests.fuzz.making import MAKERS, Made, make, make_small
from tests.fuzz.minimising import minimise
from tests.fuzz.rowwise import SCANS, rowwise
from tests.fuzz.tally import Tally
from tests.fuzz.trial import Depth, attempt
from tests.fuzz.writing import text_of

SEED = 14


@pytest.mark.parametrize(("first", "count"), sampled([(0, 40), (0, 80), (80, 80)]))
def test_specs_by_chance_are_kernels_or_are_refused(first: int, count: int, tmp_path: Path) -> None:
    tally = Tally()
    for number in range(first, first + count):
        made = make(SEED, number)
        tally.add(number, made, attempt(made.raw, tmp_path, Depth.of(number)))
    assert not tally.findings, tally.findings
    good = tally.accepted.total()
    assert good > count / 4, "most specs should come near to being kernels"
    assert len(tally.codes) > count / 4, "and the others should fail in many ways"


def test_every_op_has_a_maker_of_specs_most_of_which_are_kernels() -> None:
    assert set(MAKERS) == {op.name for op in ops()}
    small = [make_small(SEED, number) for number in range(40)]
    assert {made.op for made in small} == set(MAKERS)


def test_most_small_specs_that_lint_accepts_are_built() -> None:
    found: Counter[str] = Counter()
    for number in range(48):
        made = make_small(SEED, number)
        found[f"{made.op} {wanted(made)}"] += 1
        assert b"expect" not in made.raw and b"tolerance" not in made.raw
    assert all(found[f"{op} accepted"] for op in MAKERS), found
    good, large = (sum(count for what, count in found.items() if what.endswith(end)) for end in ("accepted", "large"))
    assert good > large and good > 16, found


def test_most_rows_with_scans_and_largest_values_are_kernels() -> None:
    found: Counter[str] = Counter()
    for number in range(160):
        chance = Chance(f"{SEED}/rows/{number}")
        document = {"cutegen": 1, "kernel": "trial"} | rowwise(chance, True)
        statements = " ".join(document["compute"])
        if any(f"{name}(" in statements for name in (*SCANS, "topk", "argtopk")):
            found[wanted(Made(text_of(document, chance).encode(), "maker", "rowwise", 0))] += 1
    assert found["accepted"] > found["refused by lint"] and found.total() > 20, found


def test_the_elements_of_a_packed_argument_are_those_of_its_views() -> None:
    packed = "P: {shape: [1*M], dtype: f32, role: out}, Y: {shape: [M], view: 'P[:M]'}"
    text = SPEC.decode().replace("Y: {shape: [M], dtype: f32, role: out}", packed) + "compute: Y = X\n"
    (module,) = generate(text, "packed.yaml").modules
    assert elements(module) == sum(case.sizes["M"] for case in derive_cases(module.plan)) > 0


def test_the_spec_of_a_number_is_always_the_same_one() -> None:
    assert [make(1, n).raw for n in range(20)] == [make(1, n).raw for n in range(20)]
    assert make(1, 2).raw != make(2, 2).raw != make(1, 3).raw


SPEC = b"""cutegen: 1
kernel: a
op: elementwise
tensors: {X: {shape: [M], dtype: f32}, Y: {shape: [M], dtype: f32, role: out}}
"""


def test_whatever_is_raised_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = SPEC + b"compute: Y = X\n"
    assert attempt(raw, tmp_path).accepted and not attempt(raw, tmp_path).findings

    def fail(*_: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(trial, "derive_cases", fail)
    (finding,) = attempt(raw, tmp_path).findings
    assert finding.kind == "cases: KeyError in outside of cutegen"


def test_what_takes_too_long_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr(trial, "SECONDS", 0.2)
    monkeypatch.setattr(trial, "prove", hang)
    (finding,) = attempt(SPEC + b"compute: Y = X\n", tmp_path).findings
    assert finding.kind == "explain: overdue"


def test_what_explain_writes_must_be_the_same_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "write_spec", lambda spec, comments: "cutegen: 1\n")
    found = {finding.kind for finding in attempt(SPEC + b"compute: Y = X\n", tmp_path).findings}
    assert found == {"what explain writes is refused"}


def test_what_a_spec_leaves_open_is_counted_and_no_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = CaseReport("tile", "", {}, "compact", "random", "failed", "Y[0] is 1, expected 2")
    reports: list[dict[str, Any]] = [
        {"error": "nothing is known of Y", "reason": "open"},
        {"error": "nothing is known of Y", "reason": "open", "cases": (wrong,)},
        {"error": "something else"},
    ]

    def verified(units: Sequence[Unit], on: str, *, on_done: Callable[[KernelReport], None], **_: object) -> None:
        for unit, fields in zip(units, reports, strict=True):
            on_done(KernelReport(unit.kernel, "", "", **fields))

    monkeypatch.setattr(building, "compile_units", lambda units, **_: [Compilation({}, ())] * len(units))
    monkeypatch.setattr(building, "verify_units", verified)
    assert building.build(SEED, 0, 3, 1, None) == 2
    assert "1 built, but its values are open" in capsys.readouterr().out


def test_a_finding_is_made_small() -> None:
    raw = SPEC + b"compute: Y = relu(X)\nstatic: {M: 4}\nschedule: {partition: inner, threads: 64}\ntargets: [sm_80]\n"
    small = minimise(raw, lambda tried: b"threads" in tried and b"tensors" in tried)
    assert small == b"tensors: {}\nschedule:\n  threads: 64\n"
    assert minimise(b"\xff\nab\nacd\n", lambda tried: b"c" in tried) == b"c"
