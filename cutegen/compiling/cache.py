"""Artefacts kept between runs, by the content that they came from.

A key is a digest of the module's text, the kernel's name, the target and the whole toolchain, so an entry never has to
be judged for freshness. Several processes may use one folder: entries are written aside and renamed into place, and
each carries a digest of its key and its body, so one that is torn, damaged or of other content is seen, removed and
made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

from cutegen.cache_folder import cache_folder
from cutegen.compiling.artefact import Artefact, with_sass
from cutegen.compiling.outcome import Job
from cutegen.compiling.tools import toolchain

LIMIT = 512 * 1024 * 1024  # bytes
_MAGIC = b"cutegen-artefact-3 "
_STALE = 3600.0  # seconds after which a file being written was abandoned


def cache_key(job: Job, chain: Mapping[str, str] | None = None) -> str:
    """A digest of all that decides a job's artefact. `chain` is `toolchain()` unless given."""
    parts = {
        "text": job.text,
        "kernel": job.kernel,
        "target": job.target,
        "toolchain": dict(toolchain() if chain is None else chain),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Cache:
    """A folder of artefacts. It never raises for what the disk does: it answers nothing, and `warning` says why."""

    def __init__(self, folder: Path | None = None, limit: int = LIMIT) -> None:
        self.folder = (folder if folder is not None else cache_folder()) / "compiled"
        self.limit = limit  # bytes
        self.warning: str | None = None  # why artefacts are not kept, once that has happened
        self._written = False

    def get(self, job: Job) -> Artefact | None:
        """The artefact of an earlier compile of the same content, or None. Removes an entry that is damaged.

        One that is not disassembled, as the job wants it, is so now, and kept.
        """
        path = self._path(job)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            self._warn("read", problem)
            return None
        artefact = _decode(data, path.name)
        if artefact is None or (artefact.kernel, artefact.target) != (job.kernel, job.target):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # what is used stays longest
        if job.sass and not artefact.disassembled:
            artefact = with_sass(artefact)
            self.put(job, artefact)
        return artefact

    def put(self, job: Job, artefact: Artefact) -> bool:
        """Keeps an artefact; whether it worked. One that lacks a part is kept too: its tools are in the key."""
        path = self._path(job)
        temporary: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_encode(artefact, path.name))
            os.replace(temporary, path)
        except OSError as problem:
            self._warn("write", problem)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return False
        self._written = True
        return True

    def prune(self) -> int:
        """Removes the entries that were not used for longest until the rest fit `limit`; bytes removed.

        Does nothing if this object wrote nothing. Other processes may prune the same folder at the same time.
        """
        if not self._written:
            return 0
        self._written = False
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        for path in _files(self.folder):
            try:
                status = os.stat(path)
                if path.endswith(".tmp"):
                    if now - status.st_mtime > _STALE:
                        os.unlink(path)
                    continue
            except OSError:  # another process was faster
                continue
            entries.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - self.limit
        removed = 0
        for _, size, path in sorted(entries):
            if removed >= excess:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            removed += size
        return removed

    def _path(self, job: Job) -> Path:
        key = cache_key(job)
        return self.folder / key[:2] / key

    def _warn(self, action: str, problem: OSError) -> None:
        self.warning = f"the cache {self.folder} cannot be used ({action}: {problem.strerror or problem})"


def _files(folder: Path) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as outer:
        for group in outer:
            with contextlib.suppress(OSError), os.scandir(group.path) as inner:
                found += [entry.path for entry in inner]
    return found


def _encode(artefact: Artefact, key: str) -> bytes:
    body = zlib.compress(json.dumps(artefact.as_json()).encode(), 1)
    return _head(key, body) + b"\n" + body


def _decode(data: bytes, key: str) -> Artefact | None:
    head, _, body = data.partition(b"\n")
    if head != _head(key, body):
        return None
    try:
        return Artefact.from_json(json.loads(zlib.decompress(body)))
    except (KeyError, TypeError, ValueError, zlib.error):
        return None


def _head(key: str, body: bytes) -> bytes:
    """The first line of an entry, which says that this body was written under this key."""
    return _MAGIC + hashlib.sha256(key.encode() + body).hexdigest().encode()
