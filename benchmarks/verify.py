"""How long a first build takes, verification on the CPU included, and the verification of all examples.

    python benchmarks/verify.py                  # everything, once
    python benchmarks/verify.py rms softmax -n 3 # what has these in its name, the median of three

Each round is a process of its own in an empty folder, with empty caches, but for Python's own compiled files, which an
installation has. Prints the seconds that pass, those of all processors, and the memory of the largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
HEAD = "cutegen: 1\nkernel: timed\nop: rowwise\ntargets: [sm_90a]\n"
ROWS = "tensors:\n  X: {shape: [M, N], dtype: bf16}\n"
OUT = "  Y: {shape: [M, N], dtype: bf16, role: out}\n"
ANY_N = {
    "rms_norm, any N": f"""{HEAD}{ROWS}  W: {{shape: [N], dtype: bf16}}
{OUT}scalars: {{eps: f32}}
compute: Y = X * rsqrt(mean(X * X, N) + eps) * W
""",
    "softmax, any N": f"""{HEAD}{ROWS}{OUT}compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
""",
    "quantisation, any N": f"""{HEAD}{ROWS}  Q: {{shape: [M, N], dtype: i8, role: out}}
  scale: {{shape: [M], dtype: f32, role: out}}
compute:
  - scale = maximum(max(abs(X), N) / 127, 1e-10)
  - Q = cast(round(X / scale), i8)
""",
    "add + layer_norm, any N": f"""{HEAD}{ROWS}  R: {{shape: [M, N], dtype: bf16}}
  W: {{shape: [N], dtype: bf16}}
  b: {{shape: [N], dtype: bf16}}
  S: {{shape: [M, N], dtype: bf16, role: out}}
{OUT}scalars: {{eps: f32}}
compute:
  - S = X + R
  - c = S - mean(S, N)
  - Y = c * rsqrt(mean(c * c, N) + eps) * W + b
""",
    "cross entropy, any N": f"""{HEAD}{ROWS}  target: {{shape: [M], dtype: i64}}
  loss: {{shape: [M], dtype: f32, role: out}}
compute:
  - z = X - max(X, N)
  - loss = log(sum(exp(z), N)) - sum(where(coord(N) == target, z, 0), N)
""",
}
EXAMPLES = ("rms_norm", "add_bias_gelu_bf16", "linear_gelu_bf16", "swiglu_bf16")


def measured(arguments: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processors, and the memory in GiB of the largest process, of a run of cutegen."""
    own = {"PYTHONPATH": str(ROOT), "CUTEGEN_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "cutegen", *arguments],
            cwd=folder,
            env={**os.environ, **own},
            stdout=printed,
            stderr=printed,
        )
        _, status, used = os.wait4(process.pid, 0)  # of this process, and of those that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            printed.seek(0)
            raise SystemExit(f"cutegen {' '.join(arguments)} ends with {process.returncode}:\n{printed.read()}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def built(text: str) -> tuple[float, float, float]:
    """The time of a first build of a spec."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "specs").mkdir()
        (folder / "specs" / "timed.yaml").write_text(text, encoding="utf-8")
        return measured(["build", "specs/timed.yaml"], folder)


def verified() -> tuple[float, float, float]:
    """The time to verify all examples."""
    with tempfile.TemporaryDirectory() as name:
        return measured(["verify", str(ROOT / "specs"), "--on", "cpu"], Path(name))


def main() -> None:
    parser = argparse.ArgumentParser(description="Times first builds, and the verification of all examples.")
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("-n", "--rounds", type=int, default=1, help="of which the median is printed")
    options = parser.parse_args()
    texts = ANY_N | {f"{name}.yaml": (ROOT / "specs" / f"{name}.yaml").read_text("utf-8") for name in EXAMPLES}
    work = {name: lambda text=text: built(text) for name, text in texts.items()} | {"verify specs/": verified}
    print(f"{'':26}{'wall':>9}{'processors':>13}{'memory':>11}")
    for name, run in work.items():
        if not options.names or any(word in name for word in options.names):
            wall, spent, memory = map(median, zip(*(run() for _ in range(options.rounds)), strict=True))
            print(f"{name:26}{wall:7.1f} s{spent:11.1f} s{memory:7.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
