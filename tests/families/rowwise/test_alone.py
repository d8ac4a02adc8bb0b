"""A sum of which one element of a row is all there is reads that element; any other sum goes over the row."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import parse_compute
from cutegen.families.rowwise.program import program_of
from cutegen.families.rowwise.walks import Element, Program

SHAPES = {"X": ("M", "N"), "Z": ("M", "N"), "W": ("N",), "t": ("M",), "k": ("M",), "Y": ("M", "N"), "y": ("M",)}
TYPES = dict.fromkeys(SHAPES, Dtype.f32) | {"X": Dtype.bf16, "t": Dtype.i64, "k": Dtype.i32}


def program(*statements: str, once: bool = True, online: bool = False) -> Program:
    return program_of(annotate(parse_compute(statements), TYPES), SHAPES, "N", None, once, online)


def elements(found: Program) -> list[str]:
    """The tensors of which one element is read by itself."""
    return [step.tensor for step in found.rows if isinstance(step, Element)]


@pytest.mark.parametrize(
    ("picked", "tensors"),
    [
        ("where(coord(N) == t, X, 0)", ["X"]),
        ("where(t == coord(N), X, 0)", ["X"]),
        ("where(coord(N) == k, X - m, 0)", ["X"]),
        ("where(coord(N) == t, X * W + coord(N), 0)", ["W", "X"]),
        ("where(coord(N) == 3, X, 0)", ["X"]),
        ("where(coord(N) == t, 0, X)", []),
        ("where(coord(N) == t, X, 1)", []),
        ("where(coord(N) <= t, X, 0)", []),
        ("where(coord(M) == t, X, 0)", []),
        ("where(coord(N) == t, Z, 0)", []),  # which no other reduction reads
        ("where(coord(N) == t, 1, 0)", []),
        ("where(coord(N) == X, X, 0)", []),
    ],
)
def test_an_element_that_a_sum_has_alone_is_read_by_itself(picked: str, tensors: list[str]) -> None:
    found = program("m = max(X * W, N)", f"y = m - sum({picked}, N)")
    assert elements(found) == tensors
    assert [one.function for one in found.reductions] == ["max"] + ["sum"] * (not tensors)


def test_what_has_a_name_is_read_at_its_place_before_the_row_is_walked() -> None:
    lines = ("m = max(X, N)", "z = X - m", "hit = coord(N) == t", "y = log(sum(exp(z), N)) - sum(where(hit, z, 0), N)")
    found = program(*lines, online=True, once=False)
    assert elements(found) == ["X"] and len(found.walks) == 1
    assert any(isinstance(step, Element) for step in found.before)


def test_where_something_is_stored_of_each_element_all_are_compared() -> None:
    lines = ("m = max(X, N)", "own = sum(where(coord(N) == t, X, 0), N)", "Y = X - m", "y = own")
    assert elements(program(*lines)) == []


KERNEL = """\
cutegen: 1
kernel: picked
op: rowwise
tensors:
  X: {shape: [B, M, N], dtype: bf16}
  t: {shape: [B, M], dtype: i64}
  y: {shape: [B, M], dtype: f32, role: out}
  own: {shape: [B, M], dtype: bf16, role: out}
compute:
  - m = max(X, N)
  - y = sum(where(coord(N) == t, 2 * (X - m), 0), N)
  - own = sum(where(coord(N) == t, X, 0), N)
targets: [sm_90a]
schedule: {keep: KEEP, longer: LONGER}
"""


@pytest.mark.parametrize(("keep", "size"), sampled([("registers", 24), ("registers", 200), ("reload", 200)], 2))
def test_the_compiled_kernel_reads_what_the_row_has_and_nothing_beside_it(keep: str, size: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("cutlass")
    from cutegen.emulator import install, on_device
    from cutegen.verification.executor import load_module

    text = KERNEL.replace("KEEP, longer: LONGER", "registers" if keep == "registers" else "reload")
    (module,) = generate(text, "x.yaml").modules
    assert "coord_N_values" not in module.text
    (path := tmp_path / "picked.py").write_text(module.text)
    install(loaded := load_module(path), "picked", lines=False)
    places = torch.tensor([0, 1, size - 1, size, -1, 2**32, 2**32 + 1, -(2**63), 2**63 - 1, 7])
    t = torch.stack((places, places.flip(0), torch.full_like(places, 5)))
    x = torch.randn(*t.shape, size).bfloat16()
    x[1] = -0.0
    y, element = torch.empty(*t.shape), torch.empty(*t.shape, dtype=torch.bfloat16)
    loaded.picked(on_device(x), on_device(t), y=on_device(y), own=on_device(element))
    hit = torch.arange(size) == t[..., None]
    wide = x.float()
    wanted = torch.where(hit, 2 * (wide - wide.amax(-1, keepdim=True)), torch.zeros(())).sum(-1)
    assert torch.equal(y, wanted)
    assert torch.equal(element, torch.where(hit, x, torch.zeros_like(x)).sum(-1))
    assert not torch.signbit(element[1]).any(), "a sum of zeros of both signs is 0"
