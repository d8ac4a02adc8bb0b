"""Seconds to render 200 variants of a matrix without compiling, each run in a process of its own. Budget: 5 s.

`python benchmarks/render_matrix.py [--runs N] [--profile]`
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

VARIANTS = 200
BUDGET = 5.0  # seconds
SPEC = """\
cutegen: 1
kernel: sgemm_{a}{b}{c}_{m}x{n}
matrix:
  a: [M, K]
  b: [N, K]
  c: [M, N]
  m: [32, 64, 96, 128, 256]
  n: [32, 64, 96, 128, 256]
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: "{a}", align: 16}
  B: {shape: [N, K], dtype: f32, major: "{b}", align: 16}
  C: {shape: [M, N], dtype: f32, major: "{c}", align: 16, role: inout}
scalars: {alpha: f32, beta: f32}
compute: C = alpha * (A @ B.T) + beta * C
schedule:
  tiler: {M: "{m}", N: "{n}", K: 8}
"""


def once() -> float:
    """Seconds from before the first import to the last module's text."""
    start = time.perf_counter()
    from cutegen.codegen import generate

    modules = generate(SPEC, "specs/matrix.yaml").modules
    seconds = time.perf_counter() - start
    assert len({module.text for module in modules}) == VARIANTS, f"{len(modules)} modules"
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="one run, and where its time goes")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.profile:
        import cProfile

        cProfile.run("once()", sort="cumulative")
        return 0
    if arguments.one:
        print(once())
        return 0
    command = [sys.executable, __file__, "--one"]
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(arguments.runs)
    ]
    median = statistics.median(times)
    print(f"{VARIANTS} variants: median {median:.2f} s of {len(times)} runs ({', '.join(f'{t:.2f}' for t in times)})")
    return 0 if median < BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
