"""The search: it finds what is fastest, never what is wrong, and forgets nothing when it is interrupted."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, good
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_kit import (
    ADD,
    H200,
    MM,
    SHAPE,
    STAGES,
    TUNED,
    VARIANTS,
    Quiet,
    StandInGpu,
    entries,
    schedule,
    search,
    sieve_of,
    small_space,
    tuning_of,
    valley,
)

from cutegen.codegen import Module
from cutegen.compiling import Artefact, Compiled, Failed, Job, Outcome, Resources
from cutegen.language.reader import read_specs
from cutegen.tuning.log import Conditions, Log, Timed
from cutegen.tuning.model import Candidate, Place, Score, Time, Trouble
from cutegen.tuning.tune import target_of


def stages_only(module: Module, shape: Mapping[str, int]) -> float:
    stages = schedule(module).pipeline.stages
    assert stages is not None
    return 100.0 - stages


def flat(module: Module, shape: Mapping[str, int]) -> float:
    return 100.0


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    small_space(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / ".cutegen-tune" / "mm.jsonl"


def test_the_fastest_of_the_named_values_wins(log: Path) -> None:
    result = search(TUNED, valley, log)
    assert result.winner is not None and result.text is not None
    assert result.winner.schedule == {"tiler": {"M": 64, "N": 128, "K": 16}, "pipeline": {"stages": 4}}
    assert result.text == TUNED.replace("M: 128, N: 128, K: 8}  #", "M: 64, N: 128, K: 16}  #").replace(
        "{stages: 3}", "{stages: 4}"
    )
    ratios = [score.ratio for _, score in result.ranking]
    assert ratios == sorted(ratios) and ratios[0] == pytest.approx((100 + 4) / (100 + 10 + 10 + 3 + 4))


@given(seed=st.integers(0, 10**6), drift=st.integers(0, 10**6), gpus=st.integers(1, 3))
@settings(max_examples=6, deadline=None)
def test_the_optimum_of_any_surface_is_found_in_any_order(
    seed: int, drift: int, gpus: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    costs: dict[str, float] = {}
    levels = random.Random(seed).sample(range(50), 50)  # apart by more than what a search takes for the same

    def surface(module: Module, shape: Mapping[str, int]) -> float:
        body = module.text.split("\n", 3)[3]
        return costs.setdefault(body, 50 * 1.02 ** levels[len(costs)])

    timers = [StandInGpu(surface, drift + i, spread=0.0) for i in range(gpus)]
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    result = search(TUNED, surface, path, timers, seed=seed)
    least = min(costs.values())
    own = costs[result.incumbent.modules[0].text.split("\n", 3)[3]]
    if own == least:
        assert result.winner is None
    else:
        assert result.winner is not None
        assert costs[result.winner.modules[0].text.split("\n", 3)[3]] == least
        assert result.ranking[0][1].ratio == pytest.approx(least / own)
    assert len(costs) == 9  # three tiles that lint takes, three numbers of stages


def test_without_tune_the_best_is_refined_by_fields_that_the_space_lacks(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float:
        own = schedule(module)
        tile = own.tiler or {}
        stages = own.pipeline.stages or 0
        return 100.0 + 20 * (tile["M"] != 64) + 20 * (tile["K"] != 16) + 5 * abs(stages - 5)

    result = search(MM, cost, log, most=200)
    assert result.winner is not None
    won = schedule(result.winner.modules[0])
    assert (won.tiler or {})["M"] == 64 and (won.tiler or {})["K"] == 16 and won.pipeline.stages == 5


def test_most_candidates_run_in_few_rounds_and_few_in_many(log: Path) -> None:
    gpu = StandInGpu(valley)
    search(MM, valley, log, [gpu], most=100)
    rounds = Counter[int]()
    for batch in gpu.batches:
        assert batch.modules[0].text == sieve_of(MM).incumbent().modules[0].text
        rounds[batch.rounds] += len(batch.modules) - 1
    few, some, many = sorted(rounds)
    assert rounds[few] > 30 > rounds[some] > rounds[many] and rounds[many] <= 4
    assert len({batch.rounds for batch in gpu.batches[-1:]}) == 1 and gpu.batches[-1].rounds == many == 30


def test_several_gpus_share_the_work_and_only_those_of_one_kind(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float:
        time.sleep(0.005)
        return valley(module, shape)

    alike = [StandInGpu(cost, seed) for seed in (1, 2)]
    other = StandInGpu(valley, place=Place("NVIDIA A100", "8.0", H200.versions))
    result = search(MM, valley, log, [*alike, other], most=60)
    assert result.gpus == 2 and "NVIDIA A100" in result.notices[0]
    assert len(other.batches) == 1 and all(len(gpu.batches) > 2 for gpu in alike)
    timed = [m.text for gpu in alike for batch in gpu.batches if batch.rounds == 6 for m in batch.modules[1:]]
    assert len(timed) == len(set(timed))


def test_once_the_spec_is_found_wrong_nothing_further_is_begun(log: Path) -> None:
    asked = []

    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        asked.append(module)
        time.sleep(0.01)  # as long as it takes to hear of the batch before
        return Trouble("wrong", "no") if len(asked) > 1 else 100.0

    result = search(MM, cost, log)
    assert result.stopped and len(asked) <= 1 + 2 * 7  # the look at the GPU, one batch, and one that had begun


# -------------------------------------------------------------------------------------------------- who never wins


def test_what_is_wrong_never_wins_and_is_named(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        return (
            Trouble("wrong", "C[0, 1] is 3, not 4")
            if schedule(module).pipeline.stages == 4
            else stages_only(module, shape)
        )

    progress, gpu = Quiet(), StandInGpu(cost)
    result = search(TUNED, cost, log, [gpu], progress=progress)
    assert set(Counter(text for text in gpu.timed if "STAGES = 4" in text).values()) == {1}
    assert result.winner is None  # 3 stages are what the spec has, 2 are slower
    assert {one.schedule["pipeline"]["stages"] for one in result.wrong} == {4} and len(result.wrong) == 3
    assert any("C[0, 1] is 3, not 4" in line for line in progress.lines)
    assert all(schedule(c.modules[0]).pipeline.stages != 4 for c, _ in result.ranking)


def test_what_is_wrong_at_one_shape_only_never_wins(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        if schedule(module).pipeline.stages == 4 and shape["M"] == 512:
            return Trouble("wrong", "no")
        return stages_only(module, shape)

    result = search(TUNED, cost, log, shapes=[SHAPE, {**SHAPE, "M": 512}])
    assert result.winner is None and len(result.wrong) == 3


def test_one_that_crashes_does_not_take_its_neighbours_along(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        tile = schedule(module).tiler or {}
        if tile["M"] == 64 and schedule(module).pipeline.stages == 2:
            return Trouble("lost", "an illegal address")
        return valley(module, shape)

    result = search(TUNED, cost, log)
    assert result.winner is not None and schedule(result.winner.modules[0]).pipeline.stages == 4
    crashed = [one for one in result.dropped if one.by == "lost"]
    assert {(one.schedule["tiler"]["M"], one.schedule["pipeline"]["stages"]) for one in crashed} == {(64, 2)}
    assert len(result.ranking) == 4 and result.wrong == crashed


def test_one_that_is_unsteady_gets_more_rounds_and_then_no_more(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        if schedule(module).pipeline.stages == 4:
            return Trouble("unsteady", "the spread is 9 %")
        return stages_only(module, shape)

    gpu = StandInGpu(cost)
    result = search(TUNED, cost, log, [gpu])
    assert result.winner is None and {one.by for one in result.dropped} == {"unsteady"}
    runs = Counter(
        text for batch in gpu.batches for text in (m.text for m in batch.modules[1:]) if "STAGES = 4" in text
    )
    assert set(runs.values()) == {2} and {b.rounds for b in gpu.batches if len(b.modules) == 2} == {18}


@pytest.mark.parametrize("kind", ["wrong", "failed"])
def test_nothing_is_compared_with_a_spec_that_cannot_be_timed(log: Path, kind: Any) -> None:
    result = search(TUNED, lambda module, shape: Trouble(kind, "it is broken"), log)
    assert result.winner is None and "it is broken" in result.stopped
    assert [one.number for one in result.wrong] == ([0] if kind == "wrong" else [])


def test_a_tie_goes_to_the_spec_as_it_is(log: Path) -> None:
    result = search(TUNED, flat, log)
    assert result.winner is None and result.ranking and all(s.ratio == pytest.approx(1) for _, s in result.ranking)


def test_among_equals_the_one_that_changes_least_wins(log: Path) -> None:
    result = search(TUNED, lambda m, s: 50.0 if schedule(m).pipeline.stages == 4 else 100.0, log)
    assert result.winner is not None and result.winner.schedule["tiler"] == {"M": 128, "N": 128, "K": 8}


@pytest.mark.parametrize(("gain", "wins"), [(0.02, False), (0.04, True)])
def test_only_what_beats_the_spread_is_faster(log: Path, gain: float, wins: bool) -> None:
    cost = lambda m, s: 100.0 * (1 - gain * (schedule(m).pipeline.stages == 4))  # noqa: E731
    result = search(TUNED, cost, log, [StandInGpu(cost, spread=0.03)])
    assert (result.winner is not None) is wins
    assert result.ranking[0][1].ratio == pytest.approx(1 - gain) and result.ranking[0][1].spread == pytest.approx(0.03)


def test_a_score_is_faster_by_more_than_its_spread() -> None:
    assert not Score(0.98, 0.02, {}, 30).faster and Score(0.979, 0.02, {}, 30).faster


# ------------------------------------------------------------------------------------------------------- variants


def test_variants_and_shapes_count_by_their_geometric_mean(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float:
        if schedule(module).pipeline.stages == 4:
            return 100.0 / (8 if module.spec.kernel == "mm_m" else 1)
        if schedule(module).pipeline.stages == 2:
            return 100.0 * (2 if module.spec.kernel == "mm_m" else 1) / (shape["M"] / 256)
        return 100.0

    result = search(VARIANTS, cost, log, shapes=[SHAPE, {**SHAPE, "M": 1024}])
    ratios = {schedule(c.modules[0]).pipeline.stages: score.ratio for c, score in result.ranking}
    assert ratios[4] == pytest.approx((1 / 8 * 1 / 8 * 1 * 1) ** 0.25)
    assert ratios[2] == pytest.approx((2 * 0.5 * 1 * 0.25) ** 0.25)
    assert result.winner is not None and schedule(result.winner.modules[0]).pipeline.stages == 4
    (won,) = {option.pipeline.stages for spec in read_specs(result.winner.text) for option in spec.schedule.options}
    assert won == 4


def test_only_times_one_kernel_but_all_must_build(log: Path) -> None:
    def fails(job: Job) -> Outcome:
        if job.kernel == "mm_n" and "STAGES = 4" in job.text:
            return Failed("exception", "no")
        return good(job)

    gpu = StandInGpu(stages_only)
    compiler = StandInCompiler(fails)
    result = search(VARIANTS, stages_only, log, [gpu], only=["mm_m"], compiler=compiler)
    assert {module.spec.kernel for batch in gpu.batches for module in batch.modules} == {"mm_m"}
    assert result.winner is None and {one.by for one in result.dropped} == {"compile"}


# -------------------------------------------------------------------------------------------------------- compiling


def test_what_spills_does_not_fit_or_fails_is_not_timed(log: Path) -> None:
    def outcome(job: Job) -> Outcome:
        if "STAGES = 2" in job.text:
            return Failed("crash", "the compiler died")
        spills = 8 if "STAGES = 4" in job.text and "BLK_M = 64" in job.text else 0
        registers = 300 if "STAGES = 4" in job.text and "BLK_M = 128" in job.text else 40
        return Compiled(
            Artefact(job.kernel, job.target, "", b"", "", Resources(registers, spills, 0, 0, 0)), 0.1, False
        )

    gpu = StandInGpu(stages_only)
    result = search(TUNED, stages_only, log, [gpu], compiler=StandInCompiler(outcome))
    assert Counter(one.by for one in result.dropped) == {"compile": 3, "spills": 2, "registers": 1}
    assert all("STAGES = 3" in text for text in gpu.timed)


def test_registers_beyond_what_the_spec_expects_are_no_gain(log: Path) -> None:
    text = STAGES + "expect: {registers: '<= 20'}\n"
    result = search(text, stages_only, log)
    assert result.winner is None and {one.by for one in result.dropped} == {"registers"}


def test_expectations_of_instructions_that_the_winner_breaks_are_told(log: Path) -> None:
    text = STAGES + "expect: {sass: {LDG.E.128: 7}}\n"
    result = search(text, stages_only, log)
    assert result.winner is not None and len(result.notices) == 2  # for both targets
    assert "wanted 7, found 1" in result.notices[0]


def test_candidates_are_compiled_for_the_gpu_and_finalists_for_all(log: Path) -> None:
    compiler = StandInCompiler()
    search(TUNED, stages_only, log, compiler=compiler)
    targets = Counter(job.target for job in compiler.jobs)
    assert targets["sm_90a"] > targets["sm_80"] > 0


@pytest.mark.parametrize(
    ("capability", "target"), [("9.0", "sm_90a"), ("8.0", "sm_80"), ("8.9", "sm_80"), ("10.0", "sm_90a")]
)
def test_the_target_is_the_one_that_the_module_runs(capability: str, target: str) -> None:
    assert target_of(capability, ["sm_90a", "sm_80"]) == target


def test_a_dry_run_needs_no_gpu(log: Path) -> None:
    compiler = StandInCompiler()
    result = tuning_of(TUNED, log, compiler=compiler, budget=600.0).dry()
    assert len(result.candidates) == 8 and result.winner is None
    assert Counter(job.target for job in compiler.jobs) == {"sm_80": 8, "sm_90a": 8}
    assert sum(result.pruned.values()) == 4 and result.tried == 12


def test_max_takes_the_most_promising(log: Path) -> None:
    everything = tuning_of(ADD, log, budget=600.0).dry()
    some = tuning_of(ADD, log, most=5, budget=600.0).dry()
    assert len(some.candidates) == 5 and some.left_out == len(everything.candidates) - 5
    assert max(c.excess for c in some.candidates) <= sorted(c.excess for c in everything.candidates)[4]


# ------------------------------------------------------------------------------------------------------------- log


def key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (entry["kernel"], entry["body"], str(entry["shape"]), entry["rounds"])


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupted_search_goes_on_and_times_nothing_twice(log: Path, after: int) -> None:
    first = StandInGpu(valley, limit=after)
    with pytest.raises(KeyboardInterrupt):
        search(MM, valley, log, [first], most=20)
    before = [key(e) for e in entries(log, "timed")] if log.exists() else []
    second = StandInGpu(valley, seed=9)
    result = search(MM, valley, log, [second], most=20)
    timed = [key(e) for e in entries(log, "timed")]
    assert len(timed) == len(set(timed)) and timed[: len(before)] == before
    whole = search(MM, valley, log.with_name("whole"), most=20)
    assert result.winner is not None and whole.winner is not None
    assert result.winner.schedule == whole.winner.schedule
    # and once more, for nothing but a look at the GPU
    third = StandInGpu(valley)
    again = search(MM, valley, log, [third], most=20)
    assert len(third.batches) == 1 and again.winner is not None and again.winner.schedule == whole.winner.schedule


def test_a_line_that_was_cut_off_is_timed_again_and_nothing_else(log: Path) -> None:
    search(TUNED, valley, log)
    text = log.read_text()
    last = text.rstrip("\n").rindex("\n") + 1
    log.write_text(text[: last + 40])
    lost = json.loads(text[last:])
    gpu = StandInGpu(valley)
    search(TUNED, valley, log, [gpu])
    assert [len(batch.modules) for batch in gpu.batches] == [1, 2]
    assert json.loads(log.read_text().splitlines()[-1])["body"] == lost["body"]


FIELDS = ("conditions", "kernel", "body", "shape", "rounds", "verdict", "incumbent")
BAD_FIELDS: list[dict[str, Any]] = [
    {"conditions": None},
    {"kernel": None},
    {"body": 7},
    {"shape": None},
    {"shape": [128]},
    {"shape": {"M": "128"}},
    {"rounds": "9"},
    {"verdict": None},
    {"verdict": "time"},
    {"verdict": {}},
    {"verdict": {"kind": "time"}},
    {"verdict": {"kind": "time", "us": "1", "spread": 0.0}},
    {"verdict": {"kind": "time", "us": float("nan"), "spread": 0.0}},
    {"verdict": {"kind": "time", "us": 0, "spread": 0.0}},
    {"verdict": {"kind": "odd", "message": ""}},
    {"verdict": {"kind": ["wrong"], "message": ""}},
    {"verdict": {"kind": "wrong"}},
    {"incumbent": {"us": 1.0}},
    {"incumbent": None},
]


@pytest.mark.parametrize("bad", [*FIELDS, *BAD_FIELDS], ids=str)
def test_lines_that_the_log_did_not_write_are_left_out(tmp_path: Path, bad: dict[str, Any] | str) -> None:
    """Such as lack a field, or have something else in it; those around them count."""
    path = tmp_path / "log"
    conditions = Conditions("G", {"torch": "2"}, {"mm": "ab"})
    timed = Timed("mm", "cd", {"M": 8}, 9, Time(1.5, 0.01), Time(2.0, 0.02))
    wrong = Timed("mm", "ef", {"M": 8}, 9, Trouble("wrong", "no"), Time(2.0, 0.02))
    log = Log(path)
    log.add(conditions, Candidate(1, {}, "", (), {}, 0.0), timed)
    log.add(conditions, Candidate(2, {}, "", (), {}, 0.0), wrong)
    log.close()
    first, second = path.read_text().splitlines()
    line = json.loads(first)
    if isinstance(bad, str):
        del line[bad]
    else:
        line |= bad
    path.write_text("\n".join([first, json.dumps({"version": 1, "kind": "timed"}), json.dumps(line), second, ""]))
    assert list(Log(path).timed(conditions)) == [timed, wrong]


@pytest.mark.parametrize("change", ["gpu", "versions", "incumbent", "shape", "fresh"])
def test_times_under_other_conditions_do_not_count(log: Path, change: str) -> None:
    search(TUNED, valley, log)
    text, place, shapes = TUNED, H200, [SHAPE]
    if change == "gpu":
        place = Place("NVIDIA B200", "9.0", H200.versions)
    elif change == "versions":
        place = Place(H200.gpu, "9.0", {**H200.versions, "driver": "999"})
    elif change == "incumbent":
        text = TUNED.replace("stages: 3}", "stages: 5}")
    elif change == "shape":
        shapes = [{**SHAPE, "K": 512}]
    gpu = StandInGpu(valley, place=place)
    search(text, valley, log, [gpu], shapes=shapes, fresh=change == "fresh")
    assert len(set(gpu.timed)) == (9 if change == "incumbent" else 8)


def test_what_was_wrong_is_known_from_the_log(log: Path) -> None:
    def cost(module: Module, shape: Mapping[str, int]) -> float | Trouble:
        return Trouble("wrong", "no") if schedule(module).pipeline.stages == 4 else 100.0

    search(TUNED, cost, log)
    gpu = StandInGpu(flat)  # whatever it would be now
    result = search(TUNED, flat, log, [gpu])
    assert len(result.wrong) == 3 and gpu.timed == []


def test_the_log_holds_every_schedule_and_what_became_of_it(log: Path) -> None:
    search(TUNED, valley, log)
    dropped, candidates, timed = (entries(log, kind) for kind in ("dropped", "candidate", "timed"))
    assert len(dropped) == 3 and {e["by"][:2] for e in dropped} == {"CG"} and len(candidates) == 8
    assert all(e["schedule"] and e["bodies"] for e in candidates)
    assert {e["body"] for e in timed} == {body for e in candidates for body in e["bodies"].values()}
    assert all(e["conditions"]["gpu"] == H200.gpu and e["conditions"]["versions"] == H200.versions for e in timed)
    size = log.stat().st_size
    search(TUNED, valley, log)
    assert log.stat().st_size == size


def test_a_log_with_anything_else_in_it_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"kind": "timed"}\n[1]\n\xff\xfe\n{"version": 7, "kind": "timed", "conditions": 3}\n\nnull')
    result = search(TUNED, valley, path)
    assert result.winner is not None
    Log(path).close()
