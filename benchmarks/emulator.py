"""How fast the emulator runs: the seed's matrix product with all checks on, and one elementwise kernel.

    python benchmarks/emulator.py

Prints the best of three times for each shape, the instructions of all threads, and those a second; compiling and
parsing are not in the times. Exits with 1 if a shape takes longer than it may.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

from cutegen.codegen import generate
from cutegen.language.model import KernelSpec

SPECS = Path(__file__).parent.parent / "specs"
SHAPES = (
    ("sgemm_mmajor", {"M": 256, "N": 128, "K": 64}, 0.3),
    ("sgemm_mmajor", {"M": 1024, "N": 1024, "K": 64}, None),
    ("sgemm_mmajor", {"M": 1024, "N": 1024, "K": 256}, 3.0),
    ("sgemm_axpby", {"M": 1000, "N": 1000, "K": 250}, None),
    ("add_tv", {"M": 1024, "N": 1024}, None),
    ("copy_tv", {"M": 2048, "N": 2048}, None),
)


def load(kernel: str, folder: Path) -> tuple[KernelSpec, ModuleType]:
    from cutegen.verification.executor import load_module

    for file in SPECS.glob("*.yaml"):
        for module in generate(file.read_text(encoding="utf-8"), f"specs/{file.name}").modules:
            if module.spec.kernel == kernel:
                path = folder / f"{kernel}.py"
                path.write_text(module.text, encoding="utf-8")
                return module.spec, load_module(path)
    raise LookupError(f"no spec of {kernel}")


def main() -> int:
    from cutegen.emulator.host.builds import builds
    from cutegen.emulator.host.device_tensors import on_device
    from cutegen.emulator.host.emulated import Emulated

    warnings.simplefilter("ignore")
    late = 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel, sizes, limit in SHAPES:
            spec, module = load(kernel, Path(folder))
            made = builds(module, module.TARGETS[:1])
            arguments = [on_device(a) for a in module.make_inputs(**sizes, device="cpu")]
            roles = {tensor.argument: tensor.role for tensor in spec.tensors}
            names = [*roles, *(scalar.argument for scalar in spec.scalars)]
            emulated = Emulated(made, names, roles)
            for _ in range(3):
                emulated(*arguments)
            best = min(emulated.reports, key=lambda r: r.seconds)
            rate = best.instructions / best.seconds / 1e6
            verdict = "" if limit is None else f"  (at most {limit} s: {'ok' if best.seconds < limit else 'LATE'})"
            late += limit is not None and best.seconds >= limit
            shape = " x ".join(map(str, sizes.values()))
            print(
                f"{kernel:14} {shape:18} {best.seconds:7.3f} s {best.instructions / 1e6:8.1f} million instructions, "
                f"{rate:5.0f} million a second{verdict}",
                flush=True,
            )
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
