"""Nanoseconds that the Python of a generated function takes in a call, besides the compiled function's own time.

    python benchmarks/host_call.py

Needs no GPU: the arguments are CPU tensors, and what would be compiled is a function that does nothing, whose time is
taken off. It is the least and the median of many short runs, since other work on the machine only adds. Where there is
a GPU, whole calls follow, with `torch.add(out=)` beside them: of small tensors, so that the host is what is timed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import timeit
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from cutegen.codegen import generate
from cutegen.contract import argument_names, replace_compiled
from cutegen.verification.executor import load_module

SPECS = Path(__file__).parents[1] / "specs"
BIAS = """
cutegen: 1
kernel: add_bias
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, major: N, align: 16}
  bias: {shape: [N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
scalars: {alpha: f32}
compute: Y = alpha * X + bias
"""
SIZE = 256
CALLS, RUNS = 500, 400


def loaded(kernel: str, folder: Path) -> ModuleType:
    texts = [(BIAS, "specs/add_bias.yaml")]
    texts += [(file.read_text(encoding="utf-8"), f"specs/{file.name}") for file in sorted(SPECS.glob("*.yaml"))]
    made = {module.spec.kernel: module for text, path in texts for module in generate(text, path).modules}
    path = folder / f"{kernel}.py"
    path.write_text(made[kernel].text, encoding="utf-8")
    return load_module(path)


def nothing(*arguments: Any) -> None:
    pass


def nanoseconds(
    function: Callable[..., Any], arguments: Mapping[str, Any], by_name: Collection[str]
) -> tuple[float, float]:
    """Least and median of a call, with those arguments by name that are in `by_name`."""
    given = [f"{name}={name}" if name in by_name else name for name in arguments]
    known = {"function": function, **arguments}
    times = timeit.repeat(f"function({', '.join(given)})", globals=known, number=CALLS, repeat=RUNS)
    return min(times) / CALLS * 1e9, statistics.median(times) / CALLS * 1e9


def rows() -> torch.Tensor:
    return torch.zeros(SIZE, SIZE)


def padded() -> torch.Tensor:
    return torch.zeros(SIZE, SIZE + 8)[:, :SIZE]


def columns() -> torch.Tensor:
    return torch.zeros(SIZE, SIZE).T


def slices() -> list[torch.Tensor]:
    return list(torch.zeros(3, SIZE, SIZE))


CASES: list[tuple[str, str, Callable[[], Sequence[Any]]]] = [
    ("contiguous", "add_vectorized", lambda: [rows(), rows(), rows()]),
    ("slices of one allocation", "add_vectorized", slices),
    ("padded rows", "add_vectorized", lambda: [padded(), padded(), padded()]),
    ("two tensors", "copy_tv", lambda: [rows().bfloat16(), rows().bfloat16()]),
    ("broadcast bias, a scalar", "add_bias", lambda: [rows(), torch.zeros(SIZE), rows(), 1.5]),
    ("column-major", "sgemm_mmajor", lambda: [columns(), columns(), columns()]),
    ("column-major, two scalars", "sgemm_mkm", lambda: [columns(), rows(), columns(), 1.5, 1.0]),
    ("integers", "probe_tv", lambda: [torch.zeros(24, 1, dtype=torch.int32), torch.zeros(4, 6, dtype=torch.int32)]),
]


def python_part(folder: Path) -> None:
    for what, kernel, make in CASES:
        module = loaded(kernel, folder)
        function = getattr(module, kernel)
        given = dict(zip(argument_names(module, kernel), make(), strict=True))
        by_name = [name for name in module.OUTPUTS if name not in module.INPUTS]
        given = {name: given[name] for name in sorted(given, key=lambda name: name in by_name)}
        replace_compiled(module, nothing)
        base = nanoseconds(nothing, given, ())
        least, median = (a - b for a, b in zip(nanoseconds(function, given, by_name), base, strict=True))
        print(f"{what:26} {kernel:16} {least:6.0f} ns, median {median:6.0f} ns", flush=True)


def whole_calls(folder: Path) -> None:
    a, b, c = (rows().cuda() for _ in range(3))
    module = loaded("add_vectorized", folder)

    def timed(function: Callable[[], Any]) -> float:
        for _ in range(100):
            function()
        runs = []
        for _ in range(100):
            torch.cuda.synchronize()
            runs.append(timeit.timeit(function, number=100) / 100)
        torch.cuda.synchronize()
        return statistics.median(runs) * 1e6

    ours = timed(lambda: module.add_vectorized(a, b, c=c))
    compiled = timed(lambda: module._compiled(c.get_device())(a, b, c))
    peer = timed(lambda: torch.add(a, b, out=c))
    print(f"whole call: {ours:.2f} us, of the compiled function {compiled:.2f} us; torch.add(out=) {peer:.2f} us")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        python_part(Path(folder))
        if torch.cuda.is_available():
            whole_calls(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
