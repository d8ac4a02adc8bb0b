"""The comparison of kernels in two environments, from the results in each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen.language.diagnostics import Diagnostic
from cutegen.verbs.building.verification import Verification
from cutegen.verbs.inspecting.inspection import Code, Inspection
from cutegen.verbs.upgrading.comparing import compare_surveys, needs_verification_here
from cutegen.verbs.upgrading.output import WORDS, exit_code, print_upgrade, upgrade_json
from cutegen.verbs.upgrading.survey import Found, Survey, survey_from_json, survey_json
from cutegen.verbs.upgrading.upgrade import Upgrade
from cutegen.verification import CaseReport, KernelReport

RESOURCES = {"registers": 40, "spill_stores": 0, "spill_loads": 0, "stack": 0, "static_smem": 16, "dynamic_smem": 1024}


def inspected(target: str = "sm_80", version: str = "8.8", adds: int = 4, **resources: int) -> Inspection:
    code = Code(10, {"fp32 arithmetic": {"FADD": adds, "FMUL": 10 - adds}})
    return Inspection("k", target, {**RESOURCES, **resources}, version, code, 0, ())


def ran(*bits: str, given: str = "g") -> Verification:
    cases = [CaseReport(f"case {n}", "", {}, "", "", "passed", given=given, bits=b) for n, b in enumerate(bits)]
    return Verification("passed", "", KernelReport("k", "k.py", "cpu", tuple(cases)))


WRONG = Verification(
    "failed", "", KernelReport("k", "k.py", "cpu", (CaseReport("tile", "", {"N": 3}, "", "", "failed", "Y[0] is 1"),))
)
IDLE = Verification("not executed", "every case is too large")


def found(
    verification: Verification | None,
    code: str = "a",
    inspection: Inspection | None = None,
    failed: Mapping[str, str] | None = None,
) -> Found:
    seen = {} if failed else {"sm_80": inspection or inspected()}
    return Found("k", "specs/k.yaml", seen, dict.fromkeys(seen, code), failed or {}, verification)


def upgrade(here: Found, there: Found, *diagnostics: Diagnostic) -> Upgrade:
    changes = compare_surveys(Survey("", (here,), ()), Survey("", (there,), diagnostics))
    return Upgrade(("a==2",), "pip", {"a": ("1", "2"), "b": ("1", "")}, changes, diagnostics, ())


@pytest.mark.parametrize(
    ("here", "there", "state", "code"),
    [
        (found(None), found(ran("x")), "same code", 0),
        (found(ran("x"), "b"), found(ran("x")), "same bits", 0),
        (found(ran("x", "y"), "b"), found(ran("x", "z")), "other bits", 0),
        (found(ran("x", given="h"), "b"), found(ran("z")), "other inputs", 0),
        (found(WRONG, "b"), found(ran("x")), "mended", 0),
        (found(None, failed={"sm_80": "no such target"}), found(ran("x")), "mended", 0),
        (found(ran("x"), "b"), found(WRONG), "wrong", 1),
        (found(WRONG), found(WRONG), "still wrong", 1),
        (found(None), found(IDLE, failed={"sm_80": "no such target"}), "not compiled", 1),
        (found(IDLE), found(IDLE), "not executed", 2),
    ],
)
def test_states_and_exit_codes(here: Found, there: Found, state: str, code: int) -> None:
    result = upgrade(here, there)
    assert (result.kernels[0].state, exit_code(result)) == (state, code)
    told = state in ("same code", "not compiled", "not executed") or bool(here.failed)
    assert needs_verification_here(here, there) != told
    (kernel,) = json.loads(json.dumps(upgrade_json(result, "cpu")))["kernels"]
    assert kernel["result"] == state and (kernel["here"] is None) == (here.verification is None)


def test_a_broken_expectation_is_a_finding_of_a_right_kernel() -> None:
    assert exit_code(upgrade(found(None), found(ran("x")), Diagnostic("CG401", "registers"))) == 1


def test_the_table_has_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    there = inspected(version="9.0", registers=48, spill_loads=8, static_smem=32, adds=5)
    print_upgrade(upgrade(found(ran("x", "y"), "b"), found(ran("x", "z"), inspection=there)))
    out = capsys.readouterr().out.splitlines()
    assert [line.split() for line in out[:3]] == [["package", "here", "there"], ["a", "1", "2"], ["b", "1", "-"]]
    row = "  ".join(out[5].split())
    assert "right,  other  bits  in  1  of  2  cases  40  ->  48  0  B  ->  8  B  1040  B  ->  1056  B" in row
    assert row.endswith("10  (others)  8.8  ->  9.0")
    assert out[7:] == [
        "code: the same of 0 of 1 kernels and targets, other of 1",
        "results of 1 kernel: 1 right, other bits",
        "PTX version: 8.8 -> 9.0 of 1",
    ]


def test_what_did_not_change_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_upgrade(upgrade(found(None), found(ran("x"), inspection=inspected(version="9.0"))))
    assert capsys.readouterr().out.splitlines()[4:] == [
        "code: the same of 1 of 1 kernels and targets",
        "results of 1 kernel: 1 right, same code",
        "PTX version: 8.8 -> 9.0 of 1",
    ]


def test_what_does_not_compile_is_told_once_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    both = {"sm_80": inspected(), "sm_90a": inspected("sm_90a")}
    here = [replace(found(None), kernel=name, inspections=both) for name in "abc"]
    there = [
        replace(found(None), kernel="a", inspections={}, failed=dict.fromkeys(both, "no memory"), verification=IDLE),
        replace(here[1], inspections={"sm_80": inspected()}, failed={"sm_90a": "no memory"}, verification=IDLE),
        replace(here[2], verification=ran("x")),
    ]
    changes = compare_surveys(Survey("", tuple(here), ()), Survey("", tuple(there), ()))
    print_upgrade(Upgrade(("a==2",), "pip", {"a": ("1", "2")}, changes, (), ()))
    out = capsys.readouterr().out
    assert "not compiled there, 2 kernels: no memory\n  a, b for sm_90a\n" in out
    assert "code: the same of 3 of 6 kernels and targets, none of 3 that do not compile\n" in out
    assert "results of 3 kernels: 1 right, same code; 2 not compiled\n" in out


def test_the_page_explains_each_result() -> None:
    page = (Path(__file__).parents[3] / "docs" / "upgrade.md").read_text()
    assert [words for words in WORDS.values() if f"| {words}" not in page and words != "not executed"] == []


def test_a_survey_survives_its_way_between_processes() -> None:
    kernels = (found(ran("x", "y")), found(WRONG, failed={"sm_90a": "no"}), found(None))
    survey = Survey("/x/cutlass/__init__.py", kernels, (Diagnostic("CG403", "wrong", notes=("a",), help="b"),), ("n",))
    again = survey_from_json(json.loads(json.dumps(survey_json(survey))))
    assert [k.verification for k in again.kernels] == [k.verification for k in survey.kernels]
    assert replace(again, kernels=()) == replace(survey, kernels=())
    assert [dict(k.inspections) for k in again.kernels] == [dict(k.inspections) for k in survey.kernels]
