"""Environments beside this one: what they have, what they do not see of this one, and when they are made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from wheels import offline, write_wheel

from cutegen.verbs.upgrading import environments
from cutegen.verbs.upgrading.environments import Environment, environment_with
from cutegen.verbs.upgrading.installing import InstallError, find_uv
from cutegen.verbs.upgrading.requirements import read_requirements

__all__ = ["offline"]
ASK = """
import importlib.metadata as m, importlib.util as u, json, sys
import nvidia_cutlass_dsl
names = [d.metadata["Name"].lower().replace("_", "-") for d in m.distributions()]
print(json.dumps({
    "found": {n: spec.origin for n in ("tiny", "torch", "cutlass", "jinja2") if (spec := u.find_spec(n))},
    "names": names, "dsl": list(nvidia_cutlass_dsl.__path__), "prefix": sys.prefix, "version": sys.version,
}))
"""


def made(texts: Sequence[str], said: list[str] | None = None) -> Environment:
    """Makes an environment and lets it go again."""
    with environment_with(read_requirements(texts), pre=False, tell=(said if said is not None else []).append) as found:
        return found


def ask(environment: Environment) -> Any:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command, folder = [environment.python, "-c", ASK], environment.python.parent  # where no checkout is in the way
    done = subprocess.run(command, capture_output=True, text=True, env=clean, check=True, cwd=folder)
    return json.loads(done.stdout)


def test_a_package_is_beside_those_of_this_environment(offline: Path) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""}, ("jinja2>=3",))
    environment = made(["tiny==1.0"])
    assert (environment.own, environment.hidden) == ({"tiny": "1.0"}, ())
    found = ask(environment)
    assert found["version"] == sys.version and Path(found["prefix"]) == environment.python.parents[1]
    assert Path(found["found"]["tiny"]).is_relative_to(environment.python.parents[1])
    for name in ("torch", "jinja2", "cutlass"):  # links to what is here
        path = Path(found["found"][name])
        assert path.is_relative_to(environment.python.parents[1] / "beside")
        assert not path.resolve().is_relative_to(environment.python.parents[1])
    assert len(found["names"]) == len(set(found["names"])) and "cutegen" not in found["names"]
    assert {"torch", "nvidia-cutlass-dsl", "numpy"} <= set(found["names"])


def test_another_compiler_does_not_see_a_part_of_this_one(offline: Path) -> None:
    files = {
        "nvidia_cutlass_dsl/dsl_packages/cutlass/__init__.py": "",
        "changed.pth": "nvidia_cutlass_dsl/dsl_packages\n",
    }
    write_wheel(offline, "nvidia_cutlass_dsl", "99.0", files)
    environment = made(["nvidia-cutlass-dsl==99.0"])
    assert environment.own == {"nvidia-cutlass-dsl": "99.0"}
    assert "nvidia-cutlass-dsl-libs-base" in environment.hidden
    found = ask(environment)
    (folder,) = found["dsl"]  # one, where the wheels of two versions would make it two
    assert Path(folder).is_relative_to(environment.python.parents[1] / "lib")
    assert Path(found["found"]["cutlass"]).is_relative_to(folder)
    assert [name for name in found["names"] if name.startswith("nvidia-cutlass")] == ["nvidia-cutlass-dsl"]
    assert "torch" in found["names"]


def test_one_that_names_one_thing_is_made_once(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""})
    first = made(["tiny==1.0"])
    with monkeypatch.context() as patch:
        patch.setattr(environments, "install", lambda *a, **k: pytest.fail("installed again"))
        assert made(["tiny == 1.0"]) == first
    (first.python.parents[1] / "complete.json").unlink()  # as where its maker was killed
    (first.python.parents[1] / "half").touch()
    assert made(["tiny==1.0"]) == first
    assert not (first.python.parents[1] / "half").exists()


def test_a_range_is_made_anew_each_time(offline: Path) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""})
    first = made(["tiny"])
    assert first.own == {"tiny": "1.0"} and not first.python.exists()
    write_wheel(offline, "tiny", "1.1", {"tiny.py": ""})
    assert made(["tiny"]).own == {"tiny": "1.1"}
    assert made(["tiny<1.1"]).own == {"tiny": "1.0"}


def test_what_is_here_is_only_replaced_where_it_does_not_do(offline: Path) -> None:
    write_wheel(offline, "jinja2", "3.0", {"jinja2/__init__.py": ""})
    write_wheel(offline, "jinja2", "99.0", {"jinja2/__init__.py": ""})
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""}, ("jinja2>=3",))
    write_wheel(offline, "tiny", "2.0", {"tiny.py": ""}, ("jinja2>=98",))
    assert made(["tiny==1.0"]).own == {"tiny": "1.0"}
    assert made(["tiny==2.0"]).own == {"tiny": "2.0", "jinja2": "99.0"}
    environment = made(["jinja2==3.0"])
    assert environment.own == {"jinja2": "3.0"}
    assert Path(ask(environment)["found"]["jinja2"]).is_relative_to(environment.python.parents[1] / "lib")


def test_a_build_of_ones_own_is_another_one_of_the_same_version(offline: Path) -> None:
    version = metadata.version("jinja2")
    wheel = write_wheel(offline, "jinja2", version, {"jinja2/__init__.py": ""})
    assert made([f"jinja2=={version}"]).own == {}
    environment = made([str(wheel)])
    assert environment.own == {"jinja2": version}
    assert Path(ask(environment)["found"]["jinja2"]).is_relative_to(environment.python.parents[1] / "lib")


def test_what_cannot_be_installed_leaves_nothing(offline: Path) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""})
    with pytest.raises(InstallError, match=r"cannot install tiny==2\.0") as caught:
        made(["tiny==2.0"])
    assert "tiny" in (caught.value.help or "") and "2.0" in (caught.value.help or "")  # what the installer said
    assert [path.name for path in (offline.parent / "cache" / "environments").iterdir() if path.is_dir()] == []


def test_who_comes_second_waits_and_makes_no_other(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""})
    begun, go_on, count, said = threading.Event(), threading.Event(), [], []
    real = environments.install

    def slow(*arguments: Any, **more: Any) -> str:
        count.append(1)
        begun.set()
        assert go_on.wait(60)
        return real(*arguments, **more)

    monkeypatch.setattr(environments, "install", slow)
    threads = [threading.Thread(target=made, args=(["tiny==1.0"], said)) for _ in range(2)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    while not any("waiting" in line for line in said):
        assert threads[1].is_alive()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert count == [1]


def test_those_not_used_for_longest_are_removed(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "KEPT", 2)
    monkeypatch.setattr(environments, "install", lambda *a, **k: "pip")
    monkeypatch.setattr(environments, "make_view", lambda *a: [])
    found = [made([f"tiny=={number}"]) for number in range(2)]
    os.utime(found[0].python.parents[1], (1, 1))
    with environment_with(read_requirements(["tiny==1"]), pre=False, tell=lambda line: None):
        made(["tiny==2"])
        assert [one.python.exists() for one in found] == [False, True]


@pytest.mark.skipif(find_uv() is None, reason="there is no uv")
def test_uv_is_taken_where_there_is_one(offline: Path) -> None:
    write_wheel(offline, "tiny", "1.0", {"tiny.py": ""})
    assert made(["tiny==1.0"]).installer == "uv"
