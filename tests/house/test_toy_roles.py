"""A family whose warps have roles, outside of cutegen, goes through every room by the verbs that people type.

It has a product and a reduction between a warp that loads and four that multiply (`tests/kits/toy_roles`): what is
here for barriers, tensor maps and wgmma must not be for gemms alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml
from toy_roles import FAMILY, text
from toy_roles.order import counts, run_of
from toy_roles.plan import BestPlan
from toy_roles.roles import kernel_body
from tree_mistakes import about, mistakes
from verbs_kit import cutegen, data_of, spec_in

from cutegen import registry
from cutegen.codegen import Module, generate
from cutegen.lint import page
from cutegen.parts.acts import Multiply
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SPEC = "specs/scores.yaml"
HARMLESS = {
    ("Wait", "by some warps", "empty"): "the producer is one of them",
    ("If", "by several threads", ""): "of the four warps that multiply, the first one alone has such a thread",
}
EMULATED = ("Expect, half of the bytes, full", "Wait, other parity, full", "Drain, left out, 0")
SEVERAL = Case("several", "", {"M": 100, "N": 32, "K": 128}, "padded", "integers")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder."""
    folder = tmp_path_factory.mktemp("roles")
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def root(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with the starter spec of the toy's op, while the toy is one of the families."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(project / "cache"))
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    with registry.added(FAMILY):
        if not (project / "specs").exists():
            cutegen("init", "scores", "--op", "best")
        yield project


def module(root: Path) -> Module:
    return generate((root / SPEC).read_text(encoding="utf-8"), SPEC).modules[0]


def planned(root: Path) -> BestPlan:
    """The plan for more rows of B, so that all stages go round three times."""
    plan = generate((root / SPEC).read_text(encoding="utf-8").replace("N: 32", "N: 48"), SPEC).modules[0].plan
    assert isinstance(plan, BestPlan)
    return plan


# ------------------------------------------------------------------------------------------------------ spec and lint


def test_editors_know_its_keys(root: Path) -> None:
    schema = data_of("schema")
    starter = yaml.safe_load((root / SPEC).read_text(encoding="utf-8"))
    jsonschema.validate(starter, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**starter, "schedule": {"stages": 6}}, schema)


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("stages: 2", "stage: 2", 2, "did you mean `stages`"),
        ("max(A @ B.T, N)", "sum(A @ B.T, N)", 2, "write `Y = max(A @ B.T, N)`"),
        ("max(A @ B.T, N)", "max(2 * (A @ B.T), N)", 2, "write `Y = max(A @ B.T, N)`"),
        ("max(A @ B.T, N)", "max(A @ B.T, M)", 2, "not those of a product and its rows"),
        ("B: {shape: [N, K], dtype: f16", "B: {shape: [N, K], dtype: bf16", 2, "write `dtype: f16`"),
        ("A: {shape: [M, K], dtype: f16", "A: {shape: [M, K], dtype: f16, major: M", 1, "rows of `A` are contiguous"),
        ("A: {shape: [M, K], dtype: f16", "A: {shape: [M, K], dtype: f16, align: 2", 1, "CG398"),
        ("N: 32, ", "", 1, "N is not fixed, and a tile has 16 along it"),
    ],
)
def test_what_is_wrong_is_said(root: Path, tmp_path: Path, old: str, new: str, code: int, said: str) -> None:
    written = (root / SPEC).read_text(encoding="utf-8")
    assert old in written
    assert said in cutegen("lint", spec_in(tmp_path, written.replace(old, new)), code=code).stdout


@pytest.mark.parametrize(("code", "help"), [("CG398", "write `columns: 16`"), ("CG399", "write `static: {N: 96}`")])
def test_its_rules_fire_on_the_bad_specs_of_their_pages(root: Path, tmp_path: Path, code: str, help: str) -> None:
    found = page.read(code)
    said = data_of("lint", spec_in(tmp_path, found.bad), code=1)["diagnostics"]
    assert (said[0]["code"], said[0]["help"]) == (code, help)
    assert {one["severity"] for one in data_of("lint", spec_in(tmp_path, found.good))["diagnostics"]} == {"note"}


def test_a_code_of_another_family_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/CG297.md").write_text(page.read("CG399").text.replace("CG399", "CG297"), encoding="utf-8")
    monkeypatch.setattr(type(FAMILY), "folder", tmp_path)
    with pytest.raises(ValueError, match=r"CG297 has 2 pages, .*CG297\.md: each code has one"):
        page.read("CG297")


# --------------------------------------------------------------------------------------------------------- its kernel


def test_explain_proves_the_order_and_knows_its_shared_memory(root: Path) -> None:
    told = cutegen("explain", SPEC).stdout
    assert "holds: every element of Y that a block has is stored once" in told
    assert "holds: no order of warps deadlocks" in told and "tiles along N x K of (2, 2)" in told
    assert "together 20512 bytes a block" in told


def test_it_is_built_compiled_and_verified(root: Path) -> None:
    pytest.importorskip("cutlass")
    (kernel,) = data_of("build", "specs", "-j", "1")["kernels"]
    assert kernel["targets"]["sm_90a"]["compiled"] and kernel["verification"]["verdict"] == "passed", kernel
    report = kernel["verification"]["report"]
    assert report["complete"] and report["executor"] == "cpu (emulator)" and report["host_checks"]
    inspected = cutegen("inspect", "specs").stdout
    assert all(name in inspected for name in ("HGMMA.64x16x16", "UTMALDG.2D", "FMNMX.NAN"))


def test_its_roles_are_drawn_over_time(root: Path) -> None:
    drawn = cutegen("show", SPEC).stdout
    assert "A warp that loads, and four that multiply and reduce" in drawn
    lanes = [line.split("│")[0].strip() for line in drawn.splitlines() if "│" in line]
    assert lanes == ["producer", "stage 0", "stage 1", "consumer"]


# ----------------------------------------------------------------------------------------------------------- mistakes


def refused(plan: BestPlan, tree: Body) -> str:
    """The kind of fault that a proof finds in a tree, or that a name has no value; nothing where it is right."""
    try:
        for sizes in counts(plan):
            prove(run_of(plan, sizes, tree))
    except Unproved as error:
        return error.fault.kind
    except NameError:
        return "text"
    return ""


def test_what_is_printed_is_right_in_every_order(root: Path) -> None:
    plan = planned(root)
    run = run_of(plan, plan.steps)
    assert prove(run).phases == 2 * 3 * 2  # of full and empty barriers
    assert sum(isinstance(act, Multiply) for acts in run.acts.values() for act in acts) == 2 * 3 * 2


def test_each_mistake_in_its_tree_is_refused(root: Path) -> None:
    plan = planned(root)
    tried = list(mistakes(kernel_body(plan)))
    found = {str(one): (about(one), refused(plan, one.tree)) for one in tried}
    assert {key for key, kind in found.values() if not kind} == set(HARMLESS)
    kinds = {kind for _, kind in found.values()}
    assert len(tried) == 64 and kinds >= {"deadlock", "bytes", "overwrite", "early", "registers", "arrivals", "outside"}


@pytest.mark.parametrize("wrong", EMULATED)
def test_the_emulator_fails_on_what_is_printed_of_a_mistake(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    pytest.importorskip("cutlass")

    def mistaken(plan: BestPlan) -> Body:
        return next(one for one in mistakes(kernel_body(plan)) if ", ".join(about(one)) == wrong).tree

    monkeypatch.setattr(text, "kernel_body", mistaken)
    made = module(root)
    (tmp_path / "scores.py").write_text(made.text, encoding="utf-8")
    report = verify_case(made.plan, SEVERAL, load_module(tmp_path / "scores.py"), EmulatorExecutor(lines=False))
    assert "fault[" in report.message
