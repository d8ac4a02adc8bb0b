"""Every access that the room finds in a plan, against the addresses that the compiled PTX has when it runs.

The PTX counts what it moves in instructions of a whole block; here they are compared warp by warp, lane by lane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from analysis_kit import WARP, Event, Recording, image, record, sectors_of, ways_of, workspace_of
from planning_specs import document
from specs_kit import SPECS, modules_of

from cutegen.analysis import Access, Sectors, accesses, conflicts, sectors
from cutegen.analysis.accesses import FAR, strides_of
from cutegen.codegen import Module, generate
from cutegen.dtypes import Dtype
from cutegen.emulator.memory.tensor_maps import swizzled
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import WARPGROUP
from cutegen.families.gemm.wgmma.shared_memory import parts_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.language.model import Tensor

Request = tuple[int, int, frozenset[tuple[int, int]]]  # warp, bytes a lane, (thread, address)
EIGHT = {"mma": {"thread_layout": "(8,8,1):(1,8,0)"}}


def tensors(dtype: str, shapes: dict[str, str], fields: dict[str, dict[str, object]]) -> dict[str, object]:
    out = list(shapes)[-1]
    role = {out: {"role": "out"}}
    return {n: {"shape": list(s), "dtype": dtype} | role.get(n, {}) | fields.get(n, {}) for n, s in shapes.items()}


def pointwise(
    compute: str, shapes: dict[str, str], schedule: dict[str, object], dtype: str = "f32", **more: object
) -> str:
    """An elementwise spec; `more` are fields of a tensor (in upper case) and of the document."""
    fields = {name: value for name, value in more.items() if name.isupper()}
    rest = {name: value for name, value in more.items() if not name.isupper()}
    return document("elementwise", tensors(dtype, shapes, fields), compute, schedule, **rest)  # type: ignore[arg-type]


def product(
    schedule: dict[str, object],
    majors: str,
    dtype: str = "f32",
    compute: str = "A @ B.T",
    static: dict[str, int] | None = None,
    **more: str,
) -> str:
    """A gemm on tiles of 32 x 32 x 8 and 64 threads; `majors` are those of A, B and C; `more` has other operands."""
    fields = {name: {"major": major} for name, major in zip("ABC", majors, strict=True)}
    shapes = {"A": "MK", "B": "NK"} | more | {"C": "MN"}
    schedule = {"tiler": {"M": 32, "N": 32, "K": 8}} | EIGHT | schedule
    return document("gemm", tensors(dtype, shapes, fields), f"C = {compute}", schedule, static=static or {})  # type: ignore[arg-type]


def mma(threads: str, m: str, n: str) -> dict[str, object]:
    return {"mma": {"thread_layout": threads, "permutation": {"M": m, "N": n}}}


def pads(a: int, b: int) -> dict[str, object]:
    return {"smem": {"A": {"pad": a}, "B": {"pad": b}}}


SD, SBD = {"S": "MN", "D": "MN"}, {"S": "MN", "B": "MN", "D": "MN"}
TV = {"thread_layout": "(4,16):(16,1)", "value_layout": "(2,4):(4,1)"}
INNER = {"partition": "inner", "threads": 64}
DEEP = {"tiler": {"M": 32, "N": 32, "K": 16}}
SCHEDULES = {
    "values (4,2)": pointwise("D = S + B", SBD, {"thread_layout": "(8,8):(8,1)", "value_layout": "(4,2):(2,1)"}),
    "values across": pointwise("D = S", SD, {"thread_layout": "(8,8):(8,1)", "value_layout": "(4,2):(1,4)"}),
    "rank 1": pointwise("D = S", {"S": "N", "D": "N"}, {"thread_layout": "64:1", "value_layout": "16:1"}, "f16"),
    "rank 3": pointwise(
        "D = S", {"S": "MNP", "D": "MNP"}, {"thread_layout": "(2,32,1):(1,2,0)", "value_layout": "(2,1,4):(4,0,1)"}
    ),
    "rank 3, inner along M": pointwise(
        "D = S + B", {"S": "MNP", "B": "MP", "D": "MNP"}, INNER | {"tiler": {"M": 4, "N": 1, "P": 1}}
    ),
    "rank 3, inner_outer": pointwise(
        "D = S",
        {"S": "MNP", "D": "MNP"},
        {"tiler": {"M": 4, "N": 8, "P": 16}, "thread_layout": "(2,4,8):(32,8,1)"},
        "f64",
    ),
    "rank 3, inner_outer in runs": pointwise(
        "D = S + B",
        {"S": "MNP", "B": "MP", "D": "MNP"},
        {"tiler": {"M": 2, "N": 8, "P": 32}, "thread_layout": "(2,4,8):(1,2,8)", "copy": {"bits": 64}},
        "f16",
    ),
    "rank 1, inner_outer in runs": pointwise(
        "D = S",
        {"S": "N", "D": "N"},
        {"partition": "inner_outer", "tiler": {"N": 1024}, "thread_layout": "64:1", "copy": {"bits": 128}},
        "bf16",
    ),
    "inner along M": pointwise("D = S", SD, INNER | {"tiler": {"M": 4, "N": 1}}),
    "inner both ways": pointwise("D = S", SD, INNER | {"tiler": {"M": 2, "N": 4}}),
    "inner, N fixed": pointwise("D = S", SD, INNER | {"tiler": {"M": 1, "N": 4}}, static={"N": 16}),
    "inner, an odd N fixed": pointwise("D = S", SD, INNER | {"tiler": {"M": 1, "N": 4}}, static={"N": 12}),
    "a row starts amid a warp": pointwise(
        "D = S",
        SD,
        {"thread_layout": "(4,40):(40,1)", "value_layout": "(2,1):(1,1)"},
        "bf16",
        S={"align": 2},
        D={"align": 2},
    ),
    "four of N": pointwise(
        "D = S", SD, {"thread_layout": "(256,1):(1,1)", "value_layout": "(1,4):(4,1)"}, static={"N": 4}
    ),
    "six of N in rows of eight": pointwise("D = S", SD, INNER | {"tiler": {"M": 1, "N": 6}}, static={"N": 6}),
    "rows of seven": pointwise(
        "D = S",
        {"S": "MNP", "D": "MNP"},
        {"thread_layout": "(2,3,7):(21,7,1)", "value_layout": "(1,1,1):(1,1,1)"},
        static={"N": 3, "P": 7},
        S={"align": 4},
        D={"align": 4},
    ),
    "gemm, all fixed": product(DEEP, "MNN", static={"M": 96, "N": 36, "K": 16}),
    "inner_outer": pointwise(
        "D = S + B",
        {"S": "MN", "B": "M", "D": "MN"},
        {"tiler": {"M": 8, "N": 64}, "thread_layout": "(4,16):(1,4)"},
        "f16",
    ),
    "inner_outer in runs": pointwise(
        "D = S + B + X",
        {"S": "MN", "B": "M", "X": "N", "D": "MN"},
        {"tiler": {"M": 8, "N": 128}, "thread_layout": "(4,(2,8)):(16,(8,1))", "copy": {"bits": 128}},
        S={"dtype": "bf16"},
        B={"dtype": "f16"},
    ),
    "inner_outer in runs down columns": pointwise(
        "D = S",
        SD,
        {"tiler": {"M": 64, "N": 8}, "thread_layout": "(16,4):(1,16)", "copy": {"bits": 64}},
        D={"major": "M"},
        S={"major": "M"},
    ),
    "broadcast": pointwise("D = S * B + X", {"S": "MN", "B": "N", "X": "M", "D": "MN"}, TV),
    "an operand across": pointwise("D = S + B", SBD, TV, S={"major": "M"}),
    "columns": pointwise(
        "D = S",
        SD,
        {"thread_layout": "(16,4):(1,16)", "value_layout": "(4,2):(1,4)"},
        S={"major": "M"},
        D={"major": "M"},
    ),
    "narrow": pointwise("D = S", SD, TV | {"copy": {"bits": 32}}),
    "narrow, whole tiles": pointwise(
        "D = S", SD, TV | {"copy": {"bits": 32}, "predication": {"M": "none", "N": "none"}}
    ),
    "mixed types": pointwise(
        "D = cast(S, f32) + B",
        SBD,
        {"thread_layout": "(4,16):(16,1)", "value_layout": "(1,8):(8,1)"},
        S={"dtype": "f64"},
        B={"dtype": "f16"},
    ),
    "bytes": pointwise("D = S", SD, {"thread_layout": "(2,32):(32,1)", "value_layout": "(1,16):(16,1)"}, "i8"),
    "gemm without permutation": product(mma("(8,8,1):(1,8,0)", "8:1", "8:1"), "MNM"),
    "gemm by rows, two runs": product(mma("(8,8,1):(8,1,0)", "(8,2):(2,1)", "(8,4):(4,1)"), "MNN"),
    "gemm, odd permutations": product(mma("(8,8,1):(8,1,0)", "((4,2),2):((4,1),2)", "(8,4):(1,8)"), "MNN"),
    "gemm, permutations repeat": product(
        {"tiler": {"M": 64, "N": 64, "K": 8}} | mma("(8,8,1):(1,8,0)", "(8,4):(4,1)", "(8,2):(2,1)"), "MNM"
    ),
    "gemm, odd threads": product(
        {"tiler": {"M": 64, "N": 32, "K": 8}, "mma": {"thread_layout": "((2,4),8,1):((1,16),2,0)"}}, "MNN"
    ),
    "gemm, no pad": product(pads(0, 0), "KKN"),
    "gemm, pad 4 and 1": product(pads(4, 1), "MKN"),
    "gemm, pad 1 and 2": product(pads(1, 2), "KKM"),
    "gemm in f16": product(DEEP, "MNN", "f16"),
    "gemm in f16, pad 0 and 1": product(DEEP | pads(0, 1), "KKN", "f16"),
    "gemm in bf16": product(DEEP, "KKM", "bf16"),
    "gemm in f64": product(pads(0, 1), "MKN", "f64"),
    "gemm, copies repeat": product(
        {
            "tiler": {"M": 64, "N": 64, "K": 16},
            "copies": {
                "A": {"thread_layout": "(16,4):(1,16)", "value_layout": "(2,1)"},
                "B": {"thread_layout": "(8,8):(1,8)", "value_layout": "(4,2):(1,4)"},
            },
        },
        "MNN",
    ),
    "gemm, a workspace of two warps": product(
        DEEP | {"workspace": {"B": {"major": "N", "thread_layout": "(16,4):(1,16)"}}}, "MKN", static={"K": 16}
    ),
    "gemm in f16, two workspaces": product(
        DEEP | {"workspace": {"A": {"major": "M"}, "B": {"major": "N"}}}, "KKN", "f16"
    ),
    "gemm, broadcast": product({}, "MNN", compute="A @ B.T + X + Y", X="N", Y="M"),
}


# ------------------------------------------------------------------------------------------------- both sides


def requests(events: Iterable[Event]) -> Counter[Request]:
    """The accesses of the PTX, instruction by instruction and warp by warp."""
    found: Counter[Request] = Counter()
    for event in events:
        for warp in {thread // WARP for thread in event.addresses}:
            lanes = frozenset((t, a) for t, a in event.addresses.items() if t // WARP == warp)
            found[warp, event.width, lanes] += 1
    return found


def expected(recording: Recording, access: Access, base: int) -> Counter[Request]:
    """The same, as the room has it. `base` is the buffer's first byte in shared memory."""
    found: Counter[Request] = Counter()
    elements = table(access)[: recording.threads]
    first = elements[:, :: access.vector]
    for j in range(access.vector):
        assert (elements[:, j :: access.vector] == first + j).all(), "one access is one run"
    at = base + first * access.dtype.bytes if access.space == "shared" else place(recording, access, first)
    if access.swizzle is not None:
        at = swizzled(at, access.swizzle.bits)
    for i in range(access.instructions):
        for start in range(0, len(at), WARP):
            lanes = enumerate(at[start : start + WARP, i].tolist(), start)
            found[start // WARP, access.bytes, frozenset(lanes)] += 1
    return found


def table(access: Access) -> np.ndarray:
    """The elements of every (thread, value)."""
    (threads, values), (of_threads, of_values) = access.layout.shape, access.layout.stride
    return image(threads, of_threads)[:, None] + image(values, of_values)[None, :]


def place(recording: Recording, access: Access, element: np.ndarray) -> np.ndarray:
    """The addresses of elements. Rows of a fixed size are where they are; further out the room has steps of FAR."""
    spec = recording.plan.spec
    tensor = access.memory(spec)
    unit = max(1, (tensor.align or 1) // tensor.dtype.bytes)
    steps, step = {}, 1
    for mode in (tensor.major, *(m for m in reversed(tensor.shape) if m != tensor.major)):
        steps[mode] = step
        step = -(-step * spec.static.get(mode, FAR) // unit) * unit
    where = {}
    for mode in reversed(steps):
        where[mode], element = element // steps[mode], element % steps[mode]
    strides = zip(tensor.shape, recording.strides[memory_of(recording, access)], strict=True)
    return recording.bases[memory_of(recording, access)] + sum(where[m] * s for m, s in strides) * tensor.dtype.bytes  # type: ignore[return-value]


def memory_of(recording: Recording, access: Access) -> str:
    """The tensor, or the workspace, as the recording names it."""
    if access.workspace is None:
        return access.tensor
    assert isinstance(recording.plan, GemmPlan)
    return next(workspace_of(x) for x in recording.plan.workspaces if x.tensor.name == access.tensor)


def buffers(plan: GemmPlan) -> Iterator[tuple[GemmOperand, int, int]]:
    """Each operand's part of shared memory: `stages` tiles of columns, from a multiple of 16 bytes on."""
    start = 0
    for x in (plan.a, plan.b):
        columns = plan.tile[plan.k] * plan.stages
        size = (x.smem_stride * (columns - 1) + x.block) * x.tensor.dtype.bytes
        yield x, start, start + size
        start = -(-(start + size) // 16) * 16


def buffer_of(plan: GemmPlan, access: Access) -> tuple[GemmOperand, int, int]:
    return next(found for found in buffers(plan) if found[0].tensor.name == access.tensor)


def pieces(recording: Recording, access: Access) -> Iterator[Event]:
    """The writes of the first consumer warpgroup to the buffers of an output, seen as one buffer from 0 on."""
    plan = recording.plan
    assert isinstance(plan, WarpspecializedPlan)
    parts = [part for part in parts_of(plan) if part.name == access.tensor]
    for event in recording.of_shared(parts[0].start, parts[-1].start + parts[-1].size, access.kind):
        own = {t - WARPGROUP: a for t, a in event.addresses.items() if WARPGROUP <= t < 2 * WARPGROUP}
        yield replace(event, addresses={t: (a - parts[0].start) % parts[0].size for t, a in own.items()})


def made(recording: Recording, access: Access) -> tuple[Counter[Request], int]:
    """The accesses of the PTX in the place of an access, and the start of the buffer in shared memory."""
    if access.space == "global":
        events = recording.of_tensor(memory_of(recording, access), access.kind)
        if isinstance(recording.plan, WarpspecializedPlan):  # the room counts threads from the first that multiplies
            events = [replace(e, addresses={t - WARPGROUP: a for t, a in e.addresses.items()}) for e in events]
        return requests(events), 0
    if isinstance(recording.plan, WarpspecializedPlan):
        return requests(pieces(recording, access)), 0
    assert isinstance(recording.plan, GemmPlan)
    x, start, end = buffer_of(recording.plan, access)
    events = recording.of_shared(start, end, access.kind)
    if access.kind == "write":  # past the last tile, what travels through registers is written to another stage
        stage = x.smem_stride * recording.plan.tile[recording.plan.k] * access.dtype.bytes
        events = [e for e in events if min(e.addresses.values()) < start + stage]
    else:  # of the first k
        column = x.smem_stride * access.dtype.bytes
        events = [e for e in events if min(e.addresses.values()) < start + column]
    return requests(events), start


# ------------------------------------------------------------------------------------------------------- tests


def assert_counted_right(access: Access, found: Counter[Request]) -> None:
    """Sectors and bank conflicts, by hand from the addresses of the PTX."""
    if access.space == "global":
        told, costs = sectors(access), {}
        for warp in {warp for warp, _, _ in found}:
            every = [dict(lanes) for w, _, lanes in found if w == warp]
            # Values go up from a thread's first one.
            one = min(every, key=lambda lanes: lanes[warp * WARP])
            asked, whole = (
                {byte for lanes in some for a in lanes.values() for byte in range(a, a + access.bytes)}
                for some in ([one], every)
            )
            touched = sectors_of(list(one.values()), access.bytes)
            costs[warp] = (
                touched,
                -(-len(asked) // 32),
                len(asked),
                len({b // 32 for b in whole}),
                -(-len(whole) // 32),
            )
        worst = max(sorted(costs), key=lambda warp: costs[warp][0] / costs[warp][1])
        assert told == Sectors(*costs[worst], worst)
        return
    conflict = conflicts(access)
    passes: dict[int, set[tuple[int, ...]]] = {}
    for warp, width, lanes in found:
        passes.setdefault(warp, set()).add(tuple(ways_of({t % WARP: a for t, a in lanes}, width)))
    assert all(len(alike) == 1 for alike in passes.values()), "all instructions of a warp cost the same"
    by_warp = {warp: next(iter(alike)) for warp, alike in passes.items()}
    assert conflict.passes == max(sum(ways) for ways in by_warp.values()) == sum(by_warp[conflict.warp])
    assert (conflict.ways, conflict.least) == (max(by_warp[conflict.warp]), len(by_warp[conflict.warp]))


def assert_no_wider_than_the_ptx(recording: Recording, access: Access) -> None:
    """Of a k that starts at no multiple of 16 bytes the compiler reads as much at once as it can, even an element that
    nobody wants where three are wanted: what the room has is the width that every k allows."""
    assert isinstance(recording.plan, GemmPlan)
    x, start, end = buffer_of(recording.plan, access)
    events = recording.of_shared(start, end, "read")
    column = x.smem_stride * access.dtype.bytes
    assert min(event.width for event in events) == access.bytes
    wanted = [set(own) for own in table(access).tolist()]
    for k in range(recording.plan.tile[recording.plan.k]):
        read: list[set[int]] = [set() for _ in wanted]
        for event in events:
            for thread, address in event.addresses.items():
                if 0 <= address - start - k * column < column:
                    first = (address - start - k * column) // access.dtype.bytes
                    read[thread] |= set(range(first, first + event.width // access.dtype.bytes))
        assert all(own <= there for own, there in zip(wanted, read, strict=True)), k


def hold(recording: Recording) -> None:
    plan, fills = recording.plan, recording.fills
    path = None if fills is None else ("schedule", "workspace", fills.tensor.name)
    found = [a for a in accesses(plan) if (a.path[:3] if a.path[1] == "workspace" else None) == path]
    for access in found:
        if isinstance(plan, GemmPlan) and access.space == "shared" and access.kind == "read":
            x, _, _ = buffer_of(plan, access)
            if x.smem_stride * access.dtype.bytes % 16:
                assert_no_wider_than_the_ptx(recording, access)
                continue
        asked, base = made(recording, access)
        times = sum(other == access for other in found)  # as often as a row is walked
        wanted = expected(recording, access, base)
        assert asked == Counter({request: times * count for request, count in wanted.items()}), access
        assert_counted_right(access, asked)
    if isinstance(plan, GemmPlan) and fills is None:
        *_, (_, _, end) = buffers(plan)
        assert end <= recording.shared == plan.smem_bytes < end + 16, "the module rounds it up"
    in_global = {(e.kind, recording.tensor_of(e)) for e in recording.events if e.space == "global"}
    if isinstance(plan, RowwisePlan):  # of which what has one element a row is left out
        in_global = {(kind, name) for kind, name in in_global if plan.row in plan.flat.tensor(name).shape}
    listed = {(a.kind, memory_of(recording, a)) for a in found if a.space == "global"}
    assert in_global == listed, "nothing else is accessed"


def hold_all(module: Module, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel that writes the output, and those that fill workspaces."""
    spaces = module.plan.workspaces if isinstance(module.plan, GemmPlan) else ()
    for fills in (None, *spaces):
        hold(record(module.plan, folder, module.text, monkeypatch, fills))


def chosen(path: Path) -> list[str]:
    """Of products that differ in nothing but majorness the four in which any two tensors meet in all of theirs. Of row
    kernels those without sums over the rows, whose memory the recorder does not make, and those whose blocks have rows
    of their own, of which it runs one; of kernels of several cases none, each being one of those."""
    modules = {name: m for name, m in modules_of(path.stem).items() if len(m.plan.kernels) == 1}
    specs = [module.plan.spec for module in modules.values()]
    if any(spec.segments is not None or any(t.at for t in spec.tensors) for spec in specs):
        return []  # the recorder makes no ends of segments, and no places
    if any(spec.op == "contract" for spec in specs):  # whose blocks walk modes that it has one tile of
        return []
    rows = [m.plan for m in modules.values() if isinstance(m.plan, RowwisePlan)]
    if any(plan.program.columns or plan.cluster > 1 for plan in rows):
        return []
    if path.name not in ("sgemm.yaml", "gemm_f32_fma.yaml"):
        return list(modules)
    along_last = {name: sum(t.major == t.shape[-1] for t in m.spec.tensors) for name, m in modules.items()}
    four = [name for name, count in along_last.items() if count % 2 == 0]
    assert len(modules) == 8 and len(four) == 4
    return four


def is_told(path: Path, kernel: str) -> bool:
    """Whether a kernel is one to run: of those that move all by tensor maps, and access nothing, one tells of all."""
    plan = modules_of(path.stem)[kernel].plan
    return not isinstance(plan, WarpspecializedPlan) or kernel == "gemm_bf16_kkn" or bool(accesses(plan))


@pytest.mark.parametrize("path", sampled(SPECS), ids=[path.stem for path in SPECS])
def test_accesses_are_those_of_the_ptx(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [kernel for kernel in chosen(path) if is_told(path, kernel)]
    if not kernels:
        pytest.skip("the recorder runs none of its kernels")
    for kernel in kernels:
        (folder := tmp_path / kernel).mkdir()
        hold_all(modules_of(path.stem)[kernel], folder, monkeypatch)


@pytest.mark.parametrize("name", sampled(SCHEDULES))
def test_accesses_of_other_schedules_are_those_of_the_ptx(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (module,) = generate(SCHEDULES[name], "x.yaml").modules
    hold_all(module, tmp_path, monkeypatch)


@pytest.mark.parametrize("align", [4, 16])
@pytest.mark.parametrize("shape", [(5, 4), (3, 8, 12), (2, 3, 4, 16), (9,)])
def test_rows_of_fixed_sizes_are_those_of_a_packed_tensor(shape: tuple[int, ...], align: int) -> None:
    torch = pytest.importorskip("torch")
    modes = "MNPQ"[: len(shape)]
    fixed = dict(zip(modes, shape, strict=True))
    tensor = Tensor("X", tuple(modes), Dtype.f32, major=modes[-1], align=align)
    assert strides_of(tensor, modes, fixed) == torch.empty(shape).stride()
    *outer, last = strides_of(tensor, modes, {m: n for m, n in fixed.items() if m != modes[-1]})
    assert last == 1 and all(step % FAR == 0 for step in outer), "the rows of an unknown size are far apart"


def test_a_row_of_a_packed_tensor_is_as_wide_as_its_alignment_demands() -> None:
    tensor = Tensor("X", ("M", "N"), Dtype.f32, major="N", align=16)
    assert strides_of(tensor, ("M", "N"), {"N": 6}) == (8, 1)


def test_rows_that_a_tile_reaches_beyond_are_far_apart() -> None:
    """Its threads have no elements there, least of all those of the next row."""
    schedule = {"thread_layout": "(8,32):(32,1)", "value_layout": "(1,4):(4,1)"}
    (module,) = generate(pointwise("D = S", SD, schedule, static={"N": 4}), "x.yaml").modules
    for access in accesses(module.plan):
        assert (sectors(access).sectors, sectors(access).least) == (16, 16)
