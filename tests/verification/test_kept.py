"""Verification uses the artefact that a build compiled without compiling again, and no other one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from building_kit import units_of  # noqa: E402

from cutegen import compiling  # noqa: E402
from cutegen.codegen.generate import module_of  # noqa: E402
from cutegen.compiling import Artefact, Cache, Compiled, Job, Outcome, Resources, cache_key  # noqa: E402
from cutegen.console import NoProgress  # noqa: E402
from cutegen.emulator.host import builds as emulated  # noqa: E402
from cutegen.emulator.host.builds import builds  # noqa: E402
from cutegen.emulator.host.stored import Stored  # noqa: E402
from cutegen.project.selection import select  # noqa: E402
from cutegen.project.sources import Gathered, Unit  # noqa: E402
from cutegen.verbs.building import build as building  # noqa: E402
from cutegen.verbs.building import verification  # noqa: E402
from cutegen.verbs.building.compilation import compiled_before  # noqa: E402
from cutegen.verbs.building.verification import run_verification  # noqa: E402
from cutegen.verification.blocks import with_blocks  # noqa: E402
from cutegen.verification.cases import Case  # noqa: E402
from cutegen.verification.executor import EmulatorExecutor, load_module  # noqa: E402
from cutegen.verification.executors import make_executor  # noqa: E402
from cutegen.verification.kept import Kept  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402

LLAMA = Path(__file__).parents[2] / "docs" / "llama" / "specs"
SPEC = """\
cutegen: 1
kernel: doubled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  Y: {shape: [M, N], dtype: f32, role: out, align: 4}
compute: Y = X * 2
static: {N: 64}
targets: [sm_80, sm_90a]
"""
HERE = Case("here", "a test", {"M": 3, "N": 64})
# Notes each target that a module is compiled for; the compiler of host checks, which does nothing, returns nothing
NOTING = """
_compile_for = compile_for


def compile_for(arch, options=()):
    found = _compile_for(arch, options)
    if found is not None:
        with open({file!r}, "a") as file:
            print(arch, file=file)
    return found
"""
Compiler = Callable[[Sequence[Job]], list[Outcome]]


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Unit:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").touch()
    (specs := folder / "specs").mkdir()
    (specs / "doubled.yaml").write_text(SPEC)
    return units_of(specs)[0]


@pytest.fixture
def path(unit: Unit, tmp_path: Path) -> Path:
    """The file of the module."""
    file = tmp_path / unit.module.name
    file.write_text(unit.module.text, encoding="utf-8")
    return file


@pytest.fixture
def outcomes(unit: Unit, compiler: Compiler) -> dict[Job, Outcome]:
    jobs = [Job(unit.module.text, unit.kernel, target) for target in unit.module.spec.targets]
    return dict(zip(jobs, compiler(jobs), strict=True))


def without_compiler(module: ModuleType) -> ModuleType:
    def compile_for(*_: object, **__: object) -> None:
        raise AssertionError("it compiles")

    vars(module)["compile_for"] = compile_for
    return module


def stand_in(job: Job, host: bytes = b"host") -> Compiled:
    return Compiled(Artefact(job.kernel, job.target, "ptx", b"", "", Resources(1, 0, 0, 0, 0), host=host), 0.1, False)


def test_the_ptx_and_the_launches_are_those_of_a_compile_for_the_emulator(
    unit: Unit, path: Path, outcomes: dict[Job, Outcome]
) -> None:
    kept = Kept(outcomes.items())
    kept.know(module := load_module(path), unit.kernel)
    fresh, stored = load_module(path), kept.of(module)
    assert list(stored) == list(fresh.TARGETS)
    for target in fresh.TARGETS:
        assert stored[target].ptx == builds(fresh, [target], lines=False)[0].ptx
    args = [torch.zeros(3, 64), torch.zeros(3, 64)]
    ours = EmulatorExecutor(lines=False, kept=kept).launched(without_compiler(module), unit.module.spec, args)
    theirs = EmulatorExecutor(lines=False).launched(fresh, unit.module.spec, args)
    assert [[replace(launch, parameters=b"") for launch in one] for one in ours] == [
        [replace(launch, parameters=b"") for launch in one] for one in theirs
    ]


def test_what_was_compiled_runs(unit: Unit, path: Path, outcomes: dict[Job, Outcome]) -> None:
    executor = make_executor("cpu", kept := Kept(outcomes.items()))
    kept.know(module := without_compiler(load_module(path)), unit.kernel)
    report = verify_case(unit.module.plan, HERE, module, executor)
    assert report.status == "passed" and report.elements == 192, report.message


def test_what_fails_is_compiled_once_more(unit: Unit, tmp_path: Path, compiler: Compiler) -> None:
    """So that faults name its lines: for one target, where the code for all is the same."""
    text = unit.module.text.replace("x * 2.0", "x * 3.0", 1)
    assert text != unit.module.text
    jobs = [Job(text, unit.kernel, target) for target in unit.module.spec.targets]
    executor = make_executor("cpu", kept := Kept(zip(jobs, compiler(jobs), strict=True)))
    noted = tmp_path / "noted"
    (file := tmp_path / "doubled.py").write_text(text, encoding="utf-8")
    kept.know(module := load_module(file), unit.kernel)
    own = module.compile_for

    def compile_for(arch: str, options: tuple[object, ...] = ()) -> object:
        noted.open("a").write(f"{arch}\n")
        return own(arch, options)

    vars(module)["compile_for"] = compile_for
    report = verify_case(unit.module.plan, HERE, module, executor)
    assert report.status == "failed" and "off by" in report.message
    assert noted.read_text().split() == ["sm_80"]


def test_nothing_else_is_taken_for_it(unit: Unit, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, text = unit.module.spec.targets, unit.module.text
    module = load_module(path)

    def known(*jobs: Job, kernel: str = unit.kernel, host: bytes = b"host") -> list[str]:
        kept = Kept((job, stand_in(job, host)) for job in jobs)
        kept.know(module, kernel)
        return list(kept.of(module))

    jobs = [Job(text, unit.kernel, target) for target in targets]
    assert known(*jobs) == list(targets) and known(jobs[1]) == [targets[1]] and known() == []
    assert known(*(replace(job, text=f"{text} ") for job in jobs)) == []
    assert known(*(replace(job, kernel="other") for job in jobs)) == known(*jobs, kernel="other") == []
    assert known(*(replace(job, target="sm_100a") for job in jobs)) == []
    assert known(*jobs, host=b"") == []
    kept = Kept([(jobs[0], compiling.Failed("exception", "no"))])
    kept.know(module, unit.kernel)
    assert not kept.of(module)
    kept = Kept((job, stand_in(job)) for job in jobs)
    installed = dict(compiling.toolchain())
    monkeypatch.setattr("cutegen.compiling.cache.toolchain", lambda: {**installed, "nvidia-cutlass-dsl": "0.0"})
    kept.know(module, unit.kernel)
    assert not kept.of(module)


def test_a_module_that_was_changed_is_compiled(unit: Unit, path: Path) -> None:
    """As one with another number of blocks is, whose file is the same."""
    path.write_text(f"{unit.module.text}\nBLOCKS = 4\n", encoding="utf-8")
    job = Job(path.read_text(), unit.kernel, "sm_80")
    kept = Kept([(job, stand_in(job))])
    kept.know(module := load_module(path), unit.kernel)
    assert list(kept.of(module)) == ["sm_80"]
    assert not kept.of(with_blocks(module, 2)) and not kept.of(load_module(path))


def test_kernels_of_the_gradient_are_known_too(tmp_path: Path) -> None:
    units = {unit.kernel: unit for unit in units_of(LLAMA)}
    outcomes = [
        {target: stand_in(Job(unit.module.text, unit.kernel, target)) for target in unit.module.spec.targets}
        for unit in units.values()
    ]
    unit = units["swiglu"]
    kept = verification._kept(unit, list(units.values()), outcomes)
    (gradient,) = unit.module.plan.gradients
    (path := tmp_path / "beside.py").write_text(module_of(gradient.by).text, encoding="utf-8")
    executor = EmulatorExecutor(kept=kept)
    executor.beside(module := load_module(path), gradient.by)
    assert list(kept.of(module)) == list(gradient.by.targets)
    path.write_text(units["rope"].module.text, encoding="utf-8")
    kept.know(other := load_module(path), "rope")
    assert not kept.of(other)


def test_host_code_that_cannot_be_read_is_compiled(path: Path) -> None:
    module = load_module(path)
    (ptx,) = {build.ptx for build in builds(module, ["sm_80"], lines=False)}
    for host in (b"", b"damaged", b"ML\xefR of another release"):
        (found,) = builds(module, ["sm_80"], False, {"sm_80": Stored("of something else", host)})
        assert found.ptx == ptx


def test_ptx_for_another_target_is_refused(unit: Unit, path: Path, outcomes: dict[Job, Outcome]) -> None:
    kept = Kept(outcomes.items())
    kept.know(module := load_module(path), unit.kernel)
    with pytest.raises(emulated.FaultError, match="compiled for sm_90a, the PTX says .target sm_80"):
        builds(module, ["sm_90a"], False, {"sm_90a": kept.of(module)["sm_80"]})


def test_a_build_compiles_once_for_each_target(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: None
) -> None:
    """And a later verification of the same text not at all."""
    noted = tmp_path / "noted"
    text = unit.module.text + NOTING.format(file=str(noted))
    noting = replace(unit, module=replace(unit.module, text=text))
    monkeypatch.setattr(building, "gather", lambda *_, **__: Gathered((noting,), (), {}))
    selection = select([Path(unit.source.file)], tmp_path / "out")
    report = building.build(selection, building.Options(jobs=1), NoProgress())
    (kernel,) = report.kernels
    assert kernel.verification.verdict == "passed", (report.problems, report.diagnostics, kernel.verification.why)
    assert sorted(noted.read_text().split()) == ["sm_80", "sm_90a"]

    (again,), _ = run_verification([noting], "cpu", 1, NoProgress())
    assert again.verdict == "passed" and len(noted.read_text().split()) == 2
    (found,) = compiled_before([noting], Cache())
    assert {target: o.artefact.host != b"" for target, o in found.items() if isinstance(o, Compiled)} == {
        "sm_80": True,
        "sm_90a": True,
    }


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))


def test_host_code_has_no_cubin_and_no_path(outcomes: dict[Job, Outcome]) -> None:
    for job, outcome in outcomes.items():
        assert isinstance(outcome, Compiled)
        artefact = outcome.artefact
        assert artefact.cubin and artefact.cubin not in artefact.host and b"\x7fELF" not in artefact.host
        assert os.sep.encode() + f"{job.kernel}.py".encode() not in artefact.host
        assert Artefact.from_json(artefact.as_json()) == artefact and cache_key(job)
