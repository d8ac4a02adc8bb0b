"""A Python file as a module, as the file is now."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class _UncachedLoader(SourceFileLoader):
    """Loads a file as it is: neither reads nor leaves bytecode, which passes for that of any text as long, written
    within the same second.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return _code_of(self.get_data(path), path)


@lru_cache(maxsize=4)
def _code_of(source: bytes, path: str) -> CodeType:
    """The bytecode of a file's text, made once for a module that is loaded more than once."""
    code: CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def load(path: Path, name: str) -> ModuleType:
    """Imports a file as `name`, from an absolute path: the DSL reads the source of what it compiles back from there.

    Raises ImportError for one whose name does not end in .py, OSError, and exceptions of the file.
    """
    if path.suffix != ".py":
        raise ImportError(f"{path} is not a Python file")
    path = path.absolute()
    linecache.cache.pop(str(path), None)  # which, too, tells texts of one length by the time only
    spec = importlib.util.spec_from_file_location(name, path, loader=_UncachedLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
