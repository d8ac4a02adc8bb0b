"""The process that runs functions of anyone; its jobs are `Job`s, its results outcomes in JSON.

An event `stage` says what is being done, so that the parent knows it if this process ends in the middle.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.errors import CutegenError, plain
from cutegen.verbs.running.expecting import compared, copies, not_compared
from cutegen.verbs.running.job import Job, Launched, Outcome, Tensor
from cutegen.verbs.running.places import find
from cutegen.workers import Last, Tell, serve

if TYPE_CHECKING:
    from cutegen.emulator import Called, Emulation
    from cutegen.emulator.calls.call import Touched
    from cutegen.verbs.running.job import Compared

_LINES = 40  # of a compiler's message
_FRAMES = 8  # of a traceback
_LIBRARIES = {"torch", "nvidia_cutlass_dsl", "importlib"}  # folders of what users do not look into
_OURS = str(Path(__file__).resolve().parents[2])


def main() -> None:
    """Runs functions for the process that started this one, until it asks for no more."""
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    serve(lambda tell: partial(run, tell))


class Broken(CutegenError):
    """Something that the job names is no use: it cannot be imported, or is not what it must be, or raises, behind the
    lines `at`."""

    def __init__(self, message: str, help: str | None = None, at: tuple[str, ...] = ()) -> None:
        super().__init__(message, help)
        self.at = at


def run(tell: Tell, job: Job) -> Any:
    """Does a job, which ends the process: libraries keep what they have compiled."""
    start = time.perf_counter()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        outcome = _outcome(tell, job)
    return Last(replace(outcome, printed=printed.getvalue(), seconds=time.perf_counter() - start).as_json())


def _outcome(tell: Tell, job: Job) -> Outcome:
    """Runs a job and returns its outcome; faults and errors become outcomes, too."""
    from cutegen.emulator import CompileError, FaultError, emulating

    os.chdir(job.folder)
    sys.path.insert(0, job.folder)
    emulation: Emulation | None = None
    try:
        with emulating(job.target, orders=job.orders, seed=job.seed) as emulation:
            emulation.compiling = lambda function: tell("stage", f"compiling {function}")
            return _run(tell, job, emulation)
    except FaultError as error:
        found = Outcome("fault", str(error.fault), fault=asdict(error.fault))
    except CompileError as error:
        said = plain(str(error.cause)).strip().splitlines()
        more = [f"... and {len(said) - _LINES} more lines"] if len(said) > _LINES else []
        message = f"{error.function}: {type(error.cause).__name__}: " + "\n".join([*said[:_LINES], *more])
        found = Outcome("not compiled", message, at=_where(error.cause))
    except Broken as error:
        found = Outcome("not executed", error.message, error.help or "", error.at)
    except CutegenError as error:
        found = Outcome("not executed", error.message, error.help or "", _where(error))
    return replace(found, launches=_launches(emulation), notes=tuple(emulation.notes) if emulation else ())


def _run(tell: Tell, job: Job, emulation: Emulation) -> Outcome:
    """Loads what the job names, calls the function, and compares. Raises CutegenError."""
    import torch

    from cutegen.emulator import call
    from cutegen.emulator.calls.call import bound_arguments, named_tensors

    tell("stage", "importing")
    loaded: dict[Path, ModuleType] = {}
    function = _callable(job.function, loaded)
    make = _callable(job.inputs, loaded)
    reference = None if job.reference is None else _callable(job.reference, loaded)
    torch.manual_seed(job.seed)
    arguments, named = _arguments(job, _raising(f"{job.inputs} raises", make))
    other, other_named = copies(arguments), copies(named)
    tell("stage", "running")
    called = _called(job, partial(call, outputs=job.outputs, inouts=job.inouts), function, arguments, named)
    differences: Mapping[str, Compared] = {}
    if reference is not None:
        tell("stage", "comparing")
        clones = dict(named_tensors(bound_arguments(function, other, other_named)))
        check = partial(compared, called, reference, other, other_named, job, clones)
        differences = _raising(f"{job.reference} raises", check)
    tensors = tuple(_tensor(one, differences.get(one.name)) for one in (*called.arguments, *called.results))
    wrong = [one for one in tensors if one.compared is not None and not one.compared.ok]
    notes = list(called.notes)
    if reference is not None:
        unseen = not_compared(called, differences)
        notes += [f"{name} was not compared: {job.reference} does not give it" for name in unseen]
    if not any(one.written for one in tensors):
        notes.append("no kernel wrote to an argument or a result")
    names = ", ".join(one.name for one in wrong)
    return Outcome(
        "wrong" if wrong else "ok",
        f"{names}: not what the reference gives" if wrong else "",
        launches=_launches(emulation),
        tensors=tensors,
        notes=tuple(notes),
    )


def _callable(place: str, loaded: dict[Path, ModuleType]) -> Any:
    """The function that a place names. Raises Broken for what cannot be called."""
    found = _raising(f"{place} cannot be imported", partial(find, place, loaded))
    name = place.rpartition(":")[2]
    if isinstance(found, type):
        help = f"make one in a file of yours, `kernel = {name}(...)`, and name that"
        raise Broken(f"{place} is a class, not a function", help)
    if not callable(found):
        raise Broken(f"{place} is not a function: it has the type {type(found).__name__}")
    return found


def _arguments(job: Job, made: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments that were made, by position or by name. Raises Broken for what are no arguments."""
    if isinstance(made, dict):
        return (), made
    if isinstance(made, (tuple, list)):
        return tuple(made), {}
    if made is None:
        raise Broken(f"{job.inputs} returns nothing", "return a tuple of the arguments, or a dict by their names")
    return (made,), {}


def _called(job: Job, call: Any, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Called:
    clash = {"target", "orders", "seed", "outputs", "inouts"} & set(named)
    if clash:
        function, named = partial(function, **named), {}
    called: Called = _raising(f"{job.function} raises", partial(call, function, *arguments, **named))
    return called


def _raising(what: str, function: Any) -> Any:
    """Calls a user's function and returns its result. Raises Broken, with the user's lines, if that raises or exits.

    Errors that cutegen raises pass through.
    """
    try:
        return function()
    except CutegenError:
        raise
    except (Exception, SystemExit) as error:
        said = plain(str(error)).strip()
        raise Broken(f"{what} {type(error).__name__}" + f": {said}" * bool(said), at=_where(error)) from error


def _where(error: BaseException) -> tuple[str, ...]:
    """The lines that an exception came through which are neither cutegen's nor of a library, outermost first."""
    lines: list[str] = []
    if isinstance(error, SyntaxError) and error.filename:
        lines.append(f"{error.filename}:{error.lineno}: {(error.text or '').strip()}")
    for frame in traceback.extract_tb(error.__traceback__):
        file = frame.filename
        if not file.startswith((_OURS, "<")) and not _LIBRARIES & set(Path(file).parts):
            lines.append(f"{file}:{frame.lineno}: {frame.line}")
    return tuple(dict.fromkeys(lines))[-_FRAMES:]


def _launches(emulation: Emulation | None) -> tuple[Launched, ...]:
    """The launches that were run."""
    return tuple(
        Launched(
            ran.function,
            ran.asked.kernel,
            ran.asked.grid,
            ran.asked.block,
            ran.asked.cluster,
            ran.report.shared,
            ran.report.orders,
            ran.report.instructions,
            ran.report.seconds,
            ran.report.approximate,
            ran.report.contractible,
        )
        for ran in (emulation.ran if emulation else ())
    )


def _tensor(one: Touched, difference: Compared | None) -> Tensor:
    dtype = str(one.tensor.dtype).removeprefix("torch.")
    return Tensor(one.name, dtype, tuple(one.tensor.shape), one.role, one.written, difference)
