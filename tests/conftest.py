"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compiled_before_kit import CompiledBefore
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from sweep_kit import draw_fewer_examples, leave_for_the_sweep

if TYPE_CHECKING:
    from compiling_kit import Compiler

# Tests run side by side, a process a core: threads of torch would only wait for each other there.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long data take to make, and a test to run, is for the machine to say, which may be busy.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Hypothesis draws constants that it finds in the sources of all modules that are loaded. There are a thousand of these,
# which takes each process most of a minute, and makes examples depend on the tests that ran before.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# A shell that runs the tests in the background has them, and all processes that they start, ignore Ctrl-C, which some
# tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A module is compiled for the emulator once on a machine, however often the tests run.
COMPILED = CompiledBefore()
COMPILED.watch()


def pytest_runtest_setup() -> None:
    COMPILED.take_over()


def pytest_sessionfinish() -> None:
    COMPILED.kept.prune()
    gc.freeze()  # pytest's plugin for unraisable exceptions collects garbage five times at the end


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process, which makes what they share once; those that time a GPU in one, too."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "gpu" if path.endswith("/test_gpu.py") else path

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for meanwhile: that takes a quarter of the time, and all that there is stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_for_the_sweep(items, Path(__file__).parent)
    draw_fewer_examples(items, sweep=config.option.markexpr != "not sweep")


def pytest_collection_finish() -> None:
    """The modules of the tests and all that they import are there to the end: what is garbage is not looked for there,
    as it else is again and again while a kernel compiles. It is looked for less often than by default, too: that takes
    a tenth of the time in which a kernel compiles, most of which stays."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """A stand-in for `compile_all` in tests of compiled code: one process serves all tests, and compiles each job once
    on this machine.
    """
    from cutegen.compiling import compile_all
    from cutegen.compiling.pool import TIMEOUT, worker_setup
    from cutegen.workers import Crew

    with Crew(worker_setup(TIMEOUT)) as crew:
        yield lambda jobs: compile_all(jobs, cache=COMPILED.kept, crew=crew)
