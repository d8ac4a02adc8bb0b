"""Templates as the Python that Jinja makes of them, kept between runs: to make it takes longer than to print a module.

An entry is used only for the text of a template that it was made from, by the same Jinja and the same cutegen, and only
if it is whole and nobody else can have written it. So the cache decides how long printing takes, and never what is
printed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from jinja2 import BytecodeCache

from cutegen.cache_folder import cache_folder, is_trusted
from cutegen.version import __version__

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

_DIGEST = hashlib.sha256().digest_size


class CompiledTemplates(BytecodeCache):
    """A folder of compiled templates. It never raises for what the disk does: the template is compiled again."""

    def get_source_checksum(self, source: str) -> str:
        """A digest of all that decides what a template is compiled to."""
        return hashlib.sha256(f"{_tools()}\0{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills the bucket with what is kept of a template, if that was made from this text and is whole."""
        path = self._path(bucket)
        try:
            data = path.read_bytes() if is_trusted(path) else b""
        except OSError:
            return
        head, body = data[:_DIGEST], data[_DIGEST:]
        if head == _sealed(bucket, body):
            bucket.bytecode_from_string(body)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps a compiled template, if the disk lets it."""
        path, body, temporary = self._path(bucket), bucket.bytecode_to_string(), None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_sealed(bucket, body) + body)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _path(self, bucket: Bucket) -> Path:
        """The file of a template: the same for all its texts, so that a folder has one entry for each."""
        return cache_folder() / "templates" / bucket.key


def _sealed(bucket: Bucket, body: bytes) -> bytes:
    """The header of a cache entry: a SHA-256 digest of its body and of the checksum of what it was made from."""
    return hashlib.sha256(str(bucket.checksum).encode() + body).digest()


@cache
def _tools() -> str:
    """The tools that compile templates: versions of Jinja and cutegen, and a digest of the files that set up Jinja."""
    setup = [files("cutegen.codegen") / name for name in ("environment.py", "regions.py")]
    text = b"\0".join(file.read_bytes() for file in setup if file.is_file())
    return f"{jinja2.__version__} {__version__} {hashlib.sha256(text).hexdigest()}"
