"""`tune`: paths below the schedule, and values that could stand there."""

from __future__ import annotations

import pytest
import yaml

from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec

SPEC = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
tune:
"""
ADD = """\
cutegen: 1
kernel: add
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: Y = X + 1
schedule: {partition: inner, tiler: {M: 1, N: 4}}
tune:
"""
LINE = 10


@pytest.mark.parametrize(
    "line",
    [
        "schedule.tiler: [{M: 128, N: 128, K: 8}, {M: 256}]",
        "schedule.tiler.M: [64, 128]",
        'schedule.mma.thread_layout: ["(16,16,1)", "(16,8,1):(1,16,0)"]',
        "schedule.mma.permutation: [{M: '(16,4):(4,1)'}]",
        "schedule.copies.A: [{atom: universal, bits: 32}]",
        "schedule.copies.C.bits: [32, 64]",
        "schedule.smem.A.pad: [0, 4]",
        "schedule.predication.M: [mask, none]",
    ],
)
def test_what_may_stand_in_the_schedule(line: str) -> None:
    (spec,) = read_specs(SPEC + f"  {line}\n")
    assert spec.tune == {line.split(":")[0]: tuple(yaml.safe_load(line)[line.split(":")[0]])}
    assert read_specs(write_spec(spec)) == (spec,)


@pytest.mark.parametrize(
    ("atom", "line"),
    [
        ("wgmma", "schedule.warps.roles: [cooperative, pingpong]"),
        ("wgmma", "schedule.mma.rows: [M, N]"),
        ("wgmma", "schedule.cluster: [{M: 2}, {N: 2}]"),
        ("mma_sync", 'schedule.mma.atom_layout: ["(2,2,1)", "(4,1,1)"]'),
        ("mma_sync", "schedule.smem.A.swizzle: [64, 128]"),
    ],
)
def test_what_may_stand_beside_the_atom_that_is_written(atom: str, line: str) -> None:
    """The atom says which words there are; what it takes away may not stand there."""
    text = SPEC.replace("f32", "bf16").replace("tune:", f"schedule: {{mma: {{atom: {atom}}}}}\ntune:")
    (spec,) = read_specs(f"{text}  {line}\n")
    assert spec.tune == {line.split(":")[0]: tuple(yaml.safe_load(line)[line.split(":")[0]])}
    with pytest.raises(SpecError) as caught:
        read_specs(f"{text}  schedule.smem.A.pad: [0, 4]\n")
    assert {d.code for d in caught.value.diagnostics} == {"CG101"}


@pytest.mark.parametrize(
    ("line", "code", "under", "words"),
    [
        ("tiler: [{M: 64}]", "CG101", "tiler", "write `schedule.tiler`"),
        ("tilr.M: [64]", "CG101", "tilr.M", "did you mean `schedule.tiler.M`?"),
        (".tiler: [{M: 64}]", "CG101", ".tiler", "write `schedule.tiler`"),
        ("tensors.A.align: [16]", "CG101", "tensors.A.align", "only fields of the schedule can be tuned, as in"),
        ("threads: [64]", "CG101", "threads", "only fields of the schedule can be tuned, as in"),
        ("tiler..M: [64]", "CG101", "tiler..M", "only fields of the schedule can be tuned, as in"),
        ("schedule: [{}]", "CG101", "schedule", "as in `schedule.tiler`"),
        ("schedule..M: [1]", "CG101", "schedule..M", ""),
        ("schedule.tilr: [{M: 64}]", "CG101", "schedule.tilr", "did you mean `tiler`?"),
        ("schedule.threads: [64]", "CG101", "schedule.threads", "`threads` belongs to `op: elementwise`"),
        ("schedule.tiler: [{M: 64}, {Q: 64}]", "CG116", "Q", "modes: M, N, K"),
        ("schedule.tiler.M: [64, 0]", "CG105", "0", ""),
        ("schedule.tiler.M: [64, {N: 3}]", "CG103", "{N: 3}", ""),
        ("schedule.tiler.M.x: [64]", "CG103", "schedule.tiler.M.x", ""),
        ("schedule.pipeline.stages: [2, many]", "CG103", "many", ""),
        ("schedule.pipeline.stages: 3", "CG103", "3", "write `[3]`"),
        ('schedule.mma.thread_layout: "(16,16,1)"', "CG103", '"(16', 'write `["(16,16,1)"]`'),
        ("schedule.tiler: {M: 64}", "CG103", "{M", "write a list"),
        ("schedule.pipeline.stages: []", "CG105", "[]", ""),
        ('schedule.mma.thread_layout: ["(16,16,1", 256]', "CG201", '1", 256', ""),
        ('schedule.mma.thread_layout: ["(16,16):(1,1)"]', "CG202", '"(16,16):(1,1)"', "compact would be"),
        ("schedule.copies.Z.bits: [128]", "CG204", "schedule.copies.Z.bits", "tensors: A, B, C"),
        ("schedule.copies.A.bits: [128, 127]", "CG104", "127", ""),
        ("schedule.smem.C.pad: [4]", "CG203", "schedule.smem.C.pad", "shared memory holds A and B"),
        ("schedule.predication.M: [residue_first]", "CG207", "residue_first", "write `mask`"),
    ],
)
def test_what_may_not_is_said_where_it_stands(line: str, code: str, under: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_specs(SPEC + f"  {line}\n")
    (found,) = refused.value.diagnostics
    text = f"  {line}"
    assert (found.code, found.span.line) == (code, LINE)
    assert text[found.span.column - 1 :].startswith(under)
    assert words in (found.help or "")


def test_one_field_is_named_once() -> None:
    with pytest.raises(SpecError, match="CG010 `schedule.tiler.M` and `schedule.tiler` set the same field"):
        read_specs(SPEC + "  schedule.tiler: [{M: 64}]\n  schedule.tiler.M: [64]\n")


@pytest.mark.parametrize(
    "path", ["schedule.value_layout", "schedule.thread_layout", "schedule.tiler.N", "schedule.threads"]
)
def test_what_explain_prints_builds_to_the_same_module_and_keeps_tune(path: str) -> None:
    """Also where a value cannot stand beside what explain fills in: that is for the search to find out."""
    values = {"tiler.N": "[4, 8]", "threads": "[64]"}.get(path.partition(".")[2], '["(1,4)"]')
    (module,) = generate(f"{ADD}  {path}: {values}\n", "specs/add.yaml").modules
    text = write_spec(module.spec)
    assert f"tune:\n  {path}: " in text
    (again,) = generate(text, "specs/add.yaml").modules
    assert (again.text, again.spec) == (module.text, module.spec)


MAJOR, THREADS = "  schedule.workspace.B.major: {}\n", "  schedule.workspace.B.thread_layout: {}\n"
K_MAJOR = SPEC.replace("major: N", "major: K")


@pytest.mark.parametrize("names", [MAJOR + THREADS, THREADS + MAJOR])
def test_what_a_field_cannot_do_without_may_be_named_beside_it(names: str) -> None:
    """Of a spec without a workspace: one that is tried has `major`."""
    lists = ("[N]", '["(4,32)"]') if names.startswith(MAJOR) else ('["(4,32)"]', "[N]")
    (spec,) = read_specs(K_MAJOR + names.format(*lists))
    assert spec.tune == {"schedule.workspace.B.major": ("N",), "schedule.workspace.B.thread_layout": ("(4,32)",)}
    (option,) = read_specs(K_MAJOR + MAJOR.format("[N]"))[0].schedule.options
    assert not option.workspace


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (THREADS.format('["(4,32)"]'), ["CG102 the key `major` is missing in `schedule.workspace.B`"]),
        (MAJOR.format("[Q]") + THREADS.format('["(4,32)"]'), ["CG116 `Q` is not a mode here"]),
        (THREADS.format('["(4,32"]') + MAJOR.format("[Q, N]"), ["CG201 a `(` is never closed", "CG116 `Q` is not"]),
    ],
)
def test_what_is_wrong_beside_a_field_is_said_once_and_there(lines: str, found: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        read_specs(K_MAJOR + lines)
    said = [f"{d.code} {d.message}" for d in refused.value.diagnostics]
    assert len(said) == len(found) and all(map(str.startswith, said, found)), said


def test_a_probe_has_nothing_to_tune() -> None:
    text = (
        "cutegen: 1\nkernel: p\nop: probe\n"
        "tensors: {A: {shape: [M], dtype: i32}, D: {shape: [T, V], dtype: i32, role: out}}\n"
        "compute: D = A\nschedule: {tv_layout: '(4,2)', tiler: {M: 8}}\ntune: {schedule.tiler: [{M: 8}]}\n"
    )
    with pytest.raises(SpecError, match="CG203 `tune` does not apply to a probe"):
        read_specs(text)


def test_placeholders_are_filled_in() -> None:
    text = SPEC.replace("kernel: mm", "kernel: mm_{n}\nmatrix: {n: [64, 128]}")
    specs = read_specs(text + '  schedule.tiler: [{M: 64, N: "{n}"}]\n')
    assert [spec.tune["schedule.tiler"] for spec in specs] == [({"M": 64, "N": n},) for n in (64, 128)]
    with pytest.raises(SpecError, match="CG105 `schedule.tiler.N` must be at least 1"):
        read_specs(text.replace("[64, 128]", "[64, 0]") + '  schedule.tiler: [{M: 64, N: "{n}"}]\n')


def test_values_below_a_misspelt_tune_are_read_too() -> None:
    text = ADD.replace("tune:", '"tune:": {schedule.threads: [many]}')
    with pytest.raises(SpecError) as caught:
        read_specs(text)
    assert {d.code for d in caught.value.diagnostics} == {"CG101", "CG103"}
