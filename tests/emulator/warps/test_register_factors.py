"""wgmma with A in registers: right to the bit for each type, and each mistake with these registers seen."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from emulator_kit import native_core
from factor_kit import COMMIT, FENCE, WAIT, Products, ran

from cutegen.emulator import UnsupportedInstruction
from cutegen.emulator.native.building import SWITCH
from cutegen.emulator.synchronisation.product_groups import Factor, ProductGroups
from cutegen.emulator.warps.core_products import CoreProducts
from cutegen.emulator.warps.product_reads import ProductReads


@pytest.fixture(params=["numpy", "core", "each matrix"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By numpy, by the compiled core, or as where the units together do not tell that nothing is wrong."""
    monkeypatch.setenv(SWITCH, "0" if request.param == "numpy" else "1")
    if request.param == "each matrix":
        monkeypatch.setattr(ProductReads, "written", lambda *_: None)


FORMS = {
    "bf16": Products(),
    "f16": Products(("f16", "f16"), 24, 3),
    "tf32": Products(("tf32", "tf32"), 16),
    "e4m3": Products(("e4m3", "e4m3"), 8, 3),
    "e5m2": Products(("e5m2", "e5m2"), 32, 1),
    "two types": Products(("e4m3", "e5m2"), 16, 2, 2),
    "transposed": Products(("bf16", "bf16"), 32, 2, 2, transposed=True),
    "negative": Products(("f16", "f16"), 8, 2, 2, (-1, 1)),
    "both negative": Products(("tf32", "tf32"), 8, 2, 1, (-1, -1)),
    "written by threads": Products(columns=24, steps=3, by_threads=True),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("form", FORMS)
def test_right_to_the_bit(form: str) -> None:
    of = FORMS[form]
    report, found, expected = ran(of, of.loads + of.group + of.store())
    report.check()
    assert np.array_equal(found, expected) and np.abs(expected).max() > 1


def test_the_core_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it knows the accumulators, where B came by a copy and A means something."""
    native_core()
    started: list[bool] = []
    start = CoreProducts.start
    monkeypatch.setattr(CoreProducts, "start", lambda *given: started.append(start(*given)) or started[-1])
    for of in FORMS.values():
        started.clear()
        ran(of, of.loads + of.group + of.group + of.store())[0].check()
        assert started == [False] + [not of.by_threads] * (2 * of.steps - 1)


OF = Products(columns=16)
START, SECOND = OF.multiply(0, adds=False), OF.multiply(1)
LOADS, GROUP, STORE = OF.loads, OF.group, OF.store()
ONE_LANE = "setp.eq.u32 %p5, %r0, 70;\n@%p5 "
WAIT_FOR_FIRST = WAIT.replace(" 0;", " 1;")
MISTAKES = {
    "no fence": (LOADS + GROUP.replace(FENCE, "") + STORE, "wgmma", "no wgmma.fence comes before"),
    "loads behind the fence": (
        FENCE + LOADS + GROUP.replace(FENCE, "") + STORE,
        "wgmma",
        "register %a0 of A was written since",
    ),
    "a register is written behind the fence": (
        LOADS + FENCE + START + "mov.b32 %a6, 7;\n" + SECOND + COMMIT + WAIT + STORE,
        "wgmma",
        "register %a6 of A was written since",
    ),
    "a zero is, too": (
        LOADS + FENCE + "mov.b32 %a1, 0;\n" + START + SECOND + COMMIT + WAIT + STORE,
        "wgmma",
        "register %a1 of A was written since",
    ),
    "a lane is": (
        LOADS + FENCE + ONE_LANE + "mov.b32 %a3, 7;\n" + START + SECOND + COMMIT + WAIT + STORE,
        "wgmma",
        "register %a3 of A was written since",
    ),
    "no second fence": (
        LOADS + GROUP + "add.u32 %a0, %a0, 1;\n" + START + COMMIT + WAIT + STORE,
        "wgmma",
        "register %a0 of A was written since",
    ),
    "a register is written in flight": (
        LOADS + FENCE + START + "mov.b32 %a2, 7;\n" + SECOND + COMMIT + WAIT + STORE,
        "wgmma",
        "register %a2 of A was written while a product that this waits for reads it",
    ),
    "a lane is in flight": (
        LOADS + FENCE + START + SECOND + COMMIT + ONE_LANE + "mov.b32 %a7, 7;\n" + WAIT + STORE,
        "wgmma",
        "register %a7 of A was written while a product that this waits for reads it",
    ),
    "one of a later group is in flight": (
        LOADS + FENCE + START + COMMIT + SECOND + COMMIT + WAIT_FOR_FIRST + "mov.b32 %a4, 7;\n" + WAIT + STORE,
        "wgmma",
        "register %a4 of A was written while a product that this waits for reads it",
    ),
    "a register becomes what it was too late": (
        LOADS + FENCE + START + COMMIT + "not.b32 %a0, %a0;\n" + WAIT + "not.b32 %a0, %a0;\n" + STORE,
        "wgmma",
        "register %a0 of A was written while a product that this waits for reads it",
    ),
    "a register of nobody": (
        LOADS + FENCE + OF.multiply(0, "%a0, %a1, %r30, %a3", adds=False) + COMMIT + WAIT + STORE,
        "never-written",
        "register %r30 of A depends on a register or on memory that was never written",
    ),
    "no wait for the sums": (
        LOADS + GROUP.replace(WAIT, "") + STORE,
        "never-written|in-flight",
        "before a wait for the product",
    ),
    "B is written in flight": (
        LOADS + GROUP.replace(WAIT, "st.shared.b32 [%r7], %r0;\n" + WAIT) + STORE,
        "in-flight",
        "",
    ),
    "B without its fence": (
        LOADS + "st.shared.b32 [%r7], %r0;\nbar.sync 0;\n" + GROUP + STORE,
        "proxy",
        "",
    ),
    "sums in flight are A": (
        LOADS + FENCE + START + OF.multiply(1, "%f0, %f1, %f2, %f3", "g", adds=False) + COMMIT + WAIT + STORE,
        "wgmma",
        "register %f0 of A is an accumulator of a product that the warp has not waited for",
    ),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str) -> None:
    body, kinds, text = MISTAKES[mistake]
    report, _, _ = ran(OF, body)
    (fault,) = report.faults
    assert fault.kind in kinds.split("|") and text in fault.explanation, str(fault)
    if ONE_LANE in body:
        assert fault.thread == (64, 0, 0)  # the first one of the warp
    if "in flight" in mistake and "of A" in text:
        assert any(note.text == "the product starts here" and note.place for note in fault.notes) or "sums" in mistake


RIGHT = {
    "the same": LOADS + GROUP,
    "A is read in flight": LOADS + GROUP.replace(WAIT, "add.u32 %r30, %a0, %a7;\n" + WAIT),
    "A is written again with what it held": LOADS + GROUP.replace(WAIT, "mov.b32 %a0, %a0;\n" + LOADS + WAIT),
    "A is written after the wait": LOADS + GROUP + "mov.b32 %a0, 0;\n" + LOADS,
    "A is written by others": LOADS + GROUP.replace(WAIT, "setp.gt.u32 %p5, %r0, 999;\n@%p5 mov.b32 %a0, 7;\n" + WAIT),
    "A of an earlier group is written": (
        LOADS + FENCE + START + COMMIT + SECOND + COMMIT + WAIT_FOR_FIRST + "mov.b32 %a0, 7;\n" + WAIT
    ),
    "A once more, without a fence": LOADS + GROUP + GROUP.replace(FENCE, ""),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("change", RIGHT)
def test_what_is_allowed(change: str) -> None:
    report, found, expected = ran(OF, RIGHT[change] + STORE)
    report.check()
    assert np.array_equal(found, expected)


@pytest.mark.usefixtures("engine")
def test_sums_are_a_once_they_have_been_waited_for() -> None:
    """As those of float32 may be for tf32, without a fence: no thread has written them."""
    of = Products(("tf32", "tf32"), 8, 1)
    second = of.multiply(0, "%f0, %f1, %f2, %f3", "g", adds=False) + COMMIT + WAIT
    report, found, first = ran(of, of.loads + of.group + second + of.store("", "g"))
    report.check()
    plain = ran(of, "mov.b32 %a0, %f0;\n".join([of.loads + of.group, ""]) + of.store())
    assert np.array_equal(plain[1], first) and found.any() and not np.array_equal(found, first)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", range(4))
def test_poison_of_a_is_that_of_its_rows(seed: int) -> None:
    """Some lanes do not load their part: rows with theirs mean nothing, and all others are right."""
    of, random = Products(columns=16, warpgroups=2), np.random.default_rng(seed)
    lost = random.random((of.threads, 2)) < (0.01, 0.1, 0.3, 0.9)[seed]  # of each half of 8 rows
    body = "mul.wide.u32 %rd13, %r0, 4;\nadd.s64 %rd14, %rd3, %rd13;\nld.global.b32 %r9, [%rd14];\n"
    for half in range(2):
        body += f"and.b32 %r10, %r9, {1 << half};\nsetp.eq.u32 %p{5 + half}, %r10, 0;\n"
        body += f"@%p{5 + half} ld.global.b32 %a{half}, [%rd9+{4 * half}];\n"
        body += f"and.b32 %r10, %r9, {4 << half};\nsetp.eq.u32 %p{7 + half}, %r10, 0;\n"
    body += of.load(0).replace("%a0, %a1, ", "%r11, %r12, ") + of.load(1) + of.group
    by_row = np.repeat(lost.reshape(-1, 4, 2).any(axis=1), 4, axis=0)
    for more, seen in ((by_row, False), (by_row & ~_one_of(by_row), True)):
        words = lost[:, 0] | lost[:, 1] << 1 | more[:, 0] << 2 | more[:, 1] << 3
        guarded = of.store("@%pHALF").replace("@%p0", "@%p7").replace("@%p1 ", "@%p8 ")
        report, found, expected = ran(of, body + guarded, words.tolist())
        assert [fault.kind for fault in report.faults] == ["never-written"] * int(seen and by_row.any())
        if not seen:
            rows = by_row.reshape(-1, 8, 4, 2)[:, :, 0].swapaxes(1, 2).reshape(-1)
            assert np.array_equal(found[~rows], expected[~rows]) and not found[rows].any()


@pytest.mark.parametrize("step", range(2))
def test_the_origin_of_poison_is_told(step: int) -> None:
    """That of the register of A which made a sum mean nothing, whichever of the products of a group has it."""
    spoilt = f"setp.ne.u32 %p5, %r0, 70;\n@%p5 mov.b32 %r20, 7;\nmov.b32 %a{4 * step + 1}, %r20;\n"
    (fault,) = ran(OF, LOADS + spoilt + GROUP + STORE)[0].faults
    assert fault.kind == "never-written" and fault.thread == (68, 0, 0)  # the first one with its row
    assert [note.text for note in fault.notes] == [
        "the value comes from register %r20, which this thread has not written"
    ]


def _one_of(by_row: np.ndarray) -> np.ndarray:
    """The last row of those given, as a mask like theirs."""
    found = np.zeros_like(by_row)
    if by_row.any():
        thread, half = np.argwhere(by_row)[-1]
        found[thread // 4 * 4 : thread // 4 * 4 + 4, half] = True
    return found


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("accumulators", [False, True])
def test_lanes_in_which_a_register_means_nothing_may_seem_to_change(accumulators: bool) -> None:
    """Half of A means nothing in one warpgroup; the other one writes these registers behind the fence and in flight."""
    of = Products(columns=16, steps=1, warpgroups=2)
    write = "".join(f"@%p5 mov.b32 %{one}, 0f%08X;\n" for one in ("a1", "a3", *(("f4", "f5") * accumulators)))
    body = "setp.ge.u32 %p5, %r0, 128;\nld.global.b32 %a0, [%rd9];\nld.global.b32 %a2, [%rd9+8];\n"
    body += write.replace("%08X", "3F800000") + FENCE + "bar.sync 0;\n" + write.replace("%08X", "40000000")
    body += "bar.sync 0;\n@%p5 bra OTHERS;\n" + of.multiply(0, adds=False) + COMMIT + "OTHERS:\nbar.sync 0;\n"
    body += write.replace("%08X", "40400000") + "bar.sync 0;\n@%p5 bra END;\n" + WAIT
    report, found, expected = ran(of, body + of.store("@%pHALF").replace("@%p0", "").replace("@%p1", "@%p5") + "END:\n")
    report.check()
    rows = np.arange(128) % 16 < 8
    rows[64:] = False
    assert np.array_equal(found[rows], expected[rows]) and not found[~rows].any()


def test_what_a_held_is_forgotten_at_the_wait() -> None:
    groups, warps = ProductGroups((128, 1)), np.arange(4)
    groups.add([9], np.zeros((1, 4, 32), np.uint32))
    factor = Factor((1, 2, 3, 4), tuple("abcd"), (), (), np.zeros((4, 4, 32), np.uint32), 7)
    groups.begin(warps, (9,), lambda numbers: None, factor)
    groups.commit(range(4))
    assert [tuple(found[1:]) for found in groups.ending_factors(0, range(4))] == [([0, 1, 2, 3], [0, 1, 2, 3])]
    assert not groups.ending_factors(1, range(4))
    left = weakref.ref(factor)
    del factor
    groups.wait(0, range(3))
    forgotten = [left() is None]
    groups.wait(0, [3])
    assert [*forgotten, left() is None] == [False, True]


def test_forms_that_wgmma_does_not_have() -> None:
    for old, new in (("%p2, 1, 1, 0;", "%p2, 1, 1, 0, 0;"), ("%a2, %a3}", "%a2}"), ("%a2, %a3}", "%a2, %rd4}")):
        assert old in GROUP
        with pytest.raises(UnsupportedInstruction):
            ran(OF, LOADS + GROUP.replace(old, new, 1) + STORE)
