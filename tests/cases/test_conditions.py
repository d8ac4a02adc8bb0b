"""When a case is taken: conditions, what they leave for each other, and what no case is for."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from cutegen.cases.calls import Call, calls, left_by, taken
from cutegen.codegen import generate
from cutegen.language.cases import Conditions, SizeIs
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import resolve
from cutegen.planning.report import Report

TEXT = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = 2 * S
schedule:
CASES
targets: [sm_80, sm_90a]
"""


# The first case asks multiples of 64 of all calls, as its accesses have no masks
NEEDS = """\
  - for: {N: 8}
    partition: inner_outer
    tiler: {M: 64, N: 8}
    predication: {M: none}
  - for: {M: 7}
  - {}"""


def spec_of(cases: str) -> str:
    return TEXT.replace("CASES", cases)


def said(cases: str) -> list[tuple[str, str]]:
    """The codes and messages of what is wrong with a list of cases."""
    try:
        (spec,) = read_specs(spec_of(cases))
    except SpecError as error:
        return [(d.code, d.message) for d in error.diagnostics]
    report = Report(spec.source)
    resolve(spec, report)
    return [(d.code, d.message) for d in report.diagnostics]


@pytest.mark.parametrize("relation", ["==", "<=", "<", ">=", ">", "%"])
def test_a_condition_and_its_texts_say_the_same(relation: str) -> None:
    one = SizeIs(relation, 8)  # type: ignore[arg-type]
    low, high = one.within
    for size in range(0, 40):
        assert one.holds(size) == eval(one.text(str(size))) == (not eval(one.text_of_not(str(size))))
        assert low <= size <= high or not one.holds(size)


def test_no_case_is_for_what_has_no_elements() -> None:
    """Nothing is launched for it, so a case that gets nothing else is never taken."""
    for cases in (
        "  - for: {N: 0}\n  - {}",
        '  - for: {M: "< 1"}\n  - {}',
        '  - for: {N: ">= 1"}\n    threads: 64\n  - {}',
    ):
        assert [code for code, _ in said(cases)] == ["CG296"]
    assert said('  - for: {N: ">= 0", M: "> 64"}\n  - {}') == []


def random_conditions(chance: random.Random) -> Conditions:
    sizes = {}
    for mode in chance.sample(["M", "N"], chance.randint(0, 2)):
        relations = [chance.choice(["==", "<=", "<", ">=", ">", "%"]) for _ in range(chance.randint(1, 2))]
        sizes[mode] = tuple(SizeIs(r, chance.randint(2, 12)) for r in relations)  # type: ignore[arg-type]
    targets = tuple(chance.sample(["sm_80", "sm_90a"], chance.choice([0, 0, 1])))
    return Conditions(targets, sizes, chance.choice([1, 1, 4, 16, 32]))


def told_apart(cases: list[Conditions], mode: str, sizes: Iterable[int]) -> list[int]:
    """Of the sizes that the same conditions hold for, the first: a case is taken by these alone."""
    asked = [one for case in cases for one in case.sizes.get(mode, ())]
    return list({tuple(one.holds(size) for one in asked): size for size in reversed([*sizes])}.values())


def test_the_calls_that_are_looked_at_stand_for_all() -> None:
    """Whatever case some call is for, one that is looked at is for the same; and so where there is none."""
    for seed in range(60):
        chance = random.Random(seed)
        cases = [random_conditions(chance) for _ in range(chance.randint(1, 4))]
        divisible = {"M": chance.choice([1, 1, 3])}
        found = {taken(cases, call) for call in calls(cases, ("sm_80", "sm_90a"), {}, divisible, 4)}
        every = set()
        for target in ("sm_80", "sm_90a"):
            for m in told_apart(cases, "M", range(divisible["M"], 300, divisible["M"])):
                for n in told_apart(cases, "N", (*range(1, 30), 132, 1320)):
                    for align in (4, 8, 16, 32):
                        every.add(taken(cases, Call(target, {"M": m, "N": n}, align)))
        assert every <= found, (seed, cases)


def test_what_earlier_cases_leave_is_all_that_a_case_gets() -> None:
    cases = [
        Conditions(sizes={"N": (SizeIs("<=", 64),)}),
        Conditions(sizes={"N": (SizeIs("<=", 256),)}),
        Conditions(("sm_90a",), {"N": (SizeIs(">", 1024),)}),
        Conditions(),
    ]
    assert [left_by(cases, number, "N")[0] for number in range(4)] == [0, 65, 1025, 257]
    assert left_by(cases, 1, "N") == (65, 256)
    assert left_by(cases, 3, "N")[1] == 2**31 - 1  # on other targets than sm_90a it gets long ones, too


def test_a_list_is_written_as_it_is_read() -> None:
    text = spec_of("""\
  - for: {target: sm_90a, N: ["<= 64", "% 8 == 0"], align: 16}
    partition: inner
    threads: 64
  - for: {target: [sm_80, sm_90a], M: "== 1"}
    partition: inner
    copy: {bits: 32}
  - {}""")
    (spec,) = read_specs(text)
    assert write_spec(spec) == text
    assert read_specs(text.replace('"== 1"', "1"))[0] == spec


@pytest.mark.parametrize(
    ("cases", "code", "words"),
    [
        ('  - for: {N: "<= 64"}\n    threads: 64', "CG295", "sm_80, N = 65"),
        ("  - for: {target: sm_90a}\n    threads: 64", "CG295", "sm_80"),
        ("  - for: {align: 16}\n    threads: 64", "CG295", "aligned to 4 bytes"),
        ("  - threads: 64\n  - threads: 128", "CG296", "all else"),
        ('  - for: {N: "> 8"}\n  - for: {N: "% 16 == 0", M: "<= 4"}\n  - for: {N: "> 9"}\n  - {}', "CG296", "N > 9"),
        ("  - for: {target: sm_89}\n  - {}", "CG296", "sm_89"),
        ("  - for: {align: 16}\n  - for: {align: 32}\n  - {}", "CG296", "32 bytes"),
        ("  - for: {align: 4}\n  - {}", "CG296", "all else"),
        ("  - for: {N: 0}\n  - {}", "CG296", "N == 0"),
        (NEEDS, "CG296", "M == 7"),
        ('  - for: {N: "~ 8"}\n  - {}', "CG137", "~ 8"),
        ('  - for: {N: "% 1 == 0"}\n  - {}', "CG137", "not by 1"),
        ('  - for: {N: "<= 2147483648"}\n  - {}', "CG137", "2**31"),
        ('  - for: {K: "<= 64"}\n  - {}', "CG116", "`K`"),
        ("  - for: {align: 12}\n  - {}", "CG104", "12"),
        ("  - for: {}\n  - {}", "CG105", "schedule.0.for"),
        ("  - for: {N: 8}\n    thread: 64\n  - {}", "CG101", "`thread` in `schedule.0`"),
        ("  - for: {N: 8}\n    threads: 0\n  - {}", "CG105", "schedule.0.threads"),
        ("  - threads: 64\n    for: {N: 8}\n  - partition: thread_value\n    threads: 64", "CG203", "threads"),
        ("  []", "CG105", "cases"),
        ("  - for: {N: 2147483648}\n  - {}", "CG137", "2**31"),
        ("  - for: {N: 99999999999999999999}\n  - {}", "CG137", "2**31"),
        ('  - for: {N: ["> 8", "< 4"]}\n  - {}', "CG296", "N > 8, N < 4"),
    ],
)
def test_what_is_wrong_is_said(cases: str, code: str, words: str) -> None:
    found = said(cases)
    assert any(code == one and words in message for one, message in found), found


def test_a_case_for_sizes_that_come_late_is_taken() -> None:
    """The common divisor of several conditions may be far larger than each of them."""
    assert said('  - for: {N: ["% 65536 == 0", "% 81 == 0", "> 0"]}\n  - {}') == []
    assert [code for code, _ in said('  - for: {N: ["% 65536 == 0", "% 65535 == 0", "> 0"]}\n  - {}')] == ["CG296"]


@pytest.mark.parametrize(
    ("cases", "note", "help"),
    [
        ("  - {}\n  - for: {N: 8}", "earlier cases match", "move it up"),
        ("  - for: {N: '< 0'}\n  - {}", "no size", "change it"),
    ],
)
def test_why_a_case_is_never_taken_is_said(cases: str, note: str, help: str) -> None:
    with pytest.raises(SpecError) as error:
        generate(spec_of(cases), "x.yaml")
    (found,) = error.value.diagnostics
    assert note in found.notes[0] and found.help is not None and help in found.help


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("schedule: 8", None),
        ("schedule:\n  for: {N: 8}\n  threads: 64", "as a list of cases"),
        ("schedule:\n  - {partition: inner, predication: none}", "predication: {M: none, N: none}"),
    ],
)
def test_a_schedule_of_another_kind_has_one_mistake(schedule: str, said: str | None) -> None:
    with pytest.raises(SpecError) as error:
        read_specs(TEXT.replace("schedule:\nCASES", schedule))
    (found,) = error.value.diagnostics
    assert said is None or found.help is not None and said in found.help


def test_a_misspelt_key_of_a_case_is_told_at_its_place() -> None:
    with pytest.raises(SpecError) as error:
        read_specs(spec_of("  - for: {N: 8}\n    treads: 64\n  - {}"))
    (found,) = error.value.diagnostics
    assert (found.span.line, found.span.column, found.help) == (10, 5, "did you mean `threads`?")


def test_what_follows_from_the_whole_spec_is_told_there() -> None:
    """A size that `static` fixes is not what a case says of it."""
    cases = '  - for: {N: "% 8 == 0", M: "> 8"}\n    partition: inner_outer\n  - partition: inner\n    threads: 64'
    text = spec_of(cases) + "static: {N: 64}\n"
    (found,) = (d for d in generate(text, "x.yaml", performance=True).warnings if d.code == "CG273")
    assert text.splitlines()[found.span.line - 1] == "static: {N: 64}"


F8 = """\
cutegen: 1
kernel: f8
op: gemm
tensors:
  A: {shape: [M, K], dtype: f8e4m3, align: 16}
  B: {shape: [N, K], dtype: f8e4m3, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
  - for: {target: sm_90a}
    mma: {atom: wgmma}
  - mma: {atom: mma_sync}
divisible: {N: 8, K: 16}
targets: [sm_90a, sm_86, sm_89]
"""


@pytest.mark.parametrize("condition", ["", "for: {target: [sm_89, sm_86]}\n    ", "for: {target: sm_86}\n    "])
def test_what_is_wrong_with_a_target_is_told_where_it_is_written(condition: str) -> None:
    """In the list of all targets, or in the condition of the case that has it."""
    text = F8.replace("  - mma: {atom: mma_sync}", f"  - {condition}mma: {{atom: mma_sync}}")
    text = text.replace(", sm_89]\n", "]\n") if condition.count("sm_") == 1 else text
    (spec,) = read_specs(text)
    report = Report(spec.source)
    check(resolve(spec, report), report)
    (found,) = (d for d in report.diagnostics if d.severity == "error")
    line = text.splitlines()[found.span.line - 1]
    assert found.code == "CG312" and line[found.span.column - 1 :].startswith("sm_86")
    assert line.startswith("targets:" if not condition else "  - for:")


def test_tune_is_refused() -> None:
    text = spec_of("  - for: {N: 8}\n  - {}") + "tune:\n  schedule.threads: [64]\n"
    with pytest.raises(SpecError) as error:
        read_specs(text)
    assert [d.code for d in error.value.diagnostics] == ["CG203"]


def test_a_target_that_is_not_inferred_is_left_out_of_the_case() -> None:
    """So that what explain writes, with the targets, is what was read."""
    text = TEXT.replace("targets: [sm_80, sm_90a]\n", "").replace(
        "D: {shape: [M, N], dtype: f32", "D: {shape: [M, N], dtype: f8e5m2"
    )
    text = text.replace("D = 2 * S", "D = S").replace("CASES", "  - for: {target: [sm_80, sm_90a]}\n  - {}")
    (module,) = generate(text, "x.yaml").modules
    assert module.spec.schedule.cases[0].conditions.targets == ("sm_90a",)
    (again,) = generate(write_spec(module.spec), "x.yaml").modules
    assert again.text == module.text
    with pytest.raises(SpecError) as error:
        generate(text.replace("[sm_80, sm_90a]", "sm_80"), "x.yaml")
    assert [d.code for d in error.value.diagnostics] == ["CG296"]
