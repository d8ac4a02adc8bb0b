"""Which schedules are worth compiling: what the language, planning or lint refuses is not, nor is a repetition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutegen.codegen import Module
from cutegen.codegen.render import HEADER_LINES, digest, render
from cutegen.language.diagnostics import SpecError, ordered
from cutegen.language.reader import read_specs
from cutegen.lint import check
from cutegen.lint.advice import standing
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report
from cutegen.tuning.editing import EditError, Sheet
from cutegen.tuning.model import DUPLICATE, EDIT, Candidate, Dropped

FATAL = ("CG261",)  # warnings of lint that rule out speed: more values than registers


@dataclass
class Sieve:
    """Makes candidates of the schedules of one document. It remembers every body, so that a repetition is known as one.

    `name` is the spec file's, as headers have it; `kernels` are those of the document.
    """

    sheet: Sheet
    name: str
    kernels: Collection[str]
    bodies: dict[str, int] = field(default_factory=dict)  # digest of all bodies -> number of the first candidate
    count: int = 0  # of the schedules so far, the incumbent not counted

    def incumbent(self) -> Candidate:
        """The spec as it is, which has no errors."""
        found = self._examine(0, self.sheet.schedule, self.sheet.text, fatal=())
        assert isinstance(found, Candidate)
        return self._first(found)

    def sift(self, schedule: Mapping[str, Any]) -> Candidate | Dropped:
        """Makes a candidate of a schedule, or says why it is none."""
        self.count += 1
        number = self.count
        try:
            text = self.sheet.with_schedule(schedule)
        except EditError as error:
            return Dropped(number, schedule, EDIT, str(error))
        found = self._examine(number, schedule, text, fatal=FATAL)
        if isinstance(found, Dropped):
            return found
        first = self.bodies.get(_key(found))
        if first is not None:
            return Dropped(number, schedule, DUPLICATE, f"the same code as candidate {first}")
        return self._first(found)

    def _first(self, candidate: Candidate) -> Candidate:
        """Remembers the bodies of a candidate that is the first to have them."""
        self.bodies[_key(candidate)] = candidate.number
        return candidate

    def _examine(
        self, number: int, schedule: Mapping[str, Any], text: str, fatal: Collection[str]
    ) -> Candidate | Dropped:
        """Generates the modules of a schedule; gives the candidate, or why it is none.

        Codes in `fatal` keep it from being one.
        """
        try:
            specs = read_specs(text.replace("\r\n", "\n").replace("\r", "\n"), self.name)
        except SpecError as error:
            worst = next(d for d in error.diagnostics if d.severity == "error")
            return Dropped(number, schedule, worst.code, worst.message)
        modules: list[Module] = []
        excess = 0.0
        planned = []
        for spec in specs:
            if spec.kernel not in self.kernels:
                continue
            report = Report(spec.source)
            resolved = resolve(spec, report)
            if not report.failed:
                check(resolved, report, advise=False)
            for said in sorted(ordered(report.diagnostics), key=lambda d: d.severity):  # errors come first
                if said.severity == "error" or said.code in fatal:
                    return Dropped(number, schedule, said.code, f"{spec.kernel}: {said.message}")
            planned.append((resolved, report))
        for resolved, report in planned:
            plan = make_plan(resolved)
            module, regions = render(plan, self.name)
            modules.append(Module(f"{resolved.kernel}.py", module, resolved, plan, report.inferred, regions))
            excess += standing(resolved, plan).excess / len(planned)
        bodies = {module.spec.kernel: body_hash(module.text) for module in modules}
        return Candidate(number, schedule, text, tuple(modules), bodies, excess)


def body_hash(text: str) -> str:
    """The digest of a module's body, which its header has too."""
    return digest(text.split("\n", HEADER_LINES)[HEADER_LINES])


def _key(candidate: Candidate) -> str:
    """Returns the key that makes two candidates duplicates: a digest of the bodies of their kernels."""
    return digest(" ".join(candidate.bodies.values()))


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in order, those first that lint says waste least. Equal ones keep their order."""
    return sorted(candidates, key=lambda c: (round(c.excess, 6), c.number))
