"""A probe's layout composes with its tile for lint where it does for CuTeDSL, and reads what the layout says."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner
from planning_specs import document
from tensor_layouts import Layout

from cutegen.algebra import NotDefined
from cutegen.algebra.composition import composed_at_run_time
from cutegen.cli import cli
from cutegen.layouts import offsets, plane, reach

CASES = 80
# Which of the layouts composes with a tensor of that shape, contiguous along one mode and with strides to come
THEIRS = """
import json, sys
import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_tensor

@cute.jit
def launch(a: cute.Tensor, shape: cutlass.Constexpr, stride: cutlass.Constexpr):
    cute.composition(a, cute.make_layout(shape, stride=stride))

def nested(x):
    return tuple(map(nested, x)) if isinstance(x, list) else x

for sizes, major, shape, stride in json.load(sys.stdin):
    strides = tuple(1 if i == major else cute.sym_int64() for i in range(len(sizes)))
    try:
        cute.compile(launch, make_fake_tensor(cutlass.Float32, tuple(sizes), strides), nested(shape), nested(stride))
        print("taken")
    except Exception as error:
        assert "unable to compute" in str(error), error
        print("refused")
"""
Tried = tuple[tuple[int, ...], int, Layout]


def random_mode(chance: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = chance.choice((1, 2, 3))
    sizes = [chance.choice((1, 2, 2, 3, 4, 6, 8)) for _ in range(rank)]
    return tuple(sizes), tuple(chance.choice((0, 1, 1, 2, 3, 4, 5, 6, 8, 9, 12)) for _ in range(rank))


def tried() -> list[Tried]:
    chance, found = random.Random(2), []
    for _ in range(CASES):
        threads, values = random_mode(chance), random_mode(chance)
        layout = Layout((threads[0], values[0]), (threads[1], values[1]))
        sizes = [chance.choice((1, 1, 2, 3, 4, 6, 8, 12)) for _ in range(chance.choice((1, 2, 2, 3)))]
        while prod(sizes) < reach(layout):
            sizes[chance.randrange(len(sizes))] += chance.choice((1, 2, 4))
        found.append((tuple(sizes), chance.randrange(len(sizes)), layout))
    return found


def composed(sizes: tuple[int, ...], layout: Layout) -> bool:
    try:
        composed_at_run_time(plane(sizes, [1] * len(sizes)), layout)
    except NotDefined:
        return False
    return True


def gives_what_it_says(sizes: tuple[int, ...], layout: Layout) -> bool:
    """Whether each mode by itself and all together give A(B(c)), with strides that no carry can hide in."""
    strides = [1000**i for i in range(len(sizes))]
    result = composed_at_run_time(plane(sizes, strides), layout)
    coordinates = [[place // prod(sizes[:i]) % size for i, size in enumerate(sizes)] for place in offsets(layout)]
    return list(offsets(result)) == [sum(c * d for c, d in zip(x, strides, strict=True)) for x in coordinates]


def test_what_composes_here_composes_in_cutedsl_and_is_right(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    (tmp_path / "theirs.py").write_text(THEIRS)  # CuTeDSL reads the source of what it compiles
    cases = tried()
    given = json.dumps([[sizes, major, layout.shape, layout.stride] for sizes, major, layout in cases])
    command = [sys.executable, str(tmp_path / "theirs.py")]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
    theirs = done.stdout.split()
    assert len(theirs) == CASES, done.stderr[-2000:]
    taken = [(sizes, layout) for sizes, _, layout in cases if composed(sizes, layout)]
    assert CASES // 5 < len(taken) < CASES * 4 // 5
    assert all(gives_what_it_says(*case) for case in taken)
    for (sizes, _, layout), word in zip(cases, theirs, strict=True):
        if composed(sizes, layout):
            assert word == "taken", (sizes, layout)


@pytest.mark.parametrize("verb", ["lint", "explain", "show"])
def test_no_verb_ends_in_an_error_of_its_own(tmp_path: Path, verb: str) -> None:
    tensors = {
        "A": {"shape": ["M", "N"], "dtype": "f32", "major": "N"},
        "D": {"shape": ["T", "V"], "dtype": "f32", "role": "out"},
    }
    schedule = {"tv_layout": "(6,2):(2,1)", "tiler": {"M": 3, "N": 4}}
    file = tmp_path / "p.yaml"
    file.write_text(document("probe", tensors, "D = A", schedule))
    result = CliRunner().invoke(cli, [verb, str(file)])
    assert result.exit_code in (1, 2) and "error[CG257]" in result.output
