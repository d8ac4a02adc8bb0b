"""Text of a generated module -> PTX, cubin, SASS and resources, in worker processes, kept by content."""

from __future__ import annotations

from cutegen.compiling.artefact import Artefact, Resources, mnemonics
from cutegen.compiling.banks import BankClashes, bank_clashes
from cutegen.compiling.cache import Cache, cache_key
from cutegen.compiling.expectations import ExpectationFailure, Judgement, check, judge
from cutegen.compiling.outcome import Compiled, Failed, Job, Outcome
from cutegen.compiling.pool import compile_all, compile_until
from cutegen.compiling.tools import ToolError, toolchain

__all__ = [
    "Artefact",
    "BankClashes",
    "Cache",
    "Compiled",
    "ExpectationFailure",
    "Failed",
    "Job",
    "Judgement",
    "Outcome",
    "Resources",
    "ToolError",
    "bank_clashes",
    "cache_key",
    "check",
    "compile_all",
    "compile_until",
    "judge",
    "mnemonics",
    "toolchain",
]
