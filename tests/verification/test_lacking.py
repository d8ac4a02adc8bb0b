"""A machine without the memory for a case or a check: that is not run, and said so, and the kernel is not wrong."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from verification_fakes import CpuExecutor, Judge, add_plan, add_spec, write_module

from cutegen.hostchecks import checks
from cutegen.hostchecks.judging import Check, Host
from cutegen.language.model import KernelSpec
from cutegen.verbs.building.verification import why_unexecuted
from cutegen.verification import given
from cutegen.verification.executor import Ran, load_module, no_judge
from cutegen.verification.lacking import NoMemory, raise_no_memory
from cutegen.verifying.kernel import verify_kernel


def _numpy() -> None:
    np.empty(1 << 50, np.uint8)


def _torch() -> None:
    torch.empty(1 << 50, dtype=torch.uint8)


def _cuda() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 8 GiB")


def _system() -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def _python() -> None:
    bytearray(1 << 50)


@pytest.mark.parametrize(
    ("fails", "says"),
    [(_numpy, "needs 1125899.9 GB"), (_torch, "needs 1125899.9 GB"), (_cuda, "needs 21.5 GB")]
    + [(_system, "more memory than there is"), (_python, "more memory than there is")],
)
def test_what_says_that_memory_is_lacking(fails: Callable[[], None], says: str) -> None:
    with pytest.raises(Exception) as caught:
        fails()
    with pytest.raises(NoMemory, match=says):
        raise_no_memory(caught.value)


def test_other_errors_are_none_of_it() -> None:
    for error in (RuntimeError("the GPU fell off"), ValueError("x"), OSError(errno.ENOENT, "no such file")):
        raise_no_memory(error)


def test_what_a_module_asks_for_itself(tmp_path: Path) -> None:
    """As much as its tensors have may be lacking; far more is a mistake of the module."""
    path = tmp_path / "asking.py"
    path.write_text("def ask(make): make()\n", encoding="utf-8")
    module = load_module(path)

    def asked(size: int) -> Exception:
        def make() -> None:
            raise MemoryError(f"Unable to allocate {size} bytes for an array")

        with pytest.raises(MemoryError) as caught:
            module.ask(make)
        return caught.value

    with pytest.raises(NoMemory, match="needs 3.0 GB that are not there"):
        raise_no_memory(asked(3 * 10**9), module, 10**9)
    raise_no_memory(asked(5 * 10**9), module, 10**9)
    with pytest.raises(NoMemory):
        raise_no_memory(asked(5 * 10**9))


class Poor(CpuExecutor):
    """Has no memory for the calls that `refuses` names, by their number."""

    def __init__(self, refuses: Callable[[int], bool]) -> None:
        self.refuses, self.calls = refuses, 0

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        *more: Any,
    ) -> Ran:
        self.calls += 1
        if self.refuses(self.calls - 1):
            _torch()
        return super().run(module, spec, args, orders, judge, *more)


def test_cases_and_checks_without_memory_are_not_run(tmp_path: Path) -> None:
    path = write_module(tmp_path, add_spec())
    whole = verify_kernel(add_plan(), path, CpuExecutor())
    report = verify_kernel(add_plan(), path, Poor(lambda call: call % 5 == 2))
    assert report.ok and not report.complete and not report.failures
    idle = [result for result in report.results if result.status == "not run"]
    assert len(report.results) == len(whole.results)
    assert f"{len(idle)} of them not run for lack of memory (the first needs 1125899.9 GB" in report.text
    assert {result.reason for result in idle} == {"no memory"} and "that are not there" in idle[0].message
    kinds = {type(result).__name__ for result in idle}
    assert kinds == {"CaseReport", "HostCheck"} and len(idle) > 8


def test_without_memory_for_any_case_nothing_is_said_of_the_kernel(tmp_path: Path) -> None:
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec()), Poor(lambda call: True))
    assert not report.failures and {case.reason for case in report.cases} == {"no memory"}
    assert "there is no memory for any case" in why_unexecuted(report)


def test_a_reference_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of float64, which takes several times what the tensors take."""
    evaluate, calls = given.evaluate, []

    def poor(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return _numpy() if len(calls) == 3 else evaluate(*arguments, **named)

    monkeypatch.setattr(given, "evaluate", poor)
    report = verify_kernel(add_plan(), write_module(tmp_path, add_spec()), CpuExecutor())
    assert report.ok and [case.status for case in report.cases].count("not run") == 1


def test_a_wrong_kernel_is_still_called_wrong(tmp_path: Path) -> None:
    path = write_module(tmp_path, add_spec(), "raises")
    report = verify_kernel(add_plan(), path, Poor(lambda call: call % 5 == 2))
    assert not report.ok and report.failures


@pytest.mark.parametrize("making", [False, True], ids=["run", "making its arguments"])
def test_a_check_whose_module_asks_for_absurd_memory(
    making: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is a mistake of the module, unlike memory that the check itself asks for and does not get."""
    path = write_module(tmp_path, add_spec())
    path.write_text(f"{path.read_text(encoding='utf-8')}\n\ndef ask(make): make()\n", encoding="utf-8")

    def check(asks: Callable[[Callable[[], None]], None]) -> Callable[[Host], Iterator[tuple[Check, bool]]]:
        def made(host: Host) -> Iterator[Check]:
            if making:
                asks(_torch)
            yield Check("D", "asks", lambda: str(asks(_torch)))

        return lambda host: checks._marked(made(host), host, "asking")

    module = load_module(path)
    monkeypatch.setattr(checks, "_checks", check(lambda make: make()))
    (found,) = checks.host_checks(add_plan(), module, CpuExecutor())
    assert (found.status, found.reason) == ("not run", "no memory")
    monkeypatch.setattr(checks, "_checks", check(module.ask))
    with pytest.raises(RuntimeError, match="1125899906842624 bytes"):
        list(checks.host_checks(add_plan(), module, CpuExecutor()))
