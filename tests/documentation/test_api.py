"""The four functions of the package: the examples of their page, and that they say what the command line says."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from building_kit import StandInVerifier, project
from click.testing import CliRunner

import cutegen
from cutegen.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"
BAD = "cutegen: 1\nkernel: broken\nop: elementwise\n"
FORWARD = """\
cutegen: 1
kernel: scaled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
scalars: {alpha: f32}
compute: Y = alpha * X
torch: {op: "mine::scaled", backward: scaled_bwd}
"""
BACKWARD = """\
cutegen: 1
kernel: scaled_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  dX: {shape: [M, N], dtype: f32, role: out}
scalars: {alpha: f32}
compute: dX = alpha * dY
torch: {op: "mine::scaled_bwd"}
"""


def test_the_examples_of_the_page_are_true() -> None:
    pytest.importorskip("cutlass")
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 15 and done.failed == 0


def test_what_is_exported_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(hasattr(cutegen, name) for name in cutegen.__all__)
    functions = [name for name in cutegen.__all__ if not isinstance(getattr(cutegen, name), type)]
    assert functions == ["check", "explain", "generate", "verify"]
    assert all(f"## {name}\n" in page and getattr(cutegen, name).__doc__ for name in functions)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cutegen.nothing  # noqa: B018


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = {
        "torch",
        "cutlass",
        "yaml",
        "jsonschema",
        "jinja2",
        "tensor_layouts",
        "cutegen.language",
        "cutegen.codegen",
    }
    code = f"import cutegen, sys; assert not {heavy!r} & set(sys.modules), {heavy!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize(
    "text", [BAD, "a: [", FORWARD.replace(", backward: scaled_bwd", "")], ids=["bad", "torn", "good"]
)
def test_check_says_what_lint_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    specs = project(tmp_path)
    (specs / "scaled.yaml").write_text(text)
    told = json.loads(CliRunner().invoke(cli, ["lint", "specs", "--format", "json"]).stdout)
    found = [(d.code, d.path, d.span.line, d.message) for d in cutegen.check(text, "specs/scaled.yaml")]
    assert found == [(d["code"], d["path"], d["line"], d["message"]) for d in told["diagnostics"]]


def test_check_gives_advice_and_notes() -> None:
    text = (ROOT / "cutegen/families/gemm/staged/pages/CG270.md").read_text(encoding="utf-8")
    bad = text.partition("```yaml bad\n")[2].partition("```")[0]
    assert {d.code for d in cutegen.check(bad)} == {"CG225", "CG226", "CG270", "CG280"}


def test_what_is_generated_is_what_a_build_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    specs = project(tmp_path, "one")
    text = (specs / "one.yaml").read_text()
    (module,) = cutegen.generate(text, "specs/one.yaml")
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / module.file).write_text(module.text)
    assert CliRunner().invoke(cli, ["build", "--check", "specs"]).exit_code == 0
    assert "# proof" not in cutegen.explain(text)[0].spec and cutegen.explain(text)[0].proof.startswith("proof of one")


def test_a_gradient_may_stand_beside() -> None:
    assert "CG140" in {d.code for d in cutegen.check(FORWARD)}
    assert cutegen.check(FORWARD, beside=[BACKWARD]) == ()
    (module,) = cutegen.generate(FORWARD, beside=[BACKWARD])
    assert "scaled_bwd" in module.text
    with pytest.raises(cutegen.SpecError):
        cutegen.generate(FORWARD)


def test_what_fits_no_kernel_is_an_error() -> None:
    for sizes, says in (({"M": 3}, "N missing"), ({"M": 3, "N": -1}, "N cannot be -1"), ({"Q": 3}, "no mode `Q`")):
        with pytest.raises(cutegen.CutegenError, match=says):
            cutegen.explain(BACKWARD, sizes=[sizes])
    with pytest.raises(cutegen.CutegenError, match="cannot be printed"):
        cutegen.generate(BACKWARD, "specs/a\nimport os.yaml")
    with pytest.raises(cutegen.CutegenError, match="on='tpu'"):
        cutegen.verify(BACKWARD, on="tpu")  # type: ignore[arg-type]


def test_a_wrong_kernel_is_a_verdict_and_what_cannot_run_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cutegen.SpecError):
        cutegen.verify(BAD)
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    with pytest.raises(cutegen.CutegenError, match="none in this test") as missing:
        cutegen.verify(BACKWARD, on="gpu")
    assert "emulator" in (missing.value.help or "")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier("passed", "failed"))
    (verdict,) = cutegen.verify(BACKWARD)
    assert (verdict.passed, verdict.cases, verdict.host_checks) == (False, 1, 1)
    assert "C[0, 1] is wrong" in verdict.failures[0]
