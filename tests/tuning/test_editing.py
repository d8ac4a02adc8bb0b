"""Edits of a spec's text: they say exactly what was wanted, and touch nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.language.document import parse_documents, plain
from cutegen.tuning.editing import EditError, Sheet, same_value

SPECS = Path(__file__).parents[2] / "specs"

GEMM = """\
# A spec with remarks
cutegen: 1
kernel: mm_{a}   # one a majorness
matrix: {a: [M, K]}
op: gemm
schedule:
    # how large
    tiler: { M: 128,  N: 128, "K": 8 }   # of a block
    mma:   # who multiplies
        thread_layout: '(16,16,1):(1,16,0)'

        permutation:
            M: (16,4):(4,1)  # runs of four
            N: (16,4):(4,1)
    copies: {
        A: {atom: cp_async, bits: 128,   # both
            thread_layout: "(32,8):(1,32)"},
        B: {atom: cp_async},  # as A
    }
    smem: {A: {pad: "{p}"}}
    pipeline: {stages: 3}
    # the end of the schedule
targets: [sm_80]  # and no others
"""


def schedule_of(text: str, document: int = 0) -> Any:
    documents, problems = parse_documents(text.replace("\r\n", "\n"))
    assert not problems
    return plain(documents[document]).get("schedule")


def edited(text: str, *steps: Any, remove: bool = False) -> str:
    """With the value at the path set to the last step, or removed."""
    schedule = schedule_of(text) or {}
    *path, last = steps[:-1] if not remove else steps
    node = schedule
    for step in path:
        node = node.setdefault(step, {})
    if remove:
        del node[last]
    else:
        node[last] = steps[-1]
    return Sheet(text).with_schedule(schedule)


@pytest.mark.parametrize(
    ("steps", "old", "new"),
    [
        (("tiler", "M", 256), "{ M: 128,  N: 128,", "{ M: 256,  N: 128,"),
        (("tiler", "K", 16), '"K": 8 }   # of', '"K": 16 }   # of'),
        (("mma", "thread_layout", "(16,8,1):(1,16,0)"), "'(16,16,1):(1,16,0)'", "'(16,8,1):(1,16,0)'"),
        (("mma", "permutation", "M", "(16,2):(2,1)"), "M: (16,4):(4,1)  #", "M: (16,2):(2,1)  #"),
        (("copies", "A", "thread_layout", "(8,32):(1,8)"), '"(32,8):(1,32)"', '"(8,32):(1,8)"'),
        (("copies", "A", "bits", 64), "bits: 128,   # both", "bits: 64,   # both"),
        (("copies", "B", "bits", 64), "B: {atom: cp_async},", "B: {atom: cp_async, bits: 64},"),
        (("pipeline", "stages", 4), "stages: 3", "stages: 4"),
        (("smem", "A", "pad", 4), '"{p}"', "4"),
        (("smem", "B", {"pad": "{p}"}), '{A: {pad: "{p}"}}', '{A: {pad: "{p}"}, B: {pad: "{p}"}}'),
        (
            ("predication", {"M": "none"}),
            "    pipeline: {stages: 3}\n",
            "    pipeline: {stages: 3}\n    predication: {M: none}\n",
        ),
        (("mma", "atom", "fma"), "        thread_layout: '", "        atom: fma\n        thread_layout: '"),
        (("mma", "accumulator", "f32"), "N: (16,4):(4,1)\n", "N: (16,4):(4,1)\n        accumulator: f32\n"),
    ],
)
def test_one_value(steps: tuple[Any, ...], old: str, new: str) -> None:
    assert GEMM.count(old) == 1
    assert edited(GEMM, *steps) == GEMM.replace(old, new)


@pytest.mark.parametrize(
    ("steps", "old", "new"),
    [
        (("tiler", "N"), " N: 128,", ""),
        (("tiler", "K"), ', "K": 8 }', " }"),
        (("mma", "permutation", "N"), "            N: (16,4):(4,1)\n", ""),
        (("copies", "A", "atom"), "atom: cp_async, bits", "bits"),
        (("copies", "A", "thread_layout"), '            thread_layout: "(32,8):(1,32)"}', "            }"),
        (("copies", "A", "bits"), "bits: 128,   # both", "  # both"),
        (("pipeline",), "    pipeline: {stages: 3}\n", ""),
    ],
)
def test_one_value_less(steps: tuple[str, ...], old: str, new: str) -> None:
    assert GEMM.count(old) == 1
    after = edited(GEMM, *steps, remove=True)
    assert after.split() == GEMM.replace(old, new).split()


def test_a_block_that_is_replaced_keeps_its_remark() -> None:
    after = edited(GEMM, "mma", {"atom": "fma"})
    assert "    mma: {atom: fma}   # who multiplies\n    copies: {\n" in after
    assert after.split("    mma")[0] == GEMM.split("    mma")[0]


def test_a_schedule_that_was_not_there_and_one_that_goes() -> None:
    text = GEMM[: GEMM.index("schedule:")] + "targets: [sm_80]"
    new = Sheet(text).with_schedule({"tiler": {"M": 64}, "pipeline": {"stages": 2}})
    assert new == text.replace("targets", "schedule:\n  tiler: {M: 64}\n  pipeline: {stages: 2}\ntargets")
    without = Sheet(GEMM).with_schedule({})
    assert schedule_of(without) is None and without.startswith(GEMM.split("schedule:")[0])


def test_behind_a_last_line_without_a_line_break() -> None:
    text = GEMM[: GEMM.index("    # the end")].rstrip("\n")
    after = edited(text, "predication", {"K": "none"})
    assert after == text + "\n    predication: {K: none}"


def test_line_ends_byte_order_mark_and_other_documents() -> None:
    second = GEMM.replace("mm_{a}", "other")
    text = "\ufeff" + f"{GEMM}---\n{second}".replace("\n", "\r\n")
    after = Sheet(text, 1).with_schedule({**schedule_of(GEMM), "predication": {"K": "none"}})
    added = "    pipeline: {stages: 3}\r\n    predication: {K: none}\r\n"
    head, tail = text.rsplit("    pipeline: {stages: 3}\r\n", 1)
    assert after == head + added + tail


def test_a_value_that_others_refer_to_is_not_changed_behind_their_back() -> None:
    text = "op: gemm\nschedule:\n  tiler: &t {M: 64}\n  mma: {atom: fma}\nverify: {shapes: [*t]}\n"
    with pytest.raises(EditError, match="something else"):
        Sheet(text).with_schedule({"tiler": {"M": 128}, "mma": {"atom": "fma"}})
    other = "op: gemm\nverify: {shapes: [&t {M: 64}]}\nschedule:\n  tiler: *t\n  mma: {atom: fma}\n"
    after = Sheet(other).with_schedule({"tiler": {"M": 128}, "mma": {"atom": "fma"}})
    assert after == other.replace("*t", "{M: 128}")


@pytest.mark.parametrize("file", sorted(SPECS.glob("*.yaml")), ids=lambda f: f.stem)
def test_the_same_schedule_is_no_edit(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert Sheet(text).with_schedule(schedule_of(text)) == text


# ---------------------------------------------------------------------------------------------------- any text

WORDS = ["tiler", "mma", "atom", "thread_layout", "permutation", "copies", "smem", "pipeline", "stages", "M", "N", "A"]
scalars = st.one_of(
    st.integers(0, 300),
    st.sampled_from(["fma", "(16,16,1):(1,16,0)", "(4,1)", "{a}", "no", "4:1", "x # y", "it's", '"', "a: b", "1.0"]),
)
trees = st.recursive(
    scalars, lambda inner: st.dictionaries(st.sampled_from(WORDS), inner, min_size=1, max_size=4), max_leaves=12
)
schedules = st.dictionaries(st.sampled_from(WORDS), trees, min_size=1, max_size=5)


class Printer:
    """Writes a tree in a style that `choose` picks piece by piece, a numbered remark where there is room for one."""

    def __init__(self, choose: Any) -> None:
        self.choose = choose
        self.remarks: dict[tuple[str, ...], str] = {}

    def scalar(self, value: Any, flow: bool) -> str:
        if isinstance(value, int):
            return str(value)
        single, double = "'" + value.replace("'", "''") + "'", '"' + value.replace('"', '\\"') + '"'
        bare = value in ("fma",) or (value == "(16,16,1):(1,16,0)" and not flow)
        return self.choose([single, double, value] if bare else [single, double])

    def flow(self, value: Any, margin: str) -> str:
        if not isinstance(value, Mapping):
            return self.scalar(value, True)
        quote = self.choose(["", '"'])
        items = [f"{quote}{k}{quote}: {self.flow(v, margin + '   ')}" for k, v in value.items()]
        if self.choose([False, False, True]):
            comma = self.choose(["", ","])
            return "{\n" + ",\n".join(f"{margin}   {item}" for item in items) + f"{comma}\n{margin}  }}"
        return self.choose(["{ ", "{"]) + self.choose([", ", ",  "]).join(items) + self.choose(["}", " }"])

    def block(self, tree: Mapping[str, Any], margin: str, above: tuple[str, ...]) -> list[str]:
        lines = []
        step = " " * self.choose([2, 3, 4])
        for key, value in tree.items():
            path = (*above, key)
            remark = ""
            if self.choose([True, False]):
                remark = f"# remark {len(self.remarks)}."
                self.remarks[path] = remark
            if self.choose([False, False, True]):
                lines.append(margin + f"# above {'.'.join(path)}")
            if isinstance(value, Mapping) and self.choose([True, False]):
                lines.append(f"{margin}{key}:  {remark}")
                lines += self.block(value, margin + step, path)
            else:
                text = self.flow(value, margin) if isinstance(value, Mapping) else self.scalar(value, False)
                lines.append(f"{margin}{key}: {text}  {remark}")
        return lines


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return None
        tree = tree[step]
    return tree


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_any_schedule_gives_way_to_any_other(data: st.DataObject) -> None:
    old, fresh = data.draw(schedules), data.draw(schedules)
    # Most of it as it was, some of it changed, some gone and some new.
    new = {**{k: v for k, v in old.items() if data.draw(st.booleans())}, **fresh}
    printer = Printer(lambda options: data.draw(st.sampled_from(options)))
    lines = [
        "cutegen: 1  # first",
        "op: gemm",
        "schedule:  # how",
        *printer.block(old, "  ", ()),
        "targets: [sm_80] # last",
    ]
    text = "\n".join(lines) + printer.choose(["", "\n", "\n# end\n"])
    text = text.replace("\n", printer.choose(["\n", "\r\n"]))
    assert same_value(schedule_of(text), old)
    assert Sheet(text).with_schedule(old) == text
    after = Sheet(text).with_schedule(new)
    assert same_value(schedule_of(after), new)
    head, tail = text[: text.index("schedule:")], text[text.index("targets:") :]
    assert after.startswith(head) and after.endswith(tail) and "# how" in after
    assert "\n" not in after.replace("\r\n", "") if "\r\n" in text else "\r" not in after
    for path, remark in printer.remarks.items():
        kept = at(new, path)
        if kept is not None and all(isinstance(at(new, path[:i]), Mapping) for i in range(len(path))):
            both = isinstance(at(old, path), Mapping) and isinstance(kept, Mapping)
            shared = not both or any(key in kept for key in at(old, path))
            if shared and _beside(old, new, path):
                assert after.count(remark) == 1, (path, text, after)
    # What did not change stands there as it did, byte for byte.
    for line in text.split("\n"):
        key = line.split(":")[0].strip()
        if line.startswith("  ") and not line.startswith("   ") and key in old and same_value(old[key], new.get(key)):
            assert line in after


def _beside(old: Any, new: Any, path: tuple[str, ...]) -> bool:
    """Whether each mapping on the way shares a key with what takes its place, so that it is edited and not replaced."""
    return all(any(key in at(new, path[:i]) for key in at(old, path[:i])) for i in range(len(path)))
