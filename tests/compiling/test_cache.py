"""The cache: keys, damage, several processes, folders that cannot be used, size. Nothing here compiles for real."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from cutegen.compiling import (
    Artefact,
    Cache,
    Compiled,
    Job,
    Outcome,
    Resources,
    cache_key,
    compile_all,
    toolchain,
    tools,
)
from cutegen.compiling.tools import source_digest

ROOT = Path(__file__).parents[2]
JOB = Job("text\n", "k", "sm_80")
ARTEFACT = Artefact(
    "k", "sm_80", "ptx \u00e9", bytes(range(256)), "sass\n", Resources(1, 2, 3, 4, None), ("why",), b"\0host"
)


def entry(folder: Path) -> Path:
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    return path


def no_workers(*_: object) -> None:
    raise AssertionError("a worker was started")


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(JOB) is None
    assert cache.put(JOB, ARTEFACT)
    assert Cache(tmp_path).get(JOB) == ARTEFACT
    assert cache.get(replace(JOB, text="text")) is None
    assert cache.warning is None


def test_what_is_kept_is_disassembled_once_a_job_wants_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, asked = Cache(tmp_path), list[bytes]()
    monkeypatch.setattr("cutegen.compiling.artefact._disassembled", lambda cubin: asked.append(cubin) or "sass\n")
    cache.put(JOB, replace(ARTEFACT, sass=None, disassembled=False))
    assert cache.get(JOB) == replace(ARTEFACT, sass=None, disassembled=False) and not asked
    assert all(cache.get(replace(JOB, sass=True)) == ARTEFACT for _ in range(2))
    assert cache.get(JOB) == ARTEFACT and asked == [ARTEFACT.cubin]


def test_every_input_is_in_the_key() -> None:
    chain = dict(toolchain())
    assert {"nvidia-cutlass-dsl", "torch", "apache-tvm-ffi", "python", "cutegen", "cutegen.compiling"} <= chain.keys()
    assert {"nvdisasm", "cuobjdump"} <= chain.keys()
    assert any(name.startswith("nvidia-cutlass-dsl-libs") for name in chain)
    keys = [cache_key(JOB, chain)]
    keys += [cache_key(replace(JOB, **{field: "other"}), chain) for field in ("text", "kernel", "target")]
    keys += [cache_key(JOB, {**chain, name: "0.0"}) for name in chain]
    keys += [cache_key(JOB, {k: v for k, v in chain.items() if k != name}) for name in chain]
    assert len(set(keys)) == len(keys) == 4 + 2 * len(chain)
    assert cache_key(JOB) == cache_key(JOB, dict(reversed(chain.items()))) == keys[0]


def test_builds_of_one_version_are_told_apart_and_installs_of_one_build_are_not() -> None:
    record = "cutlass/a.py,sha256=abc,1\ncutlass/__pycache__/a.pyc,,\nx.dist-info/INSTALLER,sha256=pip,4\n"
    again = "x.dist-info/INSTALLER,sha256=uv,3\n../../bin/tool,sha256=path,2\ncutlass/a.py,sha256=abc,1\n"
    assert tools._content(record) == tools._content(again)
    assert len({tools._content(text) for text in (record, record.replace("abc", "abd"), "", None)}) == 3
    name = "nvidia-cutlass-dsl-libs-core"
    (key,) = (version for package, version in toolchain().items() if package == name)
    assert key == f"{metadata.version(name)} {tools._content(metadata.distribution(name).read_text('RECORD'))}"


def test_our_own_sources_are_in_the_key(tmp_path: Path) -> None:
    assert toolchain()["cutegen.compiling"] == source_digest(ROOT / "cutegen" / "compiling")
    (tmp_path / "a.py").write_text("1")
    before = source_digest(tmp_path)
    (tmp_path / "a.py").write_text("2")
    changed = source_digest(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({before, changed, source_digest(tmp_path)}) == 3


def test_a_hit_starts_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.workers.crew.Worker", no_workers)
    cache = Cache(tmp_path)
    cache.put(JOB, ARTEFACT)
    seen: list[tuple[Job, Outcome]] = []
    (found,) = compile_all([JOB], cache=cache, on_done=lambda job, outcome: seen.append((job, outcome)))
    assert isinstance(found, Compiled)
    assert (found.artefact, found.cached) == (ARTEFACT, True)
    assert seen == [(JOB, found)]
    assert compile_all([], cache=cache) == []
    with pytest.raises(AssertionError, match="a worker was started"):
        compile_all([replace(JOB, text="new")], cache=cache)


OTHER = json.dumps(replace(ARTEFACT, ptx="of another kernel").as_json())
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-10],
    "one bit": lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
    "header": lambda data: b"x" + data[1:],
    "another body": lambda data: data.partition(b"\n")[0] + b"\n" + zlib.compress(OTHER.encode()),
    "garbage": lambda data: os.urandom(len(data)),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_entry_is_removed_and_made_again(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put(JOB, ARTEFACT)
    path = entry(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[damage](whole))
    assert cache.get(JOB) is None
    assert not path.exists()
    assert cache.put(JOB, ARTEFACT)
    assert path.read_bytes() == whole
    assert cache.get(JOB) == ARTEFACT


def test_an_entry_under_the_wrong_name_is_not_believed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(JOB, replace(ARTEFACT, target="sm_90a"))
    assert cache.get(JOB) is None


def test_an_entry_of_other_content_is_not_believed(tmp_path: Path) -> None:
    """Although it is whole, and for the same kernel and target."""
    cache, other = Cache(tmp_path), replace(JOB, text="other")
    cache.put(other, ARTEFACT)
    entry(tmp_path).rename(tmp_path / "moved")
    cache.put(JOB, ARTEFACT)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "moved")
    (tmp_path / "moved").rename(path)
    assert cache.get(JOB) is None and not path.exists()


def hammer(folder: str, seed: int) -> int:
    """Reads, writes and prunes one folder; how often an entry was wrong."""
    cache = Cache(Path(folder), limit=3_000)
    wrong = 0
    for step in range(120):
        number = (seed + step * 7) % 12
        job = Job(f"job {number}", "k", "sm_80")
        artefact = replace(ARTEFACT, ptx=f"ptx {number}")
        found = cache.get(job)
        wrong += found is not None and found != artefact
        wrong += not cache.put(job, artefact)
        if step % 10 == 0:
            cache.prune()
    return wrong


def test_processes_share_a_folder(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as processes:
        assert processes.starmap(hammer, [(str(tmp_path), seed) for seed in range(3)]) == [0, 0, 0]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cache = Cache(blocked)
    assert cache.get(JOB) is None
    assert cache.put(JOB, ARTEFACT) is False
    assert cache.warning is not None and str(blocked) in cache.warning
    assert cache.prune() == 0


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    cache = Cache(tmp_path)
    assert cache.put(JOB, ARTEFACT) is False
    assert cache.warning is not None and "Read-only" in cache.warning
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "here"))
    cache = Cache()
    cache.put(JOB, ARTEFACT)
    assert entry(tmp_path).is_relative_to(tmp_path / "here")
    monkeypatch.delenv("CUTEGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache().folder.is_relative_to(tmp_path if sys.platform == "linux" else Path.home())


def test_pruning_keeps_what_was_used_last(tmp_path: Path) -> None:
    jobs = [Job(str(number), "k", "sm_80") for number in range(6)]
    cache = Cache(tmp_path)
    now = time.time()
    for age, job in enumerate(jobs):
        cache.put(job, ARTEFACT)
        os.utime(cache._path(job), (now - 1000 + age,) * 2)
    cache.get(jobs[0])  # the oldest becomes the newest
    abandoned = cache._path(jobs[0]).parent / ".abandoned.tmp"
    abandoned.write_text("x")
    os.utime(abandoned, (now - 10_000,) * 2)
    cache.limit = 3 * cache._path(jobs[0]).stat().st_size
    assert cache.prune() == cache.limit
    assert [cache.get(job) is not None for job in jobs] == [True, False, False, False, True, True]
    assert not abandoned.exists()
    cache.limit = 0
    assert cache.prune() == 0  # nothing was written since
    cache.put(jobs[1], ARTEFACT)
    assert cache.prune() > 0 and cache.get(jobs[0]) is None


def test_importing_and_keys_stay_light() -> None:
    script = (
        "import sys, pathlib, cutegen.compiling as c\n"
        "c.cache_key(c.Job('', 'k', 'sm_80')); c.Cache(pathlib.Path('none')).get(c.Job('', '', ''))\n"
        "assert not {'torch', 'cutlass', 'rich', 'tensor_layouts'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
