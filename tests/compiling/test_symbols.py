"""A name in a module is found by MLIR's table, and what is compiled is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from cutlass.base_dsl.tvm_ffi_builder.mlir_builder import MLIRBuilder

from cutegen.codegen import generate
from cutegen.compiling.loading import load
from cutegen.compiling.symbols import tabled_symbols
from cutegen.compiling.worker import compile_module
from cutegen.emulator.host.builds import builds

SPEC = """\
cutegen: 1
kernel: doubled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  Y: {shape: [M, N], dtype: f32, role: out, align: 4}
compute: Y = X * 2
static: {N: 64}
targets: [sm_80]
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    (module,) = generate(SPEC, "x.yaml").modules
    (path := tmp_path / "doubled.py").write_text(module.text, encoding="utf-8")
    return load(path, "tabled")


def test_the_table_has_the_names_that_a_search_finds(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    search, found = MLIRBuilder._module_symbol_exists, []

    def both(self: Any, module: Any, symbol: str) -> bool:
        names = [symbol, *(f"__tvm_ffi__str_{number}" for number in range(len(module.body.operations)))]
        with tabled_symbols():
            table = MLIRBuilder._module_symbol_exists
            assert table is not both
            found.append([table(self, module, name) for name in names])
        assert found[-1] == [search(self, module, name) for name in names]
        return found[-1][0]

    monkeypatch.setattr(MLIRBuilder, "_module_symbol_exists", both)
    loaded.compile_for("sm_80")
    assert any(True in one for one in found) and any(False in one for one in found)


def test_nothing_is_searched_for(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    real = MLIRBuilder._module_symbol_exists

    def note(self: Any, module: Any, symbol: str) -> bool:
        searched.append(symbol)
        return real(self, module, symbol)

    monkeypatch.setattr(MLIRBuilder, "_module_symbol_exists", note)
    loaded.compile_for("sm_80")
    assert searched, "this release of the compiler searches for no names: nothing needs to be done about it"
    searched.clear()
    artefact = compile_module(loaded, "doubled", "sm_80", tmp_path, keep_lines=False)
    (build,) = builds(loaded, lines=False)
    assert not searched and build.ptx == artefact.ptx
