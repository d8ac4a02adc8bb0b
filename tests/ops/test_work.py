"""The work of a call: bytes of what is really in memory, and operations of what no bound excludes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from specs_kit import ROOT

from cutegen.codegen import generate
from cutegen.language.model import KernelSpec
from cutegen.ops.op import op_of


def spec_of(name: str, more: str = "") -> KernelSpec:
    text = (ROOT / "specs" / f"{name}.yaml").read_text(encoding="utf-8").partition("bench:")[0]
    return generate(text + more, f"specs/{name}.yaml").modules[0].spec


def test_a_scale_of_a_block_is_moved_once() -> None:
    m, n, k = 256, 384, 640
    spec = spec_of("dequantize_f8_blocks")
    assert op_of(spec).work(spec, {"N": n, "K": k}).bytes == n * k + 4 * (n // 128) * (k // 128) + 2 * n * k
    spec = spec_of("gemm_f8_blocks")
    scales = 4 * (m * (k // 128) + (n // 128) * (k // 128))
    assert op_of(spec).work(spec, {"M": m, "N": n, "K": k}).bytes == m * k + n * k + scales + 2 * m * n


def test_what_segments_have_is_moved_once_for_each_of_them() -> None:
    spec = spec_of("grouped_gemm_bf16")
    work = op_of(spec).work(spec, {"M": 1000, "N": 64, "K": 128, "X": 3})
    assert work.bytes == 2 * (1000 * 128 + 3 * 64 * 128 + 1000 * 64) + 4 * 3
    assert work.operations == 2 * 1000 * 64 * 128


@pytest.mark.parametrize(("rows", "keys"), [(60, 60), (20, 50), (50, 20)])
@pytest.mark.parametrize(
    ("name", "bench", "sees"),
    [
        ("attention", "", lambda i, j, m, n: True),
        ("attention_causal", "", lambda i, j, m, n: j - n <= i - m),
        ("attention_sigmoid", "", lambda i, j, m, n: j <= i),
        ("attention_window", "", lambda i, j, m, n: 0 <= i - j <= 2),
        ("attention_window", "bench: {scalars: {left: 31}}\n", lambda i, j, m, n: 0 <= i - j <= 31),
    ],
)
def test_scores_that_a_bound_excludes_are_no_work(
    name: str, bench: str, sees: Callable[[int, int, int, int], bool], rows: int, keys: int
) -> None:
    spec = spec_of(name, bench)
    sizes = {"B": 2, "H": 3, "G": 3, "R": 2} | spec.static | {"M": rows, "N": keys}
    heads = 2 * 3 * (2 if "R" in spec.modes else 1)
    widths = 2 * spec.static["D"]  # E is as long where there is one
    pairs = sum(sees(i, j, rows, keys) for i, j in itertools.product(range(rows), range(keys)))
    assert op_of(spec).work(spec, sizes).operations == 2 * heads * widths * pairs
