"""The block of Llama in the documentation: what it is generated from is right, and it trains as torch's own does."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from cutegen.differentiation import buildable
from cutegen.language.reader import read_specs
from cutegen.project.selection import select
from cutegen.project.sources import gather

pytest.importorskip("cutlass")

from cutegen.emulator import install

FOLDER = Path(__file__).parents[2] / "docs" / "llama"
SIZES = {"words": 64, "heads": 2, "size": 128, "hidden": 96}


@pytest.fixture(scope="module")
def block() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("block", FOLDER / "block.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernels = module.load_kernels()
    for name, kernel in kernels.items():
        install(kernel, name, lines=False)
    yield module
    for name in kernels:
        sys.modules.pop(name, None)


def test_its_kernels_are_those_of_its_specs() -> None:
    found = gather(select([FOLDER / "specs"], FOLDER / "kernels"))
    assert not found.failed and len(found.units) == 15
    for unit in found.units:
        assert unit.path.read_text(encoding="utf-8") == unit.module.text, f"{unit.path.name} is not current"


def test_the_gradient_of_attention_is_what_grad_writes() -> None:
    """So that nobody has to change it by hand where the forward changes."""
    forward, kept = (read_specs((FOLDER / "specs" / f"attention{end}.yaml").read_text("utf-8")) for end in ("", "_bwd"))
    assert buildable(forward[0], of_outputs=["O"]).made.specs == kept


def test_it_trains_as_torch_does(block: ModuleType) -> None:
    """Two steps, the second of which depends on all gradients: rounding to bf16 is all that is between the losses."""
    losses = []
    for generated in (False, True):
        torch.manual_seed(1)
        model = block.Block(generated=generated, **SIZES)
        losses.append(block.train(model, 2, 16, SIZES["words"], SIZES["size"], "cpu"))
    assert losses[0][1] < 0.95 * losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
