"""Generated modules where a GPU is pretended: they make their outputs there, whenever they were imported."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from cutegen import emulator
from cutegen.codegen import generate

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

SPEC = """\
cutegen: 1
kernel: {name}
op: elementwise
tensors:
  X: {{shape: [N], dtype: f32}}
  Y: {{shape: [N], dtype: f32, role: out}}
compute: Y = X * 2
targets: [sm_80]
"""


def test_a_module_makes_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("doubled_before", "doubled_meanwhile")
    for name in names:
        (module,) = generate(SPEC.format(name=name), f"{name}.yaml").modules
        (tmp_path / f"{name}.py").write_text(module.text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made_by = torch._C._dynamo.guards._empty_strided_cuda
    before = importlib.import_module(names[0])
    with emulator.emulating("sm_80") as emulation:
        meanwhile = importlib.import_module(names[1])
        x = torch.arange(5.0, device="cuda")
        outputs = [before.doubled_before(x), meanwhile.doubled_meanwhile(x)]
        assert all(y.is_cuda and y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0] for y in outputs)
    assert [ran.report.kernel.count("doubled") > 0 for ran in emulation.ran] == [True, True]
    assert before._EMPTY is made_by is torch._C._dynamo.guards._empty_strided_cuda
