"""The proof as `cutegen explain` prints it: comments behind a spec that still builds, JSON, sizes, and exit codes."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import specs_kit
from building_kit import project
from click.testing import CliRunner, Result
from planning_specs import document
from specs_kit import ROOT, SPECS
from sweep_kit import sampled

from cutegen.analysis import accesses, conflicts, proof, sectors
from cutegen.analysis.claim import Claim
from cutegen.analysis.proof import prove
from cutegen.analysis.report_json import as_json
from cutegen.analysis.report_text import as_lines
from cutegen.analysis.words import count, duration
from cutegen.cases.plan import CasesPlan
from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.codegen.generate import Module
from cutegen.families.gemm.staged.plan import GemmPlan


def explain(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["explain", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def data_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def modules_of(path: Path, text: str | None = None) -> tuple[Module, ...]:
    """The modules of a file in `specs/`, or of a text in its place."""
    if text is None:
        return tuple(specs_kit.modules_of(path.stem).values())
    return generate(text, path.relative_to(ROOT).as_posix()).modules


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return project(tmp_path, "one") / "one.yaml"


# ------------------------------------------------------------------------------------------------------- the text


@pytest.mark.parametrize("path", sampled(SPECS), ids=lambda path: path.stem)
def test_the_proof_is_in_comments_of_a_spec_that_builds_the_same(path: Path) -> None:
    before = modules_of(path)
    result = explain(path)
    assert result.exit_code == 0
    after = modules_of(path, result.stdout)
    assert [(m.name, m.text) for m in after] == [(m.name, m.text) for m in before]
    documents = result.stdout.split("---\n")
    assert len(documents) == len(before)
    for printed, module in zip(documents, before, strict=True):
        spec, told = printed.split(f"# proof of {module.spec.kernel}, from its plan\n")
        assert "\nkernel: " in f"\n{spec}" and all(line.startswith("#") for line in told.splitlines())
        assert "# " + "\n# ".join(filter(None, as_lines(prove(module.plan))[1:3])) in printed
        assert "FAILS" not in told
        for access in accesses(module.plan):
            often = f"{access.instructions} times" if access.instructions != 1 else "once"
            named = {x for x in told.splitlines() if x.startswith(f"#     {access.name} ")}
            assert len(named) == 1 or isinstance(module.plan, CasesPlan)  # each case may have one of that name
            line = next(x for x in named if f" {access.bytes} B a thread, {often}" in x)
            if access.space == "shared":
                found = conflicts(access)
                together = f"; {count(found.wavefronts, 'wavefront')}" if found.wavefronts < found.passes else ""
                assert f"({found.passes} pass{'es' * (found.passes > 1)}, least {found.least}{together})" in line
            else:
                found = sectors(access)
                assert f" {count(found.sectors, 'sector')} (least {found.least})" in line
                assert (f" in warp {found.warp};" in line) == (found.sectors > found.least)
        assumed = any(access.space == "global" for access in accesses(module.plan))
        assert told.count("a tile starts at one, and rows are whole sectors apart") == assumed, "what is assumed, once"
        assert not re.search(r"(?<![\w.,])1 \w+s\b", told.replace("1 pass", "")), "one is no plural"
        for target in module.spec.targets:
            assert f"#     {target}: " in told
        if isinstance(module.plan, GemmPlan):
            assert f"together {module.plan.smem_bytes} bytes" in told
        assert all(len(line) <= 200 for line in printed.splitlines())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (9.416e-11, "0.09416 ns"),
        (3.923e-9, "3.923 ns"),
        (1e-6, "1 us"),
        (9.99e-4, "999 us"),
        (7.048e-3, "7.048 ms"),
        (2, "2 s"),
        (0, "0 ns"),
    ],
)
def test_times_are_told_in_a_unit_that_suits_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_one_is_no_plural() -> None:
    assert [count(n, "pass") for n in (0, 1, 2)] == ["0 passes", "1 pass", "2 passes"]
    assert [count(n, "block") for n in (1, 10, "1", "1e+03")] == ["1 block", "10 blocks", "1 block", "1e+03 blocks"]
    path = ROOT / "specs/sgemm_mmajor.yaml"
    assert "  1 block, 0.00926 for each of 108 SMs" in explain(path, "--sizes", "M=64,N=64,K=8").stdout
    assert "128 threads * 1 value = 128" in explain(ROOT / "specs/predicated_vector.yaml").stdout


def test_without_a_proof_only_the_spec_is_printed(one: Path) -> None:
    whole, spec = explain(one).stdout, explain(one, "--no-proof").stdout
    assert whole.startswith(spec) and whole != spec and "proof" not in spec
    assert data_of(explain(one, "--no-proof", "--format", "json"))["kernels"][0]["proof"] is None


def test_a_fixed_size_needs_no_sizes_for_a_roofline() -> None:
    fixed = explain(ROOT / "specs/predicated_vector.yaml").stdout
    assert re.search(
        r"#     N=1000 on A100-SXM4-80GB \(sm_80\) .* at least 3\.923 ns +8 blocks, 0\.0741 for each of 108 SMs", fixed
    )
    assert "roofline" not in explain(ROOT / "specs/add_tv.yaml").stdout


TV = {"thread_layout": "(4,8):(8,1)", "value_layout": "(2,4):(4,1)"}


@pytest.mark.parametrize(
    ("schedule", "align", "static", "vector", "why"),
    [
        (TV, 16, {}, 4, "128 bits are the most"),
        (TV | {"copy": {"fallback": "refuse"}}, 8, {}, 2, "the alignment allows no more"),
        (TV, 8, {}, 2, "`bits` asks for no more of the 4 that are possible"),
        (TV, 16, {"N": 6}, 2, "the size that is fixed or promised allows no more"),
        (TV | {"value_layout": "(4,2):(2,1)"}, 16, {}, 2, "no more neighbours of a thread lie in a row"),
        (TV | {"value_layout": "(2,4):(1,2)"}, 16, {}, 1, "a thread's values do not lie in a row"),
        (TV | {"copy": {"bits": 32}}, 16, {}, 1, "`bits` asks for no more of the 4 that are possible"),
    ],
)
def test_why_an_access_is_no_wider(
    schedule: dict[str, Any], align: int, static: dict[str, int], vector: int, why: str
) -> None:
    tensors = {name: {"shape": ["M", "N"], "dtype": "f32", "align": align} for name in "SD"}
    tensors["D"]["role"] = "out"
    (module,) = generate(document("elementwise", tensors, "D = S", schedule, static=static), "x.yaml").modules
    for row in prove(module.plan).parts[0].rows:
        assert row.width is not None and (row.width.vector, row.width.why) == (vector, why)


# ------------------------------------------------------------------------------------------------------- a roofline


def test_sizes_add_a_roofline_for_each_and_every_target() -> None:
    path = ROOT / "specs/sgemm_mmajor.yaml"
    result = explain(path, "--sizes", "M=4096,N=4096,K=4096", "--sizes", " M = 64, N=64 ,K=7")
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if "bound by " in line]
    # 2 * 4096**3 operations, and 3 * 4096**2 elements of 4 bytes; at 19.5e12 and at 67e12 a second
    assert [re.split(r"  +", line.removeprefix("#").strip()) for line in lines[:2]] == [
        [
            "M=4096 N=4096 K=4096 on A100-SXM4-80GB (sm_80)",
            "683 operations a byte",
            "bound by arithmetic: at least 7.048 ms",
            "1024 blocks, 9.48 for each of 108 SMs",
        ],
        [
            "M=4096 N=4096 K=4096 on H200 SXM (sm_90a)",
            "683 operations a byte",
            "bound by arithmetic: at least 2.051 ms",
            "1024 blocks, 7.76 for each of 132 SMs",
        ],
    ]
    assert len(lines) == 4 and all("M=64 N=64 K=7" in line for line in lines[2:])
    assert [m.text for m in modules_of(path, result.stdout)] == [m.text for m in modules_of(path)]
    found = data_of(explain(path, "--sizes", "M=4096,N=4096,K=4096", "--format", "json"))["kernels"][0]["proof"]
    first = found["roofline"][0]
    assert first["sizes"] == {"M": 4096, "N": 4096, "K": 4096} and first["operations"] == 2 * 4096**3
    assert first["seconds"] == pytest.approx(2 * 4096**3 / 19.5e12) and first["bound"] == "arithmetic"


@pytest.mark.parametrize(
    ("sizes", "error", "help"),
    [
        ("M=4096", "N missing for one", "add N=4096"),
        ("M=64,N=64,K=64", "one has no mode `K`", "its modes are M, N"),
        ("M=64,N=63", "N must be a multiple of 4, not 63", "60 would work"),
        ("M=64,N=3", "N must be a multiple of 4, not 3", "4 would work"),
        ("M=64,N", "`N` is not a mode and a size, as in M=4096", None),
        ("M=64,N=x", "`N=x` is not a mode and a size", None),
        ("M=64,N=0", "`N=0` is not a mode and a size", None),
        ("M=64,N=-4", "`N=-4` is not a mode and a size", None),
        ("M=64,N=4.0", "`N=4.0` is not a mode and a size", None),
        ("M=64,N=4294967296", "`N=4294967296` is not a mode and a size", None),
        ("M=64,N=٤", "is not a mode and a size", None),
        ("", "`` is not a mode and a size", None),
        ("M=64,,N=64", "`` is not a mode and a size", None),
    ],
)
def test_wrong_sizes_are_refused_with_what_would_do(one: Path, sizes: str, error: str, help: str | None) -> None:
    one.write_text(one.read_text() + "schedule: {copy: {fallback: refuse}}\n", encoding="utf-8")
    result = explain(one, "--sizes", sizes)
    assert result.exit_code == 2 and error in result.stderr and not result.stdout
    assert help is None or f"help: {help}" in result.stderr
    data = data_of(explain(one, "--sizes", sizes, "--format", "json"))
    assert data["ok"] is False and error in data["error"]


def test_a_fixed_size_cannot_be_another() -> None:
    path = ROOT / "specs/predicated_vector.yaml"
    assert explain(path, "--sizes", "N=1000").exit_code == 0
    result = explain(path, "--sizes", "N=1001")
    assert result.exit_code == 2 and "N is 1000 in predicated_vector" in result.stderr


def test_sizes_need_a_proof(one: Path) -> None:
    result = explain(one, "--sizes", "M=4,N=4", "--no-proof")
    assert result.exit_code == 2 and "--sizes is for the proof" in result.stderr


# ------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_json_has_the_whole_proof(path: Path) -> None:
    data = data_of(explain(path, "--format", "json"))
    assert data["ok"] is True and data["verb"] == "explain"
    for told, module in zip(data["kernels"], modules_of(path), strict=True):
        proof = told["proof"]
        kinds = {"holds", "claims", "accesses", "shared_memory", "workspaces", "occupancy", "roofline", "choices"}
        assert set(proof) == kinds
        sizes = [module.spec.static] if proof["roofline"] else []
        assert proof == json.loads(json.dumps(as_json(prove(module.plan, sizes))))
        assert proof["holds"] is all(claim["holds"] for claim in proof["claims"]) is True
        for row, access in zip(proof["accesses"], accesses(module.plan), strict=True):
            shape, stride = map(ast.literal_eval, row["layout"].split(":"))
            assert (shape, stride) == (access.layout.shape, access.layout.stride)
            assert (row["bytes"], row["instructions"]) == (access.bytes, access.instructions)
            assert (row["conflicts"] is None) is (access.space == "global") is (row["sectors"] is not None)
        kernels = module.plan.kernels
        assert [o["target"] for o in proof["occupancy"]] == [t for kernel in kernels for t in kernel.spec.targets]
        assert proof["shared_memory"]["bytes"] == max(kernel.smem_bytes for kernel in kernels)
        for kernel in kernels:
            of_kernel = [b for b in proof["shared_memory"]["buffers"] if b.get("case", "") == kernel.case]
            assert sum(b["bytes"] for b in of_kernel) <= kernel.smem_bytes < sum(b["bytes"] for b in of_kernel) + 32


# -------------------------------------------------------------------------------------------------- a proof that fails


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_claim_that_fails_is_told_and_is_exit_code_1(one: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    claims = proof.claims

    def one_fails(plan: Any) -> tuple[Claim, ...]:
        first, *rest = claims(plan)
        return (replace(first, holds=False), *rest)

    monkeypatch.setattr(proof, "claims", one_fails)
    result = explain(one, "--format", form)
    assert result.exit_code == 1
    if form == "json":
        data = data_of(result)
        assert data["ok"] is False and data["kernels"][0]["proof"]["holds"] is False
    else:
        assert result.stdout.count("FAILS: ") == 1
        assert "FAILS: the threads of a block have each element" in result.stdout
        before, after = (generate(text, "x.yaml").modules[0].text for text in (one.read_text(), result.stdout))
        assert before == after
    assert explain(one, "--no-proof").exit_code == 0, "nothing was proved"


def test_one_kernel_of_several_that_fails_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = proof.claims

    def last_fails(plan: Any) -> tuple[Claim, ...]:
        return tuple(replace(c, holds=plan.spec.kernel != "sgemm_kkn") for c in claims(plan))

    monkeypatch.setattr(proof, "claims", last_fails)
    path = ROOT / "specs/sgemm.yaml"
    assert explain(path).exit_code == 1
    assert explain(path, "--kernel", "sgemm_mnm").exit_code == 0
    assert explain(path, "--kernel", "sgemm_kkn").exit_code == 1


# ------------------------------------------------------------------------------------------------------------ weight


def test_explain_needs_neither_torch_nor_the_compiler() -> None:
    """In a process of its own: which heavy packages it imported."""
    code = """
import sys
from cutegen.cli import cli
try:
    cli(["explain", sys.argv[1], "--sizes", "M=64,N=64,K=64"], standalone_mode=False)
except SystemExit as end:
    assert not end.code, end.code
print("heavy:", *sorted({"torch", "cutlass", "numpy", "matplotlib", "cuda"} & set(sys.modules)), file=sys.stderr)
"""
    command = [sys.executable, "-c", code, str(ROOT / "specs/sgemm_mmajor.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "# proof of sgemm_mmajor" in done.stdout, done.stderr
    assert done.stderr.rstrip().endswith("heavy:"), done.stderr


def test_a_workspace_is_told_with_its_size() -> None:
    """Its rows are whole vectors of 16 bytes, and what fills and reads it comes on top of the roofline."""
    text = (ROOT / "specs" / "gemm_f32_fma_workspace.yaml").read_text(encoding="utf-8")
    module = next(m for m in generate(text, "x.yaml").modules if m.plan.workspaces)  # type: ignore[attr-defined]
    sizes = {"M": 36, "N": 8, "K": 12}
    proof = prove(module.plan, [sizes])
    (scratch,) = proof.scratch
    lines = as_lines(proof)
    side = "M" if scratch.tensor == "A" else "N"
    assert f"    {scratch.tensor}: ({side} rounded up to 4) * K * 4 bytes" in lines
    assert any(f": {sizes[side] * 12 * 4} bytes, moved twice" in line for line in lines)
    assert scratch.bytes({**sizes, side: 33}) == 36 * 12 * 4
