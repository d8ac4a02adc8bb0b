"""Text of a generated module -> PTX, cubin, SASS and resources, in worker processes, kept by content."""

from __future__ import annotations

from cutegen.compiling.artefact import Artefact, Resources, mnemonics, with_sass
from cutegen.compiling.cache import Cache, cache_key
from cutegen.compiling.outcome import Compiled, Failed, Job, Outcome
from cutegen.compiling.pool import compile_all, compile_until
from cutegen.compiling.tools import ToolError, toolchain

__all__ = [
    "Artefact",
    "Cache",
    "Compiled",
    "Failed",
    "Job",
    "Outcome",
    "Resources",
    "ToolError",
    "cache_key",
    "compile_all",
    "compile_until",
    "mnemonics",
    "toolchain",
    "with_sass",
]
