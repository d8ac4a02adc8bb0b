"""Generated modules whose first calls meet in several threads.

CuTeDSL's compiler ends a process in which it is called twice at once, so that this happens in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cutegen.codegen import generate

pytest.importorskip("cutlass")

SPEC = """
cutegen: 1
kernel: {name}
op: elementwise
tensors:
  X: {{shape: [M, N], dtype: f32}}
  Y: {{shape: [M, N], dtype: f32, role: out}}
compute: Y = {what}
targets: [sm_80, sm_90a]
"""
MEETING = """
import importlib, sys, threading
import torch

torch.cuda.get_device_capability = lambda device: (9, 0)
names = sys.argv[1:]
barrier, failed = threading.Barrier(3 * len(names)), []

def first(name, call):
    barrier.wait()
    try:
        call(importlib.import_module(name))
    except BaseException as error:
        failed.append(repr(error))

calls = [lambda m: m.compile_for("sm_90a"), lambda m: m.compile_for("sm_80"), lambda m: m._compiled(0)]
threads = [threading.Thread(target=first, args=(name, call)) for name in names for call in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(failed), *failed[:1])
"""


def test_first_calls_of_many_modules_may_meet(tmp_path: Path) -> None:
    """Two modules, each called by three threads at once; with a lock for each of them the process ends with 134."""
    names = []
    for number in range(2):
        spec = SPEC.format(name=f"kernel_{number}", what=f"X * {number + 2}")
        module = generate(spec, "specs/x.yaml").modules[0]
        (tmp_path / module.name).write_text(module.text, encoding="utf-8")
        names.append(module.spec.kernel)
    command = [sys.executable, "-c", MEETING, *names]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stdout + ended.stderr[-2000:]
