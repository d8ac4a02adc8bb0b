"""Nothing that a user can do ends in a traceback, and where the command runs changes nothing in what it writes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from building_kit import project, put, snapshot, spec_text
from click.testing import CliRunner
from compiling_kit import Compiler

from cutegen import exits
from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.compiling import Compiled, Job, Resources
from cutegen.errors import CutegenError
from cutegen.project.starter import atoms_of, starter_text
from cutegen.registry import ops
from cutegen.verification import gpu_available

ROOT = Path(__file__).parents[2]
GOOD = spec_text("one")

TINY = """\
cutegen: 1
kernel: tiny
op: probe
tensors:
  A: {shape: [M, N], dtype: i32, major: M}
  D: {shape: [T, V], dtype: i32, major: V, role: out}
compute: D = A
schedule: {tv_layout: "((2,2),(2,3)):((2,12),(1,4))", tiler: {M: 4, N: 6}}
targets: [sm_80]
"""


def run(
    *arguments: object, cwd: Path, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cutegen", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=120,
    )


BAD = {
    "empty": b"",
    "only a comment": b"# nothing\n",
    "not YAML": b"a: [1, 2\nb: }",
    "a list": b"- 1\n- 2\n",
    "a number": b"5\n",
    "tabs": b"cutegen: 1\n\tkernel: x\n",
    "unknown keys": GOOD.replace("compute:", "comptue:").encode(),
    "wrong types": GOOD.replace("C = A + B", "[1]").encode(),
    "not a layout": (GOOD + "schedule: {thread_layout: '(4,'}\n").encode(),
    "not injective": (GOOD + "schedule: {thread_layout: '(4,8):(0,1)', value_layout: '(1,4):(4,1)'}\n").encode(),
    "a negative number": (GOOD + "schedule: {partition: inner, tiler: {M: -1, N: 4}, threads: 64}\n").encode(),
    "a huge number": (GOOD + "schedule: {partition: inner, tiler: {M: 1, N: 99999999999999999999}}\n").encode(),
    "a tiler of 0": (GOOD + "schedule: {partition: inner, tiler: {M: 0, N: 4}, threads: 64}\n").encode(),
    "a cyclic alias": b"cutegen: &a [*a]\n",
    "a bomb of aliases": b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n".encode() for i in range(12)
    ),
    "10 MB of nesting": b"[" * 10_000_000,
    "deep nesting": b"[" * 100_000,
    "a name that is none": GOOD.replace("kernel: one", "kernel: 2fast").encode(),
    "a name that climbs": GOOD.replace("kernel: one", "kernel: ../x").encode(),
    "a keyword": GOOD.replace("kernel: one", "kernel: class").encode(),
    "NUL": b"cutegen: 1\x00\n",
    "not UTF-8": b"cutegen: 1\nkernel: \xff\n",
    "unknown target": GOOD.replace("sm_90a", "sm_91").encode(),
    "code": GOOD.replace("C = A + B", "C = __import__('os').getpid()").encode(),
    "a tag": b"!!python/object/apply:os.system ['true']\n",
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("verb", [("build",), ("build", "--check"), ("lint",), ("explain",), ("verify", "--on", "gpu")])
def test_bad_input_gets_a_diagnostic_with_its_place(tmp_path: Path, what: str, verb: tuple[str, ...]) -> None:
    specs = project(tmp_path)
    path = specs / "bad.yaml"
    path.write_bytes(BAD[what])
    result = CliRunner().invoke(cli, [*verb, str(path)])
    assert isinstance(result.exception, SystemExit) and result.exit_code in (1, 2), result.output
    assert "error[CG" in result.output and f"{path}:" in result.output
    assert "Traceback" not in result.output and len(result.output) < 20_000
    assert not (tmp_path / "generated").exists()


@pytest.mark.parametrize("what", ["10 MB of nesting", "not UTF-8"])  # the stack is a process's, as are its streams
def test_bad_input_in_a_process_of_its_own(tmp_path: Path, what: str) -> None:
    specs = project(tmp_path)
    (specs / "bad.yaml").write_bytes(BAD[what])
    result = run("build", "specs", "--format", "json", cwd=tmp_path)
    assert result.returncode in (1, 2) and "Traceback" not in result.stderr
    data = json.loads(result.stdout)
    assert not data["ok"] and data["diagnostics"][0]["path"] == "specs/bad.yaml"


def test_all_problems_of_all_files_at_once(tmp_path: Path) -> None:
    specs = project(tmp_path, "good")
    (specs / "a.yaml").write_text(GOOD.replace("dtype: f32", "dtype: f33").replace("sm_90a", "sm_91"))
    (specs / "b.yaml").write_bytes(BAD["a list"])
    result = CliRunner().invoke(cli, ["build", str(specs), "--format", "json"])
    codes = [(Path(d["path"]).name, d["code"]) for d in json.loads(result.stdout)["diagnostics"]]
    assert result.exit_code == 2
    assert codes == [*[("a.yaml", "CG104")] * 3, ("a.yaml", "CG109"), ("b.yaml", "CG103")]


def test_a_folder_instead_of_a_spec_and_no_file_at_all(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for arguments in (
        ["explain", "folder.yaml"],
        ["build", "gone.yaml"],
        ["build"],
        ["build", "x" * 5000],
    ):
        result = CliRunner().invoke(cli, [str(tmp_path / a) if "yaml" in a else a for a in arguments])
        assert isinstance(result.exception, SystemExit) and result.exit_code == 2, arguments
        assert "rror: " in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
def test_files_without_permission(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    (specs / "one.yaml").chmod(0)
    assert "cannot be read" in CliRunner().invoke(cli, ["build", str(specs)]).stderr
    (specs / "one.yaml").chmod(0o600)
    out = tmp_path / "generated"
    out.mkdir(mode=0o500)
    result = CliRunner().invoke(cli, ["build", str(specs), "--no-compile", "--no-verify"])
    assert result.exit_code == 2 and "cannot be written to" in result.stderr
    out.chmod(0o700)


@pytest.mark.parametrize("out", ["/proc/cutegen", "/dev/null", "/dev/null/x"])
def test_an_output_folder_that_cannot_be(tmp_path: Path, out: str) -> None:
    result = CliRunner().invoke(
        cli, ["build", str(project(tmp_path, "one")), "--no-compile", "--no-verify", "--out", out]
    )
    assert isinstance(result.exception, SystemExit) and result.exit_code == 2
    assert "error: " in result.stderr and "nothing was written" in result.stderr and out[:9] in result.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "1"},
        {"LC_ALL": "tr_TR.UTF-8", "PYTHONIOENCODING": "latin-1", "PYTHONHASHSEED": "4711",
         "TZ": "Asia/Kolkata", "COLUMNS": "20", "TERM": "dumb"},
    ],
    ids=lambda e: ",".join(e),
)  # fmt: skip
def test_the_environment_does_not_change_the_bytes(tmp_path: Path, environment: dict[str, str]) -> None:
    specs = project(tmp_path)
    text = GOOD.replace("op:", "summary: Größe → 大きさ 𝄞.\nop:").replace("cutegen: 1", "cutegen: 1  # ı İ", 1)
    (specs / "größe.yaml").write_text(text, encoding="utf-8")
    out = put(specs)
    before = snapshot(out)
    assert run("build", "specs", "--check", cwd=tmp_path, **environment).returncode == 0
    result = run("build", tmp_path, "--no-compile", "--no-verify", "--out", "o", cwd=specs, **environment)
    assert result.returncode == 0, result.stderr
    assert {n: d for n, (d, _, _) in snapshot(specs / "o").items()} == {n: d for n, (d, _, _) in before.items()}
    explained = run("explain", "specs/größe.yaml", cwd=tmp_path, **environment)
    assert explained.returncode == 0 and "kernel: one" in explained.stdout


def test_parallel_builds_of_one_folder_end_well(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two", "three")
    command = [sys.executable, "-m", "cutegen", "build", "specs", "--no-compile", "--no-verify"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    errors = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 3, errors
    assert run("build", "--check", specs, cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in (tmp_path / "generated").iterdir()) == ["one.py", "three.py", "two.py"]


SHORT = [("schema",), ("build", "specs", "--check", "--format", "json"), ("build", "specs", "--check")]


@pytest.mark.parametrize("arguments", SHORT)
def test_a_closed_pipe_is_no_error_message(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    put(project(tmp_path, "one"))
    read, write = os.pipe()
    os.close(read)
    try:
        result = run(*arguments, cwd=tmp_path, stdout=write)
    finally:
        os.close(write)
    assert result.returncode == 141 and not result.stderr


@pytest.mark.parametrize("arguments", SHORT)
def test_a_full_disk_under_stdout_is_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    put(project(tmp_path, "one"))
    with open("/dev/full", "w") as full:
        result = run(*arguments, cwd=tmp_path, stdout=full.fileno())
    assert result.returncode == 2 and result.stderr == "error: No space left on device\n"


def test_the_documentation_names_every_exit_code() -> None:
    """All there are; and that of SIGTERM, which ends what the guard would catch."""
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    (table,) = (part for part in page.split("\n\n") if part.startswith("| code | meaning |"))
    codes = {exits.OK, exits.FINDINGS, exits.BROKEN, exits.DEFECT, exits.INTERRUPTED, exits.PIPE, 128 + signal.SIGTERM}
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == codes


@pytest.mark.parametrize(
    ("dtype", "hides"), [("bf17", False), ("complex", True)], ids=["a misspelt word", "a word near nothing"]
)
def test_what_a_wrong_dtype_hides(tmp_path: Path, dtype: str, hides: bool) -> None:
    """The page on verification says so."""
    bad = GOOD.replace("dtype: f32", f"dtype: {dtype}", 1).replace("A + B", "A + BB")
    (path := project(tmp_path) / "one.yaml").write_text(bad)
    result = CliRunner().invoke(cli, ["lint", str(path)])
    assert "CG104" in result.stdout and ("CG121" in result.stdout) is not hides


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    project(tmp_path, "one")
    process = subprocess.Popen(
        [sys.executable, "-m", "cutegen", "build", "specs", "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert [process.stderr.readline() for _ in range(2)] == ["reading specs: 1\n", "compiling: 2\n"]
    time.sleep(0.3)  # into the compile
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in errors and not out
    assert not (tmp_path / "generated").exists()


@pytest.mark.skipif(gpu_available(), reason="this machine has a GPU, which build uses")
def test_a_real_build_through_the_command_line(tmp_path: Path) -> None:
    """The only test here with the real compiler and emulator, of the smallest kernel there is; the second build takes
    everything from the cache."""
    specs = project(tmp_path)
    (specs / "tiny.yaml").write_text(f"{TINY}expect: {{spills: 0, sass: {{STG: '> 0'}}}}\n")
    cache = {"CUTEGEN_CACHE_DIR": str(tmp_path / "cache")}
    first = run("build", "specs", cwd=tmp_path, **cache)
    assert first.returncode == 0, first.stderr
    assert re.search(r"cpu \(emulator\): \d+ cases, \d+ host checks, all exact", first.stdout), first.stdout
    assert "ok tiny on cpu (emulator)" in first.stderr and (tmp_path / "generated/tiny.py").is_file()
    again = run("build", "specs", "--no-verify", "--format", "json", cwd=tmp_path, **cache)
    (kernel,) = json.loads(again.stdout)["kernels"]
    assert (kernel["action"], kernel["targets"]["sm_80"]["cached"]) == ("unchanged", True)
    assert kernel["targets"]["sm_80"]["registers"] > 0


def test_the_starters_do_not_spill(compiler: Compiler) -> None:
    kinds = [(op.name, atom) for op in ops() for atom in (atoms_of(op.name) or (None,))]
    modules = [generate(starter_text("mine", *kind), "specs/mine.yaml").modules[0] for kind in kinds]
    jobs = [Job(m.text, "mine", target) for m in modules for target in m.spec.targets]
    outcomes = compiler(jobs)
    found = [o.artefact.resources if isinstance(o, Compiled) else o for o in outcomes]
    assert [(r.spill_stores, r.spill_loads) for r in found if isinstance(r, Resources)] == [(0, 0)] * len(jobs), found


def test_the_command_line_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, cutegen.cli; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"torch", "cutlass", "rich", "jinja2", "jsonschema", "yaml", "tensor_layouts", "platformdirs", "numpy"}
    assert not heavy & set(result.stdout.split())


def test_rendering_and_comparing_import_neither_torch_nor_the_compiler(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    put(specs)
    code = (
        "import sys\nfrom cutegen.cli import cli\n"
        "cli(['build', '--check', 'specs'], standalone_mode=False)\nprint(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "current" in result.stdout and not {"torch", "cutlass", "rich", "numpy"} & set(result.stdout.split())


def test_a_pipe_as_a_spec_does_not_hang(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    os.mkfifo(specs / "pipe.yaml")
    for named in ("specs", "specs/pipe.yaml", "/dev/zero"):
        result = run("lint", named, "--format", "json", cwd=tmp_path)
        assert result.returncode == 2 and "not a file" in json.loads(result.stdout)["error"]


def test_a_path_that_is_not_utf_8_can_be_printed(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    out = os.fsencode(tmp_path) + b"/o\xff"
    for form in ("text", "json"):
        command = [sys.executable, "-m", "cutegen", "build", str(specs), "--check", "--format", form, "--out", out]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60)
        assert result.returncode == 1 and "o\\xff" in result.stdout.decode("utf-8").replace("\\\\", "\\")


@pytest.mark.parametrize("code", [1, 2])
def test_an_error_of_ours_is_its_message_its_help_and_its_code(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    class Ours(CutegenError):
        exit_code = code

    def refuse() -> None:
        raise Ours("it is so", "make it otherwise")

    monkeypatch.setattr("cutegen.language.schema.schema_text", refuse)
    result = CliRunner().invoke(cli, ["schema"])
    assert (result.exit_code, result.stderr) == (code, "error: it is so\n  help: make it otherwise\n")
    result = CliRunner().invoke(cli, ["inspect", "--format=json", "nowhere.yaml"])
    said = json.loads(result.stdout)
    assert (result.exit_code, said["verb"], said["exit_code"]) == (2, "inspect", 2)
    assert said["error"] == "nowhere.yaml does not exist" and said["help"] == "name spec files, or folders of them"


def test_a_defect_is_one_line_and_a_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*args: object) -> None:
        raise AssertionError("never so")

    monkeypatch.setattr("cutegen.language.schema.schema_text", defect)
    result = CliRunner().invoke(cli, ["schema"])
    assert json.loads(CliRunner().invoke(cli, ["schema", "--format", "json"]).stdout)["exit_code"] == 70
    assert result.exit_code == 70 and "AssertionError: never so" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import no_such_package.part", "the package no_such_package is not installed: No module named"),
        (
            "raise ImportError('libx.so: no such file', name='torch._C')",
            "the package torch cannot be imported: libx.so",
        ),
        ("raise ImportError('libx.so: no such file')", "something that cutegen needs cannot be imported: libx.so"),
    ],
)
def test_what_is_not_installed_is_no_defect(monkeypatch: pytest.MonkeyPatch, statement: str, words: str) -> None:
    monkeypatch.setattr("cutegen.language.schema.schema_text", lambda *args: exec(statement))
    result = CliRunner().invoke(cli, ["schema"])
    assert result.exit_code == 2 and words in result.stderr and "defect" not in result.stderr
    assert "`python -m pip install .`" in result.stderr


@pytest.mark.parametrize("statement", ["from cutegen.language import nothing", "import cutegen.nothing"])
def test_a_part_of_cutegen_that_is_not_there_is_a_defect(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    monkeypatch.setattr("cutegen.language.schema.schema_text", lambda *args: exec(statement))
    result = CliRunner().invoke(cli, ["schema"])
    assert result.exit_code == 70 and "this is a defect of cutegen" in result.stderr
