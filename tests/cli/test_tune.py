"""`cutegen tune`: exit codes, what is printed, and what happens to the spec's file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler
from click.testing import CliRunner, Result
from tuning_kit import STAGES, TUNED, VARIANTS, StandInGpu, candidates_once

from cutegen.cli import cli
from cutegen.codegen import Module, generate
from cutegen.compiling import Job, Outcome
from cutegen.language.document import parse_documents, plain
from cutegen.tuning import tune as flow
from cutegen.tuning.model import Trouble

Tune = Callable[..., Result]


def by_stages(module: Module, shape: Mapping[str, int]) -> float:
    return 100.0 - (module.plan.stages if module.plan.tile["M"] == 128 else 0)  # type: ignore[attr-defined]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    candidates_once(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "specs").mkdir()
    file = tmp_path / "specs" / "mm.yaml"
    file.write_bytes(TUNED.replace("\n", "\r\n").encode())
    return file


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StandInGpu]:
    """A machine with a GPU for which schedules cost what is said."""

    def put(cost: Any = by_stages, **options: Any) -> StandInGpu:
        stand_in = StandInGpu(cost, **options)
        monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: None)
        monkeypatch.setattr("cutegen.tuning.preparing.make_timers", lambda: [stand_in])
        compiler = StandInCompiler()
        monkeypatch.setattr(flow.Tuning.__init__, "__defaults__", (compiler,))
        return stand_in

    return put


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["tune", "specs/mm.yaml", *arguments], catch_exceptions=False)


def test_the_winner_is_written_and_nothing_else(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    before, mode = spec.read_bytes(), spec.stat().st_mode
    stand_in = gpu()
    done = tune()
    assert done.exit_code == 0, done.output
    assert spec.read_bytes() == before.replace(b"stages: 3}", b"stages: 4}") and spec.stat().st_mode == mode
    assert "-  pipeline: {stages: 3}" in done.stdout and "+  pipeline: {stages: 4}" in done.stdout
    assert "(winner)" in done.stdout and "next: cutegen build specs/mm.yaml" in done.stdout
    assert "3 refused: 3 by CG221" in done.stdout
    assert stand_in.closed and sorted(p.name for p in spec.parent.iterdir()) == ["mm.yaml"]
    logs = spec.parent.parent / ".cutegen-tune"
    assert sorted(p.name for p in logs.iterdir()) == [".gitignore", "mm.jsonl"]
    assert (logs / ".gitignore").read_text() == "*\n"
    again = tune()  # now it is the incumbent
    assert again.exit_code == 0 and "nothing is faster" in again.stdout and "wrote" not in again.stdout


def test_no_write_prints_the_diff(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu()
    before = spec.read_bytes()
    done = tune("--no-write")
    assert done.exit_code == 0 and spec.read_bytes() == before and "+  pipeline: {stages: 4}" in done.stdout


def test_json(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu()
    told = json.loads(tune("--format", "json", "--sizes", "M=64,N=64,K=64").stdout)
    assert (told["verb"], told["ok"], told["exit_code"], told["written"]) == ("tune", True, 0, True)
    assert told["ranking"][0]["candidate"] == told["winner"] and told["gpu"] == "NVIDIA H200"
    assert told["ranking"][0]["changes"] == [{"path": "schedule.pipeline.stages", "old": 3, "new": 4}]
    assert list(told["ranking"][0]["us"]) == ["mm K=64,M=64,N=64"] and told["pruned"] == {"CG221": 3, "duplicate": 1}
    assert len(told["candidates"]) == 8 and told["space"]["schedules"] == 12


def test_a_wrong_candidate_is_a_finding_and_the_right_winner_is_written(
    spec: Path, gpu: Callable[..., StandInGpu]
) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        return Trouble("wrong", "C is off") if module.plan.tile["M"] == 64 else by_stages(module, shape)

    gpu(cost)
    done = tune()
    assert done.exit_code == 1 and "C is off" in done.stderr and b"stages: 4}" in spec.read_bytes()


@pytest.mark.parametrize(("kind", "code"), [("wrong", 1), ("failed", 2)])
def test_a_spec_that_cannot_be_timed(spec: Path, gpu: Callable[..., StandInGpu], kind: Any, code: int) -> None:
    before = spec.read_bytes()
    gpu(lambda module, shape: Trouble(kind, "all is lost"))
    done = tune()
    assert done.exit_code == code and "all is lost" in done.output and spec.read_bytes() == before


def test_without_a_gpu(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "no CUDA")
    done = tune()
    assert done.exit_code == 2 and "no CUDA" in done.stderr and "--dry-run" in done.stderr
    monkeypatch.setattr(flow.Tuning.__init__, "__defaults__", (StandInCompiler(),))
    dry = tune("--dry-run", "--target", "sm_80")
    assert dry.exit_code == 0 and "8 candidates left" in dry.stdout


def test_a_dry_run_names_its_candidates(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu()
    lines = tune("--dry-run").stdout.splitlines()
    table = lines[lines.index("8 candidates left") + 1 :]
    told = json.loads(tune("--dry-run", "--format", "json").stdout)["candidates"]
    assert table[0].split() == ["candidate", "registers", "schedule"]
    assert [int(line.split()[0]) for line in table[1:]] == [c["candidate"] for c in told]
    assert [c["excess"] for c in told] == sorted(c["excess"] for c in told)  # the most promising first
    assert all(line.split()[1] == "24" for line in table[1:])
    assert all(c["registers"] == {"mm": {"sm_80": 24, "sm_90a": 24}} for c in told)
    stages = [c["schedule"]["pipeline"]["stages"] for c in told]
    assert [f"pipeline.stages {n}" in line for n, line in zip(stages, table[1:], strict=True)] == [
        n != 3 for n in stages
    ]


def test_a_long_dry_run_is_cut_and_says_so(
    spec: Path, gpu: Callable[..., StandInGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "DRY", 600.0)
    monkeypatch.setattr("cutegen.tuning.output.SHOWN", 3)
    gpu()
    lines = tune("--dry-run").stdout.splitlines()
    assert "8 candidates left" in lines and lines[-1] == "and 5 more; --format json lists all"
    assert lines[-5].startswith("candidate ")


def test_an_interrupted_dry_run_promises_nothing(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(job: Job) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(flow.Tuning.__init__, "__defaults__", (StandInCompiler(interrupt),))
    done = tune("--dry-run")
    assert done.exit_code == 130 and "interrupted" in done.stderr and "timed" not in done.stderr


def test_interrupted(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    before = spec.read_bytes()
    stand_in = gpu(limit=2)
    done = tune()
    assert done.exit_code == 130 and "goes on from there" in done.stderr and stand_in.closed
    assert spec.read_bytes() == before
    gpu()
    assert tune().exit_code == 0 and spec.read_bytes() != before


def test_a_spec_that_somebody_changes_meanwhile_is_left_alone(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float:
        spec.write_text(TUNED + "# mine\n")
        return by_stages(module, shape)

    gpu(cost)
    done = tune()
    assert done.exit_code == 1 and "was changed while it was tuned" in done.stderr
    assert spec.read_text() == TUNED + "# mine\n"


def test_a_link_stays_one(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    real = spec.parent.parent / "real.yaml"
    spec.rename(real)
    spec.symlink_to(real)
    gpu()
    assert tune().exit_code == 0 and spec.is_symlink() and b"stages: 4}" in real.read_bytes()


def test_only_one_kernel_of_a_matrix(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    spec.write_text(VARIANTS)
    stand_in = gpu()
    done = tune("--only", "mm_n")
    assert done.exit_code == 0 and "mm_m share the schedule, and were not timed" in done.stderr
    assert {m.spec.kernel for batch in stand_in.batches for m in batch.modules} == {"mm_n"}
    assert (spec.parent.parent / ".cutegen-tune" / "mm_c.jsonl").is_file()
    wrong = tune("--only", "mm_k")
    assert wrong.exit_code == 2 and "its kernels are mm_m, mm_n" in wrong.stderr


def test_one_document_is_tuned(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    text = STAGES + "---\n" + STAGES.replace("kernel: mm", "kernel: other")
    spec.write_text(text)
    gpu()
    done = tune()
    assert done.exit_code == 2 and "holds 2 documents" in done.stderr and "--only" in done.stderr
    assert tune("--only", "other").exit_code == 0
    first, second = spec.read_text().split("---\n")
    assert first == STAGES and "stages: 4}" in second


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "sm_80"], "--dry-run"),
        (["--dry-run", "--target", "sm_75"], "is not a target of mm"),
        (["--dry-run", "--sizes", "M=3"], "--sizes"),
        (["--max", "0"], "--max"),
        (["--dry-run", "--only", "x"], "no kernel `x`"),
    ],
)
def test_wrong_use(spec: Path, arguments: list[str], words: str) -> None:
    done = tune(*arguments)
    assert done.exit_code == 2 and words in done.stderr


def test_a_schedule_of_several_cases_is_refused(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    text = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [N], dtype: f32}
  D: {shape: [N], dtype: f32, role: out}
compute: D = 2 * S
schedule:
  - for: {N: "<= 64"}
  - {}
"""
    cases.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(cli, ["tune", str(cases), "--dry-run"])
    assert done.exit_code == 2 and "several cases" in done.stderr


def test_folders_broken_specs_and_probes_are_refused(spec: Path) -> None:
    assert CliRunner().invoke(cli, ["tune", "specs"]).exit_code == 2
    spec.write_text(TUNED.replace("tiler:", "tilr:"))
    assert tune("--dry-run").exit_code == 2
    probe = Path(__file__).parents[2] / "specs" / "probe_tv.yaml"
    done = CliRunner().invoke(cli, ["tune", str(probe), "--dry-run"])
    assert done.exit_code == 2 and "is a probe" in done.stderr


def test_the_compiler_itself_agrees_with_the_survivors(spec: Path) -> None:
    """With no stand-in: what is left after pruning compiles."""
    done = tune("--dry-run", "--budget", "600", "--target", "sm_90a", "--format", "json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told["dropped"] == [] and len(told["candidates"]) == 8


SIZES = ("--sizes", "M=64,N=128,K=64", "--sizes", "M=512,N=128,K=64", "--sizes", "M=2048,N=128,K=64")


def by_rows(module: Module, shape: Mapping[str, int]) -> float:
    """Small tiles are best of few rows, large ones of many; stages make no difference."""
    tile = module.plan.tile["M"]  # type: ignore[attr-defined]
    return 50.0 + abs(tile - (64 if shape["M"] == 64 else 128))


def test_cases_have_a_winner_for_each_size(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu(by_rows)
    before = spec.read_text()
    done = tune("--cases", "M", *SIZES)
    assert done.exit_code == 0, done.output
    text = spec.read_text()
    start = text.index("schedule:")
    assert text[:start] == before[: before.index("schedule:")]
    assert '- for: {M: "<= 64"}\n' in text and text.count("\n  - ") == 2
    first, rest = generate(text.replace("\r\n", "\n"), "specs/mm.yaml").modules[0].plan.cases  # type: ignore[attr-defined]
    assert (first.tile["M"], rest.tile["M"]) == (64, 128)
    assert "M <= 64" in done.stdout and "all else" in done.stdout and "512, 2048" in done.stdout
    again = tune("--cases", "M", *SIZES)
    assert again.exit_code == 2 and "several cases" in again.stderr


def test_a_spec_that_takes_no_cases_is_refused_before_anything_is_timed(
    spec: Path, gpu: Callable[..., StandInGpu]
) -> None:
    stand_in = gpu(by_rows)
    spec.write_text(json.dumps(plain(parse_documents(TUNED)[0][0])))
    done = tune("--cases", "M", *SIZES)
    assert done.exit_code == 2 and "cannot be written" in done.stderr and not stand_in.batches


def test_comments_that_go_with_the_old_schedule_are_told(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu(by_rows)
    text = TUNED.replace("schedule:\n", "schedule:\n  # as measured\n").replace("[2, 3, 4]", "[3, 4]")
    spec.write_text(text)
    done = tune("--cases", "M", *SIZES)
    assert done.exit_code == 0 and "comments within `schedule` are gone" in done.stderr


def test_one_winner_at_all_sizes_is_no_case(spec: Path, gpu: Callable[..., StandInGpu]) -> None:
    gpu()
    before = spec.read_bytes()
    done = tune("--cases", "M", *SIZES, "--format", "json")
    told = json.loads(done.stdout)
    assert [case["sizes"] for case in told["cases"]] == [[64, 512, 2048]] and len(told["searches"]) == 3
    assert spec.read_bytes() == before.replace(b"stages: 3}", b"stages: 4}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cases", "L", *SIZES), "no shape has a mode `L`"),
        (("--cases", "M", *SIZES[:2]), "nothing to tell apart"),
        (("--cases", "M", "--dry-run"), "--dry-run takes none"),
    ],
)
def test_what_tells_no_sizes_apart_is_refused(
    arguments: tuple[str, ...], said: str, spec: Path, gpu: Callable[..., StandInGpu]
) -> None:
    gpu()
    before = spec.read_bytes()
    done = tune(*arguments)
    assert done.exit_code == 2 and said in done.stderr and spec.read_bytes() == before
