"""Compiles generated modules: the PTX for each target, with the host code that launches it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.emulator.checks.faults import Fault, FaultError
from cutegen.emulator.host.capture import HostCode
from cutegen.emulator.host.launching import module_of
from cutegen.emulator.host.source_lines import cached_line_tables


@dataclass(frozen=True)
class Build:
    """What a module compiles to for one target: PTX, and host code that can be asked what it launches."""

    target: str
    ptx: str
    host: HostCode


def build(module: ModuleType, target: str) -> Build:
    """Compiles a module for a target, with line information.

    Raises what the compiler raises, ValueError if it gives no PTX, FaultError if that is for another target, and
    CaptureError as `HostCode` does.
    """
    return _make_build(target, *_compile_to_ptx(module, target))


def _compile_to_ptx(module: ModuleType, target: str) -> tuple[str, Any]:
    """The PTX of a module for a target, and what the compiler returned.

    The assembler is told not to optimise, because only the PTX runs here.
    """
    import cutlass.cute as cute

    keep = cute.KeepPTX()
    with _own_folder() as folder, cached_line_tables():
        compiled = module.compile_for(target, options=(keep, cute.GenerateLineInfo(True), cute.PtxasOptions("-O0")))
        written = Path(getattr(keep, "full_ptx_path", ""))
        if written.parent != folder:
            raise ValueError(f"the compiler wrote its PTX to {written}, where another process may overwrite it")
        ptx = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    if not isinstance(ptx, str):
        raise ValueError(f"compile_for({target!r}) gives no PTX: does it pass `options` on to cute.compile?")
    ptx = ptx.rstrip("\0")
    if (found := module_of(ptx).target) != target:
        raise FaultError(Fault("other-target", f"compiled for {target}, the PTX says .target {found}", target=found))
    return ptx, compiled


def _make_build(target: str, ptx: str, compiled: Any) -> Build:
    """The build of PTX and what the compiler returned with it."""
    parameters = {k.name: [(p.offset, p.size) for p in k.parameters] for k in module_of(ptx).kernels}
    return Build(target, ptx, HostCode(compiled, parameters))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Lets the compiler write its files to a new, empty folder, which is removed afterwards.

    By default it writes to the directory that was current when it was imported. It names files by argument types and
    reads the PTX back from them, so that two processes would read each other's.
    """
    from cutlass.cutlass_dsl import CuTeDSL

    settings = CuTeDSL._get_dsl().envar
    before = settings.dump_dir
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        settings.dump_dir = folder
        try:
            yield Path(folder)
        finally:
            settings.dump_dir = before


def builds(module: ModuleType, targets: Iterable[str] | None = None) -> tuple[Build, ...]:
    """One build for each target whose PTX differs, by more than the name of the target, from all those before it.

    `targets` are by default all of the module's. Raises as `build` does.
    """
    chosen: dict[str, Build] = {}
    for target in targets or module.TARGETS:
        ptx, compiled = _compile_to_ptx(module, target)
        code = re.sub(r"^\s*\.(target|version)\b.*$", "", ptx, flags=re.MULTILINE)  # without what names the target
        if code not in chosen:
            chosen[code] = _make_build(target, ptx, compiled)
    return tuple(chosen.values())
