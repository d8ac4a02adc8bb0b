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
from cutegen.contract import replace_compiled
from cutegen.emulator import install, on_device
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
        monkeypatch.setattr(module, "compile_for", lambda arch: compiled.append(arch) or (lambda *arguments: None))
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
    first = module._compiled(0)
    assert compiled == [chosen]
    assert module._compiled(0) is first and compiled == [chosen]


@pytest.mark.parametrize(
    ("targets", "capability"), [("sm_80", (9, 0)), ("sm_90a", (10, 0)), ("sm_86", (8, 0)), ("sm_100a", (10, 3))]
)
def test_a_device_that_no_target_fits_is_refused(
    targets: str, capability: tuple[int, int], build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, compiled = build(targets, capability)
    with pytest.raises(ValueError, match=f"{targets}, got sm_{capability[0]}{capability[1]}"):
        module._compiled(0)
    assert not compiled


def test_threads_that_call_first_compile_once(build: Callable[..., tuple[ModuleType, list[str]]]) -> None:
    module, compiled = build("sm_80", (8, 0))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(module._compiled(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["sm_80"] and len(found) == 8 and len(set(map(id, found))) == 1


def test_what_was_compiled_is_called_without_its_wrapper(
    build: Callable[..., tuple[ModuleType, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several devices too: `test_a_launch_is_on_the_device_of_its_tensors` says why."""

    class Wrapped:
        def __tvm_ffi_object__(self) -> Callable[..., None]:
            return print

    module, _ = build("sm_80", (8, 0), devices=2)
    monkeypatch.setattr(module, "compile_for", lambda arch: Wrapped())
    assert module._compiled(1) is print


def test_a_call_runs_no_python_but_the_function_itself(
    build: Callable[..., tuple[ModuleType, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _ = build("sm_80", (8, 0))
    monkeypatch.setattr(module, "compile_for", lambda arch: min)  # something in C that takes two tensors
    assert module._compiled(-1) is min  # which is the index of the CPU
    x, y = torch.ones(1), torch.zeros(1)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        result = module.add_one(x, y=y)
    finally:
        sys.setprofile(None)
    assert result is y and called == ["add_one"]


@pytest.mark.parametrize("name", ["x", "y"])
def test_tensors_that_want_a_gradient_are_refused_in_every_call(
    name: str, build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, _ = build("sm_80", (8, 0))
    calls: list[tuple[object, ...]] = []
    replace_compiled(module, lambda *arguments: calls.append(arguments))
    tensors = {"x": torch.ones(4), "y": torch.zeros(4)}
    tensors[name].requires_grad_()
    arguments = [on_device(t) for t in tensors.values()]
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"^{name}: expected no gradient to be computed"):
            module.add_one(arguments[0], y=arguments[1])
    assert not calls
    with torch.no_grad():
        module.add_one(arguments[0], y=arguments[1])
    assert len(calls) == 1


@pytest.mark.parametrize("error", [RuntimeError("the GPU fell off"), MemoryError(), ZeroDivisionError()])
def test_what_nobody_can_explain_is_raised_as_it_was(
    error: Exception, build: Callable[..., tuple[ModuleType, list[str]]]
) -> None:
    module, compiled = build("sm_80", (8, 0))
    calls: list[int] = []

    def fails(*_: object) -> None:
        calls.append(1)
        raise error

    replace_compiled(module, fails)
    with pytest.raises(type(error)) as raised:
        module.add_one(on_device(torch.ones(4)), y=on_device(torch.zeros(4)))
    assert raised.value is error and calls == [1] and not compiled, "called once more, or compiled anew"


def test_why_an_output_cannot_be_made_is_said(
    build: Callable[..., tuple[ModuleType, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of an argument come first."""
    module, _ = build("sm_80", (8, 0))

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(module, "_empty", fails)
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        module.add_one(on_device(torch.ones(4)))
    with pytest.raises(TypeError, match=r"^x: expected torch.float32 \[N\] on cuda:0, got torch.float64"):
        module.add_one(on_device(torch.ones(4).double()))


PRODUCT = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K, align: 4}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: 32, N: 32, K: 8}}
targets: [sm_80]
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A product on the emulator."""
    generated = generate(PRODUCT, "specs/product.yaml").modules[0]
    path = tmp_path_factory.mktemp("module") / generated.name
    path.write_text(generated.text)
    module = load_module(path)
    install(module, "product", lines=False)
    return module


def product_of(module: ModuleType, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = module.make_inputs(M=m, N=n, K=k, device="cpu")
    return on_device(a), on_device(b)


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.as_subclass(torch.Tensor)


@pytest.mark.parametrize("k", [9, 0])
def test_an_output_that_is_left_out_is_made(product: ModuleType, k: int) -> None:
    a, b = product_of(product, 34, 8, k)
    made = product.product(a, b)
    assert (tuple(made.shape), made.stride()) == ((34, 8), (1, 36)), "rows of whole 16 bytes along M"
    assert torch.allclose(plain(made), plain(a) @ plain(b).T, atol=1e-5)
    given = torch.empty(8, 36)[:, :34].T
    assert product.product(a, b, c=on_device(given)).data_ptr() == given.data_ptr()
    assert torch.equal(plain(made), given)


@pytest.mark.parametrize("sizes", [(0, 8, 9), (34, 0, 9), (0, 0, 0)])
def test_outputs_without_elements_are_left_alone(product: ModuleType, sizes: tuple[int, int, int]) -> None:
    assert tuple(product.product(*product_of(product, *sizes)).shape) == sizes[:2]


def test_what_does_not_fit_is_told_with_what_was_given(product: ModuleType) -> None:
    a, b = product_of(product, 34, 8, 9)
    other, _ = product_of(product, 34, 8, 8)
    for arguments, says in (
        ((other, b), "b: expected K = 8, as a has it, got 9"),
        ((a, on_device(plain(b).contiguous())), "b: expected N contiguous, got a stride of 36 bytes"),
        ((a, on_device(torch.zeros(9, 9)[:, :8].T)), "b: expected K in steps of 16 bytes, got a stride of 36 bytes"),
        (
            (a, on_device(torch.zeros(9 * 8 + 1)[1:].view(9, 8).T)),
            "b: expected 16-byte alignment, got 0x",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            product.product(*arguments)
    with pytest.raises(ValueError, match="c: expected M = 34, as a has it, got 35"):
        product.product(a, b, c=on_device(torch.zeros(8, 35)[:, :35].T))
    for wrong in (None, 3, [[1.0]], plain(a), a[:, 0], on_device(plain(a).double()), plain(a).to_sparse()):
        with pytest.raises(TypeError, match=r"^a: expected torch.float32 \[M, K\] on cuda:0, got "):
            product.product(wrong, b)
    square = on_device(torch.zeros(8, 8))
    with pytest.raises(ValueError, match="c: expected no overlap with a, got shared memory"):
        product.product(square, on_device(torch.zeros(8, 8).T), c=square.T)


def test_strides_of_a_mode_of_size_1_mean_nothing(product: ModuleType) -> None:
    """As torch makes them: that of K is not a multiple of 16 bytes, and the kernel would step along it."""
    a, b = torch.randn(34, 1), torch.randn(8, 1)
    assert b.stride() == (1, 1)
    assert torch.allclose(plain(product.product(on_device(a), on_device(b))), a @ b.T)


def test_main_compares_with_the_reference(
    product: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_inputs, make_outputs = product.make_inputs, product.make_outputs
    monkeypatch.setattr(
        product, "make_inputs", lambda **sizes: tuple(map(on_device, make_inputs(device="cpu", **sizes)))
    )
    monkeypatch.setattr(
        product, "make_outputs", lambda **sizes: {"c": on_device(make_outputs(device="cpu", **sizes)["c"])}
    )
    monkeypatch.setattr(sys, "argv", ["product.py", "--M", "40", "--N", "12", "--K", "700"])
    with pytest.raises(SystemExit) as ended:
        product.main()
    assert ended.value.code == 2 and "no GPU here: nothing was run" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    product.main()
    assert capsys.readouterr().out == "c: agrees with torch\n"
    right = product.product

    def slightly_wrong(*arguments: torch.Tensor, **outputs: torch.Tensor) -> torch.Tensor:
        result = right(*arguments, **outputs)
        plain(result)[3, 5] += 0.05  # of a sum of 700 products of about 1
        return result

    monkeypatch.setattr(product, "product", slightly_wrong)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 480"):
        product.main()
    assert not capsys.readouterr().out
