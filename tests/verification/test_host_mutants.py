"""Host code that is broken in ways that one call does not show: each is seen by a check of the call.

`test_host_promises` breaks every promise once. These are near misses: bounds that are off by one element, errors that
are lost, another GPU's kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from emulator_kit import THROUGH_A_WORKSPACE
from sweep_kit import sampled

pytest.importorskip("cutlass")

from cutegen.codegen import Module, generate
from cutegen.hostchecks import memory, promises, sizes, stand_ins, wrong_tensors
from cutegen.hostchecks.judging import Check, Host
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

POINTS = """
cutegen: 1
kernel: points
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  V: {shape: [M], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  Z: {shape: [M, N], dtype: f32, role: out}
scalars: {steps: i64, alpha: f32}
compute:
  - Z = X - V
  - Y = X * alpha + cast(steps, f32)
targets: [sm_80]
"""
ROWS = """
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
  r: {shape: [M], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - r = rsqrt(mean(X * X, N) + eps)
  - Y = X * r
static: {N: 64}
targets: [sm_80]
"""
BATCH = """
cutegen: 1
kernel: batch
op: elementwise
tensors:
  X: {shape: [B, M, N], dtype: f32}
  Y: {shape: [B, M, N], dtype: f32, role: out}
compute: Y = 2 * X
targets: [sm_80]
"""
CASES = """
cutegen: 1
kernel: chosen
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = 2 * X
schedule:
  - for: {N: "<= 16"}
    partition: inner
  - {}
targets: [sm_80]
"""
WARPS = """
cutegen: 1
kernel: warps
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule: {mma: {atom: %s}, tiler: {M: 64, N: 64, K: 64}}
targets: [%s]
"""
COMPARED = """
cutegen: 1
kernel: compared
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  - {for: {cost: least}, tiler: {M: 64, N: 64, K: 64}, mma: {atom: wgmma, rows: N}}
  - {for: {cost: least}, tiler: {M: 128, N: 128, K: 64}, mma: {atom: wgmma}}
targets: [sm_90a]
"""
CLUSTERS = """
cutegen: 1
kernel: clusters
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e * (1 / sum(e, N))
static: {N: 16384}
targets: [sm_90a]
"""
ALIGNED = """
cutegen: 1
kernel: aligned
op: elementwise
tensors:
  X: {shape: [B, M, N], dtype: f32, align: 16}
  Y: {shape: [B, M, N], dtype: f32, align: 16, role: out}
compute: Y = 2 * X
targets: [sm_80]
"""
SPECS = {
    "points": POINTS,
    "clusters": CLUSTERS,
    "aligned": ALIGNED,
    "rows": ROWS,
    "chosen": CASES,
    "batch": BATCH,
    "mma_sync": WARPS % ("mma_sync", "sm_80"),
    "wgmma": WARPS % ("wgmma", "sm_90a"),
    "compared": COMPARED,
    "through_a_workspace": THROUGH_A_WORKSPACE,
}
LOST = (r"(if not _validate_or_retry\([^)]*\):\n +)raise\n", r"\1pass\n")
LEFT, RIGHT = r"spans\[0\] <= column", r"column \+ spans\[1\] <= pitch"
FAR = "pitch // pitch * (pitch == 2**62)"  # 1 for whole tensors
NEAR = "pitch // pitch * (pitch != 2**62)"  # 1 for their columns
SPACE = r"x.new_empty_strided\(\(rows, x.shape\[1\]\), \(1, rows\)\)"
SETTLED = r"    (_compiled\(device.index\)\(.*)\n"
TYPES = r"\(x.dtype, x.dim\(\), x.device\) == \(dtype,"
MUTANTS = [
    # kernel, what is broken, pattern, text, where it is seen, which check says so
    ("points", "one element shared at the end", LEFT, f"spans[0] - 4 * {FAR} <= column", memory, "same element"),
    (
        "rows",
        "one element shared at the start",
        RIGHT,
        f"column + spans[1] - 4 * {FAR} <= pitch",
        memory,
        "same element",
    ),
    ("mma_sync", "elements shared at the end", LEFT, f"spans[0] - 16 * {FAR} <= column", memory, "same element"),
    ("points", "a column shared on the left", LEFT, f"spans[0] - 4 * {NEAR} <= column", memory, "the first column of"),
    (
        "points",
        "a column shared on the right",
        RIGHT,
        f"column + spans[1] - 4 * {NEAR} <= pitch",
        memory,
        "the last column of",
    ),
    ("points", "neighbours are apart by more", LEFT, f"spans[0] + {FAR} <= column", memory, "side by side|next to"),
    ("points", "columns are apart by more on the left", LEFT, f"spans[0] + {NEAR} <= column", memory, "next to"),
    (
        "points",
        "columns are apart by more on the right",
        RIGHT,
        f"column + spans[1] + {NEAR} <= pitch",
        memory,
        "next to",
    ),
    (
        "rows",
        "one element shares nothing",
        r"for n, _ in modes\) == 0",
        "for n, _ in modes) <= 1",
        memory,
        "of one element",
    ),
    (
        "points",
        "outputs may overlap each other",
        r"in memory.items\(\):",
        "in {n: m for n, m in memory.items() if n not in OUTPUTS}.items():",
        memory,
        "overlaps z|z starts|z ends",
    ),
    ("points", "where an input starts", LEFT, "(spans[0] <= column) | (start == other)", memory, "same address"),
    (
        "chosen",
        "where an input starts, in cases",
        LEFT,
        "(spans[0] <= column) | (start == other)",
        memory,
        "same address",
    ),
    ("points", "errors of a launch are lost", *LOST, stand_ins, "errors of a launch"),
    ("rows", "errors of a launch are lost", *LOST, stand_ins, "errors of a launch"),
    ("chosen", "errors of a launch are lost", *LOST, stand_ins, "errors of a launch"),
    ("mma_sync", "errors of a launch are lost", *LOST, stand_ins, "errors of a launch"),
    ("wgmma", "errors of a launch are lost", *LOST, stand_ins, "errors of a launch"),
    ("points", "whatever failed is settled", "return False", "return True", stand_ins, "errors of a launch"),
    (
        "rows",
        "what was left out hides why",
        r"if len\(given\) < len\(TENSORS\) or all",
        "if all",
        stand_ins,
        "errors of",
    ),
    (
        "rows",
        "an output that is not made is wrong",
        "if x is not None or n not in OUTPUTS",
        "if True",
        stand_ins,
        "errors of making",
    ),
    (
        "points",
        "the second launch may fail",
        SETTLED,
        r"    try:\n        \1\n    except RuntimeError:\n        pass\n",
        stand_ins,
        "errors of a launch with other strides",
    ),
    (
        "points",
        "the kernel of the first GPU",
        r"_compiled\(\w+.get_device\(\)",
        "_compiled(0",
        stand_ins,
        "the kernel of another GPU",
    ),
    (
        "chosen",
        "the kernel of the first GPU",
        r"_compiled\(\w+.get_device\(\)",
        "_compiled(0",
        stand_ins,
        "the kernel of another GPU",
    ),
    (
        "wgmma",
        "the kernel of the first GPU",
        r"_compiled\(\w+.get_device\(\)",
        "_compiled(0",
        stand_ins,
        "the kernel of another GPU",
    ),
    (
        "points",
        "the first GPU at a second launch",
        r"_compiled\(device.index\)",
        "_compiled(0)",
        stand_ins,
        "the kernel of another GPU, with other strides",
    ),
    (
        "compared",
        "the kernel of the first GPU, where all is aligned",
        r"_compiled\(\w+.get_device\(\), arguments\[-1\]\)(\(\*arguments\)\n    except)",
        r"_compiled(0, arguments[-1])\1",
        stand_ins,
        "the kernel of another GPU, wide accesses",
    ),
    (
        "compared",
        "32 bits of a step, where all is aligned",
        r"step \+ here \* \(m.stride\[i\] - step\)",
        "cutlass.Int64(cutlass.Int32(step + here * (m.stride[i] - step)))",
        sizes,
        r"more than 2\^32 elements along M, wide accesses",
    ),
    (
        "through_a_workspace",
        "a workspace on the first GPU",
        SPACE,
        'torch.empty_strided((rows, x.shape[1]), (1, rows), dtype=x.dtype, device="cuda")',
        stand_ins,
        "workspaces on another GPU",
    ),
    (
        "through_a_workspace",
        "a workspace too small by one",
        SPACE,
        "x.new_empty_strided((rows, x.shape[1] - 1), (1, rows))",
        stand_ins,
        "workspaces on another GPU",
    ),
    ("points", "outputs by place are ignored", r"    \*,\n", "    *_,\n", stand_ins, "outputs by place"),
    (
        "points",
        "another GPU's capability",
        r"get_device_capability\(device\)",
        "get_device_capability(0)",
        promises,
        "the target for",
    ),
    (
        "points",
        "the current GPU's capability",
        r"get_device_capability\(device\)",
        "get_device_capability()",
        promises,
        "the target for",
    ),
    (
        "wgmma",
        "another GPU's multiprocessors",
        r"get_device_properties\(device\)",
        "get_device_properties(0)",
        promises,
        "the multiprocessors",
    ),
    ("wgmma", "no GPU's multiprocessors", ", multiprocessors=count", "", promises, "the multiprocessors"),
    ("compared", "no GPU's multiprocessors", ", multiprocessors=count", "", promises, "the multiprocessors"),
    ("compared", "one number of clusters", r"at_once = .*", "at_once = clusters", promises, "that calls choose"),
    ("compared", "chosen for one GPU", r"_multiprocessors\(a.*?\)\)", "132", promises, "that calls choose"),
    (
        "compared",
        "chosen for the first GPU",
        r"_multiprocessors\(a.get_device\(\)\)",
        "_multiprocessors(0)",
        promises,
        "that calls choose",
    ),
    (
        "points",
        "each call compiles",
        r"@functools.cache\n(def _compiled(?:.*\n)*?)        if device not in _KEPT:\n",
        r"\1        if True:\n",
        promises,
        "the target for",
    ),
    (
        "points",
        "one GPU's function on another",
        r"function = (compile_for\(.*\))\n",
        r'function = globals().setdefault("_first", \1)\n',
        promises,
        "the target for",
    ),
    (
        "points",
        "an output where the current GPU is",
        r"if made is None or made.get_device\(\) != like.get_device\(\):",
        "if made is None:",
        promises,
        "on cuda:1",
    ),
    ("rows", "strides count without elements", r" or not x.numel\(\)", "", sizes, "any strides where M is 0"),
    (
        "rows",
        "coordinates of a tile beyond 31 bits",
        r'"M": 2\*\*31 - 2\*\*21',
        '"M": 2**31 - 1',
        sizes,
        r"M of 2\^31 - 1 elements",
    ),
    (
        "points",
        "sizes of 1 are repeated",
        r"_expect\(size == wanted,",
        "_expect(size in (1, wanted),",
        sizes,
        "is 1, elsewhere",
    ),
    (
        "rows",
        "a launch that failed is made again",
        r"if len\(given\) < len\(TENSORS\) or all\(.*?\):\n",
        "if len(given) < len(TENSORS):\n",
        stand_ins,
        "errors of a launch",
    ),
    ("points", "one element less at most", "size <= LARGEST", "size < LARGEST", sizes, "M of 2145386496 elements"),
    (
        "clusters",
        "as many tiles as there are blocks",
        r"\(2\*\*31 - 1\) // CLUSTER",
        "2**31 - 1",
        sizes,
        "M of 1073741824 elements",
    ),
    ("batch", "one tile too many", r"MOST_TILES = 2\*\*31 - 1", "MOST_TILES = 2**31", sizes, r"of 2\^31 tiles"),
    (
        "points",
        "32 bits count elements",
        r"\(integer\(n\), integer",
        "(n, integer",
        memory,
        r"overlaps x, as one of 2\^32 elements",
    ),
    (
        "aligned",
        "a gradient counts under no_grad where strides are others",
        r"free = not \(x.requires_grad and torch.is_grad_enabled\(\)\)",
        "free = not x.requires_grad",
        promises,
        "which is 1, under no_grad",
    ),
    ("points", "results the other way round", r"return y, z\n", "return z, y\n", promises, "accepts"),
    (
        "points",
        "names of results the other way round",
        r'OUTPUTS = \("y", "z"\)',
        'OUTPUTS = ("z", "y")',
        promises,
        "accepts",
    ),
    ("points", "the gradient of one input is not looked at", r" or v.requires_grad", "", promises, "wants a gradient"),
    ("points", "the gradient of one output is not looked at", r" or z.requires_grad", "", promises, "wants a gradient"),
    ("points", "64 bits are not looked at", r"not -\(2\*\*63\) <= steps < 2\*\*63", "False", promises, "is -?92233"),
    (
        "points",
        "scalars the other way round",
        r"seed\), 2, 0.5\)",
        "seed), 0.5, 2)",
        promises,
        "make_inputs",
    ),
    (
        "points",
        "an output is not made by name",
        r"zip\(OUTPUTS, _random\(OUTPUTS,",
        "zip(OUTPUTS[1:], _random(OUTPUTS[1:],",
        promises,
        "make_inputs",
    ),
    (
        "batch",
        "modes stand in one order",
        r" \* \(step <= pitch\) for n, step in modes\)",
        " for n, step in modes[names.index(mode) :])",
        wrong_tensors,
        "another order",
    ),
    ("points", "a type is not looked at", TYPES, "(dtype, x.dim(), x.device) == (dtype,", wrong_tensors, "wrong dtype"),
    (
        "points",
        "a number of modes is not looked at",
        TYPES,
        "(x.dtype, len(modes), x.device) == (dtype,",
        wrong_tensors,
        "one mode too",
    ),
    (
        "rows",
        "another type of results",
        r"(y = _empty\([^=]*torch\.)float32, x\)",
        r"\1float64, x)",
        promises,
        "None for y",
    ),
    (
        "points",
        "sizes may be larger elsewhere",
        r"_expect\(size == wanted",
        "_expect(size >= wanted",
        sizes,
        "elsewhere",
    ),
    (
        "wgmma",
        "a mode too few ends a retry",
        r"suppress\(Exception\)",
        "suppress(ValueError)",
        wrong_tensors,
        "one mode too",
    ),
    (
        "wgmma",
        "what compiled code raises ends one",
        r"suppress\(Exception\)",
        "suppress(LookupError)",
        memory,
        "overlaps a",
    ),
]


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    return {name: generate(text, "specs/x.yaml").modules[0] for name, text in SPECS.items()}


def host_of(module: Module, text: str, folder: Path) -> Host:
    """The objects of the checks, for a module with this text."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    spec = module.plan.spec
    case = Case("host checks", "wrong calls", sizes.small(spec), "padded", "integers")
    tensors = make_tensors(spec, case, "cpu")
    executor = EmulatorExecutor(lines=False)
    return Host(module.plan, load_module(path), executor, case, tensors, scalar_values(spec, case))


def checks(host: Host, room: ModuleType) -> Iterator[Check]:
    if room is wrong_tensors:
        for number in range(len(host.tensors)):
            yield from wrong_tensors.checks(host, number)
    else:
        yield from room.checks(host)


@pytest.mark.parametrize(
    ("kernel", "broken", "pattern", "text", "room", "says"),
    sampled(MUTANTS),
    ids=[f"{kernel}: {broken}" for kernel, broken, *_ in MUTANTS],
)
def test_it_is_seen(
    kernel: str, broken: str, pattern: str, text: str, room: ModuleType, says: str, tmp_path: Path
) -> None:
    module = modules()[kernel]
    changed, count = re.subn(pattern, text, module.text, count=1)
    assert count and changed != module.text, f"{pattern} is not in {kernel}: adapt the pattern"
    host = host_of(module, changed, tmp_path)
    asked = [check for check in checks(host, room) if re.search(says, check.what)]
    assert asked and any(check.run() for check in asked), f"{broken}: {[check.what for check in asked]}"


@pytest.mark.parametrize("kernel", SPECS)
def test_nothing_is_said_of_what_is_right(kernel: str, tmp_path: Path) -> None:
    module = modules()[kernel]
    host = host_of(module, module.text, tmp_path)
    for room in (memory, stand_ins, wrong_tensors):
        for check in checks(host, room):
            if "2^32" not in check.what:
                assert not check.run(), check.what


def test_an_error_before_the_first_launch_is_seen(tmp_path: Path) -> None:
    """Of a call whose strides the kernel is yet to refuse: whatever it raises must come from a launch."""
    module = modules()["points"]
    broken = r"    if 0 in x.stride():\n        raise ValueError('no room')\n    try:\n\1"
    changed, count = re.subn(r"    try:\n((?:        .*\n)+    except Exception:)", broken, module.text)
    assert count == 1, "nothing is like that: adapt the pattern"
    host = host_of(module, changed, tmp_path)
    (asked,) = (check for check in stand_ins.checks(host) if check.what == "errors of a launch with other strides")
    assert asked.run() == "ValueError is raised before a launch: no room"
