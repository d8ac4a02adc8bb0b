"""Compiles C and C++ of an export."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path


def compile_in(folder: Path, compiler: str, *arguments: str) -> None:
    """Runs a compiler there, with the headers of TVM FFI and of the export in its way."""
    options = ["-Wall", "-Wextra", "-Werror", "-Iinclude", *(f"-I{config(option)}" for option in INCLUDES)]
    done = subprocess.run([compiler, *options, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


INCLUDES = ("--includedir", "--dlpack-includedir")


@cache
def config(option: str) -> str:
    """The paths that TVM FFI reports."""
    command = [sys.executable, "-m", "tvm_ffi.config", option]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
