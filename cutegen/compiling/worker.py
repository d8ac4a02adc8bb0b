"""The process that compiles modules; its jobs are `Job`s.

    result: {"artefact": {...}, "seconds": 0.4}  or  {"failed": {...}, "unlocated": false}

Where the compiler fails behind the module's own lines, since it checks and translates the whole kernel after it has run
them, an event `failed` tells so, and the module is compiled once more with its lines kept beside its code: that may
name the one that the compiler fails at. A job is refused where this process cannot write to its folder, or that is
gone, which says nothing about the job.

A module runs with an empty stdin and with stdout joined to stderr, since the DSL and the modules print. The working
directory is an empty folder of this process's own: the compiler's dump files end up there.
"""

from __future__ import annotations

import errno
import faulthandler
import itertools
import re
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.compiling.artefact import Artefact, Spills, extract, ptx_target
from cutegen.compiling.host_code import host_code
from cutegen.compiling.loading import load
from cutegen.compiling.outcome import Failed, Job
from cutegen.compiling.symbols import tabled_symbols
from cutegen.compiling.unprinted import unprinted_code
from cutegen.contract import compiler
from cutegen.errors import CutegenError, plain
from cutegen.workers import Last, Refused, Tell, Unusable, serve

# Of the DSL's messages: the code that it quotes, what it suggests, and the labels that its paragraphs start with
_QUOTED_CODE = re.compile(r"-->|in function `|>?\s*\d*\s*\|")
_SUGGESTION = re.compile(r"suggestion:|= note:")
_LABEL = re.compile(r"(error|warning|note|suggestion)\b[^:]*:")
_SEVERITY = re.compile(r"^error(\[\w+\])?: (unknown: )?")
_PTXAS_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class ModuleProblem(CutegenError):
    """A module ran but does not keep the contract of generated modules."""


def main() -> None:
    """Compiles modules for the process that started this one, until it asks for no more."""
    serve(start)


def start(tell: Tell) -> Callable[[Job], Any]:
    """Imports the compiler; returns the function that does a job. Raises Unusable where the compiler cannot be
    imported.
    """
    import_compiler()
    numbers = itertools.count()
    return lambda job: run(job, numbers, tell)


def import_compiler() -> None:
    """Imports the compiler, and has this process tell where it is when it crashes or is asked. Raises Unusable."""
    faulthandler.enable(all_threads=False)  # tells the parent which line of the module a crash came from
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # and which one was running at a timeout
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns when numpy is not installed
            import cutlass.cute  # noqa: F401
            import torch  # noqa: F401
            import tvm_ffi  # noqa: F401
            from cutlass.cutlass_dsl import CuTeDSL

            CuTeDSL._get_dsl().envar.dump_dir = str(Path.cwd())  # not where it was imported, before a fork
    except Exception as problem:
        message = f"the compiler cannot be imported: {type(problem).__name__}: {problem}"
        raise Unusable(asdict(Failed("exception", message, error=type(problem).__name__))) from problem
    # Again: tvm_ffi has put a handler of its own in place, which knows nothing of Python's lines
    faulthandler.disable()
    faulthandler.enable(all_threads=False)


def run(job: Job, numbers: Iterator[int], tell: Tell) -> Any:
    """Does a job; the result, with the line that a failure is about if a second try tells it. Raises Refused.

    `numbers` name the folders that the module is put into.
    """
    answer = tried(job, next(numbers), keep_lines=False)
    if not answer.get("unlocated"):
        return answer
    tell("failed", answer["failed"])
    try:
        second = tried(job, next(numbers), keep_lines=True)
    except Refused:  # what became of that try is of no interest
        return Last(answer)
    return second if second.get("unlocated") is False else answer


def tried(job: Job, number: int, *, keep_lines: bool) -> dict[str, Any]:
    """Tries a job once; the result, and for a failure also whether it is `unlocated`: behind the module's own lines.

    Raises Refused.
    """
    start = time.perf_counter()

    def compiled(module: ModuleType, folder: Path) -> dict[str, Any]:
        artefact = compile_module(module, job.kernel, job.target, folder, keep_lines, job.sass)
        return {"artefact": artefact.as_json(), "seconds": time.perf_counter() - start}

    return done(job, number, compiled)


def done(job: Job, number: int, do: Callable[[ModuleType, Path], dict[str, Any]]) -> dict[str, Any]:
    """Loads a job's module from its own folder, which has that number; returns the result of `do`, or how it failed.

    Never raises for anything that the module does, `sys.exit` included. Raises Refused.
    """
    name = f"_cutegen_{number}_{job.kernel}"
    try:
        folder = Path.cwd() / f"job-{number}"
        path = folder / f"{job.kernel}.py"
        folder.mkdir()
        path.write_text(job.text, encoding="utf-8", newline="")
    except OSError as problem:
        raise Refused(problem.errno or errno.EIO) from problem
    try:
        return do(load(path, name), folder)
    except BaseException as problem:
        if not path.exists():  # as where something tidies the folder of temporary files
            raise Refused(errno.ENOENT) from problem
        return {"failed": asdict(failure(problem, path, job.target)), "unlocated": behind_the_lines(problem, path)}
    finally:
        sys.modules.pop(name, None)
        shutil.rmtree(folder, ignore_errors=True)


def compile_module(
    module: ModuleType, kernel: str, target: str, folder: Path, keep_lines: bool, sass: bool = False
) -> Artefact:
    """Compiles a loaded module for a target, with temporary files in `folder`. Raises ModuleProblem, and exceptions of
    the compiler.

    With `keep_lines`, the compiler keeps the generated lines beside its code; with `sass` that is disassembled.
    """
    import cutlass.cute as cute

    more = (cute.GenerateLineInfo(True),) if keep_lines else ()
    build = compile_function(module)
    with unprinted_code(), tabled_symbols():
        compiled = build(arch=target, options=(cute.KeepPTX(), cute.KeepCUBIN(), *more))
    artifacts = getattr(compiled, "artifacts", None)
    ptx, cubin = getattr(artifacts, "PTX", None), getattr(artifacts, "CUBIN", None)
    if not isinstance(ptx, str) or not isinstance(cubin, bytes):
        raise ModuleProblem(
            f"compile_for(arch, options) gave no PTX or no cubin for {target}: either it does not pass `options` on to "
            "cute.compile, or this release of the compiler cannot build for that target"
        )
    ptx = ptx.rstrip("\0")
    made_for = ptx_target(ptx)
    if made_for != target:
        raise ModuleProblem(f"asked for {target}, the PTX is for {made_for}; does compile_for() pass `arch` on?")

    def ask_ptxas() -> Spills | None:
        # Only needed for kernels with local arrays. The options are not part of the DSL's public face: if they
        # move, the spills of such a kernel become unknown, which no expectation takes for zero.
        try:
            from cutlass.base_dsl.compiler import RemarkFilter, RemarkOutput

            remarks = folder / "ptxas.yaml"
            build(arch=target, options=(RemarkFilter("ptxas"), RemarkOutput(str(remarks))))
            said = _PTXAS_SPILLS.findall(remarks.read_text(encoding="utf-8"))
        except Exception:
            traceback.print_exc()
            return None
        return (sum(int(s) for s, _ in said), sum(int(n) for _, n in said)) if said else None

    return extract(kernel, target, ptx, cubin, ask_ptxas, host_code(compiled, cubin), sass)


def compile_function(module: ModuleType) -> Callable[..., Any]:
    """The module's `compile_for`. Raises ModuleProblem where it has none."""
    build = compiler(module)
    if build is None:
        raise ModuleProblem("the module defines no function `compile_for(arch, options)`")
    return build


def failure(problem: BaseException, path: Path, target: str) -> Failed:
    """Says an exception in terms of the generated file: with its own lines only, no path of the temporary folder."""
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    trace = [(number, lines[number - 1]) for number, _ in _frames(problem, path) if 0 < number <= len(lines)]
    known = _known_targets()
    said = plain(str(problem)).replace(str(path), path.name).strip()
    if isinstance(problem, KeyError) and problem.args == (target,) and known and target not in known:
        message = f"the compiler does not know the target {target}; it knows {', '.join(known)}"
    else:
        said_briefly = essence(said)
        message = said_briefly if isinstance(problem, ModuleProblem) else f"{type(problem).__name__}: {said_briefly}"
    for number in _named_lines(said, path):
        if 0 < number <= len(lines) and (not trace or trace[-1][0] != number):
            trace.append((number, lines[number - 1]))
    line, text = trace[-1] if trace else (None, "")
    return Failed("exception", message.rstrip(": "), line, text, type(problem).__name__, tuple(trace))


def behind_the_lines(problem: BaseException, path: Path) -> bool:
    """Whether the compiler failed over the kernel as a whole, after the module's lines had run, and named none."""
    frames = _frames(problem, path)
    return bool(frames) and frames[-1][1] == "compile_for" and not _named_lines(plain(str(problem)), path)


def _frames(problem: BaseException, path: Path) -> list[tuple[int, str]]:
    """The lines and functions of the module that an exception came through, outermost first."""
    found: list[tuple[int, str]] = []
    cause: BaseException | None = problem
    while cause is not None and not found:  # the DSL raises its own error from the one in the module
        for frame, number in traceback.walk_tb(cause.__traceback__):
            if frame.f_code.co_filename == str(path):
                found.append((number, frame.f_code.co_name))
        if isinstance(cause, SyntaxError) and cause.filename == str(path) and cause.lineno:
            found.append((cause.lineno, ""))
        cause = cause.__cause__ or cause.__context__
    return found


def _named_lines(said: str, path: Path) -> list[int]:
    """The line that a message of the DSL names, where it hides the frames of an error in staged code."""
    return [int(number) for number in re.findall(rf"--> \S*\b{re.escape(path.name)}:(\d+)", said)[:1]]


def essence(said: str) -> str:
    """A message in one line, without what the DSL adds for its own users: code around the place, settings to try."""
    parts: list[str] = []
    skipped = False
    for line in said.split("\n"):
        text = line.strip()
        if _SUGGESTION.match(text):
            skipped = True
        elif not text or _LABEL.match(text):
            skipped = False
        if not text or skipped or _QUOTED_CODE.match(text):
            continue
        if (plain := _SEVERITY.sub("", text)) != text or not parts:
            parts.append(plain)
        else:
            parts[-1] += f" {text}"
    return " ".join(part if part.endswith((".", ":")) or part is parts[-1] else f"{part}:" for part in parts)


def _known_targets() -> list[str]:
    """The targets that the compiler knows, by their numbers; none where it does not tell."""
    try:
        from cutlass.base_dsl.enums import Arch
    except ImportError:
        return []
    return sorted(Arch.__members__, key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])
