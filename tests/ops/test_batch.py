"""A batch of matrix products: what is taken for one, what it computes, and what it is measured against."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lint_kit import found_in

from cutegen.codegen import Module, generate
from cutegen.contract import as_called
from cutegen.measuring import contenders
from cutegen.measuring.arguments import Arguments
from cutegen.ops.gemm import GEMM
from cutegen.peers.peers import CUBLAS, CUBLAS_BEST, CUBLAS_EAGER, product_of
from cutegen.reference.bounds import evaluate

SIZES = {"L": 3, "M": 5, "N": 8, "K": 7}


def spec(a: str = "L, M, K", b: str = "L, N, K", c: str = "L, M, N", compute: str = "A @ B.T", **more: str) -> str:
    read = "".join(f"  {name}: {{shape: [{shape}], dtype: f32}}\n" for name, shape in more.items())
    return f"""\
cutegen: 1
kernel: products
op: gemm
tensors:
  A: {{shape: [{a}], dtype: bf16}}
  B: {{shape: [{b}], dtype: bf16}}
{read}  C: {{shape: [{c}], dtype: bf16, role: out}}
compute: C = {compute}
schedule:
  mma: {{atom: wgmma}}
"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def tensors_of(module: Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = {t.name: tuple(SIZES[mode] for mode in t.shape) for t in module.spec.tensors}
    types = {t.name: t.dtype for t in module.spec.tensors}
    small = {name: torch.randint(-3, 4, shape, generator=generator) for name, shape in shapes.items()}
    return {name: values.to(getattr(torch, types[name].torch)) for name, values in small.items()}


@pytest.mark.parametrize(
    ("text", "words", "help"),
    [
        (spec(c="M, N"), "`A` has a batch, `L`, which `C` lacks", "shape: [L, M, N]"),
        (spec("M, K", "N, K"), "which neither `A` nor `B` has", "shape: [L, M, K]"),
        (spec("M, L, K"), "`L`, the batch, is the first mode of all", "shape: [L, M, K]"),
        (spec(b="H, N, K"), "`B` has the batch `H`, and `C` has `L`", "shape: [L, N, K]"),
        (spec(a="G, L, M, K"), "`A` has 4 modes; a gemm's has 2, or 3", "[L, M, K] of a batch"),
        (spec(b="L, K, N"), "share no last mode", "shape: [L, N, K]"),
        (spec(c="L, N, M"), "gives [L, M, N]", "shape: [L, M, N]"),
    ],
)
def test_what_is_no_batch_is_refused_with_what_would_be_one(text: str, words: str, help: str) -> None:
    (found,) = found_in(text)
    assert found.code == "CG130" and words in found.message and help in (found.help or ""), found


@pytest.mark.parametrize(
    ("a", "b", "more", "compute"),
    [
        ("L, M, K", "L, N, K", {}, "A @ B.T"),
        ("L, M, K", "N, K", {"bias": "N"}, "A @ B.T + bias"),
        ("M, K", "L, N, K", {"bias": "L, N", "rows": "M"}, "(A @ B.T + bias) * rows"),
        ("L, M, K", "L, N, K", {"R": "L, M, N", "each": "L"}, "A @ B.T * each - R + coord(L)"),
    ],
)
def test_the_text_of_the_module_and_the_bounds_agree_with_products_one_by_one(
    a: str, b: str, more: dict[str, str], compute: str
) -> None:
    module = made(spec(a, b, compute=compute, **more))
    tensors = tensors_of(module)
    of = {n: x.double() for n, x in tensors.items()}
    matrices = [
        (of["A"][i] if of["A"].dim() > 2 else of["A"]) @ (of["B"][i] if of["B"].dim() > 2 else of["B"]).T
        for i in range(SIZES["L"])
    ]
    wanted = torch.stack(matrices)
    if "each" in more:
        wanted = wanted * of["each"][:, None, None] - of["R"] + torch.arange(SIZES["L"])[:, None, None]
    elif "rows" in more:
        wanted = (wanted + of["bias"][:, None, :]) * of["rows"][:, None]
    elif "bias" in more:
        wanted = wanted + of["bias"]
    space: dict[str, Any] = {}
    start = module.text.index("def reference(")
    exec("import torch\n" + module.text[start : module.text.index("def make_inputs(")], space)
    places, named = as_called(module.spec, list(tensors.values()))
    assert torch.equal(space["reference"](*places, **named), wanted.to(torch.bfloat16))
    ((value, bound, *_),) = evaluate(module.spec, tensors, {}).values()
    assert bool(((value - wanted).abs() <= bound).all())


def test_a_batch_has_the_work_of_all_products_and_what_it_reads_of_a_shared_matrix_once() -> None:
    found = made(spec(b="N, K")).spec
    m, n, k, batch = SIZES["M"], SIZES["N"], SIZES["K"], SIZES["L"]
    work = GEMM.work(found, SIZES)
    assert work.operations == 2 * batch * m * n * k
    assert work.bytes == 2 * (batch * m * k + n * k + batch * m * n)
    assert GEMM.multiply_adds(found, SIZES) == batch * m * n * k
    assert all(shape["L"] * shape["M"] * shape["N"] <= 2**26 for shape in GEMM.bench_shapes(found))


@pytest.mark.parametrize(("a", "b"), [("L, M, K", "L, N, K"), ("M, K", "L, N, K"), ("L, M, K", "N, K")])
@pytest.mark.parametrize("compute", ["A @ B.T", "2 * (A @ B.T) + 3 * D"])
def test_it_is_measured_against_one_call_of_cublas(a: str, b: str, compute: str) -> None:
    text = spec(a, b, compute=compute, **({"D": "L, M, N"} if "D" in compute else {}))
    module = made(text.replace("dtype: f32", "dtype: bf16"))
    assert product_of(module.spec, {}) is not None and GEMM.peers(module.spec) == (CUBLAS, CUBLAS_BEST)
    tensors = tensors_of(module)
    wanted = torch.matmul(tensors["A"].double(), tensors["B"].double().mT)
    wanted = 2 * wanted + 3 * tensors["D"].double() if "D" in compute else wanted
    given = Arguments(module.spec, SIZES, (tuple(tensors.values()),), {}, {})
    for peer, count in ((CUBLAS, 1), (CUBLAS_BEST, 8)):
        found = list(contenders.peer(peer, module.plan, given))
        assert len(found) == count
        for candidate in found:
            candidate.contender.calls[0]()
            ((result,),) = candidate.results  # type: ignore[misc]
            assert torch.equal(result, wanted.to(torch.bfloat16))


def test_a_batch_of_8_bits_is_measured_against_eager_code_as_torch_scales_none() -> None:
    module = made(spec().replace("K], dtype: bf16", "K], dtype: f8e4m3"))
    assert GEMM.peers(module.spec)[0] == CUBLAS_EAGER
    tensors = tensors_of(module)
    places, named = as_called(module.spec, list(tensors.values()))
    found = contenders.expression(module.plan, inplace=False)(*places, **named)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, (tensors["A"].double() @ tensors["B"].double().mT).to(torch.bfloat16))
