"""Notes of faults: the origin of a value, the other party, and the line of the kernel that led there."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulator_kit import fault, in_and_out, indexed, kernel

STORE = "st.global.b32 [%rd12], %r8;\n"
NEXT = "xor.b32 %r7, %r6, 4;\nbar.sync 0;\nld.shared.b32 %r8, [%r7];\n"
COPY = "cp.async.ca.shared.global [%r6], [{}], 4;\ncp.async.wait_all;\n"
ORIGINS = {  # what is stored, what is said of it, and the start of the instruction that is shown
    "shared memory": ("ld.shared.b32 %r9, [%r6+12];\nadd.s32 %r8, %r9, 1;\n", "byte 12 of shared memory", "ld.shared"),
    "a register": ("add.s32 %r9, %r30, 1;\nmov.b32 %r8, %r9;\n", "register %r30, which was never", "add.s32 %r9"),
    "an output": ("ld.global.b32 %r8, [%rd12+128];\n", "B[32], which was never written", "ld.global"),
    "a register through shared memory": ("st.shared.b32 [%r6], %r30;\n" + NEXT, "register %r30", "st.shared"),
    "an output through shared memory": (COPY.format("%rd12") + NEXT, "B[1], which was never written", "cp.async"),
    "another barrier": (
        "bar.sync 0;\nld.shared.b32 %r8, [%r6];\n",
        "never written, after 1 barrier",
        "ld.shared",
    ),
    "another lane": (
        "ld.global.b32 %r9, [%rd12];\nshfl.sync.bfly.b32 %r8, %r9, 1, 31, -1;\n",
        "B, at elements never written",
        "ld.global",
    ),
    "a product": (
        "mov.b32 %r10, 0;\nfma.rn.f32 %r11, %r10, %r30, %r10;\nfma.rn.f32 %r8, %r11, %r11, %r10;\n",
        "register %r30",
        "fma.rn.f32 %r11",
    ),
    "a division": ("mov.b32 %r9, 0;\ndiv.u32 %r8, %r0, %r9;\n", "div.u32, whose result PTX leaves open", "div.u32"),
    "a way": (
        "mov.b32 %r8, 1;\nsetp.eq.u32 %p1, %r30, 0;\n@%p1 bra ON;\nmov.b32 %r8, 2;\nON:\n",
        "register %r30",
        "setp.eq",
    ),
    "some lanes": ("setp.gt.u32 %p1, %r0, 0;\n@%p1 mov.b32 %r8, 1;\n", "register %r8, which this thread has not", ""),
}


@pytest.mark.parametrize("name", ORIGINS)
@pytest.mark.parametrize("seed", [0, 1])
def test_where_a_value_comes_from(name: str, seed: int) -> None:
    body, says, shown = ORIGINS[name]
    found = fault(indexed(body + STORE), in_and_out(64), block=32, seed=seed)
    assert (found.kind, found.thread) == ("never-written", (0, 0, 0)), str(found)
    (note,) = found.notes
    assert note.text.startswith("the value comes from ") and says in note.text, note.text
    assert (note.place.text if note.place else "").startswith(shown)


def test_where_an_address_comes_from() -> None:
    body = "ld.shared.b32 %r9, [%r6];\nadd.s32 %r10, %r4, %r9;\nst.shared.b32 [%r10], %r30;"
    assert "shared memory" in fault(indexed(body), in_and_out(role="inout")).notes[0].text


READ = "ld.global.b32 %r9, [%rd1];\nst.global.b32 [%rd12], %r9;\n"
WRITE = "st.global.b32 [%rd12], %r0;\n"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", ["reads", "writes"])
def test_a_block_reads_what_another_one_writes(first: str, seed: int) -> None:
    """Of an output. Whichever of the two runs first, it is not only that what was read means nothing."""
    ways = (READ, WRITE) if first == "reads" else (WRITE, READ)
    asked = "setp.eq.u32 %p1, %r1, {};\n@%p1 bra TWO;\n{}ret;\nTWO:\n{}"
    body = asked.format(0 if first == "reads" else 1, *ways)
    found = fault(indexed(body), in_and_out(64), grid=2, block=1, seed=seed)
    assert (found.kind, found.tensor, found.element) == ("unordered", "B", (0,)), str(found)
    (note,) = found.notes
    assert note.place is not None
    parties = {found.block[0]: found.text, int(note.text.split("block (")[1][0]): note.place.text}
    assert parties[0].startswith("st.global") and parties[1].startswith("ld.global"), str(found)
    assert ", thread (0,0,0) (warp 0)" in note.text


def test_who_else_had_a_part() -> None:
    """In a race for shared memory, and in copies that are in flight, with their tensor."""
    race = "setp.eq.u32 %p1, %r0, 1;\n@%p1 {}\nld.shared.b32 %r8, [%r4+4];"
    found = fault(indexed(race.format("st.shared.b32 [%r4+4], 5;")), in_and_out(role="inout"))
    assert found.kind == "race" and found.notes[0].text == "thread 1 (warp 0) writes it here"
    assert found.notes[0].place.text.startswith("@%p1 st.shared")
    copied = "cp.async.ca.shared.global [%r4+4], [%rd11], 4;\n@%p1 cp.async.wait_all;"
    found = fault(indexed(race.format(copied) + "\ncp.async.wait_all;"), in_and_out(role="inout"))
    assert found.kind == "race" and "thread 1 writes with a part of A" in found.explanation
    flight = "cp.async.ca.shared.global [%r6], [%rd12], 4;\n"
    found = fault(indexed(flight + "ld.shared.b32 %r8, [%r6];"), in_and_out(role="inout"))
    assert found.kind == "in-flight" and "a cp.async of B" in found.explanation
    assert found.notes[0].place.text.startswith("cp.async")
    found = fault(indexed(flight + "st.global.b32 [%rd12], 1;"), in_and_out(role="inout"))
    assert found.kind == "in-flight" and found.notes[0].place.text.startswith("cp.async")


def test_a_fault_names_its_target() -> None:
    found = fault(indexed("ld.global.b32 %r8, [%rd11+400];"), in_and_out(role="inout"))
    assert found.target == "sm_80" and "= code for sm_80, kernel k" in str(found)


SOURCE = """
def the_kernel(x):
    first = x
    second = first
    return second


@jit
def run(x):
    the_kernel(x).launch()
"""


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ((3, 4), "4: fault"),
        ((3, None), "near {}:3: fault"),  # of a library, whose lines are of another file
        ((3, 10), "near {}:3: fault"),
        ((3, 8), "near {}:3: fault"),  # the decorator of what launches
        ((None, None, 5), "near {}:5: fault"),
        ((10, 10), "ptx:"),
    ],
)
def test_a_line_outside_of_the_kernel_is_not_shown(lines: tuple[int | None, ...], shown: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE, encoding="utf-8")
    code = ("add.s32 %r7, %r0, 1;", "ld.global.b32 %r8, [%rd0+4000];", "add.s32 %r9, %r8, 1;")
    places = [
        f".loc 2 7 1\n{text}" if line is None else f".loc 1 {line} 1\n{text}"
        for line, text in zip(lines, code, strict=False)
    ]
    text = kernel(".loc 2 7 1\n" + "\n".join(places)) + f'.file 1 "{path}"\n.file 2 "/library.py"\n'
    found = fault(text, in_and_out(role="inout"))
    assert shown.format(path) in str(found).splitlines()[0], str(found)
    if found.source_line:
        assert found.source_text == SOURCE.splitlines()[found.source_line - 1].strip()
