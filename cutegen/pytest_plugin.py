"""A fixture of pytest for kernels of CuTeDSL: `cute_emulator` runs functions on the CPU, with all of the checks.

    def test_add(cute_emulator):
        a, b, c = torch.randn(100), torch.randn(100), torch.empty(100)
        cute_emulator.run(add, a, b, c, target="sm_90a", outputs=["c"], orders=3)
        torch.testing.assert_close(c, a + b)

pytest finds it by itself if cutegen is installed. Nothing that takes long is imported before a test uses it. A test
that fails for a fault, or for what cutegen refuses, shows that and the test's own lines, none of the emulator's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from cutegen.errors import CutegenError

if TYPE_CHECKING:
    from cutegen.emulator import Called, Emulation

_FAULTS = {
    ("cutegen.emulator.checks.faults", "FaultError"),
    ("cutegen.emulator.calls.emulating", "CompileError"),
}
_INSIDE = {"nvidia_cutlass_dsl", "contextlib.py"}  # parts of paths
_OWN = Path(__file__).resolve().parent


class CuteEmulator:
    """Runs functions that launch kernels of CuTeDSL on the CPU. A fault fails the test."""

    def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Called:
        """Calls a function as `cutegen.emulator.call` does, with the same keywords: `target`, `orders`, `seed`,
        `outputs` and `inouts`. What the function returns is the `result` of what comes back.
        """
        from cutegen.emulator import call

        return call(function, *arguments, **named)

    def emulating(self, target: str = "sm_90a", *, orders: int = 1, seed: int = 0) -> AbstractContextManager[Emulation]:
        """While it is entered, all that CuTeDSL compiles runs on the CPU, as in `cutegen.emulator.emulating`."""
        from cutegen.emulator import emulating

        return emulating(target, orders=orders, seed=seed)


@pytest.fixture
def cute_emulator() -> CuteEmulator:
    """Runs functions that launch kernels of CuTeDSL on the CPU, with all of the emulator's checks."""
    return CuteEmulator()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Has cutegen imported as any library is.

    As it has a plugin, pytest would rewrite the assertions of all its modules, which takes several seconds in the first
    run. There is no public way to say so; where this one is gone, only that time is.
    """
    marked = getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("cutegen")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Leaves the lines of cutegen and of CuTeDSL out of the traceback of what cutegen raises, and adds its help."""
    found = call.excinfo
    if found is not None and isinstance(found.value, CutegenError) and _concerns(item, found):
        if found.value.help:
            found.value.args = (f"{found.value.message}\nhelp: {found.value.help}",)
        shown = _outside_only(found.tb)
        if shown is not None:
            call.excinfo = pytest.ExceptionInfo.from_exception(found.value.with_traceback(shown))
    return (yield)


def _concerns(item: pytest.Item, found: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether it is a fault, or was raised in a test that has the fixture, and not in one of cutegen itself."""
    return (found.type.__module__, found.type.__name__) in _FAULTS or "cute_emulator" in getattr(
        item, "fixturenames", ()
    )


def _outside_only(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of cutegen and CuTeDSL; None if no frame is left."""
    if trace is None:
        return None
    rest = _outside_only(trace.tb_next)
    if not _outside(Path(trace.tb_frame.f_code.co_filename)):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def _outside(path: Path) -> bool:
    """Whether a file is neither of cutegen nor of CuTeDSL."""
    return not _INSIDE & set(path.parts) and _OWN not in path.parents
