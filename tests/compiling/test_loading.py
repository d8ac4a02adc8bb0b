"""A module is what its file says, not what a file in its place said before."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest

from cutegen.compiling.loading import load


def test_a_file_that_changed_within_a_second_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "kernel.py"
    for value in (2, 3):
        path.write_text(f"def stages():\n    return {value}\n")
        os.utime(path, (1e9, 1e9))
        found = load(path, "_changing")
        assert found.stages() == value
        assert f"return {value}" in inspect.getsource(found.stages), "what the DSL compiles"
    assert sys.modules.pop("_changing").__file__ == str(path)
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.py"], "nothing is left beside it"


def test_bytecode_beside_it_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "imported_before.py"
    path.write_text("stages = 2\n")
    os.utime(path, (1e9, 1e9))
    __import__("imported_before")
    assert (tmp_path / "__pycache__").exists()
    path.write_text("stages = 3\n")
    os.utime(path, (1e9, 1e9))
    assert load(path, "imported_before").stages == 3
    del sys.modules["imported_before"]


def test_a_relative_path_is_of_the_folder_at_that_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel.py").write_text("def stages():\n    return 2\n")
    monkeypatch.chdir(tmp_path)
    found = load(Path("kernel.py"), "_relative")
    monkeypatch.chdir("/")
    assert "return 2" in inspect.getsource(found.stages)
    del sys.modules["_relative"]


def test_a_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="not a Python file"):
        load(tmp_path / "kernel.txt", "kernel")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "kernel.py", "_failing")
    (tmp_path / "kernel.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load(tmp_path / "kernel.py", "_failing")
    assert "_failing" not in sys.modules
