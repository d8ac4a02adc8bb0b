"""Matrix products that CuTeDSL compiled for tensor cores, run on the emulator."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from sweep_kit import sampled

from cutegen.emulator import Emulated, on_device
from cutegen.emulator.host.builds import builds


def gemms() -> list[Any]:
    """Every type, ldmatrix x1, x2 and x4, with and without .trans, cp.async of 4, 8 and 16 bytes."""
    pytest.importorskip("cutlass")
    from cutlass import BFloat16, Float16, Float32
    from tensor_core_kernels import Gemm

    return [
        Gemm(Float16, Float32, 16),
        Gemm(Float16, Float32, 16, "M", "N"),
        Gemm(Float16, Float16, 16, "K", "N", matrices=(2, 2), bits=64),
        Gemm(Float16, Float16, 8, "M", "K", matrices=(1, 1)),
        Gemm(BFloat16, Float32, 16, "M", "K", matrices=(4, 2)),
        Gemm(BFloat16, Float32, 8, "K", "N", matrices=(2, 1), bits=32),
        Gemm(Float32, Float32, 8),
        Gemm(Float32, Float32, 4, "K", "K", matrices=(1, 2), bits=32),
        Gemm(Float32, Float32, 8, "M", "N", matrices=(0, 0)),
    ]


@lru_cache(maxsize=16)
def emulated(gemm: Any) -> Emulated:
    """Compiled once."""
    return Emulated(builds(gemm), ("a", "b", "c"), {"a": "in", "b": "in", "c": "out"})


@pytest.fixture(scope="module", params=sampled(range(9), 4))  # of each type one a day
def gemm(request: pytest.FixtureRequest) -> Any:
    return gemms()[request.param]


def multiply(gemm: Any, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A and B as the kernel's type has them, and its A @ B.T, as float64.

    The kernel gets them with contiguous modes as long as a multiple of its vector, filled up with zeros.
    """
    import torch

    names = {"Float16": torch.float16, "BFloat16": torch.bfloat16, "Float32": torch.float32}
    vector = gemm.bits // gemm.element.width

    def laid_out(x: np.ndarray, major: str) -> Any:
        rows, columns = x.shape
        rows = -(-rows // vector) * vector if major != "K" else rows
        columns = -(-columns // vector) * vector if "K" in (gemm.a_major, gemm.b_major) else columns
        kind = names[gemm.element.__name__]
        whole = torch.zeros((rows, columns), dtype=kind) if major == "K" else torch.zeros((columns, rows), dtype=kind).T
        whole[: x.shape[0], : x.shape[1]] = torch.from_numpy(x)
        return whole

    left, right = laid_out(a, gemm.a_major), laid_out(b, gemm.b_major)
    out = torch.full((left.shape[0], right.shape[0]), float("nan"), dtype=names[gemm.accumulator.__name__])
    emulated(gemm)(*map(on_device, (left, right, out)))
    kept = left[: a.shape[0], : a.shape[1]], right[: b.shape[0], : b.shape[1]], out[: a.shape[0], : b.shape[0]]
    first, second, product = (x.double().numpy() for x in kept)
    return first, second, product


@pytest.mark.sweep  # which has all of them
def test_the_kernels_cover_the_instructions() -> None:
    texts = [emulated(gemm).builds[0].ptx for gemm in gemms()]
    found = set(re.findall(r"^\s*((?:ldmatrix|mma|cp\.async)\.[\w.:]*)", "\n".join(texts), re.MULTILINE))
    loads = {f"ldmatrix.sync.aligned.m8n8.x{n}{t}.shared.b16" for n in (1, 2, 4) for t in ("", ".trans")}
    products = {
        f"mma.sync.aligned.m16n8k{k}.row.col.{d}.{t}.{t}.{d}"
        for k, d, t in (
            (8, "f16", "f16"),
            (16, "f16", "f16"),
            (16, "f32", "f16"),
            (8, "f32", "bf16"),
            (16, "f32", "bf16"),
            (4, "f32", "tf32"),
            (8, "f32", "tf32"),
        )
    }
    copies = {f"cp.async.{w}" for w in ("ca.shared.global", "cg.shared.global", "commit_group", "wait_group")}
    assert found == loads | products | copies
    sizes = set(re.findall(r"cp\.async\.c[ag]\.shared\.global [^;]*?, (\d+)", "\n".join(texts)))
    assert sizes == {"4", "8", "16"}
    assert all("xor.b32" in text for text in texts)  # swizzled


@pytest.mark.parametrize("shape", [(32, 32, 32), (1, 1, 1), (37, 70, 21), (5, 33, 97), (65, 9, 8)])
def test_products_of_small_integers_are_exact(gemm: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float64), rng.integers(-3, 4, (n, k)).astype(np.float64)
    assert np.array_equal(multiply(gemm, a, b)[2], a @ b.T)


def test_every_element_of_the_operands_is_where_it_belongs(gemm: Any) -> None:
    """A product with a permutation shows the other operand, whose elements all differ within 16 rows and columns."""
    rng = np.random.default_rng(3)
    marked = np.tile(np.arange(256.0).reshape(16, 16), (3, 2))
    permutation = np.eye(32)[rng.permutation(32)]
    assert np.array_equal(multiply(gemm, marked, permutation)[2], marked @ permutation.T)
    assert np.array_equal(multiply(gemm, permutation, marked)[2], permutation @ marked.T)


def test_random_data_is_within_one_rounding_an_instruction(gemm: Any) -> None:
    m, n, k = 45, 38, 77
    rng = np.random.default_rng(7)
    a, b, got = multiply(gemm, rng.standard_normal((m, k)), rng.standard_normal((n, k)))
    if gemm.element.__name__ == "Float32":  # of which tf32 has the upper 19 bits
        a, b = ((x.astype(np.float32).view(np.uint32) >> 13 << 13).view(np.float32) for x in (a, b))
        a, b = a.astype(np.float64), b.astype(np.float64)
    # Tiles are 64 bytes of k. Each instruction rounds a sum that is no larger than the sum of all sizes.
    instructions = -(-k // gemm.blk_k) * (gemm.blk_k // gemm.shape_k)
    unit = 2.0**-11 if gemm.accumulator.__name__ == "Float16" else 2.0**-24
    error = np.abs(got - a @ b.T)
    assert (error <= 1.01 * instructions * unit * (np.abs(a) @ np.abs(b).T)).all()
    assert error.max() > 0
