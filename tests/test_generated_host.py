"""How a generated module chooses what to compile for a device, without one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutegen.codegen import generate
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
