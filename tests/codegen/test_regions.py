"""Which line of a module comes from which key: every line of a kernel has one, it exists, and it is the right one."""

from __future__ import annotations

import ast
import contextlib
import difflib
import re
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from planning_specs import VALID
from specs_kit import ROOT, kernels_of_specs, modules_of_specs
from sweep_kit import sampled

from cutegen.cases import forms, launching, merged
from cutegen.codegen import Module, Region, generate, merging, printing
from cutegen.codegen import environment as environment_module
from cutegen.codegen.regions import RegionTag, region_at, separate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec

KERNELS = kernels_of_specs()
FUNCTIONS = (
    "vectors", "slices", "n_first", "copy_tile", "predicates", "launch", "reference", "make_inputs"
)  # fmt: skip


def functions(module: Module) -> dict[str, range]:
    """The lines of every function, decorators included."""
    found = {}
    for node in ast.parse(module.text).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            assert node.end_lineno is not None
            found[node.name] = range(first, node.end_lineno + 1)
    return found


def unmapped(module: Module) -> list[str]:
    """Lines without a region in the functions that are different for every spec."""
    lines = module.text.split("\n")
    of = functions(module)
    kernels = [name for name in of if name.startswith(f"{module.spec.kernel}_kernel")]
    apart = re.findall(r"^# Case .*\n(?!# Case)", module.text, re.MULTILINE) or [""]  # of those that share no kernel
    assert len(kernels) >= min(len(apart), len(module.plan.kernels) - module.text.count("\nCASE_"))
    names = [*kernels, module.spec.kernel, *(name for name in FUNCTIONS if name in of)]
    assert "launch" in names
    return [
        f"{number}: {lines[number - 1]}"
        for name in names
        for number in of[name]
        if lines[number - 1].strip() and module.region_at(number) is None
    ]


def assert_sound(module: Module) -> None:
    """Regions nest, are where they say, and name keys that the resolved spec has."""
    source = read_specs(write_spec(module.spec))[0].source
    keys = {*source.keys, *(path for path in source.values if path and isinstance(path[-1], int))}  # cases have no name
    total = module.text.count("\n")
    for region in module.regions:
        assert region.path in keys, region
        assert 4 <= region.first_line <= region.last_line <= total and region.name, region
    starts = [(r.first_line, -r.last_line) for r in module.regions]
    assert [first for first, _ in starts] == sorted(first for first, _ in starts)
    for i, outer in enumerate(module.regions):
        for inner in module.regions[i + 1 :]:
            apart = inner.first_line > outer.last_line
            assert apart or inner.last_line <= outer.last_line, (outer, inner)
    assert not unmapped(module)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_line_of_a_kernel_comes_from_a_key(kernel: str) -> None:
    assert_sound(modules_of_specs()[kernel])


@pytest.mark.parametrize("mask", ["mask", "none"])
@pytest.mark.parametrize("partition", ["inner", "inner_outer", "thread_value"])
def test_every_line_of_several_statements_comes_from_a_key(partition: str, mask: str) -> None:
    module = module_of(SEVERAL.format(partition=partition, mask=mask))
    assert_sound(module)
    lines = module.text.split("\n")
    for line, key in (
        ("store_E = ", "schedule.copy"),
        ("tDrE_out = ", "schedule.copy"),
        ("product_value = ", "compute"),
        ("result_E = ", "compute"),
        ("cD = ", "compute" if mask == "none" else "schedule.predication"),
        ("coords_N = ", "compute"),
    ):
        number = next(i for i, text in enumerate(lines, 1) if text.strip().startswith(line))
        region = module.region_at(number)
        assert region is not None and region.key == key, line


@settings(max_examples=40, deadline=None)
@given(VALID)
def test_every_line_of_any_kernel_comes_from_a_key(text: str) -> None:
    with contextlib.suppress(SpecError):
        assert_sound(generate(text, "specs/trial.yaml").modules[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_innermost_region_wins(kernel: str) -> None:
    module = modules_of_specs()[kernel]
    for line in range(1, module.text.count("\n") + 1, 1 + len(module.regions) // 1000):
        around = [(i, r) for i, r in enumerate(module.regions) if r.first_line <= line <= r.last_line]
        smallest = min(around, key=lambda one: (one[1].last_line - one[1].first_line, -one[0]), default=(0, None))
        assert module.region_at(line) == smallest[1]


# Each third has every atom of gemms and a workspace, and the first one here kernels of several cases in one
@pytest.mark.parametrize("first", sampled([2, 1, 0]))
def test_marks_leave_no_trace(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same templates with a tag that prints nothing give the same bytes, but that regions choose among fields which
    tell the same cases apart.
    """
    monkeypatch.setattr(merged, "_keys", lambda node: frozenset())
    texts = _texts(first)
    monkeypatch.setattr(RegionTag, "_begin", lambda self, path, name: "")
    monkeypatch.setattr(RegionTag, "_end", lambda self: "")
    for module in (printing, forms, launching):
        monkeypatch.setattr(module, "begin", lambda path, name: ())
        monkeypatch.setattr(module, "end", lambda: ())
    monkeypatch.setattr(merging, "marked", lambda text, regions: text)  # of conditions of cases
    environment_module.environment.cache_clear()
    try:
        assert _texts(first, regions=False) == texts
    finally:
        environment_module.environment.cache_clear()


def _texts(first: int, regions: bool = True) -> list[str]:
    files = sorted((ROOT / "specs").glob("*.yaml"))[first::3]
    modules = [m for file in files for m in generate(file.read_text(encoding="utf-8"), f"specs/{file.name}").modules]
    assert all(bool(module.regions) == regions for module in modules)
    return [module.text for module in modules]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_lines_of_the_header_count(kernel: str) -> None:
    """A constant's region is named as the constant, and is where it is assigned, or a field of what cases share."""
    module = modules_of_specs()[kernel]
    lines = module.text.split("\n")
    constants = [r for r in module.regions if r.name.isupper() and r.first_line == r.last_line]
    # Those of cases have numbers
    wanted = {"TARGETS"} if "\nclass Case" in module.text else {"TARGETS", "THREADS", "VALUES"}  # or they follow
    wanted -= {"VALUES"} if re.search(r"\nROWS(_\d+)? = ", module.text) else set()  # of a thread, of two kinds of tiles
    assert wanted <= {re.sub(r"_\d+$", "", r.name) for r in constants}
    for region in constants:
        assigned = (f"{region.name} = ", f"    {region.name}: ", f"    {region.name} = property(")
        assert lines[region.first_line - 1].startswith(assigned)


SUMMARY = "summary: Copy with a thread-value partition, four 128-bit accesses a thread."


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\u2029"])
def test_characters_that_only_look_like_line_ends_do_not_count(odd: str) -> None:
    text = (ROOT / "specs/copy_tv.yaml").read_text(encoding="utf-8")
    odd_summary = f'summary: "four\\u{ord(odd):04x}128-bit accesses a thread"'
    changed = generate(text.replace(SUMMARY, odd_summary), "specs/copy_tv.yaml").modules[0]
    assert odd not in changed.text
    assert changed.regions == modules_of_specs()["copy_tv"].regions


def test_separate() -> None:
    marked = "one\n\0a.b\0outer\ntwo\n\0c\0inner\nthree\n\0\n\0d\0empty\n\0\n\0\0nothing\nfour\n\0\nfive\n\0\nsix\n"
    text, regions = separate(marked)
    assert text == "one\ntwo\nthree\nfour\nfive\nsix\n"
    assert regions == (Region(2, 5, ("a", "b"), "outer"), Region(3, 3, ("c",), "inner"))
    assert [region_at(regions, n) and region_at(regions, n).name for n in range(1, 7)] == [  # type: ignore[union-attr]
        None, "outer", "inner", "outer", "outer", None,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="inside of a line"):
        separate("one \0a\0b\n\0\n")


# ------------------------------------------------------- the key that a region names is the one that its lines follow

# Every field that planning would infer is written: a change of one changes nothing else.
PACKED = """
cutegen: 1
kernel: gate
op: elementwise
tensors:
  GU: {shape: [M, 2*N], dtype: f32}
  G: {shape: [M, N], view: "GU[:, :N]"}
  U: {shape: [M, N], view: "GU[:, N:]"}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = G * U
targets: [sm_80]
"""
TAKEN = """
cutegen: 1
kernel: work
op: elementwise
tensors:
  W: {shape: [V, D], dtype: f32, at: {V: ids}}
  ids: {shape: [T], dtype: i64}
  rows: {shape: [T], dtype: i64}
  Y: {shape: [T, D], dtype: f32, role: out}
compute: Y = W * cast(ids + rows, f32)
targets: [sm_80]
"""
BLOCKED = """
cutegen: 1
kernel: work
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  s: {shape: [NB], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
modes:
  NB: {blocks: N, size: 128}
compute: Y = X * s
targets: [sm_80]
"""
THREAD_VALUE = """
cutegen: 1
kernel: work
summary: Some words.
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, major: N, align: 16}
  B: {shape: [N], dtype: f32, align: 16}
  D: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
scalars: {alpha: f32}
compute: D = alpha * gelu(S) + B
schedule:
  partition: thread_value
  thread_layout: (4,32):(32,1)
  value_layout: (4,4):(4,1)
  copy: {atom: universal, bits: 128, evict_priority: evict_normal}
  predication: {M: mask, N: mask}
  scheduler: {raster: N}
targets: [sm_80, sm_90a]
static: {}
divisible: {N: 4}
"""
INNER_OUTER = THREAD_VALUE.replace("thread_value", "inner_outer").replace(
    "  value_layout: (4,4):(4,1)\n", "  tiler: {M: 16, N: 128}\n"
).replace("bits: 128", "bits: 32").replace("{N: 4}", "{M: 16, N: 256}")  # fmt: skip
INNER_OUTER_RUNS = INNER_OUTER.replace("bits: 32", "bits: 128")
INNER = """
cutegen: 1
kernel: work
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, major: N, align: 16}
  D: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: D = S
schedule:
  partition: inner
  tiler: {M: 1, N: 4}
  threads: 256
  copy: {atom: universal, bits: 128, evict_priority: evict_normal}
  predication: {M: mask, N: none}
  scheduler: {raster: N}
targets: [sm_80]
divisible: {N: 8}
"""
SEVERAL = """
cutegen: 1
kernel: work
op: elementwise
tensors:
  S: {{shape: [M, N], dtype: f32}}
  D: {{shape: [M, N], dtype: f32, role: out}}
  E: {{shape: [M, N], dtype: bf16, role: inout}}
compute:
  - product = S * E
  - D = where(coord(N) < coord(M), product, 0)
  - E = D + product
schedule:
  partition: {partition}
  predication: {{M: {mask}, N: {mask}}}
"""
GEMM = """
cutegen: 1
kernel: work
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  X: {shape: [M], dtype: f32, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: inout}
scalars: {alpha: f32}
compute: C = alpha * (A @ B.T) + X + C
schedule:
  tiler: {M: 128, N: 128, K: 8}
  mma:
    atom: fma
    thread_layout: (16,16,1):(1,16,0)
    permutation: {M: "(16,4):(4,1)", N: "(16,4):(4,1)"}
    accumulator: f32
  copies:
    A: {atom: cp_async, bits: 128, thread_layout: "(32,8):(1,32)", value_layout: "(4,1):(1,0)"}
    B: {atom: universal, bits: 128, thread_layout: "(32,8):(1,32)", value_layout: "(4,1):(1,0)"}
    C: {atom: universal, bits: 128}
  smem: {A: {pad: 0}, B: {pad: 0}}
  pipeline: {stages: 3}
  predication: {M: mask, N: mask, K: residue_first}
  scheduler: {raster: M, swizzle: 4}
targets: [sm_80, sm_90a]
divisible: {M: 4, N: 4}
"""
TURNED = (
    GEMM.replace("[N, K], dtype: f32, major: N", "[N, K], dtype: f32, major: K")
    .replace("    B: {atom: universal,", "    B: {atom: cp_async,")
    .replace("  smem:", '  workspace: {B: {major: N, thread_layout: "(16,16):(1,16)"}}\n  smem:')
)
# A row that is walked has a loop around what it loads and computes, and pieces of one size, whose last one is masked
WALKED = {"compute", "schedule.copy", "schedule.predication", "schedule.threads_per_row", "schedule.tiler", "tensors"}
ROWS = """
cutegen: 1
kernel: unit_rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * rsqrt(sum(X * X, N))
schedule: {threads_per_row: 64, keep: registers}
targets: [sm_80]
static: {N: 512}
"""
ANY_ROWS = ROWS.replace(
    "threads_per_row: 64, keep: registers", "keep: registers, shorter: fewer_threads, longer: refuse"
).replace("static: {N: 512}\n", "")
EXPONENTIALS = ROWS.replace("X * rsqrt(sum(X * X, N))", "X - log(sum(exp(X - max(X, N)), N))").replace(
    "registers", "reload, online: walked, math: precise"
)
SHARED = "cluster: {N: 2}, scheduler: {kind: persistent}, pipeline: {stages: 2}}"
LONG_ROWS = ROWS.replace("keep: registers}", SHARED).replace("sm_80", "sm_90a").replace("N: 512", "N: 2048")
WARPSPECIALIZED = """\
cutegen: 1
kernel: work
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 128}
  cluster: {M: 2}
  mma: {atom: wgmma, rows: M}
  warps: {roles: cooperative, consumers: 2, registers: {producer: 40, consumer: 232}}
  copies: {A: {box: 64, misaligned: workspace}, C: {atom: tma, columns: 64, stages: 2}}
  smem: {A: {swizzle: 128}}
  pipeline: {stages: 2}
  scheduler: {kind: persistent, swizzle: 8, blocks: 132, launch: dependent}
"""
IN_TURN = WARPSPECIALIZED.replace("roles: cooperative", "roles: pingpong, turns: all")
MMA_SYNC = """\
cutegen: 1
kernel: work
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 64, N: 64, K: 64}
  mma: {atom: mma_sync, atom_layout: "(2,2,1):(1,2,0)"}
  copies: {A: {atom: cp_async, bits: 128}, C: {atom: universal, bits: 128}}
  smem: {A: {swizzle: 128}}
  pipeline: {stages: 3}
  scheduler: {raster: M, swizzle: 8}
targets: [sm_80]
"""
ATTENTION = """\
cutegen: 1
kernel: work
op: contract
tensors:
  Q: {shape: [M, D], dtype: bf16, major: D, align: 16}
  K: {shape: [N, D], dtype: bf16, major: D, align: 16}
  V: {shape: [N, E], dtype: bf16, major: E, align: 16}
  O: {shape: [M, E], dtype: bf16, major: E, align: 16, role: out}
compute:
  - s = sum(Q * K, D)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
schedule:
  tiler: {M: 64, N: 64}
  mma: {atom: mma_sync, warps: 4}
  pipeline: {stages: 2}
  math: fast
targets: [sm_80]
static: {D: 128, E: 64}
"""
SPLIT = """\
cutegen: 1
kernel: work
op: contract
tensors:
  Q: {shape: [M, R, D], dtype: bf16, major: D, align: 16}
  K: {shape: [N, D], dtype: bf16, major: D, align: 16}
  V: {shape: [N, E], dtype: bf16, major: E, align: 16}
  O: {shape: [M, R, E], dtype: bf16, major: E, align: 16, role: out}
compute:
  - s = where(coord(N) <= coord(M), sum(Q * K, D), -inf)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
schedule:
  split: {N: 2}
  tiler: {M*R: 16, N: 64}
  mma: {atom: mma_sync, warps: 1}
  pipeline: {stages: 2}
  math: fast
targets: [sm_80]
static: {D: 128, E: 64}
"""
PROBE = """
cutegen: 1
kernel: work
op: probe
tensors:
  A: {shape: [M, N], dtype: i32, major: M, align: 4}
  D: {shape: [T, V], dtype: i32, major: V, align: 4, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 24, N: 1}
targets: [sm_80]
"""

# base, field, its other value, and the keys of other lines that follow it as well
TILES = {"schedule.partition"}  # of a thread-value partition: both layouts make them
GUARDS = {"schedule.predication"}
PROMISED = {"divisible"}  # no predicate on M: its size is promised to be a multiple of the tile's
# Of warps with roles: who gives a stage back, and how many, is said where barriers are made and tiles are walked
TILE = {"schedule.tiler", "schedule.pipeline.stages"}
EXCHANGED = TILE | {"kernel", "schedule.cluster", "schedule.smem", "schedule.smem.B.swizzle", "schedule.scheduler"}
EXCHANGED |= (
    {"schedule.copies.A.box"}
    | {f"schedule.copies.{name}" for name in "ABC"}
    | {f"schedule.tiler.{mode}" for mode in "MNK"}
)
ALONE = TILE | {"schedule.copies.B", "schedule.copies.B.box", "schedule.pipeline", "schedule.scheduler"}
TURNS = TILE | {
    "schedule.copies.C",
    "schedule.mma",
    "schedule.pipeline",
    "schedule.scheduler",
    "schedule.warps.registers",
}
CASES = """\
cutegen: 1
kernel: scale
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = 2 * X
schedule:
  - for: {N: "<= 8"}
    partition: inner
    copy: {bits: 32}
  - partition: inner
    copy: {bits: 32}
targets: [sm_80]
"""
TILED = """\
cutegen: 1
kernel: tiles
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
  - for: {M: "<= 64"}
    tiler: {M: 128, N: 128}
    mma: {atom: wgmma}
    pipeline: {stages: 3}
    copies: {C: {columns: 64, stages: 2}}
  - tiler: {M: 128, N: 192}
    mma: {atom: wgmma}
    pipeline: {stages: 3}
    copies: {C: {columns: 32, stages: 4}}
"""
HALVED = {"atom": "cp_async", "bits": 64, "thread_layout": "(32,8):(1,32)", "value_layout": "(2,1):(1,0)"}
CHANGES: list[tuple[str, str, Any, set[str]]] = [
    (TAKEN, "tensors.W.at", {"V": "rows"}, {"tensors.ids", "tensors.rows"}),
    (PACKED, "tensors.G.view", "GU[:, N:]", {"compute"}),
    (BLOCKED, "modes.NB.size", 64, {"tensors.s.shape", "compute"}),
    (CASES, "schedule.0.for.N", "<= 16", set()),
    (TILED, "schedule.0.copies.C.columns", 32, {"schedule.1"}),  # its fields are named, or not, where those of 0 are
    (TILED, "schedule.0.copies.C.stages", 3, set()),
    (ROWS, "schedule.threads_per_row", 32, {"schedule.tiler"}),
    (ROWS, "schedule.keep", "reload", WALKED),
    (ANY_ROWS, "schedule.shorter", "mask", (WALKED - {"compute"}) | {"kernel", "schedule.scheduler.raster"}),
    (
        ANY_ROWS,
        "schedule.longer",
        "reload",
        WALKED | {"kernel", "schedule.keep", "schedule.shorter", "schedule.scheduler.raster"},
    ),
    (
        EXPONENTIALS,
        "schedule.online",
        "never",
        {"compute", "schedule.keep", "schedule.math", *WALKED} - {"tensors", "schedule.tiler"},
    ),
    (EXPONENTIALS, "schedule.math", "fast", set()),
    (LONG_ROWS, "schedule.cluster", {"N": 4}, {"schedule.threads_per_row", "schedule.tiler"}),
    (LONG_ROWS, "schedule.pipeline.stages", 1, {"schedule.copy", "schedule.predication"}),
    (THREAD_VALUE, "kernel", "other", {"schedule.scheduler.raster", "summary"}),
    (THREAD_VALUE, "summary", "Other words.", set()),
    (THREAD_VALUE, "schedule.thread_layout", "(8,32):(32,1)", TILES),
    (THREAD_VALUE, "schedule.value_layout", "(2,4):(4,1)", TILES),
    (THREAD_VALUE, "schedule.copy.bits", 64, TILES),
    (THREAD_VALUE, "schedule.predication.M", "none", {"schedule.predication.N", *PROMISED}),
    # Registers need no zeros where nothing branches
    (THREAD_VALUE, "compute", "D = alpha * S + B", {*GUARDS, "summary"}),
    (THREAD_VALUE, "schedule.copy.evict_priority", "no_allocate", set()),
    (THREAD_VALUE, "schedule.scheduler.raster", "M", {"kernel"}),  # whose parameters name the mode
    (THREAD_VALUE, "tensors.B.shape", ["M"], {*TILES, *GUARDS, "schedule.copy"}),
    (THREAD_VALUE, "tensors.S.align", 32, set()),
    (THREAD_VALUE, "tensors.S.dtype", "f16", {"compute", "schedule.copy"}),
    (THREAD_VALUE, "divisible.N", 8, set()),
    (THREAD_VALUE, "targets", ["sm_80"], set()),
    (INNER_OUTER, "schedule.thread_layout", "(8,32):(32,1)", {"schedule.tiler"}),
    (INNER_OUTER, "schedule.tiler.M", 32, {"schedule.thread_layout"}),
    (INNER_OUTER, "schedule.predication.M", "none", {"schedule.predication.N"}),
    # From single elements to runs of them: another way to divide the tile and to deal it out
    (INNER_OUTER, "schedule.copy.bits", 128, {"schedule.thread_layout", "schedule.predication"}),
    (INNER_OUTER_RUNS, "schedule.copy.bits", 64, {"schedule.thread_layout"}),
    (INNER_OUTER_RUNS, "schedule.thread_layout", "(8,32):(32,1)", {"schedule.tiler"}),
    (INNER_OUTER_RUNS, "schedule.tiler.M", 32, {"schedule.thread_layout", "schedule.copy"}),
    (INNER, "schedule.tiler.N", 8, set()),
    (INNER, "schedule.threads", 128, set()),
    (INNER, "schedule.copy.bits", 32, {"schedule.tiler"}),
    (INNER, "schedule.scheduler.raster", "M", {"kernel"}),
    (INNER, "schedule.predication.M", "none", {"schedule.copy"}),
    (
        GEMM,
        "schedule.tiler.K",
        16,
        {
            *("schedule.copies", "schedule.copies.B", "schedule.copies.B.atom", "schedule.mma"),
            *("schedule.pipeline", "schedule.pipeline.store"),  # inferred from the depth
        },
    ),
    (GEMM, "schedule.mma.thread_layout", "(16,16,1):(16,1,0)", set()),
    (GEMM, "schedule.mma.permutation.N", "(16,2):(2,1)", set()),
    (GEMM, "schedule.mma.accumulator", "f64", {"compute", "tensors.A.dtype", "tensors.B.dtype", *GUARDS}),
    (GEMM, "schedule.copies.A.thread_layout", "(32,8):(8,1)", set()),
    (GEMM, "schedule.copies.A.atom", "universal", {"schedule.pipeline"}),
    (GEMM, "schedule.copies.A.bits", 64, set()),
    (GEMM, "schedule.copies.B.atom", "cp_async", {"schedule.pipeline.store"}),
    (GEMM, "schedule.copies.A", HALVED, set()),
    (GEMM, "schedule.copies.C.bits", 32, set()),
    (GEMM, "schedule.smem.A.pad", 8, set()),
    (GEMM, "schedule.scheduler.raster", "N", {"schedule.scheduler.swizzle"}),
    (GEMM, "schedule.scheduler.swizzle", 1, {"tensors"}),  # blocks are counted another way
    (GEMM.replace("stages: 3", "stages: 3, store: 5"), "schedule.pipeline.store", 3, {"schedule.copies.B.atom"}),
    (GEMM, "schedule.pipeline.stages", 2, {"schedule.mma", "schedule.copies"}),
    (
        GEMM.replace("divisible: {M: 4", "divisible: {M: 128"),
        "schedule.predication.M",
        "none",
        {"schedule.copies.A", "schedule.predication.K", "schedule.predication.N", "schedule.pipeline"},
    ),
    (TURNED, "schedule.workspace.B.thread_layout", "(8,32):(1,8)", set()),
    (
        GEMM,
        "schedule.predication.K",
        "none",
        {
            "schedule.copies.A",
            "schedule.copies.B",
            "schedule.predication.M",
            "schedule.predication.N",
            "schedule.pipeline",
            "divisible",
        },
    ),
    (GEMM, "tensors.A.align", 32, set()),
    (GEMM, "tensors.C.major", "N", {"schedule.copies.C", *GUARDS}),
    (GEMM, "tensors.X.shape", ["N"], {"schedule.copies.C", *GUARDS}),
    (GEMM + "static: {K: 1024}\n", "static.K", 2048, {"schedule.copies", "schedule.tiler"}),
    (WARPSPECIALIZED, "schedule.warps.consumers", 1, TILE | {"schedule.copies.C", "schedule.mma"}),
    (WARPSPECIALIZED, "schedule.warps.registers.consumer", 224, set()),
    (WARPSPECIALIZED, "schedule.smem.A.swizzle", 64, {"schedule.copies.A"}),
    (WARPSPECIALIZED, "schedule.pipeline.stages", 3, {"schedule.mma"}),  # of two one is loaded again at once
    (WARPSPECIALIZED, "schedule.mma.rows", "N", EXCHANGED),
    (WARPSPECIALIZED, "schedule.warps.roles", "pingpong", TURNS),
    (IN_TURN, "schedule.warps.turns", "products", {"schedule.scheduler", "schedule.copies.C"}),
    (WARPSPECIALIZED, "schedule.cluster.M", 1, ALONE),
    (WARPSPECIALIZED, "schedule.copies.A.box", 32, set()),
    (WARPSPECIALIZED, "schedule.copies.C.columns", 32, set()),
    (WARPSPECIALIZED, "schedule.copies.A.misaligned", "refuse", {"schedule.copies.B.misaligned", "tensors"}),
    (WARPSPECIALIZED, "schedule.copies.C.stages", 3, {"schedule.warps"}),
    (WARPSPECIALIZED, "schedule.scheduler.swizzle", 4, set()),
    (WARPSPECIALIZED, "schedule.scheduler.blocks", 66, set()),
    (WARPSPECIALIZED, "schedule.scheduler.launch", "serial", set()),
    (MMA_SYNC, "schedule.mma.atom_layout", "(4,1,1):(1,4,0)", set()),
    (MMA_SYNC, "schedule.smem.A.swizzle", 64, set()),
    (MMA_SYNC, "schedule.copies.A.bits", 64, set()),
    (MMA_SYNC, "schedule.pipeline.stages", 2, {"schedule.copies", "schedule.smem.A", "schedule.smem.B"}),
    (ATTENTION, "schedule.mma.warps", 2, {"schedule.pipeline"}),
    (ATTENTION, "schedule.pipeline.stages", 1, set()),
    (
        ATTENTION,
        "schedule.tiler.M",
        128,
        {"schedule.mma", "schedule.mma.warps", "schedule.pipeline", "schedule.pipeline.stages", "tensors"},
    ),
    (SPLIT, "schedule.split.N", 3, set()),
    (SPLIT, "schedule.tiler.M*R", 32, {"schedule.mma", "schedule.mma.warps", "schedule.pipeline", "schedule.split"}),
    (PROBE, "schedule.tv_layout", "((2,2),(2,3)):((1,12),(2,4))", set()),
    (PROBE, "tensors.A.dtype", "i8", {"compute"}),
]


@cache
def module_of(text: str) -> Module:
    return generate(text, "specs/work.yaml").modules[0]


def changed(text: str, field: str, value: Any) -> Module:
    data = yaml.safe_load(text)
    place = data
    *parents, last = field.split(".")
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    assert place[last] != value
    place[last] = value
    return module_of(yaml.safe_dump(data, sort_keys=False))


def touched(module: Module, other: Module) -> set[str]:
    """Keys of the lines that `other` does not have, from the docstring to the tables of the arguments."""
    lines = module.text.split("\n")
    inside = range(4, functions(module)[module.spec.kernel].start)
    matcher = difflib.SequenceMatcher(None, lines, other.text.split("\n"), autojunk=False)
    found = set()
    for tag, start, stop, _, _ in matcher.get_opcodes():
        for number in range(start + 1, stop + 1) if tag != "equal" else ():
            if number in inside and lines[number - 1].strip():
                region = module.region_at(number)
                assert region is not None, lines[number - 1]
                found.add(region.key)
    return found


def related(key: str, field: str) -> bool:
    """Whether one of them is, or holds, the other."""
    return key == field or key.startswith(f"{field}.") or field.startswith(f"{key}.")


@pytest.mark.parametrize(
    ("text", "field", "value", "also"), sampled(CHANGES), ids=[f"{c[0].split()[3]} {c[1]} {c[2]}" for c in CHANGES]
)
def test_a_changed_field_changes_the_lines_that_name_it_and_no_others(
    text: str, field: str, value: Any, also: set[str]
) -> None:
    module, other = module_of(text), changed(text, field, value)
    found = touched(module, other) | touched(other, module)
    own = {key for key in found if related(key, field)}
    assert own, f"{field} changes no line of its own, but {found}"
    assert found - own == also


def test_the_checks_of_scalars_come_from_the_scalars() -> None:
    lines = module_of(THREAD_VALUE).text.split("\n")
    region = [r for r in module_of(THREAD_VALUE).regions if r.name == "checks of the scalars"][-1]
    assert region.path == ("scalars",)
    checks = lines[region.first_line - 1 : region.last_line]
    assert '("alpha",)' in checks[0] and "isinstance(x, numbers.Real)" in checks[1]


def test_every_claim_is_put_to_the_test() -> None:
    """Of every key that a module of the repository names, some change above touches the lines, or those of its parts.

    But of the expression, which has tests of its own, of the partition, which stands for its two layouts, and of roles
    that are told apart where kernels of both are one.
    """
    own: set[str] = {"scalars", "compute", "schedule.partition", "schedule.warps.roles"}
    own.add("modes.M")  # the ends of segments are in no statement, so that no other tensor can have them
    for text, field, value, _ in CHANGES:
        module, other = module_of(text), changed(text, field, value)
        own |= {key for key in touched(module, other) | touched(other, module) if related(key, field)}
    modules = modules_of_specs().values()
    names = {mode for m in modules for mode in m.spec.modes}
    names |= {t.name for m in modules for t in (*m.spec.tensors, *m.plan.spec.tensors)}

    def pattern(key: str) -> str:
        of_all_cases = (part for part in key.split(".") if not part.isdigit())
        return ".".join("*" if part in names else part for part in of_all_cases)

    tested = [pattern(key) for key in own]
    claims = {pattern(r.key) for m in modules for r in m.regions}
    assert not [c for c in claims if not any(t == c or t.startswith(f"{c}.") for t in tested)]
