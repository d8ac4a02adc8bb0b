"""All or nothing: whatever fails while files are written, the folder is as it was."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from building_kit import snapshot

from cutegen.project import write as write_module
from cutegen.project.write import STAGE, locked, write_all

ROOT = Path(__file__).parents[2]
NAMES = ("changed.py", "new.py", "removed.py", "other.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "generated"
    out.mkdir()
    for name in ("changed.py", "removed.py", "other.py", "bystander.py"):
        (out / name).write_text(f"old {name}\n")
        os.utime(out / name, ns=(10**18, 10**18))
    (out / "other.py").chmod(0o640)
    return out


def changes(folder: Path) -> dict[Path, bytes | None]:
    new = {name: f"new {name}\n".encode() for name in NAMES}
    return {folder / name: None if name == "removed.py" else new[name] for name in NAMES}


def test_everything_is_written(folder: Path) -> None:
    write_all(changes(folder))
    found = snapshot(folder)
    assert {name: data for name, (data, _, _) in found.items()} == {
        "bystander.py": b"old bystander.py\n",
        "changed.py": b"new changed.py\n",
        "new.py": b"new new.py\n",
        "other.py": b"new other.py\n",
    }
    assert found["bystander.py"][1] == 10**18
    assert stat.S_IMODE(found["other.py"][2]) == 0o640
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(found["new.py"][2]) == 0o666 & ~umask
    assert sorted(p.name for p in folder.iterdir()) == ["bystander.py", "changed.py", "new.py", "other.py"]


class Trap:
    """Calls through, and raises at the n-th call, before or after doing it."""

    def __init__(self, real: Callable[..., object], at: int, error: BaseException, after: bool) -> None:
        self.real, self.at, self.error, self.after, self.calls = real, at, error, after, 0

    def __call__(self, *args: object, **keywords: object) -> object:
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise self.error
        result = self.real(*args, **keywords)
        if self.calls == self.at:
            raise self.error
        return result


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("call", ["replace", "link", "fsync", "open", "chmod"])
def test_a_failure_at_any_step_puts_everything_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException, after: bool
) -> None:
    before = snapshot(folder)
    tried = 0
    for at in range(1, 20):
        target = write_module if call == "open" else os
        real = open if call == "open" else getattr(os, call)
        trap = Trap(real, at, error, after)
        with monkeypatch.context() as patch:
            patch.setattr(target, call, trap, raising=call != "open")
            try:
                write_all(changes(folder))
            except type(error):
                tried += 1
                fired = True
            else:
                fired = False
        if not fired:
            # This step is allowed to fail (a disk without links or syncs), or there are no more calls of it.
            if trap.calls < at:
                break
            write_all({folder / "new.py": None})
            for name, (data, time_ns, mode) in before.items():
                (folder / name).write_bytes(data)
                (folder / name).chmod(stat.S_IMODE(mode))
                os.utime(folder / name, ns=(time_ns, time_ns))
        assert snapshot(folder) == before, (call, at)
        assert not list(folder.glob(f"{STAGE}*")), "the stage is left behind"
    assert tried or (call == "link" and isinstance(error, OSError))


def test_without_hard_links_it_works_and_rolls_back_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **keywords: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    before = snapshot(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Trap(os.replace, 3, OSError(5, "Input/output error"), after=False))
        with pytest.raises(OSError, match="Input/output"):
            write_all(changes(folder))
    assert snapshot(folder) == before
    write_all(changes(folder))
    assert (folder / "changed.py").read_text() == "new changed.py\n" and not (folder / "removed.py").exists()


def test_a_reader_never_misses_a_file_that_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*args: object, **keywords: object) -> None:
        seen.append((folder / "changed.py").exists() and (folder / "other.py").exists())
        real(*args, **keywords)  # type: ignore[arg-type]
        seen.append((folder / "changed.py").exists() and (folder / "other.py").exists())

    real = os.replace
    monkeypatch.setattr(os, "replace", watched)
    write_all(changes(folder))
    assert len(seen) >= 6 and all(seen)


def test_a_link_in_the_place_of_a_file_comes_back_as_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "changed.py").unlink()
    os.symlink("bystander.py", folder / "changed.py")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Trap(os.replace, 3, OSError(5, "Input/output error"), after=True))
        with pytest.raises(OSError, match="Input/output"):
            write_all(changes(folder))
    assert os.readlink(folder / "changed.py") == "bystander.py"
    write_all(changes(folder))
    assert not (folder / "changed.py").is_symlink() and (folder / "bystander.py").read_text() == "old bystander.py\n"


@pytest.mark.parametrize("during", ["staging", "swapping"])
def test_ctrl_c_waits_until_the_files_are_whole(folder: Path, monkeypatch: pytest.MonkeyPatch, during: str) -> None:
    before = snapshot(folder)
    call = "fsync" if during == "staging" else "replace"
    real = getattr(os, call)

    def interrupted(*args: object) -> None:
        signal.raise_signal(signal.SIGINT)
        real(*args)

    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_all(changes(folder))
    found = snapshot(folder)
    assert found == before if during == "staging" else found["changed.py"][0] == b"new changed.py\n"
    assert not list(folder.glob(f"{STAGE}*"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_folders_are_made_and_removed_again_where_nothing_came_of_it(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    with pytest.raises(ValueError, match="no"), locked([deep]):
        assert deep.is_dir()
        raise ValueError("no")
    assert not (tmp_path / "a").exists()
    with locked([deep]):
        write_all({deep / "x.py": b"x"})
    assert (deep / "x.py").read_bytes() == b"x"


def test_what_a_killed_process_left_is_swept_in_time(folder: Path) -> None:
    old, recent = folder / f"{STAGE}old", folder / f"{STAGE}recent"
    for stage in (old, recent):
        stage.mkdir()
        (stage / "new-x.py").touch()
    os.utime(old, (time.time() - 9000, time.time() - 9000))
    write_all({folder / "changed.py": b"1"})
    assert not old.exists() and recent.exists()


def test_the_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    """Several processes read, wait, and write back a number one larger: without the lock, numbers are lost."""
    code = """
        import sys, time
        from pathlib import Path
        from cutegen.project.write import locked, write_all
        path = Path(sys.argv[1], "generated", "count")
        for _ in range(8):
            with locked([path.parent]):
                number = int(path.read_text()) if path.exists() else 0
                time.sleep(0.002)
                write_all({path: str(number + 1).encode()})
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    running = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert (tmp_path / "generated" / "count").read_text() == "24"
