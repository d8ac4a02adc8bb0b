"""Which tile each thread block of a compiled kernel takes, held to the order that `schedule.scheduler` asks for.

A block's tile is found by running that block of the grid alone: what it has written is its tile. The order is counted
here by nested loops; so is the one that pictures show.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from drawing_kit import walk_of

from cutegen.codegen import Module, generate
from cutegen.emulator import BoundTensor, TensorArgument, bind, launch, place
from cutegen.emulator.host.builds import Build, build
from cutegen.emulator.host.capture import Launch
from cutegen.verification.executor import load_module

Tile = tuple[int, ...]
UNWRITTEN = -7.0


def module_of(spec: dict[str, Any]) -> Module:
    document = {"cutegen": 1, "kernel": "walk", **spec, "targets": ["sm_80"]}
    return generate(yaml.safe_dump(document, sort_keys=False), "x.yaml").modules[0]


def elementwise(modes: str, major: str, schedule: dict[str, Any], **more: Any) -> Module:
    tensor = {"shape": list(modes), "dtype": "f32", "major": major, "align": 4}
    tensors = {"S": tensor, "D": {**tensor, "role": "out"}}
    return module_of({"op": "elementwise", "tensors": tensors, "compute": "D = S", "schedule": schedule, **more})


def gemm(scheduler: dict[str, Any], **more: Any) -> Module:
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M", "align": 4},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "N", "align": 4},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": "N", "align": 4, "role": "out"},
    }
    schedule = {
        "tiler": {"M": 16, "N": 32, "K": 8},
        "scheduler": scheduler,
        "mma": {"thread_layout": "(8,8,1):(8,1,0)"},
    }
    return module_of({"op": "gemm", "tensors": tensors, "compute": "C = A @ B.T", "schedule": schedule, **more})


def compiled(module: Module) -> Build:
    """The compiled module, shared by several tests."""
    return _built(module.text)


@cache
def _built(text: str) -> Build:
    with TemporaryDirectory() as folder:
        path = Path(folder, "walk.py")
        path.write_text(text, encoding="utf-8")
        return build(load_module(path), "sm_80", lines=False)


def arrays(module: Module, sizes: dict[str, int]) -> list[np.ndarray]:
    """Of ones, and the output of what no kernel writes."""
    found = []
    for tensor in module.spec.tensors:
        shape = [sizes[mode] for mode in tensor.shape]
        order = "F" if tensor.shape.index(str(tensor.major)) == 0 and len(shape) > 1 else "C"
        if len(shape) > 2:
            assert tensor.major == tensor.shape[-1], "numpy has no order for it"
        found.append(np.full(shape, UNWRITTEN if tensor.writes else 1.0, np.float32, order=order))  # type: ignore[call-overload]
    return found


def bound(module: Module, held: Sequence[np.ndarray]) -> list[BoundTensor]:
    pairs = zip(module.spec.tensors, held, strict=True)
    return [bind(a, t.argument, "inout", place(a.ctypes.data, i)) for i, (t, a) in enumerate(pairs)]


def launches(made: Build, tensors: Sequence[BoundTensor]) -> Launch:
    (asked,) = made.host(*(TensorArgument(t.at, t.shape, t.strides, "f", 32) for t in tensors))
    return asked


def tiles_taken(module: Module, made: Build, sizes: dict[str, int]) -> list[set[Tile]]:
    """The tiles that each block writes, of blocks in the order of their numbers."""
    held = arrays(module, sizes)
    tensors = bound(module, held)
    asked, found, output = launches(made, tensors), [], held[-1]
    extents = [module.plan.tile[mode] for mode in module.spec.output.shape]
    for number in range(prod(asked.grid)):
        output[...] = UNWRITTEN
        launch(
            made.ptx, asked.kernel, asked.grid, asked.block, asked.parameters, tensors, asked.shared, blocks=[number]
        ).check()
        written = np.argwhere(output != UNWRITTEN)
        taken = {tuple(tile) for tile in (written // extents).tolist()}
        whole = prod(min(e, s) for e, s in zip(extents, output.shape, strict=True))
        assert len(written) <= len(taken) * whole
        found.append(taken)
    return found


def wanted(counts: Sequence[int], order: Sequence[int], swizzle: int = 1, share: int = 1) -> list[set[Tile]]:
    """The same, by nested loops: `order` has the modes, fastest first; `share` tiles in a row are a block's."""
    walked: list[Tile] = []
    if swizzle == 1:
        for slowest_first in itertools.product(*(range(counts[i]) for i in reversed(order))):
            coordinate = dict(zip(reversed(order), slowest_first, strict=True))
            walked.append(tuple(coordinate[i] for i in range(len(counts))))
    else:
        along, across = order
        for band in range(0, counts[across], swizzle):
            for i in range(counts[along]):
                for j in range(band, min(band + swizzle, counts[across])):
                    walked.append((i, j) if along == 0 else (j, i))
    return [set(walked[at : at + share]) for at in range(0, len(walked), share)]


def drawn(module: Module, sizes: dict[str, int], counts: Sequence[int]) -> list[set[Tile]]:
    """The same, as the picture of the kernel's tiles says."""
    walk = walk_of(module.plan).over(sizes[mode] for mode in module.spec.output.shape)
    found: list[set[Tile]] = [set() for _ in range(walk.blocks)]
    for tile in itertools.product(*map(range, counts)):
        found[walk.block([t * e for t, e in zip(tile, walk.tile, strict=True)])[0]].add(tile)
    return found


def assert_walks(module: Module, sizes: dict[str, int], order: str, *, swizzle: int = 1, share: int = 1) -> None:
    modes = module.spec.output.shape
    counts = [-(-sizes[mode] // module.plan.tile[mode]) for mode in modes]
    expected = wanted(counts, [modes.index(mode) for mode in order], swizzle, share)
    taken = tiles_taken(module, compiled(module), sizes)
    assert taken == expected
    assert drawn(module, sizes, counts) == expected
    assert sum(map(len, taken)) == len(set().union(*taken)) == prod(counts)  # every tile exactly once


TV = {"partition": "thread_value", "thread_layout": "(4,8):(8,1)", "value_layout": "(2,1):(1,1)"}
INNER = {"partition": "inner", "tiler": {"M": 1, "N": 2}, "threads": 32}


@pytest.mark.parametrize("major", ["M", "N"])
@pytest.mark.parametrize("raster", [None, "M", "N"])
@pytest.mark.parametrize("partition", ["inner", "thread_value"])
def test_elementwise(partition: str, raster: str | None, major: str) -> None:
    """Left out, the raster is the contiguous mode."""
    schedule = {
        **(TV if partition == "thread_value" else INNER),
        **({"scheduler": {"raster": raster}} if raster else {}),
    }
    module = elementwise("MN", major, schedule)
    first = raster or major
    share = 32 if partition == "inner" else 1
    assert_walks(module, {"M": 19, "N": 34}, first + "MN".replace(first, ""), share=share)


@pytest.mark.parametrize(("raster", "order"), [("P", "PNM"), ("N", "NPM"), ("M", "MPN")])
def test_three_modes_after_the_raster_the_contiguous_one_then_from_the_last(raster: str, order: str) -> None:
    schedule = {"thread_layout": "(2,2,8):(16,8,1)", "value_layout": "(1,2,1)", "scheduler": {"raster": raster}}
    assert_walks(elementwise("MNP", "P", schedule), {"M": 5, "N": 9, "P": 20}, order)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raster=st.sampled_from("MN"), swizzle=st.integers(1, 5), m=st.integers(1, 64), n=st.integers(1, 128))
def test_gemm(raster: str, swizzle: int, m: int, n: int) -> None:
    """Bands of `swizzle` tiles across the raster, of which the last may have fewer."""
    module = gemm({"raster": raster, "swizzle": swizzle})
    order = raster + "MN".replace(raster, "")
    assert_walks(module, {"M": m, "N": n, "K": 8}, order, swizzle=swizzle)


def test_gemm_walks_along_m_where_nothing_is_said() -> None:
    assert_walks(gemm({}), {"M": 40, "N": 70, "K": 8}, "MN")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_elementwise_walk(data: st.DataObject) -> None:
    raster, major = data.draw(st.sampled_from("MN")), data.draw(st.sampled_from("MN"))
    fixed = data.draw(st.dictionaries(st.sampled_from("MN"), st.integers(1, 40), max_size=2))
    sizes = {m: fixed.get(m) or data.draw(st.integers(1, 40)) for m in "MN"}
    schedule = {**data.draw(st.sampled_from([TV, INNER])), "scheduler": {"raster": raster}}
    if schedule["partition"] == "inner":
        schedule["predication"] = {"M": "mask", "N": "mask"}
    module = elementwise("MN", major, schedule, static=fixed)
    share = 32 if schedule["partition"] == "inner" else 1
    assert_walks(module, sizes, raster + "MN".replace(raster, ""), share=share)


# --------------------------------------------------------------------------------------------------------- limits

MOST = 2**31 - 1


def grid_for(made: Build, module: Module, sizes: dict[str, int]) -> tuple[int, int, int]:
    """The grid for tensors that nobody could hold; no memory is touched."""
    arguments = []
    for number, tensor in enumerate(module.spec.tensors):
        shape = tuple(sizes[mode] for mode in tensor.shape)
        major = tensor.shape.index(str(tensor.major))
        strides = tuple(1 if i == major else -(-shape[major] // 8) * 8 for i in range(len(shape)))
        arguments.append(TensorArgument((number + 1) << 44, shape, strides, "f", 32))  # far apart
    (asked,) = made.host(*arguments)
    return asked.grid


def test_a_long_output_has_as_many_blocks_along_x_as_it_has_tiles() -> None:
    """No limit of 65535 in any mode: x has room for all tiles that 31 bits can count."""
    module = elementwise("MN", "N", TV)  # tiles of 8 x 8
    made = compiled(module)
    largest = 2**31 - 2**21
    for sizes, tiles in (
        ({"M": largest, "N": 8}, largest // 8),
        ({"M": 8, "N": largest}, largest // 8),
        ({"M": 8 * 46340, "N": 8 * 46340}, 46340 * 46340),
        ({"M": 8 * 46340 + 1, "N": 8 * 46340 - 7}, 46341 * 46340),
    ):
        assert tiles <= MOST
        assert grid_for(made, module, sizes) == (tiles, 1, 1)


@pytest.mark.parametrize(("raster", "across", "tile"), [("M", "N", 32), ("N", "M", 16)])
def test_the_mode_across_the_raster_is_limited_unless_tiles_are_in_bands(raster: str, across: str, tile: int) -> None:
    plain, banded = gemm({"raster": raster}), gemm({"raster": raster, "swizzle": 2})
    assert f'"{across}": 65535 * BLK_{across}' in plain.text and "65535" not in banded.text
    assert "tiles <= MOST_TILES" in banded.text and "MOST_TILES" not in plain.text
    sizes = {"M": 100, "N": 100, "K": 8, across: 65535 * tile}
    other = -(-100 // (48 - tile))
    assert grid_for(compiled(plain), plain, sizes) == (other, 65535, 1)
    sizes[across] += 1
    assert grid_for(compiled(banded), banded, sizes) == (65536 * other, 1, 1)


@pytest.mark.parametrize("swizzle", [1, 3])
def test_fixed_sizes_beyond_the_grid_are_refused(swizzle: int) -> None:
    from cutegen.language.diagnostics import SpecError

    fits = {"N": 65535 * 32} if swizzle == 1 else {"M": 16 * 32767, "N": 32 * 65535}
    gemm({"raster": "M", "swizzle": swizzle}, static=fits)
    beyond = {"N": 65535 * 32 + 1} if swizzle == 1 else {"M": 16 * 32769, "N": 32 * 65535}
    with pytest.raises(SpecError, match="CG259"):
        gemm({"raster": "M", "swizzle": swizzle}, static=beyond)
