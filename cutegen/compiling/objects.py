"""Object files of compiled kernels, and shared libraries linked from them."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen.compiling.deaths import failed_by
from cutegen.compiling.environment import IMPORTS, clean_environment
from cutegen.compiling.outcome import Failed, Job
from cutegen.compiling.pool import START_TIMEOUT, TIMEOUT
from cutegen.compiling.tools import ToolError
from cutegen.errors import plain
from cutegen.workers import Crew, Setup, processors, worker_command

COMPILERS = ("cc", "gcc", "clang")
_LINK_SECONDS = 300.0
_SHOWN = 2000  # characters of what a C compiler says


@dataclass(frozen=True)
class Object:
    """The object file of one kernel for one target, and what it is linked with."""

    job: Job
    code: bytes
    headers: tuple[Path, ...]  # folders of TVM FFI's and DLPack's
    tvm_ffi: Path  # the library of TVM FFI
    runtime: Path  # the static library of the compiler's runtime


def symbol(kernel: str, target: str) -> str:
    """The name of a kernel's function for one target in a library; TVM FFI puts its prefix before it."""
    return f"{kernel}_{target}"


def make_objects(
    jobs: Sequence[Job], *, workers: int | None = None, on_done: Callable[[Job, Object | Failed], None]
) -> list[Object | Failed]:
    """Compiles every job to an object file, in `workers` processes (None: one a processor), in the order of the jobs.

    `on_done` is called as each job ends. Raises OSError where no process can be started.
    """
    found: dict[int, Object | Failed] = {}
    setup = Setup(
        command=worker_command("cutegen.compiling.object_worker"),
        environment=lambda folder: clean_environment(os.environ, folder),
        timeout=TIMEOUT,
        start_timeout=START_TIMEOUT,
        traced=True,
        imports=IMPORTS,
    )
    with Crew(setup, min(workers or processors(), max(1, len(jobs)))) as crew:
        for index, ending in crew.run(jobs):
            job = jobs[index]
            if ending.death is not None:
                found[index] = failed_by(ending.death, job)
            elif "failed" in ending.result:
                found[index] = Failed.from_json(ending.result["failed"])
            else:
                made = ending.result["toolchain"]
                code = base64.b64decode(ending.result["object"])
                headers = tuple(map(Path, made["headers"]))
                found[index] = Object(job, code, headers, Path(made["tvm_ffi"]), Path(made["runtime"]))
            on_done(job, found[index])
    return [found[index] for index in range(len(jobs))]


def c_compiler() -> tuple[str, ...]:
    """The command of the C compiler that links: what `$CC` says, else the first that is there. Raises ToolError."""
    said = os.environ.get("CC", "")
    try:
        given = shlex.split(said)
    except ValueError as problem:
        raise ToolError(f"$CC cannot be read as a command: {said!r}: {problem}") from problem
    if given and not shutil.which(given[0]):
        raise ToolError(f"there is no C compiler to link with: $CC says {given[0]!r}, which is not there")
    if given:
        return tuple(given)
    found = next((name for name in COMPILERS if shutil.which(name)), None)
    if found is None:
        raise ToolError(f"there is no C compiler to link with: neither {', '.join(COMPILERS)} nor $CC")
    return (found,)


def link(objects: Sequence[Object], sources: Mapping[str, str], name: str) -> bytes:
    """The shared library of that file name, of objects and of C sources, by their names.

    A source `library.map` says which symbols the library has. It needs the library of TVM FFI, and finds the CUDA
    runtime in the process that loads it, as torch brings it. Raises ToolError where the C compiler fails.
    """
    first = objects[0]
    with tempfile.TemporaryDirectory(prefix="cutegen-link-") as folder:
        work = Path(folder)
        for source, text in sources.items():
            (work / source).write_text(text, encoding="utf-8")
        for number, one in enumerate(objects):
            (work / f"{number}.o").write_bytes(one.code)
        command = [
            *c_compiler(),
            *("-std=c11", "-O2", "-Wall", "-fPIC", "-fvisibility=hidden", "-shared", "-s"),
            *(f"-I{path}" for path in first.headers),
            *(source for source in sources if source.endswith(".c")),
            *(f"{number}.o" for number in range(len(objects))),
            *(str(first.runtime), f"-L{first.tvm_ffi.parent}", "-ltvm_ffi"),
            *(f"-Wl,-soname,{name}", "-Wl,--version-script=library.map", "-Wl,--gc-sections"),
            *("-o", "linked"),
        ]
        try:
            done = subprocess.run(
                command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=_LINK_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise ToolError(f"the C compiler {command[0]} did not run: {problem}") from problem
        if done.returncode != 0:
            said = plain(done.stderr or done.stdout).strip()[-_SHOWN:]
            raise ToolError(f"the C compiler {command[0]} ended with status {done.returncode}: {said}")
        return (work / "linked").read_bytes()
