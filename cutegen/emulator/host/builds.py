"""Compiles generated modules: the PTX for each target, with the host code that launches it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from cutegen.atoms.mma import ADA
from cutegen.compiling.symbols import tabled_symbols
from cutegen.compiling.traced import Traced
from cutegen.compiling.unassembled import unassembled_code, without_empty_kernel
from cutegen.compiling.unprinted import unprinted_code
from cutegen.emulator.checks.faults import Fault, FaultError
from cutegen.emulator.host.capture import HostCode
from cutegen.emulator.host.launching import module_of
from cutegen.emulator.host.source_lines import cached_line_tables
from cutegen.emulator.host.stored import Stored, read_host_code

# What lines of PTX only have with line information, and what names the target
_LINES = re.compile(r"^\s*(\.(file|loc)\b|//|\$L__(tmp|func_begin|func_end)\d+:).*$", re.MULTILINE)
_DEBUG = re.compile(r"^\s*\.section\s+\.debug.*?^\s*\}\s*$", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_NAMES = re.compile(r"^\s*\.(target|version)\b.*$", re.MULTILINE)
_CUT_ON_ADA = re.compile(r"\bmma\.sync\.\S*\.(e4m3|e5m2)\.")  # products whose sums have fewer bits there
_NOTHING: Mapping[str, Stored] = MappingProxyType({})


@dataclass(frozen=True)
class Build:
    """A module as compiled for one target: its PTX, and its host code, which can be asked for its launches.

    `others` are targets whose code is the same.
    """

    target: str
    ptx: str
    host: HostCode
    others: tuple[str, ...] = ()

    def is_of(self, targets: Iterable[str]) -> bool:
        """Whether one of these targets has that code."""
        return not {self.target, *self.others}.isdisjoint(targets)


def build(module: ModuleType, target: str, lines: bool = True) -> Build:
    """Compiles a module for a target, with line information or, in less time, without.

    Raises what the compiler raises, ValueError if it gives no PTX, FaultError if that is for another target, and
    CaptureError as `HostCode` does.
    """
    return make_build(target, *_compile_to_ptx(module, target, lines))


def _compile_to_ptx(module: ModuleType, target: str, lines: bool = True) -> tuple[str, Any]:
    """The PTX of a module for a target, by default with line information, and its host code as an MLIR module.

    The assembler only checks the PTX, which is all that runs here.
    """
    with _compiler(lines) as (options, written):
        compiled = module.compile_for(target, options=options)
        written()
        ptx = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    if not isinstance(ptx, str):
        raise ValueError(f"compile_for({target!r}) gives no PTX: does it pass `options` on to cute.compile?")
    return _for_target(without_empty_kernel(ptx.rstrip("\0")), target), compiled.ir_module


def _traced_to_ptx(module: ModuleType, target: str, traced: Traced) -> str | None:
    """The same PTX, without line information, from kernels that were traced for another target; None where these are
    others, or do not compile, which only a whole compilation explains.
    """
    try:
        with _compiler(lines=False) as (options, written):
            if not traced.compiles(lambda: module.compile_for(target, options=options)):
                return None
            ptx = written().read_text(encoding="utf-8")
        return _for_target(without_empty_kernel(ptx.rstrip("\0")), target)
    except Exception:
        return None


@contextmanager
def _compiler(lines: bool) -> Iterator[tuple[tuple[Any, ...], Callable[[], Path]]]:
    """Sets up the compiler; gives its options, and what tells the path of the PTX that it wrote."""
    import cutlass.cute as cute
    from cutlass.cutlass_dsl import CuTeDSL

    keep = cute.KeepPTX()
    options = (keep, *[cute.GenerateLineInfo(True)][:lines], cute.PtxasOptions("-O0"))  # `unassembled_code` needs some
    with (
        own_folder(CuTeDSL._get_dsl()) as folder,
        cached_line_tables(),
        unprinted_code(),
        tabled_symbols(),
        unassembled_code(),
    ):

        def written() -> Path:
            path = Path(getattr(keep, "full_ptx_path", ""))
            if path.parent != folder:
                raise ValueError(f"the compiler wrote its PTX to {path}, where another process may overwrite it")
            return path

        yield options, written


def _for_target(ptx: str, target: str) -> str:
    """The PTX. Raises FaultError where it is for another target."""
    named = _TARGET.search(ptx)
    if (found := named[1] if named else "nothing") != target:
        raise FaultError(Fault("other-target", f"compiled for {target}, the PTX says .target {found}", target=found))
    return ptx


def _without_lines(module: ModuleType, target: str, stored: Mapping[str, Stored]) -> tuple[str, Any]:
    """The same without line information: from what is stored, else compiled."""
    if target in stored and (host := read_host_code(stored[target].host)) is not None:
        return _for_target(stored[target].ptx, target), host
    return _compile_to_ptx(module, target, lines=False)


def make_build(target: str, ptx: str, host: Any) -> Build:
    """The build of PTX and of the host code beside it, an MLIR module."""
    parameters = {k.name: [(p.offset, p.size) for p in k.parameters] for k in module_of(ptx).kernels}
    return Build(target, ptx, HostCode(host, parameters))


@contextmanager
def own_folder(dsl: Any) -> Iterator[Path]:
    """Lets the compiler of a DSL write its files to a new, empty folder, which is removed afterwards.

    By default it writes to the directory that was current when it was imported. It names files by argument types and
    reads the PTX back from them, so that two processes would read each other's.
    """
    settings = dsl.envar
    before = settings.dump_dir
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        settings.dump_dir = folder
        try:
            yield Path(folder)
        finally:
            settings.dump_dir = before


def builds(
    module: ModuleType,
    targets: Iterable[str] | None = None,
    lines: bool = True,
    stored: Mapping[str, Stored] = _NOTHING,
) -> tuple[Build, ...]:
    """One build for each target whose PTX differs, by more than the name of the target, from all those before it, or
    says something else there.

    `targets` are by default all of the module's. Without `lines` faults do not tell the line of the module, and
    compiling takes less time. What is `stored` of the module without lines, by target, is not compiled again. Raises as
    `build` does.
    """
    chosen: dict[str, Build] = {}
    seen: dict[str, str] = {}
    traced = Traced()
    for target in targets or module.TARGETS:
        # Line information takes a fifth of the time, and most targets' code is that of the first
        code = seen.get(_instructions(_without_lines(module, target, stored)[0])) if lines and seen else None
        if not lines and chosen and target not in stored and (ptx := _traced_to_ptx(module, target, traced)):
            code = _unnamed(ptx)
        if code not in chosen:
            with traced.recording():
                ptx, host = _compile_to_ptx(module, target) if lines else _without_lines(module, target, stored)
            code = _unnamed(ptx)
            if code not in chosen:
                chosen[code] = make_build(target, ptx, host)
                seen[_instructions(ptx)] = code
                continue
        chosen[code] = replace(chosen[code], others=(*chosen[code].others, target))
    return tuple(chosen.values())


def _unnamed(ptx: str) -> str:
    """PTX without the name of its target, but where the same instructions compute something else for that."""
    target = _TARGET.search(ptx)
    special = target is not None and target[1] == ADA and _CUT_ON_ADA.search(ptx) is not None
    return _NAMES.sub("", ptx) + f"\nas on {ADA}" * special


def _instructions(ptx: str) -> str:
    """The same without line information."""
    bare = _LINES.sub("", _DEBUG.sub("", _unnamed(ptx)))
    return "\n".join(line for line in bare.splitlines() if line.strip())
