"""Which atom a gemm gets whose schedule names none: by types, majornesses, targets and words, and for which calls."""

from __future__ import annotations

from itertools import product

import pytest
from choosing_kit import text
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.language.cases import Cases
from cutegen.language.diagnostics import SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import resolve
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets
from cutegen.tuning.space import make_space

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def resolved(spec: str) -> tuple[KernelSpec, Report]:
    """A spec as planning completes it, and what is said of it: no error and no warning."""
    (read,) = read_specs(spec)
    report = Report(read.source)
    found = resolve(read, report)
    if not report.failed:
        check(found, report)
    assert not [d.message for d in report.diagnostics]
    return found, report


def atoms(spec: KernelSpec) -> dict[str, list[str]]:
    """The atoms of each target, in the order of the cases that calls have there."""
    cases = [(case.conditions.targets, case.schedule) for case in spec.schedule.cases] if is_cases(spec) else []
    cases = cases or [((), spec.schedule)]
    return {
        target: [schedule.mma.atom for targets, schedule in cases if not targets or target in targets]
        for target in spec.targets
    }


def is_cases(spec: KernelSpec) -> bool:
    return isinstance(spec.schedule, Cases)


def narrowed(spec: KernelSpec) -> bool:
    """Whether the host refuses some sizes or addresses."""
    return any(step > 1 for step in spec.divisible.values()) or any(t.align != t.dtype.bytes for t in spec.tensors)


MAJORS = tuple(product("MK", "NK", "MN"))


@pytest.mark.parametrize(
    ("kind", "majors"),
    [one for kind in ("bf16", "f8e4m3") for one in sampled([(kind, majors) for majors in MAJORS])],
    ids=[f"{kind}-{''.join(majors)}" for kind in ("bf16", "f8e4m3") for majors in MAJORS],
)
def test_the_fastest_atom_of_the_types_is_taken_on_each_target(kind: str, majors: tuple[str, str, str]) -> None:
    targets = TARGETS if kind == "bf16" else TARGETS[2:]
    spec, _ = resolved(text(kind, majors=majors, more=f"targets: [{', '.join(targets)}]"))
    mapped = kind == "bf16" or majors[:2] == ("K", "K")  # wgmma of 8 bits takes what is contiguous along k
    for target, found in atoms(spec).items():
        wanted = "wgmma" if target == "sm_90a" and mapped else "mma_sync"
        wanted = "tcgen05" if target == "sm_100a" else wanted
        assert set(found) == {wanted}, target
    assert not narrowed(spec)
    (again,) = read_specs(write_spec(spec))
    assert resolve(again, Report(again.source)) == spec


@pytest.mark.parametrize(
    ("spec", "wanted", "why"),
    [
        (text("f64"), "fma", "f64"),
        (text("f32"), "fma", "operands: tf32"),
        (text("f32", more="schedule: {mma: {operands: tf32}}"), "mma_sync", "fastest"),
        (text("f16"), "wgmma", "fastest"),
        (text("f8e4m3", "f8e5m2"), "wgmma", "fastest"),
        (text("f8e4m3", majors=("M", "K", "N")), "mma_sync", "contiguous along M"),
        (text(more="static: {M: 1}"), "mma_sync", "M is fixed at 1"),
        (text(batch="L, "), "wgmma", "fastest"),
        (text(tensors="  U: {shape: [N, K], dtype: bf16}", compute="C = A @ B.T * (A @ U.T)"), "wgmma", "fastest"),
    ],
    ids=["f64", "f32", "tf32", "f16", "two kinds", "f8 along m", "one row", "batch", "two products"],
)
def test_what_wgmma_does_not_take_falls_to_the_next_atom_with_the_reason(spec: str, wanted: str, why: str) -> None:
    found, report = resolved(f"{spec}targets: [sm_90a]\n")
    assert {atom for one in atoms(found).values() for atom in one} == {wanted}
    assert not narrowed(found)
    reasons = [reason for path, reason in report.inferred.items() if path[-2:] == ("mma", "atom")]
    assert reasons and any(why in reason for reason in reasons)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("cluster: {M: 2}", "wgmma"),
        ("mma: {rows: N}", "wgmma"),
        ("copies: {C: {atom: tma}}", "wgmma"),
        ("smem: {A: {swizzle: 64}}", "wgmma"),
        ('mma: {atom_layout: "(2,2,1)"}', "mma_sync"),
        ("copies: {A: {atom: cp_async}}", "mma_sync"),
        ("predication: {M: mask, N: mask, K: residue_first}", "mma_sync"),
        ("mma: {accumulator: f32}", "fma"),
        ("tiler: {M: 128, N: 64, K: 8}", "fma"),
        ("tiler: {M: 128, N: 128, K: 64}", "wgmma"),
        ("pipeline: {stages: 3}", "wgmma"),
    ],
)
def test_words_that_are_written_leave_the_fastest_atom_that_takes_them(words: str, wanted: str) -> None:
    found, _ = resolved(text(more=f"schedule: {{{words}}}\ntargets: [sm_90a]"))
    assert {atom for one in atoms(found).values() for atom in one} == {wanted}


def test_words_of_wgmma_alone_are_for_its_target() -> None:
    assert resolved(text(more="schedule: {cluster: {M: 2}}"))[0].targets == ("sm_90a",)


def test_a_case_that_names_no_atom_is_one_for_each_target() -> None:
    more = 'schedule:\n  - for: {M: "<= 64"}\n    pipeline: {stages: 3}\n  - {}\ndivisible: {N: 8, K: 8}'
    found, _ = resolved(text(more=more))
    assert atoms(found) == {"sm_80": ["mma_sync"] * 2, "sm_90a": ["wgmma"] * 2}


def test_what_tune_has_values_for_stays_one_schedule() -> None:
    found, _ = resolved(text(more="tune: {schedule.pipeline.stages: [2, 3]}"))
    assert not is_cases(found) and found.schedule.mma.atom == "mma_sync"
    found, _ = resolved(text(more="tune: {schedule.cluster: [{M: 1, N: 2}]}\ntargets: [sm_90a]"))
    assert not is_cases(found) and found.schedule.mma.atom == "wgmma"


def test_promises_leave_one_case_for_a_target() -> None:
    more = "divisible: {N: 8, K: 8}"
    spec = text(more=more).replace(", major", ", align: 16, major")
    found = atoms(resolved(spec)[0])
    assert found["sm_80"] == ["mma_sync"] and set(found["sm_90a"]) == {"wgmma"}


def test_each_case_has_the_reason_for_its_own_atom_where_one_stands_for_several() -> None:
    found, report = resolved(text())
    whys = [report.inferred["schedule", number, "mma", "atom"] for number in range(len(found.schedule.cases))]
    fastest = "the fastest for the types and the targets"
    assert len(whys) > 3 and whys[:-2] == [fastest] * (len(whys) - 2)
    assert whys[-2].startswith(fastest) and whys[-1].startswith("as before it, with narrow accesses")


def test_types_that_a_target_has_not_are_what_is_said_where_cases_have_no_room() -> None:
    with pytest.raises(SpecError) as refused:
        generate(text("f8e4m3", more="targets: [sm_80, sm_89, sm_90a]"), "mm.yaml")
    assert {d.code for d in refused.value.diagnostics} == {"CG266"}


@pytest.mark.parametrize("kind", ["bf16", "f32", "f64"])
def test_a_schedule_that_names_its_atom_is_one(kind: str) -> None:
    atom = {"bf16": "mma_sync"}.get(kind, "fma")
    found, _ = resolved(text(kind, more=f"schedule: {{mma: {{atom: {atom}}}}}"))
    assert not is_cases(found) and narrowed(found)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_schedule_with_words_of_its_own_is_one_for_a_target(target: str) -> None:
    found, _ = resolved(text(more=f"schedule: {{pipeline: {{stages: 3}}}}\ntargets: [{target}]"))
    assert not is_cases(found) and narrowed(found) == (target == "sm_80")


def test_nobody_is_warned_of_narrow_accesses_that_are_for_the_rest() -> None:
    spec = text("f32", majors=("M", "N", "N"), more="static: {M: 1024, N: 1024}\ntargets: [sm_90a]")
    made = generate(spec, "mm.yaml", performance=True)
    assert is_cases(made.modules[0].spec) and not made.warnings


def test_what_is_tuned_keeps_the_atom_that_it_was_given() -> None:
    found, _ = resolved(text(more="schedule: {pipeline: {stages: 3}}\ntargets: [sm_90a]"))
    space = make_space({}, (found,))
    assert all(one["mma"]["atom"] == "wgmma" for one in space.schedules(0, 5))


def test_targets_that_take_no_atom_are_told_of_once() -> None:
    with pytest.raises(SpecError) as refused:
        generate(text("f32", more="schedule: {pipeline: {stages: 30}}\ntargets: [sm_80, sm_86, sm_90a]"), "mm.yaml")
    assert [d.code for d in refused.value.diagnostics] == ["CG254"]


def test_targets_are_inferred_once_for_all_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[KernelSpec] = []

    def counted(spec: KernelSpec, report: Report) -> KernelSpec:
        asked.append(spec)
        return infer_targets(spec, report)

    monkeypatch.setattr("cutegen.choosing.resolving.infer_targets", counted)
    found, _ = resolved(text("bf16"))
    assert found.targets == ("sm_80", "sm_90a") and len(asked) == 1


NAMED = """\
cutegen: 1
kernel: named
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
scalars: {first: f32}
compute: C = first * (A @ B.T)
targets: [sm_90a]
"""


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("cutegen", "cutegen", True),  # wgmma's kernel has a variable `first`, that of mma_sync has none
        ("[sm_90a]", "[sm_80, sm_90a]", True),
        ("[sm_90a]", "[sm_80]", False),
        ("bf16", "f32", False),  # not by wgmma
        ("targets", "schedule: {mma: {atom: mma_sync}}\ntargets", False),
        ("targets", "schedule: {mma: {atom: wgmma}}\ntargets", True),
    ],
)
def test_a_name_does_not_choose_the_atom(old: str, new: str, refused: bool) -> None:
    if not refused:
        read_specs(NAMED.replace(old, new))
        return
    with pytest.raises(SpecError, match="the kernel uses the scalar name `first` itself") as raised:
        read_specs(NAMED.replace(old, new))
    assert [d.code for d in raised.value.diagnostics] == ["CG113"]
