"""The environment of a compiler's process, derived from that of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Variables that change what is compiled, what is written where, or how Python runs, by prefix and by name. CUTE_DSL_*
# alone has ARCH, COMPILER_OPT, COMPILER_BACKEND, LINEINFO, DEBUG, ENABLE_ASSERTIONS, ENABLE_PYIR, AUTO_M2S,
# TOLERATE_M2M, ENABLE_TVM_FFI, LOC_TRACEBACKS, LIBS, DRYRUN, WARNINGS_AS_ERRORS, KEEP*, DUMP_DIR and CACHE_DIR; a new
# release may add to them, so all of them go.
DROPPED_PREFIXES = ("CUTE_DSL_", "CUTE_EXPERIMENTAL_DSL_", "NVVM_", "PTXAS_", "NVCC_", "LLVM_", "MLIR_")
DROPPED_NAMES = frozenset(
    ("PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONDUMPREFSFILE")
)

IMPORTS = ("torch", "tvm_ffi", "cutlass.cute")
"""The modules that a process imports in order to compile."""


def clean_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of a worker: `environment` without what changes code, with temporary files in `folder`."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(DROPPED_PREFIXES) and name not in DROPPED_NAMES
    }
    # The worker runs in another folder, so relative entries and a cutegen found through the parent's must be absolute.
    given = [str(Path(entry).absolute()) for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry]
    root = str(Path(__file__).absolute().parents[2])
    return kept | {
        "PYTHONPATH": os.pathsep.join([root, *(entry for entry in given if entry != root)]),
        "PYTHONSAFEPATH": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONIOENCODING": "utf-8",
        "TMPDIR": str(folder),
        "CUDA_VISIBLE_DEVICES": "",  # the same artefact with and without a GPU, and none of its memory taken
        "OMP_NUM_THREADS": "1",
    }
