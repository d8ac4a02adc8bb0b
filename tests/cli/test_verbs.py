"""Each verb through its command line: exit codes, what goes to stdout and stderr, and the JSON."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, StandInVerifier, project, put, snapshot, spec_text
from click.testing import CliRunner, Result
from specs_kit import ROOT, SPECS, modules_of
from sweep_kit import sampled

from cutegen import __version__
from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.codegen.render import marked

VERBS = ("init", "build", "lint", "explain", "grad", "inspect", "layout", "show", "verify", "run", "receipts", "schema")


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", StandInCompiler())
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier())
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))  # not among what a verb writes
    monkeypatch.chdir(tmp_path)


def cutegen(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def data_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_version_and_help() -> None:
    assert cutegen("--version").output == f"cutegen, version {__version__}\n"
    text = cutegen("--help").output
    assert all(verb in text for verb in VERBS)
    assert cutegen("no-such-verb").exit_code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_both_formats(verb: str) -> None:
    text = cutegen(verb, "--help").output
    assert "--format" in text and "JSON" in text


def keys_told(verb: str) -> set[str]:
    """The outer keys of a verb's JSON as its help has them."""
    text = re.sub(r"\s+", " ", cutegen(verb, "--help").output.partition("JSON")[2])
    depth, outer = 0, ""
    for character in text[text.index("{") :]:
        depth += (character in "{[") - (character in "}]")
        if depth == 0:
            break
        outer += character if depth == 1 and character not in "{}[]" else ""
    return {key for part in outer.split(",") if not (key := part.partition(":")[0].strip()).endswith("?")}


@pytest.mark.parametrize(
    "arguments", [("explain",), ("inspect",), ("show",), ("receipts",), ("verify", "--on", "cpu"), ("lint",)]
)
def test_json_has_what_the_help_says_also_of_a_refused_spec(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    specs = project(tmp_path, "one")
    told = keys_told(arguments[0])
    assert {"verb", "ok", "exit_code"} < told
    assert told <= data_of(cutegen(*arguments, specs, "--format", "json")).keys()
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A + E"))
    refused = data_of(cutegen(*arguments, specs, "--format", "json"))
    assert not refused["ok"] and refused["diagnostics"] and told <= refused.keys()


@pytest.mark.parametrize("verb", ["explain", "show"])
def test_a_folder_is_taken_where_the_usage_says_so(tmp_path: Path, verb: str) -> None:
    specs = project(tmp_path, "one", "two")
    assert "SPEC|DIR" in cutegen(verb, "--help").output
    data = data_of(cutegen(verb, specs, "--format", "json"))
    found = data["kernels"] if verb == "explain" else data["pictures"]
    assert {entry["kernel"] for entry in found} == {"one", "two"}
    if verb == "explain":
        assert data["spec"] == "specs" and [e["spec"] for e in found] == ["specs/one.yaml", "specs/two.yaml"]
        wrong = cutegen(verb, specs, "--kernel", "three")
        assert "no kernel `three` in specs" in wrong.stderr and "one, two" in wrong.stderr


@pytest.mark.parametrize(
    "op", ["elementwise", "gemm", "probe", "gemm --atom fma", "gemm --atom mma_sync", "gemm --atom wgmma"]
)
def test_init_writes_a_spec_that_builds(tmp_path: Path, op: str) -> None:
    result = cutegen("init", "mine", "--op", *op.split())
    assert result.exit_code == 0 and "cutegen build specs/mine.yaml" in result.stdout
    first = (tmp_path / "specs/mine.yaml").read_text().splitlines()[0]
    schema = tmp_path / "specs" / first.partition("$schema=")[2]
    assert first.startswith("# yaml-language-server: ") and json.loads(schema.read_text())["title"]
    assert cutegen("lint", "--strict", "specs").exit_code == 0
    atom = op.split()[-1]
    if "--atom" in op and atom != "fma":
        assert f"mma: {{atom: {atom}}}" in (tmp_path / "specs/mine.yaml").read_text()
    assert cutegen("build", "specs/mine.yaml").exit_code == 0
    assert (tmp_path / "generated/mine.py").is_file()
    assert cutegen("build", "--check", "specs").exit_code == 0


def test_init_refuses_an_atom_that_the_op_has_not(tmp_path: Path) -> None:
    result = cutegen("init", "mine", "--op", "elementwise", "--atom", "wgmma")
    assert result.exit_code == 2 and "kernels with `op: elementwise` have no mma atom `wgmma`" in result.stderr
    assert "help: leave it out, or use --op contract or gemm" in result.stderr and not list(tmp_path.iterdir())
    result = cutegen("init", "mine", "--op", "gemm", "--atom", "wmma")
    assert result.exit_code == 2 and "fma, mma_sync, tcgen05, wgmma" in " ".join(result.stderr.replace("'", "").split())


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    assert cutegen("init", "mine", "--op", "elementwise").exit_code == 0
    before = snapshot(tmp_path)
    result = cutegen("init", "mine", "--op", "probe")
    assert result.exit_code == 2 and "already exists" in result.stderr and snapshot(tmp_path) == before


def test_init_leaves_a_schema_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    schema = tmp_path / "specs/.cutegen.schema.json"
    for text, replaced in (
        ('{"title": "mine"}', False),
        ("not json", False),
        ('{"title": "cutegen kernel spec"}', True),
    ):
        schema.write_text(text)
        assert cutegen("init", "mine", "--op", "elementwise").exit_code == 0
        assert (schema.read_text() != text) == replaced
        (tmp_path / "specs/mine.yaml").unlink()


@pytest.mark.parametrize(
    ("name", "help"),
    [("../y", "`y`"), ("my kernel", "`my_kernel`"), ("1st", "`my_kernel`"), ("", "`my_kernel`"), ("for", "`my_kernel`"),
     ("torch", "`my_kernel`"), ("a/b", "`b`"), ("x" * 80, "`" + "x" * 40 + "`"), ("naïve", "`na_ve`")],
)  # fmt: skip
def test_init_refuses_bad_names_with_a_good_one(tmp_path: Path, name: str, help: str) -> None:
    result = cutegen("init", name, "--op", "gemm")
    assert result.exit_code == 2 and f"help: try {help}" in result.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "op", "more"),
    [
        ("c", "gemm", ["--atom", "wgmma"]),
        ("a", "elementwise", []),
        ("B", "gemm", ["--atom", "fma"]),
        ("d", "probe", []),
    ],
)
def test_init_refuses_names_that_its_own_spec_has(tmp_path: Path, name: str, op: str, more: list[str]) -> None:
    result = cutegen("init", name, "--op", op, *more)
    assert result.exit_code == 2 and not list(tmp_path.iterdir())
    assert f"choose another name, such as `{name.lower()}_{op}`" in result.stderr
    assert cutegen("init", f"{name.lower()}_{op}", "--op", op, *more).exit_code == 0


def test_init_quotes_a_path_with_spaces(tmp_path: Path) -> None:
    result = cutegen("init", "mine", "--op", "elementwise", "--out", "my specs/k.yaml")
    assert result.stdout.splitlines()[-1] == "next: cutegen build 'my specs/k.yaml'"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["build", "gone.yaml"], "gone.yaml does not exist"),
        (["build"], "Missing argument"),
        (["build", "specs", "--jobs", "many"], "many"),
        (["build", "specs", "--check", "--diff"], "exclude each other"),
        (["explain", "specs/one.yaml", "--kernel", "two"], "no kernel `two`"),
        (["init", "one", "--op", "elementwise"], "already exists"),
        (["init", "b", "--op", "gemm"], "the starter spec cannot have a kernel named `b`"),
        (["verify", "specs", "--on", "tpu"], "--on"),
        (["no-such-verb"], "no-such-verb"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("form", [["--format", "json"], ["--format=json"]], ids=len)
def test_wrong_use_is_json_where_json_was_asked_for(
    tmp_path: Path, arguments: list[str], error: str, form: list[str]
) -> None:
    project(tmp_path, "one")
    result = cutegen(*arguments, *form)
    data = data_of(result)
    assert result.exit_code == 2 and set(data) == {"verb", "ok", "exit_code", "error", "help"}
    assert (data["ok"], data["exit_code"]) == (False, 2) and error in data["error"]
    assert data["help"] and "rror: " in result.stderr
    assert not cutegen(*arguments).stdout, "without it, nothing is on stdout"


def test_init_out(tmp_path: Path) -> None:
    data = data_of(cutegen("init", "mine", "--op", "elementwise", "--out", "deep/er/k.yml", "--format", "json"))
    assert data == {
        "verb": "init",
        "ok": True,
        "exit_code": 0,
        "spec": "deep/er/k.yml",
        "schema": "deep/er/.cutegen.schema.json",
    }
    assert cutegen("init", "mine", "--op", "elementwise", "--out", "k.txt").exit_code == 2


def test_build_prints_a_line_for_each_kernel(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    result = cutegen("build", specs)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["kernel", "compiled", "registers", "spills", "shared", "memory", "verified", "file"]
    assert [line.split()[0] for line in lines[1:]] == ["one", "two"]
    assert "sm_80, sm_90a  24  " in lines[1]
    assert "0 B            passed on cpu (emulator): 1 case (1 in 3 orders), 1 host check, all within " in lines[1]
    assert lines[1].endswith("  generated/one.py written")
    assert "compiled one for sm_80" in result.stderr and "compiling: 4" in result.stderr
    assert "\x1b" not in result.output


def test_build_json(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    data = data_of(cutegen("build", specs, "--format", "json"))
    assert (data["verb"], data["ok"], data["exit_code"], data["problems"]) == ("build", True, 0, [])
    (kernel,) = data["kernels"]
    assert (kernel["spec"], kernel["file"], kernel["action"]) == ("specs/one.yaml", "generated/one.py", "written")
    assert kernel["targets"]["sm_80"]["registers"] == 24 and kernel["targets"]["sm_80"]["compiled"] is True


def test_check_names_each_file_and_what_to_do(tmp_path: Path) -> None:
    specs = project(tmp_path, "current", "stale", "missing", "edited", "foreign", "orphaned")
    out = put(specs)
    (specs / "stale.yaml").write_text(spec_text("stale").replace("A + B", "A * B"))
    (out / "missing.py").unlink()
    (out / "edited.py").write_text((out / "edited.py").read_text() + "# mine\n")
    (out / "foreign.py").write_text("mine = 1\n")
    (specs / "orphaned.yaml").unlink()
    before = snapshot(tmp_path)
    result = cutegen("build", "--check", specs)
    assert result.exit_code == 1 and snapshot(tmp_path) == before
    said = dict(line.split(": ", 2)[:2] for line in result.stdout.splitlines())
    names = ("edited", "foreign", "missing", "orphaned", "stale")
    assert said == {f"generated/{name}.py": name for name in names}
    assert "cutegen build specs/stale.yaml" in result.stdout and "--force" in result.stdout
    data = data_of(cutegen("build", "--check", specs, "--format", "json"))
    assert not data["ok"] and {f["file"]: f["state"] for f in data["files"]} == {
        **said,
        "generated/current.py": "current",
    }


def test_check_compiles_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandInCompiler()
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", stand_in)
    specs = project(tmp_path, "one")
    put(specs)
    result = cutegen("build", "--check", specs)
    assert result.exit_code == 0 and not stand_in.jobs and "nothing was compiled or executed" in result.stdout


@pytest.mark.parametrize(
    ("verb", "begins"),
    [
        (["build"], True),
        (["build", "--check"], False),
        (["build", "--no-verify"], False),
        (["verify", "--on", "cpu"], True),
        (["verify", "--on", "gpu"], False),
    ],
)
def test_what_workers_import_is_begun_before_specs_are_read(
    verb: list[str], begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr("cutegen.verifying.setup.begin_imports", lambda: begun.append("imports"))
    monkeypatch.setattr("cutegen.project.sources.gather", lambda *a, **more: begun.append("specs"))
    monkeypatch.setattr("cutegen.verbs.building.build.gather", lambda *a, **more: begun.append("specs"))
    CliRunner().invoke(cli, [*verb, str(project(tmp_path, "one"))])
    assert begun == ["imports"] * begins + ["specs"]


def test_the_diff_is_what_a_build_changes(tmp_path: Path) -> None:
    specs = project(tmp_path, "same", "stale", "missing", "edited", "orphaned")
    out = put(specs)
    (specs / "stale.yaml").write_text(spec_text("stale").replace("A + B", "A * B"))
    (out / "missing.py").unlink()
    (out / "edited.py").write_text((out / "edited.py").read_text() + "# mine, without an end of line")
    (specs / "orphaned.yaml").unlink()
    result = cutegen("build", "--diff", specs)
    assert result.exit_code == 1
    assert "-# mine, without an end of line\n\\ No newline at end of file\n" in result.stdout
    assert "--- /dev/null\n+++ b/generated/missing.py" in result.stdout and "+++ /dev/null" in result.stdout
    command = ["patch", "-p1", "--quiet"]
    try:
        subprocess.run(command, input=result.stdout, text=True, check=True, cwd=tmp_path)
    except FileNotFoundError:
        pytest.fail("the tool `patch` is needed to apply the diff")
    assert cutegen("build", "--check", specs).exit_code == 0
    assert cutegen("build", "--diff", specs).exit_code == 0 and not cutegen("build", "--diff", specs).stdout


@pytest.mark.parametrize("what", ["--check", "--diff"])
@pytest.mark.parametrize("more", [["--force"], ["--no-cache"], ["-j", "2"]])
def test_comparing_takes_nothing_that_only_a_build_needs(tmp_path: Path, what: str, more: list[str]) -> None:
    result = cutegen("build", project(tmp_path, "one"), what, *more)
    assert result.exit_code == 2 and more[0] in result.stderr and what in result.stderr


def test_check_and_diff_exclude_each_other(tmp_path: Path) -> None:
    assert cutegen("build", project(tmp_path, "one"), "--check", "--diff").exit_code == 2


@pytest.mark.parametrize("jobs", ["0", "-3", "many"])
def test_a_bad_number_of_jobs_is_refused(tmp_path: Path, jobs: str) -> None:
    assert cutegen("build", project(tmp_path, "one"), "-j", jobs).exit_code == 2


def test_out_and_another_current_folder_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = project(tmp_path, "one")
    assert cutegen("build", specs).exit_code == 0
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert cutegen("build", "../specs", "--out", "here").exit_code == 0
    assert (tmp_path / "away/here/one.py").read_bytes() == (tmp_path / "generated/one.py").read_bytes()
    assert cutegen("build", "../specs/one.yaml", "--check", "--out", "here").exit_code == 0
    assert cutegen("build", "../specs", "--check").exit_code == 0


def test_lint_says_how_bad_it_is(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    assert cutegen("lint", specs).exit_code == 0
    (specs / "one.yaml").write_text(spec_text("one").replace("op: elementwise", "op: elementwize"))
    result = cutegen("lint", specs)
    assert result.exit_code == 2 and "specs/one.yaml:3:5: error[CG104]" in result.stdout
    assert "did you mean `elementwise`" in result.stdout and "\n1 error\n" in result.stdout
    data = data_of(cutegen("lint", specs, "--format", "json"))
    assert (data["verb"], data["ok"], data["diagnostics"][0]["line"]) == ("lint", False, 3)
    # a spec that reads well, and whose kernel cannot be
    odd = spec_text("one", "schedule: {thread_layout: '(4,8):(0,1)', value_layout: '(1,4):(4,1)'}\n")
    (specs / "one.yaml").write_text(odd)
    result = cutegen("lint", specs)
    assert result.exit_code == 1 and "specs/one.yaml:" in result.stdout
    assert all(code.startswith("CG2") for code in re.findall(r"error\[(\w+)\]", result.stdout))
    data = data_of(cutegen("lint", specs, "--format", "json"))
    assert (data["ok"], data["exit_code"]) == (False, 1)
    assert cutegen("build", specs).exit_code == 2
    # one that cannot be read weighs more than one with a schedule that cannot be
    (specs / "two.yaml").write_text("cutegen: 1\n")
    assert cutegen("lint", specs).exit_code == 2
    assert "CG200" in cutegen("lint", "--help").output


def test_lint_counts_one_kernel_as_one(tmp_path: Path) -> None:
    for name, words in (("one", "1 kernel"), ("two", "2 kernels")):
        (project(tmp_path) / f"{name}.yaml").write_text(spec_text(name, "divisible: {N: 4}\n"))
        assert cutegen("lint", tmp_path / "specs").stdout == f"{words}, no diagnostics\n"


@pytest.mark.parametrize("spec", sampled(SPECS), ids=lambda path: path.stem)
def test_explain_builds_to_the_same_bytes(spec: Path) -> None:
    result = cutegen("explain", spec)
    assert result.exit_code == 0
    name = spec.relative_to(ROOT).as_posix()
    before, after = modules_of(spec.stem), generate(result.stdout, name).modules
    assert [(m.name, m.text) for m in after] == [(m.name, m.text) for m in before.values()]
    data = data_of(cutegen("explain", spec, "--format", "json"))
    assert [kernel["kernel"] for kernel in data["kernels"]] == list(before)
    one = data["kernels"][-1]
    assert generate(one["text"], name).modules[0].text == before[one["kernel"]].text
    assert cutegen("explain", spec, "--kernel", one["kernel"]).stdout.count("\nkernel: ") == 1
    assert all(entry["why"] for entry in one["inferred"])


def test_explain_is_complete(tmp_path: Path) -> None:
    """The printed spec has nothing left to infer."""
    specs = project(tmp_path, "one")
    (specs / "one.yaml").write_text(cutegen("explain", specs / "one.yaml").stdout)
    assert "# inferred" not in cutegen("explain", specs / "one.yaml").stdout


def test_explain_of_an_unknown_kernel_names_the_known(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    result = cutegen("explain", specs / "one.yaml", "--kernel", "two")
    assert result.exit_code == 2 and "its kernels are one" in result.stderr and not result.stdout


@pytest.mark.parametrize("on", ["gpu", "cpu"])
def test_verify_says_that_nothing_was_executed(tmp_path: Path, on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: "no emulator in this test")
    specs = project(tmp_path, "one")
    result = cutegen("verify", specs, "--on", on)
    assert result.exit_code == 2 and "nothing was executed" in result.stderr and not result.stdout
    assert f"no{'ne' if on == 'gpu' else ' emulator'} in this test" in result.stderr
    data = data_of(cutegen("verify", specs, "--on", on, "--format", "json"))
    assert not data["ok"] and data["kernels"][0]["verification"]["verdict"] == "not executed"


@pytest.mark.parametrize(
    ("statuses", "code", "said"),
    [
        (
            ["passed", "not run"],
            0,
            "passed on cpu (emulator): 1 case (1 in 3 orders), 1 host check, "
            "all within bounds (largest error 0.25 of its bound), 1 too large",
        ),
        (["passed", "failed"], 1, "FAILED on cpu (emulator)"),
        (["not run"], 2, "not executed (every case is too large: "),
    ],
)
def test_verify_on_the_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[str], code: int, said: str
) -> None:
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    stand_in = StandInVerifier(*statuses, message="9000000 elements", reason="too large")
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", stand_in)
    specs = project(tmp_path, "one")
    result = cutegen("verify", specs, "--on", "cpu")
    assert result.exit_code == code and said in result.stdout and [job.on for job in stand_in.jobs] == ["cpu"]
    assert "verifying on the CPU emulator: 1" in result.stderr and "one on cpu (emulator)" in result.stderr
    data = data_of(cutegen("verify", specs, "--on", "cpu", "--format", "json"))
    verdict = {0: "passed", 1: "failed", 2: "not executed"}[code]
    found = data["kernels"][0]["verification"]
    assert data["ok"] is (code == 0) and found["verdict"] == verdict
    assert found["report"]["orders"] == (1 if code == 2 else 3)
    reasons = [case["reason"] for case in found["report"]["cases"]]
    assert reasons == ["too large" if status == "not run" else None for status in statuses]


@pytest.mark.parametrize("flags", [[], ["--all"]])
def test_the_first_failure_ends_a_run_unless_all_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", stand_in := StandInVerifier())
    specs = project(tmp_path, "one")
    assert cutegen("verify", specs, "--on", "cpu", *flags).exit_code == 0
    assert [job.extent.all for job in stand_in.jobs] == [bool(flags)]


@pytest.mark.parametrize("flag", ["--all", "--quick"])
@pytest.mark.parametrize("other", ["--check", "--diff", "--no-verify", "--no-compile"])
def test_how_much_runs_is_not_said_where_nothing_does(tmp_path: Path, flag: str, other: str) -> None:
    result = cutegen("build", project(tmp_path, "one"), flag, other)
    assert result.exit_code == 2 and f"{flag} cannot go with {other}" in result.stderr


@pytest.mark.parametrize("other", [["--receipts", "--on", "gpu"], ["--with", "torch==2.0"]])
def test_a_part_is_no_ground_for_receipts_or_an_upgrade(tmp_path: Path, other: list[str]) -> None:
    result = cutegen("verify", project(tmp_path, "one"), "--quick", *other)
    assert result.exit_code == 2 and f"--quick cannot go with {other[0]}" in result.stderr


def test_check_refuses_what_was_verified_in_part_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = project(tmp_path, "one", "two")
    path = put(specs) / "one.py"
    path.write_text(marked(path.read_text()))
    result = cutegen("build", "--check", specs)
    assert result.exit_code == 1 and "1 of 2 generated files are not current" in result.stderr
    assert result.stdout == (
        "generated/one.py: partial: it was verified in part; run `cutegen build specs/one.yaml` without --quick\n"
    )
    allowed = cutegen("build", "--check", specs, "--allow-partial")
    assert allowed.exit_code == 0 and "note: 1 generated file verified in part" in allowed.stderr
    assert "all 2 generated files are current or verified in part" in allowed.stdout
    for flags, ok in (([], False), (["--allow-partial"], True)):
        data = data_of(cutegen("build", "--check", specs, *flags, "--format", "json"))
        assert data["ok"] is ok and [file["state"] for file in data["files"]] == ["partial", "current"]
    assert cutegen("build", specs, "--allow-partial").exit_code == 2, "goes with --check"
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier())
    told = cutegen("verify", specs, "--on", "cpu", "--quick")
    assert told.exit_code == 0 and "the text generated from its spec" not in told.stderr, "it is that of the file"


def test_verify_says_where_the_file_is_not_what_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier())
    specs = project(tmp_path, "edited", "stale", "good", "missing")
    out = put(specs)
    with (out / "edited.py").open("a") as file:
        file.write("# mine\n")
    (specs / "stale.yaml").write_text(spec_text("stale", "static: {N: 64}\n"))
    (out / "missing.py").unlink()
    result = cutegen("verify", specs, "--on", "cpu")
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert result.exit_code == 0 and len(notes) == 2
    assert notes[0].startswith("note: generated/edited.py: edited: it was edited by hand; the text generated from")
    assert "`cutegen build --force specs/edited.yaml` drops it" in notes[0]
    assert notes[1].startswith("note: generated/stale.py: stale: its spec changed; the text generated from")
    told = data_of(cutegen("verify", specs, "--on", "cpu", "--format", "json"))["notices"]
    assert [f"note: {notice}" for notice in told] == notes


def test_verify_runs_on_the_cpu_where_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: "no emulator either")
    result = cutegen("verify", project(tmp_path, "one"))
    assert "note: there is no GPU here (none in this test): kernels run on the CPU emulator" in result.stderr
    assert result.exit_code == 2 and "nothing was executed: no emulator either" in result.stderr


def test_schema_is_the_schema() -> None:
    assert json.loads(cutegen("schema").stdout) == json.loads(cutegen("schema", "--format", "json").stdout)
