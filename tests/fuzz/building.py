"""Specs by chance that are built: what lint accepts must compile for its targets and be right on the CPU."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from math import prod
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.compiling import Compiled
from cutegen.language.diagnostics import SpecError
from cutegen.project.selection import select
from cutegen.project.sources import Unit, gather
from cutegen.verbs.building.compilation import compile_units
from cutegen.verbs.building.verification import verify_units
from cutegen.verification import KernelReport
from cutegen.verification.cases import derive_cases
from tests.fuzz.making import Made, make_small

TOGETHER = 20  # kernels that are built at a time
MOST_ELEMENTS = 3_000_000  # of a kernel's `elements`: what the emulator runs in about a minute
PRODUCTS = 4  # multiply-adds that take it as long as an element


def build(seed: int, start: int, count: int, workers: int, out: Path | None) -> int:
    """Builds so many specs that lint accepts, and prints what came of them; gives the number of findings.

    `out` is a folder for the specs that fail. Raises OSError where no process can be started.
    """
    found, built, number = 0, 0, start
    verdicts: Counter[str] = Counter()
    began = time.monotonic()
    while built < count:
        batch: list[tuple[int, Made]] = []
        while len(batch) < min(TOGETHER, count - built):
            made = make_small(seed, number)
            verdict = wanted(made)
            verdicts[f"{made.op}: {verdict}"] += 1
            if verdict == "accepted":
                batch.append((number, made))
            number += 1
        failed, left_open = _build_batch(batch, seed, workers, out)
        found += failed
        verdicts["built, but its values are open"] += left_open
        built += len(batch)
        print(f"{built} built in {time.monotonic() - began:.0f} s, {found} findings", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return found


def wanted(made: Made) -> str:
    """`accepted`, or why a spec is not built."""
    try:
        (module,) = generate(made.raw.decode(), "trial.yaml").modules
    except SpecError:
        return "refused by lint"
    return "accepted" if elements(module) <= MOST_ELEMENTS else "too large"


def elements(module: Module) -> int:
    """The elements of an output in all cases, and a part of a gemm's multiply-adds: what running a kernel takes."""
    spec = module.spec
    found, output = 0, spec.by_element.output
    summed = [mode for mode in spec.modes if mode not in output.shape and mode not in spec.taken]
    for case in derive_cases(module.plan):
        depth = sum(case.sizes[m] for m in summed)
        found += prod(output.extents(case.sizes)) * (1 + depth // PRODUCTS)
    return found


def _build_batch(batch: list[tuple[int, Made]], seed: int, workers: int, out: Path | None) -> tuple[int, int]:
    """Builds specs; gives how many failed, and of how many others the spec leaves all values of an output open."""
    with tempfile.TemporaryDirectory(prefix="cutegen-fuzz-") as folder:
        files = [Path(folder, f"trial{number}.yaml") for number, _ in batch]
        for file, (number, made) in zip(files, batch, strict=True):
            file.write_bytes(made.raw.replace(b"kernel: trial", f"kernel: trial{number}".encode()))
        units = gather(select(files)).units
        assert len(units) == len(batch), "lint accepted each of them"
        failed, left_open = _failures(units, workers)
        for unit in units:
            if unit.kernel not in failed:
                continue
            print(f"FINDING seed {seed}, {unit.kernel}: {failed[unit.kernel][:1500]}", flush=True)
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                file = out / f"build-{seed}-{unit.kernel}.yaml"
                shutil.copy(unit.source.file, file)
                file.with_suffix(".txt").write_text(failed[unit.kernel], encoding="utf-8")
        return len(failed), left_open


def _failures(units: tuple[Unit, ...], workers: int) -> tuple[dict[str, str], int]:
    """The problems, by name, of kernels that were compiled for their targets and then run; and the number of the others
    with an output that cannot be judged.
    """
    compilations = compile_units(
        units, workers=workers, cache=None, on_start=lambda count: None, on_done=lambda what, outcome: None
    )
    failed: dict[str, str] = {}
    left_open = 0
    for unit, compilation in zip(units, compilations, strict=True):
        if compilation.diagnostics or not all(isinstance(o, Compiled) for o in compilation.outcomes.values()):
            failed[unit.kernel] = f"compile: {compilation.diagnostics} {compilation.outcomes}"
    compiled = [
        (unit, one.outcomes) for unit, one in zip(units, compilations, strict=True) if unit.kernel not in failed
    ]
    rest, outcomes = [unit for unit, _ in compiled], [own for _, own in compiled]

    def done(report: KernelReport) -> None:
        nonlocal left_open
        if report.reason == "open" and len(report.failures) == 1:
            left_open += 1
        elif not report.ok:
            failed[report.kernel] = "\n".join([report.text, *report.failures])

    verify_units(rest, "cpu", workers=workers, on_done=done, compiled=outcomes)
    return failed, left_open
