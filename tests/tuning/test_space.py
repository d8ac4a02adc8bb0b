"""Which schedules are tried, what a change leaves to planning, and which are not worth a compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_kit import ADD, MM, TUNED, VARIANTS, candidates_once, raw, sieve_of

from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.registry import family_of
from cutegen.tuning.model import DUPLICATE, Candidate, Dropped
from cutegen.tuning.pruning import FATAL, body_hash, ranked
from cutegen.tuning.schedules import changed, differences, leaves
from cutegen.tuning.space import Space, make_space, neighbours

SPECS = Path(__file__).parents[2] / "specs"
EXAMPLES = [
    SPECS / f"{name}.yaml" for name in ("sgemm_mmajor", "sgemm_axpby", "add_tv", "copy_inner", "copy_inner_outer")
]
WRITTEN = {
    "tiler": {"M": 128, "N": 128, "K": 8},
    "mma": {"atom": "fma", "thread_layout": "(16,16,1):(1,16,0)", "permutation": {"M": "(16,4):(4,1)"}},
    "copies": {"A": {"atom": "cp_async", "bits": 128, "thread_layout": "(32,8)"}, "C": {"bits": 128}},
    "smem": {"A": {"pad": 4}},
    "pipeline": {"stages": 3},
    "predication": {"M": "none"},
}


def space_of(text: str) -> Space:
    return make_space(raw(text), tuple(m.spec for m in sieve_of(text).incumbent().modules))


def test_named_values_are_combined() -> None:
    space = space_of(TUNED)
    found = [(s["tiler"]["M"], s["tiler"]["K"], s["pipeline"]["stages"]) for s in space.schedules(0)]
    assert sorted(found) == sorted((m, k, s) for m, k in ((128, 8), (64, 8), (64, 16), (100, 8)) for s in (2, 3, 4))


@pytest.mark.parametrize("name", ["swiglu_packed", "qk_norm_packed"])
def test_packed_arguments_have_spaces_too(name: str) -> None:
    space = space_of((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert len(list(space.schedules(0, 3))) == 3


def test_the_seed_decides_the_order_and_nothing_else() -> None:
    space = space_of(TUNED)
    first, again, other = (list(map(repr, space.schedules(seed))) for seed in (1, 1, 2))
    assert first == again and first != other and sorted(first) == sorted(other)


def test_of_a_large_space_a_sample_is_tried() -> None:
    space = space_of(MM)
    some = list(space.schedules(0, most=20))
    assert space.size > 100 and len(some) == 20 and len({repr(s) for s in some}) > 15


def test_what_a_choice_sets_or_tune_names_stays() -> None:
    choice = {("tiler", "K"): 16, ("smem", "A", "pad"): 8}
    after = changed(WRITTEN, choice, family_of("gemm", {}), "C", kept=[("copies", "C")])
    assert after["smem"] == {"A": {"pad": 8}} and after["copies"] == {"C": {"bits": 128}}, (
        "how A is copied follows from its pad"
    )


def test_a_layout_in_other_words_is_no_change() -> None:
    schedule = {"thread_layout": "(4,32):(32,1)", "value_layout": "(4,4):(1,4)", "copy": {"bits": 64}}
    after = changed(schedule, {("value_layout",): "(4,4)"}, family_of("elementwise", {}), "Y")
    assert after == schedule


# ------------------------------------------------------------------------------------------------------- pruning


def refused(text: str) -> set[str]:
    """Codes that lint has against a spec, its fatal warnings among them."""
    try:
        return {d.code for d in generate(text, "specs/k.yaml").warnings if d.code in FATAL}
    except SpecError as error:
        return {d.code for d in error.diagnostics if d.severity == "error"}


def sifted(text: str, schedules: Any) -> list[Candidate | Dropped]:
    sieve = sieve_of(text)
    sieve.incumbent()
    return [sieve.sift(schedule) for schedule in schedules]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_what_is_pruned_is_refused_and_the_rest_is_not(file: Path, seed: int) -> None:
    text = file.read_text(encoding="utf-8")
    sieve = sieve_of(text)
    sieve.incumbent()
    bodies = {tuple(sieve.bodies)}
    space = make_space(sieve.sheet.data, tuple(m.spec for m in sieve.incumbent().modules))
    for schedule in space.schedules(seed, most=10):
        one = sieve.sift(schedule)
        trial = sieve.sheet.with_schedule(schedule)
        if isinstance(one, Candidate):
            assert refused(trial) == set()
            built = {m.spec.kernel: m.text for m in generate(trial, "specs/k.yaml").modules}
            assert built == {m.spec.kernel: m.text for m in one.modules} and one.text == trial
            body = tuple(body_hash(m) for m in built.values())
            assert body not in bodies
            bodies.add(body)
        elif one.by == DUPLICATE:
            assert refused(trial) == set()
        else:
            assert one.by in refused(trial)


def test_a_tile_that_lint_refuses_is_counted_by_its_code() -> None:
    text = TUNED.replace("[2, 3, 4]", "[2, 3]")
    found = sifted(text, space_of(text).schedules(0))
    by = [one.by for one in found if isinstance(one, Dropped)]
    # 100 is not a multiple of 16 threads with 4 neighbours, for each number of stages; one schedule is the spec's own.
    assert len(by) == 3 and by.count(DUPLICATE) == 1
    assert {one.schedule["tiler"]["M"] for one in found if isinstance(one, Dropped) and one.by != DUPLICATE} == {100}


def test_repetitions_are_told_by_the_code_that_they_make() -> None:
    tiler = {"M": 128, "N": 128, "K": 8}
    words = [
        {"tiler": tiler},  # three stages and the layout of threads are inferred
        {
            "tiler": tiler,
            "pipeline": {"stages": 3},
            "mma": {"thread_layout": "((2,2,4),(8,2),1):((1,16,32),(2,128),0)"},
        },
        {"tiler": tiler, "pipeline": {"stages": 2}},
        {"tiler": tiler, "pipeline": {"stages": 2}, "mma": {"atom": "fma"}},
    ]
    found = sifted(MM, words)
    assert [one.by if isinstance(one, Dropped) else "new" for one in found] == [
        "duplicate",
        "duplicate",
        "new",
        "duplicate",
    ]
    assert [one.number for one in found] == [1, 2, 3, 4]


def test_variants_are_one_candidate_and_one_that_lint_refuses_is_enough() -> None:
    one = sifted(VARIANTS, [{"pipeline": {"stages": 4}}])[0]
    assert isinstance(one, Candidate) and set(one.bodies) == {"mm_m", "mm_n"}
    # 64 bits along M are two accesses of C where it is m-major, and too wide where a thread has one neighbour along N.
    bad = {"copies": {"C": {"bits": 128}}, "mma": {"permutation": {"N": "(16,1):(1,1)"}}}
    two = sifted(VARIANTS, [bad])[0]
    assert isinstance(two, Dropped) and two.message.startswith("mm_n: ")


def test_what_lint_says_is_wasteful_comes_last() -> None:
    wide, narrow = (
        one
        for one in sifted(ADD, [{"thread_layout": "(4,32):(32,1)", "copy": {"bits": b}} for b in (128, 32)])
        if isinstance(one, Candidate)
    )
    assert narrow.excess > wide.excess and ranked([narrow, wide]) == [wide, narrow]


@pytest.mark.parametrize("text", [MM, ADD], ids=["gemm", "elementwise"])
def test_without_tune_there_is_something_to_try(text: str) -> None:
    space = space_of(text)
    spec = sieve_of(text).incumbent().modules[0].spec
    assert space.size > 50
    found = sifted(text, [*space.schedules(0, most=20), *neighbours(space, space.schedule, spec)])
    good = [one for one in found if isinstance(one, Candidate)]
    assert len(good) >= len(found) / 3
    tried = {path for one in good for path in differences(space.schedule, one.schedule)}
    wanted = {"tiler.M", "mma.thread_layout", "mma.permutation.M", "pipeline.stages"}
    assert tried >= (wanted if text is MM else {"thread_layout", "value_layout", "copy.bits"})


def test_with_tune_nothing_else_is_tried() -> None:
    space = space_of(TUNED)
    spec = sieve_of(TUNED).incumbent().modules[0].spec
    assert list(neighbours(space, space.schedule, spec)) == []
    paths = {path[:1] for s in space.schedules(0) for path, _ in leaves(s)}
    assert paths == {("tiler",), ("pipeline",)}


def test_candidates_that_are_made_once_for_several_searches_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of texts that differ, names of specs, and what is fatal; the number and the schedule are those of the search."""
    texts = [ADD, ADD.replace("targets: [sm_80, sm_90a]", "targets: [sm_80]")]
    asked = [(text, name, n) for text in texts for name in ("specs/k.yaml", "specs/j.yaml") for n in range(2)]
    schedules = [{"copy": {"bits": 32}}, {"copy": {"bits": 7}}]

    def found() -> list[Candidate | Dropped]:
        sieves = [(sieve_of(text, name), n) for text, name, n in asked]
        return [sieve.sift(schedules[(n + i) % 2]) for sieve, n in sieves for i in range(2)]

    anew = found()
    candidates_once(monkeypatch)
    assert found() == found() == anew and {type(one) for one in anew} == {Candidate, Dropped}
