"""The specs, the algebra and the generated modules reproduce the output of the published texts behind `specs/`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from specs_kit import ROOT, modules_of
from tensor_layouts import Layout, flat_divide, logical_divide, raked_product, tiled_divide, zipped_divide

from cutegen.cli import cli
from cutegen.codegen import Module
from cutegen.layouts import format_layout, make_layout_tv, parse_layout
from cutegen.layouts import offsets
from cutegen.verification.executor import load_module


def module(name: str) -> Module:
    return next(iter(modules_of(name).values()))


@pytest.mark.parametrize(
    ("name", "tiler", "tv"),
    [
        ("copy_tv", (128, 64), "((8,32),(8,4)):((1024,4),(128,1))"),
        ("add_tv", (16, 128), "((32,4),(4,4)):((64,4),(16,1))"),
    ],
)
def test_thread_value_layouts(name: str, tiler: tuple[int, ...], tv: str) -> None:
    generated = module(name)
    plan = generated.plan
    assert tuple(plan.tile.values()) == tiler
    assert format_layout(plan.tv_layout) == tv  # type: ignore[attr-defined]
    assert f"tv_layout: {tv}" in generated.text


def test_layout_of_the_add_notebook() -> None:
    thread, value = parse_layout("(4,32):(32,1)"), parse_layout("(4,4):(4,1)")
    assert format_layout(raked_product(thread, value)) == "((4,4),(4,32)):((512,32),(128,1))"
    assert make_layout_tv(thread, value)[0] == (16, 128)


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (logical_divide, "((2,8),(4,8)):((32,64),(1,4))"),
        (zipped_divide, "((2,4),(8,8)):((32,1),(64,4))"),
        (flat_divide, "(2,4,8,8):(32,1,64,4)"),
        (tiled_divide, "((2,4),8,8):((32,1),64,4)"),
    ],
)
def test_four_divides(divide: object, expected: str) -> None:
    assert format_layout(divide(Layout((16, 32), (32, 1)), (2, 4))) == expected  # type: ignore[operator]


def test_probe() -> None:
    expected = [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
        [12, 13, 16, 17, 20, 21],
        [14, 15, 18, 19, 22, 23],
    ]
    image = offsets(module("probe_tv").plan.tv_layout)  # type: ignore[attr-defined]
    assert [list(image[t::4]) for t in range(4)] == expected
    generated = load_module(ROOT / "generated" / "probe_tv.py")
    source = torch.arange(24, dtype=torch.int32).reshape(24, 1)
    assert generated.reference(source).tolist() == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("copy_inner", {"LDG.E.128": "2", "STG.E.128": "2"}),
        ("copy_tv", {"LDG.E.128": "4", "STG.E.128": "4"}),
        ("add_vectorized", {"LDG.E.128": "2", "STG.E.128": "1"}),
        ("sgemm_mmajor", {"FFMA": ">= 512", "LDGSTS*.128": ">= 1"}),
    ],
)
def test_sass_counts_are_asserted(name: str, expected: dict[str, str]) -> None:
    assert {glob: str(count) for glob, count in module(name).spec.expect.sass.items()} == expected


def test_sgemm_copies() -> None:
    text = module("sgemm_mmajor").text
    for line in ("tAgA: ((4,1),1,1,k), tAsA: ((4,1),1,1,3)", "tBgB: ((4,1),1,1,k), tBsB: ((4,1),1,1,3)"):
        assert line in text


def test_partitions_of_the_sgemm_post(tmp_path: Path) -> None:
    """With K = 64, eight tiles along k, as a command prints them."""
    text = (ROOT / "specs" / "sgemm_mmajor.yaml").read_text()
    (tmp_path / "sgemm.yaml").write_text(f"{text}static: {{K: 64}}\n")
    printed = CliRunner().invoke(cli, ["build", "--diff", str(tmp_path / "sgemm.yaml"), "--out", str(tmp_path / "out")])
    for line in ("tAgA: ((4,1),1,1,8), tAsA: ((4,1),1,1,3)", "tBgB: ((4,1),1,1,8), tBsB: ((4,1),1,1,3)"):
        assert line in printed.stdout


def test_predication_examples() -> None:
    assert module("predicated_vector").plan.tile == {"N": 128}
    assert module("predicated_vector").spec.static == {"N": 1000}
    assert module("predicated_tile").plan.tile == {"M": 4, "N": 8}
    assert "stride=(rest_mn, 1, 0)" in module("sgemm_axpby").text
