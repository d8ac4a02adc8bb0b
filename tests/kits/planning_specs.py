"""Specs for property tests, as the texts that a user would write: `sound` ones and ones that may be broken."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import strategies as st
from tensor_layouts import Layout

from cutegen.layouts import format_layout

FLOATS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}
DTYPES = FLOATS | {"i32": 4, "i8": 1, "u8": 1}
POWERS = st.sampled_from([1, 2, 4, 8])


def flow(value: Any) -> str:
    """YAML in flow style, which is JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def document(op: str, tensors: dict[str, Any], compute: str, schedule: dict[str, Any], **more: Any) -> str:
    mma = schedule.get("mma", {}) if op == "gemm" and isinstance(schedule, dict) else None
    if isinstance(mma, dict):  # these are about the CUDA cores, which a schedule of any of their words may leave
        schedule = {**schedule, "mma": {"atom": "fma", **mma}}
    data = {"op": op, "tensors": tensors, "compute": compute, "schedule": schedule, **more}
    return "cutegen: 1\nkernel: trial\n" + "".join(f"{key}: {flow(value)}\n" for key, value in data.items())


@st.composite
def compact(draw: st.DrawFn, sizes: tuple[int, ...]) -> str:
    """A layout that numbers its places without gaps, in any order of its modes, some of them split in two."""
    shape: list[Any] = []
    for size in sizes:
        factors = [d for d in range(2, size) if size % d == 0]
        factor = draw(st.sampled_from(factors)) if factors and draw(st.booleans()) else 0
        shape.append((factor, size // factor) if factor else size)
    leaves = [(i, j) for i, s in enumerate(shape) for j in range(len(s) if isinstance(s, tuple) else 1)]
    stride: list[Any] = [[0] * len(s) if isinstance(s, tuple) else [0] for s in shape]
    step = 1
    for i, j in draw(st.permutations(leaves)):
        stride[i][j] = step
        step *= shape[i][j] if isinstance(shape[i], tuple) else shape[i]
    strides = tuple(tuple(d) if isinstance(s, tuple) else d[0] for s, d in zip(shape, stride, strict=True))
    return format_layout(Layout(tuple(shape), strides))


@st.composite
def tensor(draw: st.DrawFn, shape: list[str], dtype: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"shape": shape, "dtype": dtype}
    if draw(st.booleans()):
        found["major"] = draw(st.sampled_from(shape))
    if draw(st.booleans()):
        size = DTYPES[dtype]
        found["align"] = draw(st.sampled_from([a for a in (size, 4, 8, 16, 32) if a >= size]))
    return found | fields


def some(draw: st.DrawFn, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if draw(st.booleans())}


def widest_bytes(tensors: dict[str, Any], modes: list[str]) -> int:
    """Of an element, among the tensors with all modes."""
    return max(DTYPES[t["dtype"]] for t in tensors.values() if len(t["shape"]) == len(modes))


def widest_run(tensors: dict[str, Any], modes: list[str]) -> int:
    """Elements of one access: 16 bytes of the widest, and what each tensor that is contiguous alike is aligned to."""
    major = tensors["D"].get("major", modes[-1])
    whole = [t for t in tensors.values() if len(t["shape"]) == len(modes)]
    along = [t for t in whole if t.get("major", modes[-1]) == major]
    return min(16 // widest_bytes(tensors, modes), *(t.get("align", 16) // DTYPES[t["dtype"]] for t in along))


@st.composite
def elementwise(draw: st.DrawFn) -> str:
    """Thread and value layouts, tilers and predication that fit each other; widths are inferred."""
    modes = ["M", "N", "P"][: draw(st.integers(1, 3))]
    names = {"S": modes, "B": draw(st.lists(st.sampled_from(modes), min_size=1, unique=True)), "D": modes}
    names["B"].sort(key=modes.index)
    kind = draw(st.sampled_from(sorted(FLOATS)))
    tensors = {
        name: draw(tensor(shape, kind if name == "D" else draw(st.sampled_from(sorted(FLOATS)))))
        for name, shape in names.items()
    }
    tensors["D"]["role"] = "out"
    major, run = tensors["D"].get("major", modes[-1]), 0
    partition = draw(st.sampled_from(["inner", "inner_outer", "thread_value"]))
    threads = tuple(draw(POWERS) for _ in modes)
    values = tuple(draw(st.sampled_from([1, 2, 3, 4, 8])) for _ in modes)
    schedule: dict[str, Any] = {"partition": partition}
    match partition:
        case "inner":
            schedule |= some(
                draw, {"tiler": dict(zip(modes, values, strict=True)), "threads": min(1024, 4 * prod(threads))}
            )
        case "inner_outer":
            runs = [r for r in (8, 4, 2, 1) if r <= widest_run(tensors, modes)]
            if run := draw(st.sampled_from([*runs, 0])):  # 0: single elements, unsaid
                schedule["copy"] = {"bits": run * 8 * widest_bytes(tensors, modes)}
                own = run * draw(st.sampled_from([1, 2] if run == 8 else [1, 2, 3]))
                values = tuple(own if m == major else v for m, v in zip(modes, values, strict=True))
            tiler = {m: t * v for m, t, v in zip(modes, threads, values, strict=True)}
            schedule |= {"thread_layout": draw(compact(threads)), "tiler": tiler}
        case _:
            schedule |= some(draw, {"thread_layout": draw(compact(threads))})
            if draw(st.integers(0, 3)):
                schedule["value_layout"] = draw(compact(values))
    if draw(st.booleans()):  # it follows from the other keys
        del schedule["partition"]
    schedule["predication"] = {m: draw(st.sampled_from(["none", "mask"])) for m in modes if draw(st.booleans())}
    if draw(st.booleans()):
        schedule["scheduler"] = {"raster": draw(st.sampled_from(modes))}
    guarded = [m for m in modes if schedule["predication"].get(m) != "none"]  # else the tile asks for a promise
    sizes = {m: draw(st.sampled_from([16, 80, 96])) for m in guarded if draw(st.booleans())}
    free = [m for m in modes if m not in sizes and schedule["predication"].get(m) != "none"]
    fixed = {
        m: draw(st.sampled_from([64] if m == major and run > 1 else [1, 6, 41, 64]))
        for m in free
        if draw(st.booleans())
    }
    return document("elementwise", tensors, "D = S + B", schedule, divisible=sizes, static=fixed)


@st.composite
def gemm(draw: st.DrawFn) -> str:
    """Tiles that powers of two of threads divide; copies, padding and stages as they come."""
    kind = draw(st.sampled_from(sorted(FLOATS)))
    out = draw(st.sampled_from(sorted(FLOATS))) if kind != "f64" else "f64"
    tensors = {
        "A": draw(tensor(["M", "K"], kind)),
        "B": draw(tensor(["N", "K"], kind)),
        "X": draw(tensor(draw(st.sampled_from([["M", "N"], ["N"], ["M"]])), draw(st.sampled_from(sorted(FLOATS))))),
        "C": draw(tensor(["M", "N"], out, role="out")),
    }
    sides = tuple(draw(st.sampled_from([4, 8, 16])) for _ in "MN")
    shares = tuple(draw(POWERS) for _ in "MN")
    tile = {mode: side * share for mode, side, share in zip("MN", sides, shares, strict=True)}
    depth = draw(st.sampled_from([8, 16, 32]))
    schedule: dict[str, Any] = {"tiler": tile | {"K": depth}}
    mma: dict[str, Any] = {"thread_layout": draw(compact((*sides, 1)))}
    permutation = {}
    for mode, side, share in zip("MN", sides, shares, strict=True):
        own = draw(st.sampled_from([v for v in (1, 2, 4, 8) if v <= share]))
        if draw(st.booleans()):
            permutation[mode] = draw(compact((side, own)))
    if permutation:
        mma["permutation"] = permutation
    schedule["mma"] = mma
    if draw(st.booleans()):
        schedule["pipeline"] = {"stages": draw(st.integers(2, 4))}
    if draw(st.booleans()):
        schedule["smem"] = {"A": {"pad": draw(st.sampled_from([0, 8, 16]))}}
    modes = {"A": "M", "B": "N"}
    turned = {name: {"major": mode} for name, mode in modes.items() if tensors[name].get("major", "K") == "K"}
    if draw(st.booleans()):
        schedule["workspace"] = {name: space for name, space in turned.items() if draw(st.booleans())}
        for space in schedule["workspace"].values():
            if draw(st.booleans()):
                space["thread_layout"] = draw(compact((draw(st.sampled_from([4, 16])), draw(st.sampled_from([8, 16])))))
    walk = {"raster": draw(st.sampled_from("MN")), "swizzle": draw(st.integers(1, 5))}
    schedule["scheduler"] = some(draw, walk)
    guards = {"M": ["none", "mask"], "N": ["none", "mask"], "K": ["none", "residue_first"]}
    schedule["predication"] = {m: draw(st.sampled_from(guards[m])) for m in "MNK" if draw(st.booleans())}
    free = [m for m in "MNK" if schedule["predication"].get(m) != "none"]
    fixed = {m: draw(st.sampled_from([1, 6, 41, 64])) for m in free if draw(st.booleans())}
    return document("gemm", tensors, "C = A @ B.T + X", schedule, static=fixed)


@st.composite
def probe(draw: st.DrawFn) -> str:
    tensors = {
        "A": draw(tensor(["M", "N"], draw(st.sampled_from(sorted(DTYPES))))),
        "D": draw(tensor(["T", "V"], "f64", role="out")),
    }
    layout = draw(compact((draw(st.sampled_from([4, 32])), draw(st.sampled_from([2, 6])))))
    schedule: dict[str, Any] = {"tv_layout": layout}
    if draw(st.booleans()):
        schedule["tiler"] = {"M": 32, "N": 6}
    return document("probe", tensors, "D = A", schedule)


VALID = st.one_of(elementwise(), gemm(), probe())

# ------------------------------------------------------------------------------------------------ maybe broken

NUMBERS = st.one_of(st.integers(1, 40), st.sampled_from([64, 96, 100, 127, 128, 255, 1024, 4096, 65537, 2**31 - 1]))
RAW_LAYOUTS = st.one_of(
    NUMBERS,
    st.lists(NUMBERS, min_size=1, max_size=4).map(
        lambda s: format_layout(Layout(tuple(s))) if prod(s) < 2**31 else "1"
    ),
    st.tuples(POWERS, POWERS).flatmap(compact),
    st.tuples(POWERS, POWERS, st.just(1)).flatmap(compact),
    st.sampled_from(["(32,8):(1,32)", "(16,16,1):(1,16,0)", "(16,4):(4,1)", "(4,1)", "(4,4):(1,1)", "((2,4),8)", "x"]),
)
BITS = st.sampled_from([8, 16, 32, 64, 128])
ATOMS = st.sampled_from(["universal", "cp_async"])


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def by(modes: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(modes), values, max_size=3)


COPY = maybe(atom=ATOMS, bits=BITS, thread_layout=RAW_LAYOUTS, value_layout=RAW_LAYOUTS)
SCHEDULES = {
    "elementwise": maybe(
        partition=st.sampled_from(["inner", "inner_outer", "thread_value"]),
        tiler=by("MN", NUMBERS),
        threads=NUMBERS,
        thread_layout=RAW_LAYOUTS,
        value_layout=RAW_LAYOUTS,
        copy=maybe(atom=ATOMS, bits=BITS, evict_priority=st.sampled_from(["evict_normal", "no_allocate"])),
        predication=by("MN", st.sampled_from(["none", "mask"])),
        scheduler=maybe(raster=st.sampled_from("MNK"), swizzle=NUMBERS),
    ),
    "gemm": maybe(
        tiler=by("MNK", NUMBERS),
        mma=maybe(
            thread_layout=RAW_LAYOUTS, permutation=by("MNK", RAW_LAYOUTS), accumulator=st.sampled_from(["f32", "f64"])
        ),
        copies=maybe(A=COPY, B=COPY, C=COPY, X=COPY),
        smem=maybe(A=maybe(pad=st.integers(0, 64)), B=maybe(pad=st.integers(0, 1024))),
        pipeline=maybe(stages=st.integers(1, 40)),
        predication=by("MNK", st.sampled_from(["none", "mask", "residue_first"])),
        scheduler=maybe(raster=st.sampled_from("MNK"), swizzle=NUMBERS),
    ),
    "probe": st.fixed_dictionaries({"tv_layout": RAW_LAYOUTS}, optional={"tiler": by("MN", NUMBERS)}),
}


@st.composite
def anything(draw: st.DrawFn) -> str:
    op = draw(st.sampled_from(sorted(SCHEDULES)))
    dtype = st.sampled_from(sorted(FLOATS if op == "gemm" else DTYPES))
    kind = draw(dtype)
    match op:
        case "gemm":
            shapes, compute = {"A": "MK", "B": "NK", "X": "MN", "C": "MN"}, "C = A @ B.T + cast(X, f32)"
        case "probe":
            shapes, compute = {"A": "MN", "D": "TV"}, "D = A"
        case _:
            shapes, compute = {"A": "MN", "B": "N", "D": "MN"}, "D = cast(A + B, f32)"
    tensors = {
        name: draw(tensor(list(shape), kind if op == "gemm" and name in "AB" else draw(dtype)))
        for name, shape in shapes.items()
    }
    out = list(shapes)[-1]
    tensors[out] |= {"role": "out", "dtype": "f32" if op != "probe" else tensors["A"]["dtype"]}
    more = {
        "static": draw(by("MNK" if op == "gemm" else "MN", NUMBERS)),
        "divisible": draw(by("MN", NUMBERS)) if draw(st.booleans()) else {},
    }
    if draw(st.booleans()):
        more["verify"] = {"shapes": [{m: draw(NUMBERS) for m in ("MNK" if op == "gemm" else "MN")}]}
    return document(op, tensors, compute, draw(SCHEDULES[op]), **more)
