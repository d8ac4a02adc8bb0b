"""`python -m tests.fuzz`: specs by chance through the whole road, any number of them.

    python -m tests.fuzz --seed 7 --count 100000 -j 2      # text only: lint, explain, show, codegen, cases
    python -m tests.fuzz --seed 7 --count 0 --build 500    # compiled for their targets and run on the CPU
    python -m tests.fuzz --seed 7 --print 1234             # the spec of that number
    python -m tests.fuzz found/*.yaml                      # specs of files

Exit 1 where something was found. A finding is written to the folder of `--out`, as small as it could be made. Ctrl-C
ends the first kind of run early, with the report of what came until then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import building
from tests.fuzz.making import make, make_small
from tests.fuzz.minimising import minimise
from tests.fuzz.running import Slice, run
from tests.fuzz.tally import Tally
from tests.fuzz.trial import attempt


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Random specs, through all stages.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="specs to try instead of random ones")
    parser.add_argument("--seed", type=int, default=0, help="which specs are made")
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--count", type=int, default=1000, help="how many are tried")
    parser.add_argument("--build", type=int, default=0, metavar="N", help="how many are compiled and run besides")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="a folder for the specs with findings")
    parser.add_argument("--print", type=int, metavar="NUMBER", help="print that spec, and do no more")
    options = parser.parse_args()
    if options.print is not None:
        made = (make_small if options.build else make)(options.seed, options.print)
        sys.stdout.buffer.write(made.raw)
        return 0
    if options.files:
        return _try_files(options.files)
    found = 0
    if options.count:
        tally = run(Slice(options.seed, options.start, options.start + options.count), options.jobs, _progress())
        print("\n".join(tally.lines()))
        found += _report(tally, options.seed, options.out)
    if options.build:
        found += building.build(options.seed, options.start, options.build, options.jobs, options.out)
    return 1 if found else 0


def _progress() -> Callable[[Tally], None]:
    """A function that prints a line about a tally periodically, and each new kind of finding at once."""
    started = said = time.monotonic()
    known: set[str] = set()

    def tell(tally: Tally) -> None:
        nonlocal said
        for kind in [kind for kind in tally.findings if kind not in known]:
            known.add(kind)
            print(f"found in {tally.findings[kind].numbers[0]}: {kind}", file=sys.stderr, flush=True)
        if time.monotonic() - said > 20:
            said = time.monotonic()
            count, good = tally.made.total(), tally.accepted.total()
            print(f"{count} specs in {said - started:.0f} s, {good} accepted", file=sys.stderr, flush=True)

    return tell


def _try_files(files: list[Path]) -> int:
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            outcome = attempt(file.read_bytes(), Path(folder))
            print(f"{file}: {'accepted' if outcome.accepted else 'refused'} {' '.join(outcome.codes)}")
            for finding in outcome.findings:
                print(f"  {finding.kind}\n{finding.text}")
            found += len(outcome.findings)
    return 1 if found else 0


def _report(tally: Tally, seed: int, out: Path | None) -> int:
    """Prints the findings, and writes the smallest spec of each; gives how many kinds there are."""
    with tempfile.TemporaryDirectory() as folder:
        for index, (kind, found) in enumerate(sorted(tally.findings.items())):
            print(f"\n{found.count} x {kind}\n  numbers {', '.join(map(str, found.numbers))}\n{found.text[-3000:]}")
            if out is None:
                continue
            raw = make(seed, found.numbers[0]).raw
            if not kind.startswith("the process ended"):

                def holds(tried: bytes, kind: str = kind) -> bool:
                    return kind in {finding.kind for finding in attempt(tried, Path(folder)).findings}

                raw = minimise(raw, holds) if holds(raw) else raw
            out.mkdir(parents=True, exist_ok=True)
            file = out / f"{seed}-{index:02}-{found.numbers[0]}.yaml"
            file.write_bytes(raw)
            said = f"{kind}\n{found.numbers}\n{found.text}\n"
            file.with_suffix(".txt").write_bytes(said.encode("utf-8", "replace"))
            print(f"  written to {file}")
    return len(tally.findings)


if __name__ == "__main__":
    sys.exit(main())
