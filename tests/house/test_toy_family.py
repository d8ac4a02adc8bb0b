"""A family that lives outside of cutegen goes through every room by the verbs that people type.

It has an op, schedule, plan, rules, pages and templates of its own (`tests/kits/toy_family`), and shares nothing with
the families of cutegen: no room may know more of a family than what it answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from building_kit import StandInCompiler
from toy_family import FAMILY
from verbs_kit import cutegen, data_of, spec_in

from cutegen import registry
from cutegen.analysis.roofline import blocks_of
from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.lint import page
from cutegen.measuring.shapes import shapes_of
from cutegen.ops.op import ELEMENTS
from cutegen.peers.peers import COMPILED, EAGER, choose
from cutegen.tuning import tune as flow

VARIANTS = """\
cutegen: 1
kernel: places_{d}
matrix: {d: [f64, f32, i32]}
op: fill
tensors:
  Y: {shape: [P, Q], dtype: "{d}", role: out}
scalars: {row: i32}
compute:
  - far = coord(P) * row
  - Y = far + coord(Q) + 1
"""
TUNED = "tune: {schedule.threads: [32, 96], schedule.rows: [2, 65]}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder."""
    folder = tmp_path_factory.mktemp("toy")
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
            cutegen("init", "places", "--op", "fill")
        yield project


def test_it_is_a_family_only_while_it_is_added() -> None:
    assert FAMILY not in registry.families() and "fill" not in cutegen("schema").stdout
    with registry.added(FAMILY):
        assert registry.op_named("fill") is FAMILY.op
    assert FAMILY not in registry.families()


# ------------------------------------------------------------------------------------------------------------ language


def test_editors_know_its_op_and_keys(root: Path) -> None:
    schema = data_of("schema")
    assert "fill" in schema["properties"]["op"]["enum"] and FAMILY.op.summary in cutegen("schema").stdout
    assert set(schema["definitions"]["fill_schedule"]["properties"]) == {"threads", "rows"}
    starter = yaml.safe_load((root / "specs/places.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(starter, schema)
    for wrong in ({"threads": 0}, {"tiler": {"M": 4}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**starter, "schedule": wrong}, schema)
    assert json.loads((root / "specs/.cutegen.schema.json").read_text(encoding="utf-8")) == schema


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("op: fill", "op: fil", 2, "did you mean `fill`"),
        ("threads: 64", "thread: 64", 2, "did you mean `threads`"),
        ("threads: 64", "tiler: {M: 4}", 2, "unknown key `tiler` in `schedule`"),
        ("threads: 64", "threads: 1025", 2, "`schedule.threads` must be at most 1024, not 1025"),
        ("op: fill", "op: fill\nstatic: {stages: 0}", 2, "`static.stages` must be at least 1, not 0"),
        ("dtype: f32", "dtype: f32, major: M", 1, "threads lie along N, and `Y` is contiguous along M"),
        ("shape: [M, N]", "shape: [M, N, K]", 2, "a fill has one tensor, of two modes"),
        ("coord(N)", "coord(N) @ coord(M)", 2, "a fill kernel has no `@`"),
        ("coord(N)", "coord(L)", 2, "`L` is not a mode here"),
    ],
)
def test_what_is_wrong_is_said(root: Path, tmp_path: Path, old: str, new: str, code: int, said: str) -> None:
    text = (root / "specs/places.yaml").read_text(encoding="utf-8")
    assert old in text
    assert said in cutegen("lint", spec_in(tmp_path, text.replace(old, new)), code=code).stdout


def test_keys_of_another_family_are_told_from_its_own(root: Path, tmp_path: Path) -> None:
    text = (root / "specs/places.yaml").read_text(encoding="utf-8").replace("op: fill", "op: elementwise")
    said = cutegen("lint", spec_in(tmp_path, text.replace("threads: 64", "rows: 8")), code=2).stdout
    assert "unknown key `rows`" in said and "fill" in said


def test_an_op_that_checks_nothing_has_no_product_all_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(FAMILY.op), "check_compute", lambda *given: None)
    text = (root / "specs/places.yaml").read_text(encoding="utf-8")
    more = "  A: {shape: [M, K], dtype: f32}\n  B: {shape: [N, K], dtype: f32}\ncompute: Y = A @ B.T + "
    with pytest.raises(SpecError) as caught:
        read_specs(text.replace("compute: Y = ", more))
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("CG127", "a fill kernel has no `@`")]


# ---------------------------------------------------------------------------------------------------------------- lint


def test_its_rules_are_listed_and_have_pages(root: Path) -> None:
    rules = {rule["code"]: rule for rule in data_of("lint", "--rules")["rules"]}
    assert (rules["CG299"]["severity"], rules["CG299"]["kind"]) == ("error", "correctness")
    assert (rules["CG298"]["severity"], rules["CG298"]["kind"]) == ("warning", "performance")
    assert cutegen("lint", "--explain", "CG299").stdout == page.read("CG299").text
    assert "CG299: a fill with too many rows" in page.read("CG299").text


@pytest.mark.parametrize(("code", "help"), [("CG298", "write `threads: 64`"), ("CG299", "write `rows: 64`")])
def test_its_rules_fire_on_the_bad_specs_of_their_pages(root: Path, tmp_path: Path, code: str, help: str) -> None:
    found = page.read(code)
    (said,) = data_of("lint", spec_in(tmp_path, found.bad), "--strict", code=1)["diagnostics"]
    assert (said["code"], said["help"]) == (code, help)
    assert data_of("lint", spec_in(tmp_path, found.good), "--strict")["diagnostics"] == []


def test_what_lint_refuses_is_not_built(root: Path, tmp_path: Path) -> None:
    assert "CG299" in cutegen("build", spec_in(tmp_path, page.read("CG299").bad), code=2).stderr


# ---------------------------------------------------------------------------------------------------------- its kernel


def test_explain_writes_what_was_inferred_and_proves_it(root: Path) -> None:
    told = cutegen("explain", "specs/places.yaml").stdout
    assert "rows: 8  # inferred: about 512 elements of a block" in told
    assert "holds: every element of a tile of Y is written once" in told and "4 sectors (least 4)" in told
    (kernel,) = data_of("explain", "specs/places.yaml")["kernels"]
    assert kernel["kernel"] == "places"
    resolved = yaml.safe_load(told)
    assert resolved["schedule"] == {"threads": 64, "rows": 8} and resolved["tensors"]["Y"]["major"] == "N"


def test_it_is_built_compiled_and_verified(root: Path) -> None:
    """In worker processes: a job's plan tells them where its family is."""
    pytest.importorskip("cutlass")
    told = data_of("build", "specs")
    (kernel,) = told["kernels"]
    assert kernel["targets"]["sm_90a"]["compiled"] and kernel["verification"]["verdict"] == "passed", kernel
    report = kernel["verification"]["report"]
    assert report["complete"] and report["executor"] == "cpu (emulator)" and report["host_checks"]
    text = (root / "generated/places.py").read_text(encoding="utf-8")
    assert "ROWS = 8  # of a thread" in text and "mY[row, column] = result" in text
    cutegen("build", "--check", "specs")
    inspected = cutegen("inspect", "specs").stdout
    assert "places" in inspected and "STG" in inspected


def test_every_line_of_it_comes_from_a_key(root: Path) -> None:
    (module,) = generate((root / "specs/places.yaml").read_text(encoding="utf-8"), "specs/places.yaml").modules
    lines = module.text.splitlines()
    paths = {}
    for wanted in ("ROWS = 8", "column = bidx", "mY[row, column] = result"):
        number = next(i for i, line in enumerate(lines, 1) if wanted in line)
        region = module.region_at(number)
        assert region is not None
        paths[wanted] = region.path
    assert list(paths.values()) == [("schedule", "rows"), ("schedule", "threads"), ("compute",)]


def test_variants_scalars_and_statements(root: Path) -> None:
    modules = generate(VARIANTS, "specs/variants.yaml").modules
    assert [module.name for module in modules] == ["places_f64.py", "places_f32.py", "places_i32.py"]
    for module in modules:
        assert "mY[row_1, column] = " in module.text, "`row` is the scalar"
        assert blocks_of(module.plan, {"P": 5, "Q": 300}) == 2 * 3


def test_its_pictures_are_drawn(root: Path) -> None:
    assert "Rows of the threads" in cutegen("show", "specs/places.yaml").stdout
    cutegen("show", "specs/places.yaml", "-o", "places.html")
    drawn = (root / "places.html").read_text(encoding="utf-8")
    assert "Rows of the threads" in drawn and "8 M x 64 N" in drawn


# ----------------------------------------------------------------------------------------------------------- its speed


@pytest.mark.parametrize(
    ("more", "refused", "tried"),
    [
        ("", 1, [{"threads": 128}, {"threads": 32}, {"threads": 64, "rows": 1}]),  # 64 is as it is
        (TUNED, 2, [{"threads": 32, "rows": 2}, {"threads": 96, "rows": 2}]),
    ],
)
def test_it_is_tuned(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, refused: int, tried: list[Any]
) -> None:
    monkeypatch.setattr(flow.Tuning.__init__, "__defaults__", (StandInCompiler(),))
    spec = spec_in(tmp_path, (root / "specs/places.yaml").read_text(encoding="utf-8") + more)
    told = data_of("tune", spec, "--dry-run", "--no-cache")
    assert told["pruned"]["CG299"] == refused
    assert sorted((one["schedule"] for one in told["candidates"]), key=str) == sorted(tried, key=str)


def test_it_can_be_measured(root: Path) -> None:
    (module,) = generate((root / "specs/places.yaml").read_text(encoding="utf-8"), "specs/places.yaml").modules
    assert choose(module.spec) == (COMPILED, EAGER)
    (shape,) = shapes_of(module.spec)
    assert shape["M"] * shape["N"] == ELEMENTS
    assert FAMILY.op.work(module.spec, shape).bytes == 4 * ELEMENTS
