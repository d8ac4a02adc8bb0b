"""The op that a module makes known to torch: in graphs, under autograd and autocast, on the CPU by emulation."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutegen.codegen import generate

pytest.importorskip("cutlass")

from cutegen.emulator import install

NORM = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
  rstd: {shape: [M], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - rstd = rsqrt(mean(X * X, N) + eps)
  - Y = X * rstd * W
static: {N: 64}
targets: [sm_90a]
torch: {op: "cutegen_tests::norm", backward: norm_bwd}
---
cutegen: 1
kernel: norm_bwd
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  rstd: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
compute:
  - x = X * rstd
  - g = dY * W
  - dX = (g - x * mean(g * x, N)) * rstd
  - dW = sum(dY * x, M)
static: {N: 64}
targets: [sm_90a]
torch: {op: "cutegen_tests::norm_bwd"}
"""
STEP = """\
cutegen: 1
kernel: step
op: elementwise
tensors:
  P: {shape: [M, N], dtype: f32, role: inout}
  G: {shape: [M, N], dtype: bf16, align: 16}
  Q: {shape: [M, N], dtype: bf16, align: 16, role: out}
scalars: {rate: f32, steps: i32}
compute:
  - P = P - rate * cast(steps, f32) * G
  - Q = P
targets: [sm_90a]
torch: {op: "cutegen_tests::step"}
"""


def loaded(text: str, folder: Path) -> dict[str, ModuleType]:
    """The modules of a text, written to one folder, imported and installed on the emulator."""
    found = {}
    for module in generate(text, "specs/x.yaml").modules:
        (folder / module.name).write_text(module.text, encoding="utf-8")
    for module in generate(text, "specs/x.yaml").modules:
        kernel = module.spec.kernel
        if kernel not in sys.modules:
            spec = importlib.util.spec_from_file_location(kernel, folder / module.name)
            assert spec is not None and spec.loader is not None
            sys.modules[kernel] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[kernel])
        found[kernel] = sys.modules[kernel]
        install(found[kernel], kernel, lines=False)
    return found


@pytest.fixture(scope="module")
def norm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    yield loaded(NORM, tmp_path_factory.mktemp("norm"))
    sys.modules.pop("norm", None)
    sys.modules.pop("norm_bwd", None)


def arguments(rows: int = 3) -> tuple[torch.Tensor, torch.Tensor, float]:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 64, generator=generator).to(torch.bfloat16).requires_grad_()
    return x, torch.randn(64, generator=generator).requires_grad_(), 1e-5


def by_torch(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x.float(), (64,), w, eps)


def test_the_module_imports_that_of_its_gradient(norm: dict[str, ModuleType]) -> None:
    """The module of `norm` comes first, and asks for the other one beside it."""
    assert Path(str(norm["norm_bwd"].__file__)).parent == Path(str(norm["norm"].__file__)).parent
    assert torch.ops.cutegen_tests.norm_bwd.default._schema.name == "cutegen_tests::norm_bwd"


def test_torch_has_nothing_against_the_op_and_its_gradient(norm: dict[str, ModuleType]) -> None:
    torch.library.opcheck(torch.ops.cutegen_tests.norm.default, arguments())


def test_gradients_are_those_of_torch_in_a_graph_without_a_break(norm: dict[str, ModuleType]) -> None:
    """Also where what is given for an output is spread out, as a sum's gradient is, and sizes change."""

    def loss(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
        return (torch.ops.cutegen_tests.norm(2 * x, w, eps)[0].float() * x.float()).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 7):
        x, w, eps = arguments(rows)
        (by_torch(2 * x, w, eps) * x.float()).sum().backward()
        wanted = [x.grad, w.grad]
        x.grad = w.grad = None
        compiled(x, w, eps).backward()
        for found, right in zip((x.grad, w.grad), wanted, strict=True):
            assert found is not None and right is not None
            assert (found.float() - right.float()).norm() < 0.01 * right.float().norm()
    x, w, eps = arguments()
    torch.ops.cutegen_tests.norm(x, w, eps)[0].sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_what_has_no_gradient_says_so(norm: dict[str, ModuleType]) -> None:
    y, rstd = torch.ops.cutegen_tests.norm(*arguments())
    assert y.requires_grad and not rstd.requires_grad


def test_autocast_gives_the_types_that_the_kernel_takes(norm: dict[str, ModuleType]) -> None:
    x, w, eps = arguments()
    y, rstd = norm["norm"]._autocast_op(x.float(), w.to(torch.bfloat16), eps)
    assert (rstd.dtype, y.dtype) == (torch.float32, torch.bfloat16)


def test_models_export_with_the_op_in_their_graph(norm: dict[str, ModuleType]) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.ops.cutegen_tests.norm(x, self.weight, 1e-5)[0]
            return found

    x, rows = arguments()[0].detach(), torch.export.Dim("rows", min=2)
    model = Model()
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    assert "cutegen_tests.norm.default" in exported.graph_module.code
    assert torch.equal(exported.module()(arguments(9)[0].detach()), model(arguments(9)[0].detach()))
    changed = torch.func.functional_call(model, {"weight": torch.full((64,), 2.0)}, (x,))
    assert torch.equal(changed, 2 * model(x))


def test_another_import_of_a_module_takes_the_place_of_the_first(norm: dict[str, ModuleType]) -> None:
    spec = importlib.util.spec_from_file_location("again", str(norm["norm"].__file__))
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    try:
        with pytest.raises(NotImplementedError, match="CPU"):  # for which it is not installed
            torch.ops.cutegen_tests.norm(*arguments())
    finally:
        norm["norm"]._library = norm["norm"]._make_known()
        install(norm["norm"], "norm", lines=False)
    assert torch.ops.cutegen_tests.norm(*arguments())[0].shape == (3, 64)


def test_an_argument_that_is_written_is_mutated_and_outputs_are_padded_as_calls_make_them(tmp_path: Path) -> None:
    loaded(STEP, tmp_path)
    schema = torch.ops.cutegen_tests.step.default._schema
    assert str(schema) == "cutegen_tests::step(Tensor(a!) p, Tensor g, float rate, SymInt steps) -> Tensor"
    p, g = torch.randn(3, 20), torch.randn(3, 24).to(torch.bfloat16)[:, :20]
    wanted = p - 0.5 * 2 * g.float()
    kept = p.clone()
    q = torch.ops.cutegen_tests.step(p, g, 0.5, 2)
    assert torch.equal(p, wanted) and torch.equal(q, wanted.to(torch.bfloat16)) and q.stride() == (24, 1)
    torch.library.opcheck(
        torch.ops.cutegen_tests.step.default, (kept, g, 0.5, 2), test_utils=("test_schema", "test_faketensor")
    )
