"""A job for the compiler and the two ways it can end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cutegen.compiling.artefact import Artefact


@dataclass(frozen=True)
class Job:
    """One module for one target. `text` is the whole generated file, `kernel` its name, `target` as in `sm_90a`.

    With `sass` its code is disassembled at once.
    """

    text: str
    kernel: str
    target: str
    sass: bool = False


@dataclass(frozen=True)
class Compiled:
    artefact: Artefact
    seconds: float  # spent by this call: compiling and disassembling, or reading the cache
    cached: bool


@dataclass(frozen=True)
class Failed:
    """A job that gave no artefact.

    exception: the module or the compiler raised; crash: the compiler's process died; timeout: it was killed.
    `line` (from 1) and `text` are the innermost line of the generated file that was running, where that is known.
    """

    kind: Literal["exception", "crash", "timeout"]
    message: str
    line: int | None = None
    text: str = ""
    error: str = ""  # class of the exception, or name of the signal
    trace: tuple[tuple[int, str], ...] = ()  # generated lines, outermost first
    log: str = ""  # the end of what the process printed, for a crash or a timeout

    def __str__(self) -> str:
        where = f"\n  line {self.line}: {self.text.strip()}" if self.line is not None else ""
        return f"{self.message}{where}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Failed:
        return cls(**{**data, "trace": tuple((int(line), str(text)) for line, text in data.get("trace", ()))})


Outcome = Compiled | Failed
