"""The fixture `cute_emulator` in a project that has nothing but tests."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from cutegen import pytest_plugin

pytest.importorskip("cutlass")
pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
TESTS = """
    import torch
    from cute_functions import add, without_predicate

    def test_right(cute_emulator):
        a, b, c = torch.randn(50), torch.randn(50), torch.zeros(50)
        called = cute_emulator.run(add, a, b, c, target="sm_80", outputs=["c"], orders=2)
        torch.testing.assert_close(c, a + b)
        assert called.ran[0].report.orders == 2

    def test_wrong(cute_emulator):
        cute_emulator.run(without_predicate, torch.ones(50), torch.zeros(64), target="sm_80")

    def test_wrong_within(cute_emulator):
        with cute_emulator.emulating("sm_80"):
            add(torch.ones(50, device="cuda"), torch.empty(50, device="cuda"), torch.ones(50, device="cuda"))

    def test_refused(cute_emulator):
        cute_emulator.run(add, torch.ones(50), torch.ones(50), torch.zeros(50), target="sm_80", outputs="d")

    def test_nothing_checked(cute_emulator):
        cute_emulator.run(torch.add, torch.ones(50), torch.ones(50), target="sm_80")

    def test_wrong_without_a_fault(cute_emulator):
        assert cute_emulator.no_such_thing
"""


def test_faults_are_shown_readably(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the test's own line, the kernel's, and none of the emulator's or of CuTeDSL's."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it may be installed, too
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests' / 'kits'}")
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", "cutegen.pytest_plugin", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=5)
    text = done.stdout.str()
    assert re.search(
        r">       cute_emulator\.run\(without_predicate, .*\nE .*FaultError: .*cute_functions\.py:\d+: ", text
    )
    assert re.search(r"fault\[out-of-bounds\]: .* past the end of a, .*\nE +\d+ \| c\[i\] = a\[i\]\nE +ptx \|", text)
    assert re.search(r">           add\(torch\.ones.*\nE .*fault\[never-written\]", text)
    assert re.search(
        r">       cute_emulator\.run\(add, .*\nE .*: there is no tensor `d`.*\nE +help: there are a, b, c", text
    )
    assert re.search(
        r">       cute_emulator\.run\(torch.*\nE .*NothingLaunched: add launched no kernel, so nothing", text
    )
    assert not re.search(r"emulator/\w+/\w+\.py:\d+|nvidia_cutlass_dsl", text) and "no_such_thing" in text


def test_it_is_light() -> None:
    """pytest imports it before any test, whatever project it is in."""
    code = "import cutegen.pytest_plugin, sys; assert not {'torch', 'cutlass', 'numpy', 'click'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_faults_whose_traces_are_shortened_are_there() -> None:
    for module, name in pytest_plugin._FAULTS:
        assert issubclass(getattr(importlib.import_module(module), name), Exception)


def test_modules_of_the_package_are_not_rewritten() -> None:
    assert type(test_it_is_light.__globals__["__loader__"]).__name__ == "AssertionRewritingHook"
    assert type(importlib.import_module("cutegen.emulator.calls.emulating").__loader__) is SourceFileLoader
