"""One kernel is verified: right ones pass, broken ones fail and say how, and what cannot run is not called wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from verification_fakes import (
    ADD_TILE,
    GEMM_TILE,
    CpuExecutor,
    Judge,
    add_plan,
    add_spec,
    both_spec,
    gemm_spec,
    less_spec,
    plan_of,
    write_module,
)

from cutegen.contract import as_called
from cutegen.dtypes import Dtype
from cutegen.hostchecks import names_argument
from cutegen.language.model import KernelSpec
from cutegen.reference.bounds import Expected, evaluate
from cutegen.verification import CaseReport, KernelReport, as_json, derive_cases, from_json, given
from cutegen.verification.executor import CannotRun, Ran, load_module, no_judge
from cutegen.verification.runner import verify_case
from cutegen.verification.telling import in_order
from cutegen.verifying.kernel import verify_kernel


def verify(folder: Path, kernel: str, bug: str = "") -> KernelReport:
    spec = {
        "add": add_spec,
        "less": less_spec,
        "both": both_spec,
        "gemm": gemm_spec,
        "gemm static": lambda: gemm_spec({"K": 16}),
        "add divisible": lambda: add_spec(divisible={"N": 4}),
        "add bf16": lambda: add_spec(Dtype.bf16),
        "add i32": lambda: add_spec(Dtype.i32),
    }[kernel]()
    tile, stages = (GEMM_TILE, 3) if spec.op == "gemm" else (ADD_TILE, None)
    return verify_kernel(plan_of(spec, tile, stages), write_module(folder, spec, bug), CpuExecutor())


def test_results_are_told_apart_by_their_bits(tmp_path: Path) -> None:
    first, again = verify(tmp_path, "add bf16"), verify(tmp_path, "add bf16")
    assert [(c.given, c.bits) for c in first.cases] == [(c.given, c.bits) for c in again.cases]
    assert all(c.given and c.bits and c.given != c.bits for c in first.cases if c.elements)
    assert len({c.bits for c in first.cases}) > 10
    for name, bits in (("add i32", 1), ("gemm", 1)):  # which run twice, or once: the result is one
        assert {len(c.bits.split()) for c in verify(tmp_path, name).cases if c.bits} == {bits}


@pytest.mark.parametrize(
    "kernel", ["add", "less", "both", "gemm", "gemm static", "add divisible", "add bf16", "add i32"]
)
def test_a_right_kernel_passes(tmp_path: Path, kernel: str) -> None:
    report = verify(tmp_path, kernel)
    assert report.ok, report.failures
    assert len(report.cases) > 15 and len(report.host_checks) > 20
    assert all(c.ratio <= 1 for c in report.cases)
    assert any(c.layout == "offset" for c in report.cases)
    if kernel.startswith("gemm"):
        # the spec's second shape is beyond this executor's limit: said, not called passed
        assert [c.name for c in report.cases if c.status == "not run"] == ["spec shape 2", "spec shape 2 integers"]
        assert [c.name for c in report.cases if c.reason == "too large"] == ["spec shape 2", "spec shape 2 integers"]
        assert not report.complete and "2 not run" in report.text
    else:
        assert report.complete


# bug -> words of the message, and which kernels show it
BROKEN = {
    "tail": ("add less gemm", ""),
    "gap": ("add less gemm", "gap between rows"),
    "past the end": ("add less gemm", "after its end"),
    "before the start": ("add less gemm", "before its start"),
    "offset base": ("add", "off by"),
    "rounding": ("add", "off by"),
    "one element": ("add gemm", "(1 of "),
    "unwritten": ("add", "was not written (1 of"),
    "empty": ("add", "D: wrote 0 bytes after its end"),
    "raises": ("add", "RuntimeError: no tile of 1"),
    "input": ("add", "X: an input was modified"),
    "input sign": ("add", "X: an input was modified"),
    "reference raises": ("add", "reference raised KeyError"),
    "reference view": ("add", "view of an argument"),
    "reference dtype": ("add", "returned dtype torch.float64"),
    "reference value": ("add", "reference: D["),
    "reference writes": ("add", "reference changed an argument: X"),
    "k residue": ("gemm", "off by"),
    "k residue twice": ("gemm", "off by"),
    "last stage": ("gemm", "off by"),
    "narrow": ("gemm", "off by"),
    "no k, no epilogue": ("gemm", "off by"),
    "no beta": ("gemm", "off by"),
}


@pytest.mark.parametrize("kernel,bug", [(k, b) for b, (kernels, _) in BROKEN.items() for k in kernels.split()])
def test_a_broken_kernel_is_caught(tmp_path: Path, kernel: str, bug: str) -> None:
    report = verify(tmp_path, kernel, bug)
    assert not report.ok and not report.error
    failed = [c for c in report.cases if c.status == "failed"]
    assert failed and any(BROKEN[bug][1] in c.message for c in failed), [c.message for c in failed]
    assert all(c.message for c in failed) and report.text.startswith("FAILED")
    assert "within bounds" not in report.text and "exact" not in report.text


@pytest.mark.parametrize(
    "bug,words",
    [
        ("first wrong", "D["),
        ("second wrong", "E["),
        ("second unwritten", "E["),
        ("second past the end", "E: wrote"),
        ("reference alone", "reference returned Tensor, not a tuple of 2 tensors"),
        ("reference of three", "reference returned 3 results, not a tuple of 2 tensors"),
        ("reference swapped", "reference returned dtype torch.int32 as D, the output has torch.float32"),
        ("reference view of the second", "a view of an argument as E, not a fresh tensor"),
        ("reference second wrong", "reference: E["),
        ("reference second numbers", "reference returned int as E, not a tensor"),
        ("reference writes the second", "reference wrote to E"),
    ],
)
def test_every_output_is_judged(tmp_path: Path, bug: str, words: str) -> None:
    report = verify(tmp_path, "both", bug)
    failed = [c for c in report.cases if c.status == "failed"]
    assert not report.error and failed
    assert all(words in c.message or c.name.startswith("more than") for c in failed), [c.message for c in failed]
    several = [c for c in report.cases if c.sizes["M"] * c.sizes["N"] > 1]
    assert all(c.status == "failed" for c in several if c.data != "special")  # 1 more of what is infinite is no other


def test_elements_of_all_outputs_are_counted(tmp_path: Path) -> None:
    for case in verify(tmp_path, "both").cases:
        assert case.elements == 2 * case.sizes["M"] * case.sizes["N"]
        assert case.max_bound > 0 or not case.elements or case.data == "integers"


@pytest.mark.parametrize("unknown", ["large numbers", "random numbers", "everything"])
def test_data_that_nothing_is_known_of_give_way_to_others(
    unknown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No case fails for its data; that an output was never judged is said of the kernel."""

    def evaluated(
        spec: KernelSpec, tensors: Mapping[str, Any], scalars: Mapping[str, Any], **more: Any
    ) -> dict[str, Expected]:
        whole = bool((tensors["X"] == tensors["X"].trunc()).all())
        large = tensors["X"].numel() and float(tensors["X"].double().nan_to_num(0.0).flatten()[0]) > 0.5
        hidden = {"large numbers": large, "random numbers": not whole, "everything": True}[unknown]
        found = evaluate(spec, tensors, scalars, **more)
        return {n: Expected(e.value, e.bound + float("inf")) if hidden else e for n, e in found.items()}

    monkeypatch.setattr(given, "evaluate", evaluated)
    report = verify(tmp_path, "add")
    assert all(case.status == "passed" for case in report.cases), report.failures
    unjudged = {case.name for case in report.cases if case.unjudged}
    if unknown == "everything":
        assert not report.ok and "in no case" in report.failures[0] and " of D: the spec" in report.failures[0]
        assert report.reason == "open" and from_json(as_json(report)) == report
        assert unjudged == {case.name for case in report.cases if case.elements}
    else:
        assert report.ok and unjudged <= {"special values"}, unjudged


def test_every_output_is_laid_over_every_other_tensor_once(tmp_path: Path) -> None:
    checks = verify(tmp_path, "both").host_checks
    over = [(c.argument, c.what) for c in checks if c.what.endswith("at the same address")]
    assert over == [
        *(("d", f"overlaps {other}, at the same address") for other in ("x", "b", "e")),
        *(("e", f"overlaps {other}, at the same address") for other in ("x", "b")),
    ]
    assert [c.argument for c in checks if c.what.startswith("accepts slices")] == ["d"]
    beside = [(c.argument, c.what) for c in checks if c.what.startswith("accepts columns")]
    wanted = [("d", f"accepts columns of one buffer {where} x") for where in ("beside those of", "next to those of")]
    assert beside == wanted, "of one shape and type"
    for what in ("wrong dtype", "wrong device", "one mode too", "elsewhere", "major instead of", "share memory"):
        assert {"d", "e"} <= {c.argument for c in checks if what in c.what}


@pytest.mark.parametrize("bug,pairs", [("second not apart", {"x", "b"}), ("outputs not apart", {"e"})])
def test_outputs_that_may_overlap_are_found(tmp_path: Path, bug: str, pairs: set[str]) -> None:
    failed = [c for c in verify(tmp_path, "both", bug).host_checks if c.status == "failed"]
    assert {c.what.split()[1].rstrip(",") for c in failed if c.what.startswith("overlaps")} == pairs
    assert {c.argument for c in failed} >= {"e" if bug == "second not apart" else "d"}


@pytest.mark.parametrize("kernel", ["less", "add i32"])
def test_an_unwritten_integer_cannot_hide_behind_its_poison(tmp_path: Path, kernel: str) -> None:
    """In one of the two runs the poison differs from what is expected, in every case with more than one element."""
    report = verify(tmp_path, kernel, "unwritten")
    for case in report.cases:
        if case.sizes["M"] * case.sizes["N"] > 1:
            assert case.status == "failed", case.name


def test_only_the_cases_that_break_are_reported(tmp_path: Path) -> None:
    report = verify(tmp_path, "gemm", "k residue")
    for case in report.cases:
        if case.status != "not run" and 0 not in case.sizes.values() and case.data != "special":  # alpha = 0, or NaN
            assert (case.status == "failed") == (case.sizes["K"] % 4 != 0), case.name


@pytest.mark.parametrize(
    "kernel,bug,what",
    [
        ("add", "no dtype check", "wrong dtype"),
        ("add", "no device check", "wrong device"),
        ("add", "no rank check", "one mode too"),
        ("add", "no size check", "elsewhere"),
        ("gemm static", "no static check", "fixed at 16"),
        ("add divisible", "no divisible check", "does not divide"),
        ("add", "no strides check", "major instead of"),
        ("add", "no major check", "every other"),
        ("add", "no stride check", "breaks 16-byte alignment"),
        ("add", "no base check", "aligned to 8 bytes only"),
        ("add", "no distinct check", "share memory"),
        ("add", "no alias check", "at the same address"),
        ("add", "alias by address only", "starting inside"),
        ("add", "alias by address only", "starting before the end of"),
        ("add", "alias one way", "starting before the end of"),
        ("add", "alias by storage", "accepts slices of one allocation"),
        ("add", "alias late", "overlaps"),
        ("add", "no name", "one mode too"),
        ("add", "wrong error", "wrong device"),
    ],
)
def test_a_missing_host_check_is_caught(tmp_path: Path, kernel: str, bug: str, what: str) -> None:
    report = verify(tmp_path, kernel, bug)
    failed = [h for h in report.host_checks if h.status == "failed"]
    assert any(what in h.what for h in failed), [(h.what, h.message) for h in failed]
    assert all(h.message for h in failed) and not report.ok
    assert all(c.status != "failed" for c in report.cases)


def test_the_host_checks_cover_every_argument(tmp_path: Path) -> None:
    checks = verify(tmp_path, "gemm").host_checks
    for argument in "abc":
        mine = " ".join(h.what for h in checks if h.argument == argument)
        for what in (
            "dtype",
            "device",
            "too many",
            "too few",
            "major instead",
            "every other",
            "base",
            "stride",
            "elsewhere",
        ):
            assert what in mine, (argument, what)


def test_an_article_is_no_argument() -> None:
    assert (
        names_argument("a must be float32", "a") and names_argument("`a`: float32", "a") and names_argument("a, b", "a")
    )
    assert not names_argument("expected a tensor", "a") and not names_argument("x.a is wrong", "a")
    assert not names_argument("add: alignment", "a") and not names_argument("bad", "b")


def test_a_module_that_does_not_load_or_lacks_functions(tmp_path: Path) -> None:
    lacking = verify(tmp_path, "add", "no compile")
    assert "compile_for" in lacking.error and lacking.reason == "not loaded"
    path = tmp_path / "broken.py"
    path.write_text("import nothing_of_this_name\n")
    report = verify_kernel(add_plan(), path, CpuExecutor())
    assert not report.ok and "ModuleNotFoundError" in report.error and "FAILED" in report.text
    assert report.reason == "not loaded"


class Ordering(CpuExecutor):
    """Chooses the order of what it runs, as far as it is asked to."""

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: object,
    ) -> Ran:
        return Ran(orders, super().run(module, spec, args, 1, judge).outputs)


class Twofold(CpuExecutor):
    """Runs two codes, the second of which gives a little less."""

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: object,
    ) -> Ran:
        places, named = as_called(spec, args)
        output = getattr(module, spec.kernel)(*places, **named)
        judge("the code for sm_1")
        assert isinstance(output, torch.Tensor)
        output.sub_(1e-5)
        judge("the code for sm_2")
        return Ran(orders, (output,))


class Knowing(CpuExecutor):
    """Knows that all was written, where it `knows`; counts its runs."""

    def __init__(self, knows: bool) -> None:
        self.knows, self.runs = knows, 0

    def run(self, *args: Any, **more: Any) -> Ran:
        self.runs += 1
        return super().run(*args, **more)._replace(whole=self.knows)


@pytest.mark.parametrize("knows", [False, True])
def test_a_second_poison_tells_what_the_executor_does_not_know(tmp_path: Path, knows: bool) -> None:
    spec, executor = add_spec(Dtype.i32), Knowing(knows)
    plan, path = plan_of(spec, ADD_TILE), write_module(tmp_path, spec)
    case = next(case for case in derive_cases(plan) if not case.empty)
    report = verify_case(plan, case, load_module(path), executor)
    assert report.status == "passed" and executor.runs == (1 if knows else 2)


class Unable(CpuExecutor):
    """Finds out in one of the calls that it cannot run the kernel."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: object,
    ) -> Ran:
        self.calls -= 1
        if self.calls < 0:
            raise CannotRun("no such instruction")
        return super().run(module, spec, args, orders, judge)


class Mortal(CpuExecutor):
    """Is gone with the first call that raises an error of its own."""

    gone = False

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: object,
    ) -> Ran:
        assert not self.gone, "called after its end"
        try:
            return super().run(module, spec, args, orders, judge)
        except RuntimeError:
            self.gone = True
            raise

    def alive(self) -> bool:
        return not self.gone


class Explaining(CpuExecutor):
    """Tells more once something has failed."""

    explained = 0

    def explains(self) -> bool:
        self.explained += 1
        return self.explained == 1


def test_what_fails_is_run_again_once_and_what_failed_only_once_has_failed(tmp_path: Path) -> None:
    once = Explaining()
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec(), "raises once"), once)
    assert once.explained == 1 and not report.ok
    assert ["stale state" in r.message for r in report.results if r.status == "failed"] == [True]
    always = verify_kernel(add_plan(), write_module(tmp_path, add_spec(), "rounding"), Explaining())
    plain = verify(tmp_path, "add", "rounding")
    assert [r.message for r in always.results] == [r.message for r in plain.results] and not plain.ok


def test_every_code_is_judged(tmp_path: Path) -> None:
    """By cases and by the calls that must be accepted."""
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec()), Twofold())
    failed = [case for case in report.cases if case.status == "failed"]
    assert failed and all(case.message.startswith("the code for sm_2: D[") for case in failed)
    for accepted in (check for check in report.host_checks if "accepts" in check.what):
        empty = "is 0" in accepted.what
        assert empty or accepted.message.startswith(("the code for sm_2 gives a wrong result: [", "d, which it made"))


def as_they_ran(report: KernelReport) -> list[CaseReport]:
    return [report.cases[number] for number in in_order(add_plan(), derive_cases(add_plan()))]


@pytest.mark.parametrize("calls", [0, 3])
def test_a_kernel_that_cannot_be_run_is_not_called_wrong(tmp_path: Path, calls: int) -> None:
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec()), Unable(calls))
    cases = as_they_ran(report)
    assert [c.status for c in cases] == ["passed"] * calls + ["not run"] * (len(report.cases) - calls)
    assert {(c.reason, c.message) for c in cases[calls:]} == {("cannot run", "no such instruction")}
    assert (report.reason, report.error, report.host_checks) == ("cannot run", "no such instruction", ())
    assert not report.ok and not report.complete


def test_a_kernel_that_cannot_be_run_may_show_in_the_host_checks(tmp_path: Path) -> None:
    path, cases = write_module(tmp_path, add_spec()), len(derive_cases(add_plan()))
    every = Unable(1 << 20)
    whole = verify_kernel(add_plan(), path, every)
    runs = (1 << 20) - every.calls - cases  # some checks share one
    # refused calls, and that which is accepted
    for calls, checks in ((0, 0), (9, 9), (runs - 1, len(whole.host_checks) - 1)):
        report = verify_kernel(add_plan(), path, Unable(cases + calls))
        *made, last = report.host_checks
        assert {c.status for c in report.cases} == {"passed"} and len(made) == checks
        assert last.reason == "cannot run" and all(check.status == "passed" for check in made)
        assert (report.reason, report.error) == ("cannot run", "no such instruction") and not report.ok


def test_a_device_that_is_lost_is_not_called_again(tmp_path: Path) -> None:
    path = write_module(tmp_path, add_spec(), "raises")
    report = verify_kernel(add_plan(), path, Mortal())
    cases = as_they_ran(report)
    (failed,) = [number for number, case in enumerate(cases) if case.status == "failed"]
    assert cases[failed].sizes["M"] == 1 and cases[failed].reason is None
    assert {(c.status, c.reason) for c in cases[:failed]} == {("passed", None)}
    assert {(c.status, c.reason) for c in cases[failed + 1 :]} == {("not run", "device lost")}
    assert report.reason == "device lost" and cases[failed].name in report.error and report.host_checks == ()
    path = write_module(tmp_path, add_spec(), "wrong error")  # raised by a host check
    report = verify_kernel(add_plan(), path, Mortal())
    (failed,) = [number for number, check in enumerate(report.host_checks) if check.status == "failed"]
    assert {(c.status, c.reason) for c in report.host_checks[failed + 1 :]} == {("not run", "device lost")}
    assert {c.status for c in report.cases} == {"passed"} and not report.ok


def test_one_case_runs_in_several_orders(tmp_path: Path) -> None:
    path = write_module(tmp_path, add_spec())
    report = verify_kernel(add_plan(), path, Ordering())
    assert {c.name: c.orders for c in report.cases if c.orders > 1} == {"all one more": 3}
    assert report.orders == 3 and f"{len(report.cases)} cases (1 in 3 orders)" in report.text
    assert as_json(report)["orders"] == 3
    alone = verify_kernel(add_plan(), path, CpuExecutor())
    assert alone.orders == 1 and "orders" not in alone.text


def test_a_case_that_is_too_large_gives_way_to_another_of_several_blocks(tmp_path: Path) -> None:
    executor = Ordering()
    executor.element_limit = 5 * 17 - 1  # one element less than that case has
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec()), executor)
    assert {c.name: c.reason for c in report.cases}["all one more"] == "too large"
    (case,) = [c for c in report.cases if c.orders > 1]
    assert report.ok and (case.sizes["M"] > ADD_TILE["M"] or case.sizes["N"] > ADD_TILE["N"])


def test_reports_survive_json(tmp_path: Path) -> None:
    report = verify(tmp_path, "add", "rounding")
    assert any(c.ratio == float("inf") for c in report.cases)
    path = write_module(tmp_path, add_spec())
    for found in (
        report,
        verify_kernel(add_plan(), path, Unable(3)),
        verify_kernel(add_plan(), path, Ordering()),
    ):
        text = json.dumps(as_json(found), allow_nan=False)
        assert from_json(json.loads(text)) == found
