"""How a generated function is called: inputs and scalars by place, outputs by name, results in the order of tensors."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from specs_kit import modules_of_specs

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from cutegen.codegen import generate  # noqa: E402
from cutegen.codegen.cplusplus import example_text, header_text  # noqa: E402
from cutegen.contract import argument_names, as_called, as_compiled, replace_compiled  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

STATS = """
cutegen: 1
kernel: rms_stats
op: rowwise
tensors:
  rstd: {shape: [M], dtype: f32, role: out}
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
  W: {shape: [N], dtype: bf16}
  S: {shape: [M, N], dtype: f32, role: inout}
scalars: {eps: f32, gain: f32}
compute:
  - S = S + gain * X
  - Y = S * W
  - rstd = rsqrt(mean(X * X, N) + eps)
static: {N: 256}
targets: [sm_80]
"""
MASK = """
cutegen: 1
kernel: mask
op: elementwise
tensors:
  Y: {shape: [M, N], dtype: f32, role: out}
  X: {shape: [M], dtype: f32}
scalars: {alpha: f32}
compute: Y = coord(N) + alpha * X
targets: [sm_80]
torch: {op: "testing_calls::mask"}
"""


def made(text: str, folder: Path) -> tuple[ModuleType, Any, list[tuple[Any, ...]]]:
    """A module whose compiled function, of tensors on the CPU, notes what it is called with; and its spec."""
    (module,) = generate(text, "specs/x.yaml").modules
    (path := folder / module.name).write_text(module.text, encoding="utf-8")
    loaded = load_module(path)
    calls: list[tuple[Any, ...]] = []
    replace_compiled(loaded, lambda *arguments: calls.append(arguments))
    return loaded, module.spec, calls


@pytest.fixture(scope="module")
def stats(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, Any, list[tuple[Any, ...]]]:
    return made(STATS, tmp_path_factory.mktemp("stats"))


def given() -> tuple[Any, Any, Any]:
    return torch.ones(3, 256).bfloat16(), torch.ones(256).bfloat16(), torch.zeros(3, 256)


def test_inputs_then_scalars_then_outputs_by_name(stats: tuple[ModuleType, Any, list[tuple[Any, ...]]]) -> None:
    module, spec, calls = stats
    x, w, s = given()
    results = module.rms_stats(x, w, s, 1e-5, gain=2.0)
    assert [tuple(r.shape) for r in results] == [(3,), (3, 256), (3, 256)] and results[2] is s
    assert [a is b for a, b in zip(calls[-1], (results[0], x, results[1], w, s), strict=False)] == [True] * 5
    assert calls[-1][5:] == (1e-5, 2.0)
    y = torch.empty_like(x)
    assert module.rms_stats(x, w, s, 1e-5, 2.0, y=y)[1] is y and calls[-1][2] is y
    for name in ("rms_stats", "reference"):
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        by_kind = {p.name: p.kind.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
        assert list(by_kind) == ["x", "w", "s", "eps", "gain", "rstd", "y"]
        assert list(by_kind.values()) == ["POSITIONAL_OR_KEYWORD"] * 5 + ["KEYWORD_ONLY"] * 2
    reference = module.reference(x, w, s, 1e-5, 2.0)
    for one, made in zip(reference, results, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (made.shape, made.dtype, made.stride())
    assert [tuple(x.shape) for x in module.make_inputs(M=4, device="cpu")[:3]] == [(4, 256), (256,), (4, 256)]
    assert list(module.make_outputs(M=4, device="cpu")) == ["rstd", "y"] and len(module.make_inputs(device="cpu")) == 5
    assert spec.output.name == "S" and [t.name for t in spec.assigned] == ["S", "Y", "rstd"]


def test_outputs_by_place_are_refused(stats: tuple[ModuleType, Any, list[tuple[Any, ...]]]) -> None:
    module, _, calls = stats
    x, w, s = given()
    before = len(calls)
    for arguments in ((None, x, None, w, s, 1e-5, 2.0), (x, w, s, 1e-5, 2.0, None)):
        with pytest.raises(TypeError, match=r"rms_stats\(\) takes 5 positional arguments but \d were given"):
            module.rms_stats(*arguments)
    assert len(calls) == before


def test_an_output_whose_sizes_no_input_has_must_be_given(tmp_path: Path) -> None:
    module, _, calls = made(MASK, tmp_path)
    x, y = torch.ones(3), torch.empty(3, 8)
    for name in ("mask", "reference"):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'y'"):
            getattr(module, name)(x, 2.0)
    assert module.mask(x, 2.0, y=y) is y and calls == [(y, x, 2.0)]
    assert torch.equal(module.reference(x, 2.0, y=y), torch.arange(8.0)[None] + 2 * x[:, None])
    schema = str(torch.ops.testing_calls.mask.default._schema)
    assert schema == "testing_calls::mask(Tensor x, float alpha, *, Tensor(a!) y) -> ()"
    with pytest.raises(TypeError, match=r"mask\(\) takes 2 positional arguments but 3"):
        module.mask(y, x, 2.0, y=y)
    assert as_compiled(module, "mask", (x, 2.0), {"y": y}) == [y, x, 2.0]
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        as_compiled(module, "mask", (x, 2.0), {})


def test_one_order_in_every_module() -> None:
    """Of the functions, their results and the arguments of the op, whatever the order of the statements."""
    for module in modules_of_specs().values():
        spec, tree = module.spec, ast.parse(module.text)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        places = [*(t.argument for t in spec.tensors if t.reads), *(s.argument for s in spec.scalars)]
        named = [t.argument for t in spec.tensors if t.role == "out"]
        for name in (spec.kernel, "reference"):
            arguments = functions[name].args
            assert [a.arg for a in arguments.args] == places, (spec.kernel, name)
            assert [a.arg for a in arguments.kwonlyargs] == named, (spec.kernel, name)
        (returned,) = (node.value for node in functions[spec.kernel].body if isinstance(node, ast.Return))
        assert returned is not None
        results = returned.elts if isinstance(returned, ast.Tuple) else [returned]
        assert [ast.unparse(x) for x in results] == [t.argument for t in spec.tensors if t.writes], spec.kernel
        if spec.torch.op is not None:
            arguments = functions["_op"].args
            assert [a.arg for a in arguments.args] == places and {a.arg for a in arguments.kwonlyargs} <= set(named)


def test_cplusplus_keeps_the_order(tmp_path: Path) -> None:
    (module,) = generate(STATS, "specs/x.yaml").modules
    header = " ".join(header_text(module, "specs/x.yaml").split())
    assert (
        "inline void rms_stats( tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView s, double eps, "
        "double gain, tvm::ffi::TensorView rstd, tvm::ffi::TensorView y, TVMFFIStreamHandle stream = nullptr)"
    ) in header
    assert "__tvm_ffi_rms_stats, rstd, x, y, w, s, eps, gain)" in header  # as it was compiled
    assert "kernels::rms_stats(x, w, s, 0.5, 0.5, rstd, y);" in example_text(module, "specs/x.yaml")


def test_what_runs_kernels_goes_from_one_order_to_the_other(stats: tuple[ModuleType, Any, list[Any]]) -> None:
    module, spec, _ = stats
    names = argument_names(module, "rms_stats")
    assert names == ["rstd", "x", "y", "w", "s", "eps", "gain"]
    places, named = as_called(spec, names)
    assert (places, named) == (["x", "w", "s", "eps", "gain"], {"rstd": "rstd", "y": "y"})
    assert as_compiled(module, "rms_stats", places, named) == names
