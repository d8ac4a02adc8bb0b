"""Puts stand-ins for quack and Liger where imports find them, and takes the libraries away."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import liger_kit
import pytest
import quack_kit

MODULES = {**quack_kit.MODULES, **liger_kit.MODULES}


def install(monkeypatch: pytest.MonkeyPatch, package: str, **changed: Callable[..., Any]) -> SimpleNamespace:
    """Puts a library's stand-in where imports find it; `changed` are other functions by name. Counts its calls."""
    calls = SimpleNamespace(count=0)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            calls.count += 1
            return function(*given, **named)

        return call

    for name, contents in MODULES.items():
        if name.partition(".")[0] != package:
            continue
        module = ModuleType(name)
        for key, value in contents.items():
            value = changed.get(key, value)
            vars(module)[key] = value if isinstance(value, type | dict | int | liger_kit.Launched) else counted(value)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def remove(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes a library be missing, on machines that have it too."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *more: None if name == package else found(name, *more))
