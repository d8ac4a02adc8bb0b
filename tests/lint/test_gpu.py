"""Advice on speed against a GPU: the kernel of a page's good spec is not slower than that of its bad one. Needs a GPU.

`pytest -s tests/test_lint_gpu.py` prints both times, a line a page: medians of rounds in which the two take turns, on
the same random data, after a warm-up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cutegen.codegen import Module, generate
from cutegen.lint import all_performance_rules
from cutegen.lint.page import read
from cutegen.verification import gpu_missing
from cutegen.verification.executor import load_module

pytestmark = pytest.mark.skipif(gpu_missing() is not None, reason=f"no GPU: {gpu_missing()}")
ROUNDS, CALLS = 31, 10
SIZES = {"elementwise": 8192, "gemm": 4096}
NOISE = 1.02  # of one median against another


def median_times(calls: list[Callable[[], object]]) -> list[float]:
    """Microseconds a call, of each: medians of interleaved rounds of CALLS calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[list[float]] = [[] for _ in calls]
    for number in range(ROUNDS + 3):
        for call, found in zip(calls, times, strict=True):
            start.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            if number >= 3:
                found.append(1e3 * start.elapsed_time(end) / CALLS)
    return [statistics.median(found) for found in times]


def call_of(module: Module, folder: Path, sizes: dict[str, int]) -> Callable[[], object]:
    folder.mkdir()
    path = folder / module.name
    path.write_text(module.text)
    loaded = load_module(path)
    dynamic = {mode: size for mode, size in sizes.items() if mode not in module.spec.static}
    arguments, outputs = loaded.make_inputs(**dynamic), loaded.make_outputs(**dynamic)
    kernel = getattr(loaded, module.spec.kernel)
    kernel(*arguments, **outputs)
    return lambda: kernel(*arguments, **outputs)


@pytest.mark.parametrize("code", sorted({rule.code for rule in all_performance_rules()}))
def test_the_good_spec_is_not_slower(code: str, tmp_path: Path) -> None:
    page = read(code)
    modules = [generate(text, f"{code}.yaml").modules[0] for text in (page.bad, page.good)]
    assert modules[0].spec.static == modules[1].spec.static, "the two have to do the same work"
    calls = []
    for number, module in enumerate(modules):
        size = SIZES[module.spec.op]
        sizes = {mode: module.spec.static.get(mode, size) for mode in module.spec.modes}
        calls.append(call_of(module, tmp_path / str(number), sizes))
    bad, good = median_times(calls)
    print(f"\n{code} ({page.title}): bad {bad:.1f} us, good {good:.1f} us, {bad / good:.3f}")
    assert good <= bad * NOISE
