"""Functions of quack, and CUTLASS's examples, as they are, on the emulator; where they are installed.

The environment variable CUTLASS_EXAMPLES has the folder examples/python/CuTeDSL/cute of a copy of NVIDIA/cutlass.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import pytest

cutlass = pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutlass_kit import FOLDER, matrices  # noqa: E402

from cutegen import emulator  # noqa: E402
from cutegen.verbs.running.comparing import compare  # noqa: E402

quack_is_there = all(importlib.util.find_spec(name) for name in ("quack", "triton"))
needs_quack = pytest.mark.skipif(not quack_is_there, reason="quack is not installed, or triton, which it imports")
needs_examples = pytest.mark.skipif(not FOLDER, reason="CUTLASS_EXAMPLES does not say where CUTLASS's examples are")


def quack(call: str, *arguments: Any, **named: Any) -> Any:
    """The results of a function of quack, which keeps nothing that it compiles for this."""
    with emulator.emulating("sm_90a", orders=2):
        module, _, name = call.rpartition(".")
        cache = importlib.import_module("quack.cache")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cache, "CACHE_ENABLED", False)
            function = getattr(importlib.import_module(module), name)
            return emulator.call(partial(function, **named), *arguments).result


@needs_quack
@pytest.mark.parametrize("n", [136, 4104])
def test_rows_of_quack(n: int) -> None:
    x, w, target = torch.randn(5, n).to(torch.bfloat16), torch.randn(n), torch.randint(0, n, (5,))
    exact = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact, target, reduction="none")
    (gradient,) = torch.autograd.grad(loss.sum(), exact)
    pairs = [
        (quack("quack.softmax.softmax_fwd", x), x.double().softmax(-1)),
        (quack("quack.rmsnorm", x, w, eps=1e-5), torch.nn.functional.rms_norm(x.double(), (n,), w.double(), 1e-5)),
        *zip(quack("quack.cross_entropy.cross_entropy_fwd", x, target, return_dx=True), (loss, gradient), strict=True),
    ]
    assert all(compare(got, wanted).ok for got, wanted in pairs)


def example(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{Path(path).stem}", Path(FOLDER) / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_examples
def test_elementwise_add_and_its_own_test() -> None:
    add = example("ampere/kernel/elementwise/elementwise_add.py")
    a, b, c = torch.randn(37, 100), torch.randn(37, 100), torch.zeros(37, 100)
    emulator.call(add.elementwise_add, a, b, c, target="sm_80", outputs=["mC"], orders=2)
    assert torch.equal(c, a + b)
    with emulator.emulating("sm_80") as emulation:
        add.run_elementwise_add(20, 64, cutlass.Float32, benchmark=False)
    assert len(emulation.ran) == 1


@needs_examples
def test_sgemm() -> None:
    a, b = torch.randint(-4, 5, (130, 24)).float(), torch.randint(-4, 5, (132, 24)).float()
    c = torch.zeros(130, 132)
    given = (emulator.tensor(t, align=16, divisible={1: 4}) for t in (a, b, c))
    emulator.call(example("ampere/kernel/dense_gemm/sgemm.py").SGemm(), *given, target="sm_80", outputs=["mC"])
    assert torch.equal(c, a @ b.T)


@needs_examples
def test_hopper_gemm() -> None:
    module = example("hopper/kernel/dense_gemm/dense_gemm.py")
    a, b, c = (matrices(*sizes, 1, by_rows=True) for sizes in ((136, 200), (72, 200), (136, 72)))
    gemm = module.HopperWgmmaGemmKernel(cutlass.Float32, (128, 64), (2, 1))
    emulator.call(gemm, *(emulator.tensor(t, align=16, leading=1) for t in (a, b, c)), outputs=["c"])
    assert torch.equal(c, torch.einsum("mkl,nkl->mnl", a.double(), b.double()).to(torch.bfloat16))
