"""How a generated module chooses what to compile for a device, and what its Python does in a call, without one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutegen.codegen import generate
from cutegen.emulator import on_device
from cutegen.verification.executor import load_module

SPEC = """
cutegen: 1
kernel: add_one
op: elementwise
tensors:
  X: {{shape: [N], dtype: f32}}
  Y: {{shape: [N], dtype: f32, role: out}}
compute: Y = X + 1
targets: [{targets}]
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ModuleType, list[str]]]:
    def make(targets: str, capability: tuple[int, int], devices: int = 1) -> tuple[ModuleType, list[str]]:
        generated = generate(SPEC.format(targets=targets), "specs/add_one.yaml").modules[0]
        path = tmp_path / generated.name
        path.write_text(generated.text)
        module, compiled = load_module(path), []
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
        monkeypatch.setattr(module, "compile", lambda arch: compiled.append(arch) or (lambda *arguments: None))
        return module, compiled

    return make


@pytest.mark.parametrize(
    ("targets", "capability", "chosen"),
    [
        ("sm_80, sm_90a", (8, 0), "sm_80"),
        ("sm_80, sm_90a", (8, 9), "sm_80"),
        ("sm_80, sm_86", (8, 9), "sm_86"),
        ("sm_80, sm_90a", (9, 0), "sm_90a"),
        ("sm_100a, sm_103a", (10, 3), "sm_103a"),
        ("sm_120a", (12, 0), "sm_120a"),
    ],
)
def test_the_closest_target_is_compiled_once(
    targets: str, capability: tuple[int, int], chosen: str, build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, compiled = build(targets, capability)
    first = module._load(torch.device("cuda:0"))
    assert compiled == [chosen]
    assert module._load(torch.device("cuda:0")) is first and compiled == [chosen]


@pytest.mark.parametrize(
    ("targets", "capability"), [("sm_80", (9, 0)), ("sm_90a", (10, 0)), ("sm_86", (8, 0)), ("sm_100a", (10, 3))]
)
def test_a_device_that_no_target_fits_is_refused(
    targets: str, capability: tuple[int, int], build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, compiled = build(targets, capability)
    with pytest.raises(ValueError, match=f"sm_{capability[0]}{capability[1]}.*{targets}"):
        module._load(torch.device("cuda:0"))
    assert not compiled


def test_threads_that_call_first_compile_once(build: Callable[..., tuple[ModuleType, list[str]]]) -> None:
    module, compiled = build("sm_80", (8, 0))
    threads = [threading.Thread(target=module._load, args=(torch.device("cuda:0"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["sm_80"]


def test_what_was_compiled_is_called_without_its_wrapper(
    build: Callable[..., tuple[ModuleType, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several devices too: `test_a_launch_is_on_the_device_of_its_tensors` says why."""

    class Wrapped:
        def __tvm_ffi_object__(self) -> Callable[..., None]:
            return print

    module, _ = build("sm_80", (8, 0), devices=2)
    monkeypatch.setattr(module, "compile", lambda arch: Wrapped())
    assert module._load(torch.device("cuda:1")) is print


def test_a_call_runs_no_python_but_the_function_itself(build: Callable[..., tuple[ModuleType, list[str]]]) -> None:
    module, _ = build("sm_80", (8, 0))
    module._compiled[-1] = min  # something in C that takes two tensors; -1 is the index of the CPU
    x, y = torch.ones(1), torch.zeros(1)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        result = module.add_one(x, y)
    finally:
        sys.setprofile(None)
    assert result is y and called == ["add_one"]


@pytest.mark.parametrize("name", ["x", "y"])
def test_tensors_that_want_a_gradient_are_refused_in_every_call(
    name: str, build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, _ = build("sm_80", (8, 0))
    calls: list[tuple[object, ...]] = []
    module._compiled[0] = lambda *arguments: calls.append(arguments)
    tensors = {"x": torch.ones(4), "y": torch.zeros(4)}
    tensors[name].requires_grad_()
    arguments = [on_device(t) for t in tensors.values()]
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"^{name}: expected a tensor that requires no gradient"):
            module.add_one(*arguments)
    assert not calls
    with torch.no_grad():
        module.add_one(*arguments)
    assert len(calls) == 1
