"""`cutegen inspect` through its command line: what it prints, what it compares with, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, project, put, spec_text, units_of
from click.testing import CliRunner, Result

from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.compiling import Artefact, Cache, Compiled, Failed, Job, Outcome, Resources, compile_all
from cutegen.verbs.inspecting.comparing import compare, comparison_json
from cutegen.verbs.inspecting.inspection import inspect, inspection_from_json, inspection_json

ROOT = Path(__file__).parents[3]
GEMM = """\
cutegen: 1
kernel: tiny
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: 128, N: 128, K: 8}}
targets: [sm_80, sm_90a]
"""
PTX = "//\n.version 8.8\n.target {target}\n.entry k()\n"
RESOURCES = Resources(registers=40, spill_stores=8, spill_loads=4, stack=16, static_smem=64)


def sass(loads: int = 2, adds: int = 3, load: str = "LDG.E.128") -> str:
    """A loop of additions and a branch, between loads and a store."""
    lines = [*([f"{load} R4, [R2.64]"] * loads), "head:", *(["FFMA R1, R2, R3, R1"] * adds), "@P0 BRA `(head)"]
    lines += ["STG.E.128 [R2.64], R4", "EXIT", "end:", "BRA `(end)", "NOP"]
    text, address = [".text.k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(text) + "\n"


def made(job: Job) -> Outcome:
    """Of a module with a `+`; one that multiplies gets other code."""
    other = "a * b" in job.text
    of = replace(RESOURCES, registers=48) if other else RESOURCES
    artefact = Artefact(
        job.kernel, job.target, PTX.format(target=job.target), b"", sass(4, 2, "LDG.E.64") if other else sass(), of
    )  # fmt: skip
    return Compiled(artefact, 0.1, cached=False)


Place = Callable[[Callable[[Job], Outcome]], StandInCompiler]


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """Stands in for the compiler, at first with `made`. The cache is empty and the current folder a project."""
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def place(outcome: Callable[[Job], Outcome]) -> StandInCompiler:
        stand_in = StandInCompiler(outcome)
        monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", stand_in)
        monkeypatch.setattr("cutegen.compiling.compile_all", stand_in)
        return stand_in

    place(made)
    return place


def cutegen(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["inspect", *(str(argument) for argument in arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def data_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.strip().startswith(name))


def test_it_has_help() -> None:
    text = cutegen("--help").output
    assert all(
        option in text for option in ("--kernel", "--target", "--ptx", "--sass", "--diff OLD", "--no-cache", "-j")
    )
    assert "JSON: {verb, ok, exit_code, diagnostics, notices, kernels:" in text
    assert "inspect" in CliRunner().invoke(cli, ["--help"]).output


def test_everything_is_said(tmp_path: Path) -> None:
    project(tmp_path, "add")
    result = cutegen("specs")
    assert result.exit_code == 0, result.stderr
    first, second = result.stdout.split("\n\nadd for ")
    assert first.startswith("add for sm_80 (specs/add.yaml)\n") and second.startswith("sm_90a ")
    assert "registers      40 a thread" in first
    assert "64 B static, 0 B dynamic a block" in first
    assert "8 B stored, 4 B loaded a thread" in first and "stack          16 B a thread" in first
    assert "PTX            version 8.8" in first
    assert "instructions   8, and 2 of padding" in first
    assert "loops          0x0020 to 0x0050, 4 instructions a pass" in first
    assert "bank clashes   0 of 3 FFMA" in first
    assert row(first, "fp32") == ["fp32", "arithmetic", "3", "37.5", "%", "3", "75.0", "%", "FFMA", "x", "3"]
    assert row(first, "control") == ["control", "2", "25.0", "%", "1", "25.0", "%", "BRA", "x", "1,", "EXIT", "x", "1"]
    assert row(first, "global loads") == ["global", "loads", "2", "25.0", "%", "-", "-", "LDG.E.128", "x", "2"]
    kinds = [line.split("  ")[0] for line in first.splitlines() if "%" in line]
    assert kinds == ["fp32 arithmetic", "global loads", "control", "global stores"], "the most frequent first"
    assert result.stderr.splitlines()[0] == "compiling: 2"


def test_a_gemm_says_what_its_plan_takes(tmp_path: Path) -> None:
    (project(tmp_path) / "tiny.yaml").write_text(GEMM)
    (module,) = generate(GEMM, "specs/tiny.yaml").modules
    size = module.plan.smem_bytes  # type: ignore[attr-defined]
    assert size > 0 and f"{size} B dynamic" in cutegen("specs").stdout
    (kernel,) = data_of(cutegen("specs", "--format", "json"))["kernels"]
    assert [t["resources"]["dynamic_smem"] for t in kernel["targets"]] == [size, size]


def test_json_has_it_all(tmp_path: Path) -> None:
    project(tmp_path, "add")
    data = data_of(cutegen("specs", "--format", "json"))
    assert set(data) == {"verb", "ok", "exit_code", "diagnostics", "notices", "kernels"}
    assert (data["verb"], data["ok"], data["exit_code"]) == ("inspect", True, 0)
    (kernel,) = data["kernels"]
    assert (kernel["kernel"], kernel["spec"]) == ("add", "specs/add.yaml")
    first, second = kernel["targets"]
    assert (first["target"], second["target"]) == ("sm_80", "sm_90a")
    assert first["resources"] == {
        "registers": 40, "spill_stores": 8, "spill_loads": 4, "stack": 16, "static_smem": 64, "dynamic_smem": 0,
    }  # fmt: skip
    assert (first["ptx_version"], first["instructions"], first["padding"]) == ("8.8", 8, 2)
    assert first["kinds"]["fp32 arithmetic"] == {"FFMA": 3}
    assert sum(n for names in first["kinds"].values() for n in names.values()) == 8
    (loop,) = first["loops"]
    assert (loop["first"], loop["last"], loop["instructions"]) == (0x20, 0x50, 4)
    assert loop["kinds"] == {"fp32 arithmetic": {"FFMA": 3}, "control": {"BRA": 1}}
    assert first["bank_clashes"] == {"clashes": 0, "ffma": 3}
    assert "ptx" not in first and "sass" not in first
    both = data_of(cutegen("specs", "--format", "json", "--ptx", "--sass", "--target", "sm_80"))["kernels"][0]
    assert (both["targets"][0]["ptx"], both["targets"][0]["sass"]) == (PTX.format(target="sm_80"), sass())


def test_bank_clashes_are_shown_expected_and_compared(tmp_path: Path, compiler: Place) -> None:
    def outcome(job: Job) -> Outcome:
        text = sass() if job.target == "sm_80" else sass().replace("FFMA R1, R2, R3, R1", "FFMA R1, R5, R3, R1", 2)
        return Compiled(Artefact(job.kernel, job.target, "", b"", text, RESOURCES), 0.1, cached=False)

    specs = project(tmp_path)
    (specs / "add.yaml").write_text(spec_text("add", "expect: {bank_clashes: 0}\n"))
    compiler(outcome)
    result = cutegen("specs")
    assert result.exit_code == 1 and result.stderr.count("error[CG401]") == 1
    assert "expect         holds: bank_clashes: wanted 0, found 0 of 3 FFMA" in result.stdout
    assert "expect         FAILS: bank_clashes: wanted 0, found 2 of 3 FFMA" in result.stdout
    (tmp_path / "old.json").write_text(cutegen("specs", "--format", "json").stdout)
    compiler(made)
    result = cutegen("specs", "--diff", "old.json", "--target", "sm_90a")
    assert row(result.stdout, "bank clashes") == ["bank", "clashes", "2", "0", "-2"]


def test_without_multiply_adds_or_sass_there_are_no_bank_clashes(tmp_path: Path, compiler: Place) -> None:
    def outcome(job: Job) -> Outcome:
        text = sass().replace("FFMA", "FADD") if job.target == "sm_80" else None
        return Compiled(Artefact(job.kernel, job.target, "", b"", text, RESOURCES, ("no SASS",)), 0.1, cached=False)

    project(tmp_path, "add")
    compiler(outcome)
    assert "bank clashes" not in cutegen("specs").stdout
    found = data_of(cutegen("specs", "--format", "json"))["kernels"][0]["targets"]
    assert [target["bank_clashes"] for target in found] == [{"clashes": 0, "ffma": 0}, None]


def test_kernel_and_target_choose(tmp_path: Path, compiler: Place) -> None:
    project(tmp_path, "add", "other")
    stand_in = compiler(made)
    data = data_of(cutegen("specs", "--kernel", "other", "--target", "sm_90a", "--format", "json"))
    assert [(k["kernel"], [t["target"] for t in k["targets"]]) for k in data["kernels"]] == [("other", ["sm_90a"])]
    assert [(job.kernel, job.target) for job in stand_in.jobs] == [("other", "sm_90a")], "nothing else is compiled"
    for arguments, error in (
        (("--kernel", "gone"), "there is no kernel `gone` in these specs\n  help: their kernels are add, other"),
        (("--target", "sm_75"), "`sm_75` is not a target of these kernels\n  help: their targets are sm_80, sm_90a"),
    ):
        result = cutegen("specs", *arguments)
        assert (result.exit_code, result.stdout) == (2, "") and f"error: {error}" in result.stderr


def test_texts_are_printed_alone(tmp_path: Path) -> None:
    project(tmp_path, "add")
    assert cutegen("specs", "--sass", "--target", "sm_80").stdout == f"// add for sm_80\n{sass()}"
    both = cutegen("specs", "--ptx", "--sass").stdout
    assert both.count("// add for ") == 2 and both.count(".version 8.8") == 2 and "registers" not in both


def test_expectations_are_judged_a_line_each(tmp_path: Path) -> None:
    specs = project(tmp_path)
    text = spec_text("add", 'expect: {spills: 0, registers: "<= 40", sass: {FFMA: 3, "LDG*": 4, "HMMA*": 0}}\n')
    (specs / "add.yaml").write_text(text)
    result = cutegen("specs", "--target", "sm_80")
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "expect         FAILS: spills: wanted 0, found 12 bytes a thread (8 stored, 4 loaded)" in lines
    assert "expect         holds: registers: wanted <= 40, found 40 a thread" in lines
    assert "expect         holds: sass['FFMA']: wanted 3, found 3" in lines
    assert "expect         FAILS: sass['LDG*']: wanted 4, found 2 (LDG.E.128 x 2)" in lines
    assert "expect         holds: sass['HMMA*']: wanted 0, found 0" in lines
    assert result.stderr.count("error[CG401]") == 2, "and at their places in the spec"
    data = data_of(cutegen("specs", "--target", "sm_80", "--format", "json"))
    assert (data["ok"], data["exit_code"]) == (False, 1) and len(data["diagnostics"]) == 2
    judged = data["kernels"][0]["targets"][0]["expect"]
    assert [(j["key"], j["holds"]) for j in judged] == [
        ("spills", False),
        ("registers", True),
        ("sass['FFMA']", True),
        ("sass['LDG*']", False),
        ("sass['HMMA*']", True),
    ]


def test_what_does_not_compile_is_said_and_the_rest_shown(tmp_path: Path, compiler: Place) -> None:
    project(tmp_path, "add")
    compiler(lambda job: made(job) if job.target == "sm_80" else Failed("exception", "no such thing", 60, "x"))
    result = cutegen("specs")
    assert result.exit_code == 1 and "add does not compile for sm_90a: no such thing" in result.stderr
    assert "add for sm_80" in result.stdout and "add for sm_90a" not in result.stdout
    compiler(lambda job: Failed("exception", "no such thing", 60, "x"))
    result = cutegen("specs", "--diff", "specs/add.yaml")
    assert (result.exit_code, result.stdout) == (1, "") and "error[CG402]" in result.stderr


def test_what_is_missing_is_said(tmp_path: Path, compiler: Place) -> None:
    def blind(job: Job) -> Outcome:
        nothing, why = Resources(None, None, None, None, None), ("SASS and spills are unknown: nvdisasm is not here",)
        return Compiled(Artefact(job.kernel, job.target, "", b"", None, nothing, why), 0.1, cached=False)

    compiler(blind)
    (project(tmp_path) / "add.yaml").write_text(spec_text("add", "expect: {sass: {FFMA: 3}}\n"))
    result = cutegen("specs", "--target", "sm_80")
    assert result.exit_code == 1 and "note           SASS and spills are unknown: nvdisasm is not here" in result.stdout
    assert "registers      ? a thread" in result.stdout and "instructions   ?" in result.stdout
    assert "PTX            version ?" in result.stdout and "FAILS: sass['FFMA']" in result.stdout
    assert "%" not in result.stdout
    assert "nvdisasm is not here" in cutegen("specs", "--target", "sm_80", "--sass").stdout
    target = data_of(cutegen("specs", "--format", "json"))["kernels"][0]["targets"][0]
    assert target["kinds"] is None and target["loops"] is None and target["instructions"] is None


def test_code_whose_loops_are_no_pieces_says_so(tmp_path: Path, compiler: Place) -> None:
    tangled = sass().replace("LDG.E.128 R4, [R2.64] ;", "BRX R4 -0x20 ;", 1)

    def outcome(job: Job) -> Outcome:
        return Compiled(Artefact(job.kernel, job.target, "", b"", tangled, RESOURCES), 0.1, cached=False)

    project(tmp_path, "add")
    compiler(outcome)
    text = cutegen("specs", "--target", "sm_80").stdout
    assert "loops          what they repeat does not stand in one piece" in text and "37.5 %" in text


def test_of_several_loops_the_longest_is_shown(tmp_path: Path, compiler: Place) -> None:
    short = "\nback:\n        /*0400*/   FADD R1, R2, R3 ;\n        /*0410*/   @P1 BRA `(back) ;\n"
    two = sass().replace("\nhead:", f"{short}head:")

    def outcome(job: Job) -> Outcome:
        return Compiled(Artefact(job.kernel, job.target, "", b"", two, RESOURCES), 0.1, cached=False)

    project(tmp_path, "add")
    compiler(outcome)
    text = cutegen("specs", "--target", "sm_80").stdout
    assert "loops          2 innermost; the longest 0x0020 to 0x0050, 4 instructions a pass" in text
    assert row(text, "fp32")[2:7] == ["4", "40.0", "%", "3", "75.0"]
    loops = data_of(cutegen("specs", "--format", "json"))["kernels"][0]["targets"][0]["loops"]
    assert [loop["instructions"] for loop in loops] == [2, 4]


def roles_sass(loads: str = "UTMALDG.2D [UR4], [UR6]") -> str:
    """Warps that load in a loop, and warps that multiply in a shorter one and spill around it."""
    lines = [
        *(
            "@P0 BRA `(other)",
            "USETMAXREG.DEALLOC.CTAPOOL 0x18",
            "load:",
            *["MOV R3, R4"] * 5,
            loads,
            "@P1 BRA `(load)",
        ),
        *("EXIT", "other:", "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0", "@!P0 BRA `(other)", "STL [R1], R2", "mul:"),
        *("HGMMA.64x64x16.F32 R24, gdesc[UR16], R24", "LDL R2, [R1]", "@P1 BRA `(mul)", "LDL.64 R2, [R1]", "EXIT"),
    ]
    return ".text.k:\n" + "".join(
        f"{x}\n" if x.endswith(":") else f"        /*{16 * n:04x}*/  {x} ;\n" for n, x in enumerate(lines)
    )


def test_roles_have_lines_of_their_own_and_the_mainloop_multiplies(tmp_path: Path, compiler: Place) -> None:
    compiler(
        lambda job: Compiled(Artefact(job.kernel, job.target, "", b"", roles_sass(), RESOURCES), 0.1, cached=False)
    )
    project(tmp_path, "add")
    text = cutegen("specs", "--target", "sm_90a").stdout
    assert "registers      40 a thread at its start\n" in text and "left out" not in text
    assert "producer       24 registers a thread, R0 to R4 used; 9 instructions, UTMALDG x 1\n" in text
    assert "consumers      240 registers a thread, R0 to R55 used; 8 instructions, HGMMA x 1\n" in text
    assert "(STL x 1, none of them in the mainloop; LDL x 2, 1 of them in the mainloop)" in text
    assert "2 innermost; the mainloop 0x0100 to 0x0120, 3 instructions a pass (HGMMA.64x64x16.F32 x 1)" in text
    assert "; the loads' 0x0030 to 0x0090, 7 instructions a pass (UTMALDG.2D x 1)\n" in text
    assert row(text, "tensor")[2:6] == ["1", "5.6", "%", "1"]
    found = data_of(cutegen("specs", "--format", "json"))["kernels"][0]["targets"][1]
    assert found["loops"][found["mainloop"]]["kinds"]["tensor cores"] == {"HGMMA.64x64x16.F32": 1}
    assert [(r["name"], r["registers"], r["used"], r["instructions"]) for r in found["roles"]] == [
        ("producer", 24, 5, 9), ("consumers", 240, 56, 8),
    ]  # fmt: skip
    again = inspection_from_json("add", found)
    assert [(r.name, r.code.kinds) for r in again.roles] == [(r["name"], r["kinds"]) for r in found["roles"]]


def test_budgets_that_the_assembler_leaves_out_are_said(tmp_path: Path, compiler: Place) -> None:
    asks = "setmaxnreg.dec.sync.aligned.u32 \t56;\nsetmaxnreg.inc.sync.aligned.u32 \t240;\n"
    compiler(
        lambda job: Compiled(Artefact(job.kernel, job.target, PTX + asks, b"", sass(), RESOURCES), 0.1, cached=False)
    )
    project(tmp_path, "add")
    text = cutegen("specs", "--target", "sm_90a").stdout
    assert "registers      40 a thread\n" in text
    assert "for all: the assembler left out what the PTX asks for by role (56, 240)\n" in text


# ---------------------------------------------------------------------------------------------------------- comparing


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A project whose kernel multiplies, where before it added; `old.yaml`, `old.py` and `old.json` are of before."""
    specs = project(tmp_path, "add")
    (tmp_path / "old.yaml").write_text(spec_text("add"))
    (tmp_path / "old.py").write_bytes((put(specs) / "add.py").read_bytes())
    (tmp_path / "old.json").write_text(cutegen("specs", "--ptx", "--sass", "--format", "json").stdout)
    (specs / "add.yaml").write_text(spec_text("add").replace("A + B", "A * B"))
    return specs


@pytest.mark.parametrize("old", ["old.yaml", "old.py", "old.json"])
def test_changes_since(changed: Path, old: str) -> None:
    result = cutegen("specs", "--diff", old, "--target", "sm_80")
    assert result.exit_code == 0 and result.stdout.startswith(f"add for sm_80, against {old}\n")
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    assert ["registers", "40", "48", "+8"] in rows and ["instructions", "8", "9", "+1"] in rows
    assert ["global", "loads", "2", "4", "+2"] in rows
    assert (
        ["LDG.E.128", "2", "0", "-2"] in rows
        and ["LDG.E.64", "0", "4", "+4"] in rows
        and rows.count(["FFMA", "3", "2", "-1"]) == 2
    )
    assert ["in", "the", "loop", "4", "3", "-1"] in rows
    assert not any("STG.E.128" in row or "EXIT" in row for row in rows), "what is as it was"
    said = "not known of add for sm_80, the old one: dynamic smem"
    assert (said in result.stderr) == (old == "old.py"), "a module does not tell what its plan takes"
    (target,) = data_of(cutegen("specs", "--diff", old, "--target", "sm_80", "--format", "json"))["kernels"][0][
        "targets"
    ]
    assert target["diff"] == {
        "against": old,
        "same": False,
        "resources": {"registers": [40, 48]},
        "kinds": {"global loads": {"LDG.E.64": [0, 4], "LDG.E.128": [2, 0]}, "fp32 arithmetic": {"FFMA": [3, 2]}},
        "loop_kinds": {"fp32 arithmetic": {"FFMA": [3, 2]}},
    }


@pytest.mark.parametrize("old", ["specs/add.yaml", "generated/add.py", "now.json"])
def test_no_changes(changed: Path, old: str) -> None:
    put(changed)
    Path("now.json").write_text(cutegen("specs", "--format", "json").stdout)
    result = cutegen("specs", "--diff", old)
    assert result.exit_code == 0 and result.stdout.count("no change in what is known of both") == 2
    kernel = data_of(cutegen("specs", "--diff", old, "--format", "json"))["kernels"][0]
    assert [target["diff"]["same"] for target in kernel["targets"]] == [True, True]


@pytest.mark.parametrize("old", ["old.yaml", "old.py", "old.json"])
def test_texts_are_diffed(changed: Path, old: str) -> None:
    lines = cutegen("specs", "--diff", old, "--sass", "--target", "sm_80").stdout.splitlines()
    assert lines[:2] == ["--- a/add.sm_80.sass", "+++ b/add.sm_80.sass"]
    edits = [line.split() for line in lines[2:] if line[0] in "+-"]
    assert [edit[0] + edit[1] for edit in edits] == ["-LDG.E.128"] * 2 + ["+LDG.E.64"] * 4 + ["-FFMA"]
    assert "/*" not in "".join(lines), "one instruction more would change every address behind it"
    assert cutegen("specs", "--diff", old, "--ptx").stdout == "", "the PTX is as it was"
    (kernel,) = data_of(cutegen("specs", "--diff", old, "--sass", "--format", "json"))["kernels"]
    assert all(t["diff"]["sass"].startswith("--- a/add.") and "ptx" not in t["diff"] for t in kernel["targets"])


def test_an_old_build_may_come_through_a_pipe(changed: Path) -> None:
    script = "cat old.py | python -c \"import sys; " \
        "from cutegen.verbs.inspecting.comparing import read_old; print(read_old(" \
        "__import__('pathlib').Path('/dev/stdin'), ['sm_80'], None, lambda jobs: [print(j.kernel, j.target) or 1 / 0 " \
        'for j in jobs]))"'  # fmt: skip
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(script, shell=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "add sm_80\n" and "ZeroDivisionError" in done.stderr, done.stderr


def test_kernels_pair_by_name_and_single_ones_anyway(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    Path("both.json").write_text(cutegen("specs", "--format", "json").stdout)
    text = cutegen("specs", "--diff", "both.json", "--target", "sm_80").stdout
    assert "one for sm_80, against both.json" in text and "two for sm_80, against both.json" in text
    assert "one for sm_80" in cutegen("specs/one.yaml", "--diff", "specs/two.yaml").stdout
    (specs / "three.yaml").write_text(spec_text("three"))
    result = cutegen("specs", "--diff", "both.json", "--target", "sm_80")
    assert result.exit_code == 0 and "note: three for sm_80 is not in both.json" in result.stderr
    assert cutegen("specs/three.yaml", "--diff", "both.json").stderr.endswith(
        "error: no kernel of both.json is named three\n  help: it has one, two; compare one kernel with a file of one\n"
    )


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        (None, "gone.py", "gone.py does not exist"),
        (None, "specs", "specs is a folder"),
        (b"\xff\xfe\x00", "old.py", "old.py is not text"),
        (b"x = 1\n", "old.py", "old.py is nothing that can be compared with"),
        (b"Read `cutegen: 1`.\ncutegen: 1\n", "README.md", "README.md is nothing that can be compared with"),
        (b"", "old", "old is nothing that can be compared with"),
        (b"{", "old.json", "old.json is not JSON: "),
        (b"[1]", "old.json", "old.json is not the JSON of `cutegen inspect`"),
        (
            b'{"verb": "build", "kernels": []}',
            "old",
            "is not the JSON of `cutegen inspect` but that of `cutegen build`",
        ),
        (
            b'{"verb": "inspect", "kernels": [{"kernel": "add", "targets": [{}]}]}',
            "old.json",
            "does not read: KeyError",
        ),
        (b'{"verb": "inspect"}', "old.json", "does not read: KeyError: 'kernels'"),
        (b'{"verb": "inspect", "kernels": []}', "old.json", "no kernel of old.json is named add"),
        (b"kernel: [", "old.yaml", "old.yaml has errors"),
    ],
)
def test_what_cannot_be_compared_with_is_refused(tmp_path: Path, content: bytes | None, name: str, error: str) -> None:
    project(tmp_path, "add")
    if content is not None:
        Path(name).write_bytes(content)
    for form in ("text", "json"):
        result = cutegen("specs", "--diff", name, "--format", form)
        assert result.exit_code == 2 and error in result.stderr
        assert "help: " in result.stderr or "has errors" in error
        assert (result.stdout == "") if form == "text" else error in data_of(result)["error"]


def test_modules_that_were_edited_are_refused_or_compared(tmp_path: Path) -> None:
    text = (put(project(tmp_path, "add")) / "add.py").read_text()
    for old, new, error in (
        ("\nTARGETS = ", "\nELSE = ", "old.py has no kernel and TARGETS as a generated module has"),
        ("\nTARGETS = (", "\nTARGETS = list(", "old.py has no kernel and TARGETS as a generated module has"),
        ("@cute.kernel\n", "", "old.py has no kernel and TARGETS as a generated module has"),
        ("\ndef launch(", "\ndef launch((", "old.py is not Python: line "),
        ('("sm_80", "sm_90a")', '("sm_86",)', "old.py is for sm_86, and not for sm_80 or sm_90a"),
    ):
        assert old in text
        Path("old.py").write_text(text.replace(old, new, 1))
        result = cutegen("specs", "--diff", "old.py")
        assert result.exit_code == 2 and error in result.stderr, result.stderr
    Path("old.py").write_text(text.replace("elements of one access", "a comment"))
    assert cutegen("specs", "--diff", "old.py").exit_code == 0


def test_an_old_build_that_does_not_compile_is_a_finding(changed: Path, compiler: Place) -> None:
    compiler(lambda job: made(job) if "a * b" in job.text else Failed("crash", "died of SIGFPE", 41, "    bad()"))
    result = cutegen("specs", "--diff", "old.py", "--target", "sm_80")
    assert result.exit_code == 1 and "add of old.py does not compile for sm_80: died of SIGFPE" in result.stderr
    assert "line 41: bad()" in result.stderr


def test_texts_that_an_old_build_lacks_are_asked_for(changed: Path) -> None:
    Path("old.json").write_text(cutegen("old.yaml", "--format", "json").stdout)
    result = cutegen("specs", "--diff", "old.json", "--sass", "--target", "sm_80")
    assert result.exit_code == 2 and "old.json has no SASS of add for sm_80" in result.stderr
    assert "help: write it with `cutegen inspect SPEC --sass --format json`" in result.stderr


def test_json_keeps_what_a_comparison_needs() -> None:
    artefact = Artefact("k", "sm_80", PTX.format(target="sm_80"), b"", sass(), RESOURCES)
    blind = replace(artefact, sass=None, resources=Resources(None, None, None, None, None))
    for one in (artefact, blind):
        new = inspect(one, 128, None)
        again = inspection_from_json("k", json.loads(json.dumps(inspection_json(new, ptx=True, sass=True))))
        assert again == new
        assert compare(new, again).same and comparison_json(compare(again, new))["same"]
        earlier = inspection_json(new, ptx=True, sass=True)
        del earlier["bank_clashes"]  # which the JSON of earlier versions does not have
        assert compare(inspection_from_json("k", earlier), new).same
    unknown = compare(inspect(blind, None, None), inspect(artefact, 0, None)).unknown
    assert any("there is no SASS of k for sm_80, the old one" in line for line in unknown)


# ----------------------------------------------------------------------------------------------------- the real thing


def test_a_warm_cache_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the repository's largest spec, with as much code as its kernels have."""
    pytest.importorskip("cutlass", reason="compiling needs nvidia-cutlass-dsl")
    specs = project(tmp_path)
    (specs / "copy_tv.yaml").write_bytes((ROOT / "specs/copy_tv.yaml").read_bytes())
    (unit,) = units_of(specs)
    jobs = [Job(unit.module.text, unit.kernel, target, sass=True) for target in unit.module.spec.targets]
    assert all(isinstance(outcome, Compiled) for outcome in compile_all(jobs, cache=Cache()))
    large = (ROOT / "specs/sgemm.yaml").read_bytes()
    (specs / "sgemm.yaml").write_bytes(large)
    outcome = Cache().get(jobs[0])
    assert outcome is not None and outcome.sass is not None
    for unit in units_of(specs):  # as long as real ones
        if unit.kernel.startswith("sgemm"):
            for target in unit.module.spec.targets:
                artefact = replace(outcome, kernel=unit.kernel, target=target, sass=outcome.sass * 7)
                assert Cache().put(Job(unit.module.text, unit.kernel, target), artefact)
    script = (
        "import sys\nfrom cutegen.cli import main\nsys.argv = ['cutegen', 'inspect', 'specs']\n"
        "try:\n    main()\nfinally:\n    print(*sorted({'torch', 'cutlass'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "\n", done.stderr
    assert done.stdout.count("copy_tv for ") == 2 and done.stdout.count("sgemm_") == 16
    assert row(done.stdout, "global loads")[-3:] == ["LDG.E.128", "x", "4"] and "LDG.E.128 x 28" in done.stdout
