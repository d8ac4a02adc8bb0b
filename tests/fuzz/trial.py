"""One spec on the whole road up to text, and what may never happen there.

Whatever the text is, it is refused with diagnostics or it is a kernel: that is explained, drawn and written, the
explanation builds to the same module byte for byte, and all of it in a few seconds. Anything else is a `Finding`.
"""

from __future__ import annotations

import ast
import io
import json
import math
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import FrameType

from click.testing import CliRunner

import cutegen
from cutegen.analysis.proof import prove
from cutegen.analysis.report_json import as_json as proof_json
from cutegen.analysis.report_text import as_lines
from cutegen.codegen import Module, generate
from cutegen.console import print_diagnostics
from cutegen.drawing.data import as_json as figure_json
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.pages import render_page
from cutegen.drawing.text import render_text
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.language.cases import Cases
from cutegen.language.diagnostics import Diagnostic, SpecError, as_json
from cutegen.language.document import LINE_BREAK
from cutegen.language.reader import read_text
from cutegen.language.writer import write_spec
from cutegen.lint import page
from cutegen.lint.github import workflow_command
from cutegen.measuring.shapes import shapes_of
from cutegen.tuning.editing import Sheet
from cutegen.tuning.pruning import Sieve
from cutegen.tuning.space import make_space
from cutegen.verification.cases import derive_cases

SECONDS = 5.0  # of the processor, for one look at one kernel, or one verb
PATIENCE = 300.0  # seconds by the clock, on a machine that others use too
MEMORY = 6 << 30  # bytes of address space
MOST_MODULES = 4  # of a matrix that are looked at
LONGEST = 600  # characters of a message, a note or a help
NAME = "fuzz.yaml"
PACKAGE = Path(cutegen.__file__).parent


@dataclass(frozen=True)
class Finding:
    """Something that may not happen. Two findings of one `kind` are taken for the same."""

    kind: str
    text: str


@dataclass
class Outcome:
    """The result of a spec: whether it was accepted, its diagnostic codes, and findings."""

    accepted: bool = False
    codes: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)


class Overdue(BaseException):
    """The time of a spec is over: no exception that somebody on the way may catch."""


@dataclass(frozen=True)
class Depth:
    """The checks that only some specs go through, since they take longer than all others."""

    advice: bool = True
    draw: bool = True
    html: bool = True
    tune: bool = True
    verbs: bool = True

    @classmethod
    def of(cls, number: int) -> Depth:
        """The checks for the spec of that number, among many."""
        return cls(number % 4 == 0, number % 8 == 1, number % 64 == 1, number % 16 == 3, number % 64 == 5)


ALL = Depth()


def attempt(raw: bytes, folder: Path, depth: Depth = ALL) -> Outcome:
    """Takes a spec's bytes along the road; `folder` is for a file."""
    outcome = Outcome()
    step = ["lint"]
    try:
        with _limited():
            _walk(raw, folder, outcome, step, depth)
    except Overdue:
        outcome.findings.append(Finding(f"{step[0]}: overdue", traceback.format_exc()))
    except Exception as error:
        outcome.findings.append(Finding(f"{step[0]}: {_place(error)}", traceback.format_exc()))
    return outcome


def limit_memory() -> None:
    """Lets this process have so much memory and no more, for good."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _walk(raw: bytes, folder: Path, outcome: Outcome, step: list[str], depth: Depth) -> None:
    file = folder / NAME
    file.write_bytes(raw)
    text = ""
    try:
        text = read_text(file, NAME)
        generated = generate(text, NAME, performance=depth.advice)
    except SpecError as error:
        step[0] = "diagnostics"
        outcome.codes = tuple(sorted({d.code for d in error.diagnostics}))
        _expect(any(d.severity == "error" for d in error.diagnostics), "refused without an error", outcome, "")
        _say(error.diagnostics, text, outcome)
        if depth.verbs:
            _verbs(file, outcome)
        return
    outcome.accepted = True
    outcome.codes = tuple(sorted({d.code for d in generated.warnings}))
    step[0] = "diagnostics"
    _say(generated.warnings, text, outcome)
    for module in generated.modules[:MOST_MODULES]:
        for name, look in _LOOKS.items():
            step[0] = name
            _renew()
            look(module, outcome)
        step[0] = "show"
        if depth.draw:
            _renew()
            _show(module, depth.html)
    step[0] = "verbs"
    if depth.verbs and len(generated.modules) <= MOST_MODULES:
        _verbs(file, outcome)
    step[0] = "tune"
    _renew()
    if depth.tune and len(generated.modules) <= MOST_MODULES:
        _tune(raw, generated.modules)


def _say(diagnostics: tuple[Diagnostic, ...], text: str, outcome: Outcome) -> None:
    """Prints diagnostics in every format, and holds them to what people can read."""
    with redirect_stdout(io.StringIO()):
        print_diagnostics(diagnostics, {NAME: text}, to_stdout=True)
    lines = LINE_BREAK.split(text)
    for d in diagnostics:
        workflow_command(d)
        json.dumps(as_json(d))
        _expect(d.code in page.codes(), f"{d.code} has no page", outcome, repr(d))
        line = lines[d.span.line - 1] if d.span.line <= len(lines) else None
        inside = line is not None and 1 <= d.span.column <= len(line) + 1
        _expect(inside or not text, f"{d.code} is said of a place outside of the text", outcome, repr(d))
        for said in (d.message, *d.notes, d.help or "x"):
            whole = bool(said.strip()) and len(said) <= LONGEST and said.isprintable()
            _expect(whole, f"{d.code} says what is no short line", outcome, f"{len(said)} characters: {said[:2000]!r}")


def _code(module: Module, outcome: Outcome) -> None:
    """The module is Python, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ast.parse(module.text)


def _explain(module: Module, outcome: Outcome) -> None:
    """The proof holds, and the resolved spec with its comments stands for the same module."""
    sizes = [dict.fromkeys(module.spec.modes, size) | module.spec.static for size in (1, 1000)]
    proof = prove(module.plan, sizes)
    comments = {path: f"inferred: {why}" for path, why in module.inferred.items()}
    said = write_spec(module.spec, comments) + "".join(f"# {line}".rstrip() + "\n" for line in as_lines(proof))
    _expect(proof.holds, "a proof does not hold", outcome, said)
    json.dumps(proof_json(proof))
    try:
        again = generate(said, NAME).modules
    except SpecError as error:
        _expect(False, "what explain writes is refused", outcome, f"{error}\n{said}")
        return
    _expect(again[0].spec == module.spec, "what explain writes resolves to another spec", outcome, said)
    _expect(again[0].text == module.text, "what explain writes builds to another module", outcome, said)


def _cases(module: Module, outcome: Outcome) -> None:
    """There are cases, and they keep what the spec promises of sizes."""
    spec = module.spec
    cases = derive_cases(module.plan)
    _expect(bool(cases), "there is no case", outcome, "")
    for case in cases:
        kept = all(case.sizes[m] == n for m, n in spec.static.items())
        kept = kept and all(case.sizes[m] % n == 0 for m, n in spec.divisible.items())
        _expect(kept and set(case.sizes) == set(spec.modes), "a case breaks a promise", outcome, repr(case))
        _expect(min(case.sizes.values()) >= 0, "a case has a negative size", outcome, repr(case))
    if spec.operation.unmeasured is None:
        shapes = shapes_of(spec)
        _expect(bool(shapes), "there is no shape to measure at", outcome, "")
        for shape in shapes:
            work = spec.operation.work(spec, shape)
            _expect(work.operations >= 0 and math.isfinite(work.operations), "no work", outcome, repr(shape))


def _tune(raw: bytes, modules: Sequence[Module]) -> None:
    """The space of schedules is found, and some of them are written into the spec's own text and looked at."""
    spec = modules[0].spec
    documents = {module.spec.source.values[()] for module in modules}
    if spec.operation.unmeasured is not None or len(documents) > 1 or isinstance(spec.schedule, Cases):
        return
    sheet = Sheet(raw.decode())
    sieve = Sieve(sheet, NAME, tuple(module.spec.kernel for module in modules))
    sieve.incumbent()
    space = make_space(sheet.data, tuple(module.spec for module in modules))
    for schedule in space.schedules(0, 3):
        sieve.sift(schedule)


_LOOKS: dict[str, Callable[[Module, Outcome], None]] = {
    "codegen": _code,
    "explain": _explain,
    "cases": _cases,
}


def _show(module: Module, html: bool) -> None:
    figures = draw_kernel(module.plan)
    for figure in figures:
        render_text(figure, 100)
        render_text(figure, 40, "ascii", 5)
        json.dumps(figure_json(figure))
    if html:
        render_page(module, figures)


def _verbs(file: Path, outcome: Outcome) -> None:
    """The output of the command line for the file, and its exit code."""
    from cutegen.cli import cli

    for verb, form in (("lint", "github"), *product(("lint", "explain", "show"), ("text", "json"))):
        _renew()
        result = CliRunner().invoke(cli, [verb, str(file), "--format", form])
        ends = (OK,) if outcome.accepted else (FINDINGS, BROKEN)
        said = f"{result.exit_code}: {result.output[-2000:]}"
        _expect(result.exit_code in ends, f"{verb} ends as it must not", outcome, said)
        if form == "json":
            json.loads(result.stdout)


def _expect(holds: bool, kind: str, outcome: Outcome, text: str) -> None:
    if not holds and kind not in {finding.kind for finding in outcome.findings}:
        outcome.findings.append(Finding(kind, text))


@contextmanager
def _limited() -> Iterator[None]:
    """Raises Overdue where what is inside takes too long."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Overdue

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
    before = {number: signal.signal(number, end) for number in timers}
    try:
        for timer, seconds in timers.values():
            signal.setitimer(timer, seconds)
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _renew() -> None:
    """Gives what comes next all its time."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _place(error: BaseException) -> str:
    """The error's type, and the innermost function of cutegen that it went through."""
    where = "outside of cutegen"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE):
            where = f"{file.relative_to(PACKAGE)}:{frame.f_code.co_name}"
    return f"{type(error).__name__} in {where}"
