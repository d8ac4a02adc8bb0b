"""Results of jobs: correct and wrong functions, references, and common mistakes of users."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.verbs.running import worker  # noqa: E402
from cutegen.verbs.running.comparing import compare  # noqa: E402
from cutegen.verbs.running.job import Job, Outcome  # noqa: E402
from cutegen.verbs.running.run import _outcome as outcome_of_ending  # noqa: E402
from cutegen.workers import Death, Ending  # noqa: E402

FILE = Path(__file__).parents[2] / "kits" / "cute_functions.py"
USERS = """
import torch
from cute_functions import add

class Kernel:
    pass

number = 3

def nothing():
    pass

def raising():
    return torch.ones(3) @ torch.ones(4)

def two():
    return torch.ones(40), torch.ones(40)

def named():
    return {"c": torch.zeros(40), "a": torch.ones(40), "b": torch.ones(40)}

def returning(a, b, c):
    print("hello")
    add(a, b, c)
    return c * 1

def on_the_host(a, b, c):
    return a + b

def three(a, b, c):
    return a, b, c

def silent(a, b, c):
    a + b

def none_by_name(a, b, c):
    return {}

def another_by_name(a, b, c):
    return {"a": a}

def number_by_name(a, b, c):
    return {"c": 1.0}

def unknown_by_name(a, b, c):
    return {"y": a + b}

def returning_names(a, b, c):
    add(a, b, c)
    return {"y": c * 1, "z": c}

def both_by_name(a, b, c):
    return {"y": a + b, "result['z']": a + b + 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which has `users.py`."""
    (tmp_path / "users.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def run(function: str, inputs: str = "", reference: str | None = None, **more: Any) -> Outcome:
    """The result of a job; names without a file are of `cute_functions`."""

    def place(name: str) -> str:
        return name if ":" in name or name.endswith(".py") else f"{FILE}:{name}"

    other = None if reference is None else place(reference)
    job = Job(place(function), place(inputs or "make_inputs"), str(Path.cwd()), other, **{"target": "sm_80", **more})
    answer = worker.run(lambda kind, data: None, job)
    return Outcome.from_json(json.loads(json.dumps(answer.result)))


def test_a_right_function_and_a_reference() -> None:
    for reference in ("expected", "expected_in_place"):
        outcome = run("add", reference=reference, outputs=("c",), orders=2)
        assert outcome.status == "ok", outcome.message
        *_, c = outcome.tensors
        assert (c.name, c.dtype, c.shape, c.written) == ("c", "float32", (100,), 100)
        assert c.compared is not None and c.compared.elements == 100 and c.compared.largest < 1e-6
        assert outcome.launches[0].grid == (4, 1, 1) and outcome.launches[0].orders == 2


def test_a_wrong_result() -> None:
    outcome = run("add", reference="expected_otherwise")
    compared = outcome.tensors[2].compared
    assert outcome.status == "wrong" and "c: not what the reference gives" in outcome.message and compared is not None
    assert (compared.mismatched, compared.first) == (1, (3,)) and compared.largest == pytest.approx(0.5, rel=1e-6)
    assert run("add", reference="expected_otherwise", atol=0.6).status == "ok"


def test_a_fault() -> None:
    outcome = run("without_predicate", "users.py:two")
    assert outcome.status == "fault" and "fault[out-of-bounds]" in outcome.message and outcome.fault is not None
    assert (outcome.fault["tensor"], outcome.fault["element"]) == ("a", [40])
    assert Path(outcome.fault["source_file"]) == FILE


def test_results_that_are_returned_and_printed() -> None:
    outcome = run("users.py:returning", "users.py:named", "users.py:on_the_host")
    assert outcome.status == "ok" and outcome.printed == "hello\n"
    assert [(one.name, one.written) for one in outcome.tensors] == [("a", 0), ("b", 0), ("c", 40), ("result", 0)]
    assert outcome.tensors[-1].compared is not None and outcome.tensors[-1].compared.ok


def test_expected_by_name() -> None:
    outcome = run("users.py:returning_names", "users.py:named", "users.py:both_by_name")
    right = {one.name: one.compared and one.compared.ok for one in outcome.tensors}
    assert outcome.status == "wrong"
    assert right == {"a": None, "b": None, "c": None, "result['y']": True, "result['z']": False}
    assert not any("not compared" in note for note in outcome.notes)  # c lies where z does
    outcome = run("users.py:returning", "users.py:named", "users.py:another_by_name")
    assert outcome.status == "ok" and [note.split(":")[0] for note in outcome.notes if "not compared" in note] == [
        "c was not compared", "result was not compared"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says", "help"),
    [
        (("ad",), "there is no `ad` in", "did you mean `add`?"),
        (("users.py",), "`users.py` is not FILE.py:FUNCTION", "users.py:FUNCTION"),
        (("user.py:add",), "there is no file", ""),
        (("no_such_module:add",), "there is no module no_such_module", "ends in .py"),
        (("users:returning", "users.py:nothing"), "users.py:nothing returns nothing", "return a tuple"),
        (("users.py:Kernel",), "is a class", "kernel = Kernel(...)"),
        (("users.py:number",), "is not a function: it has the type int", ""),
        (("add_kernel",), "is a kernel of the device", "the function of cute.jit"),
        (("add", "users.py:raising"), "users.py:raising raises RuntimeError", ""),
        (("add", "users.py:two"), "add: missing a required argument: 'c'", "a, b, c"),
        (("users.py:on_the_host",), "launched no kernel", ""),
        (("talking", "users.py:two"), "talking: too many positional arguments", ""),
        (("add", "", "users.py:three"), "the reference returns 3 tensors, and the kernels write 1 (c)", "a dict"),
        (("add", "", "users.py:none_by_name"), "no tensor, so nothing was compared", "a dict"),
        (("add", "", "users.py:number_by_name"), "`c` as float, where a tensor is expected", ""),
        (("add", "", "users.py:unknown_by_name"), "`y`, which is neither an argument nor a result", "a, b, c"),
        (("users.py:returning", "", "users.py:silent"), "the reference returns nothing, and the function 1", ""),
    ],
)
def test_what_users_get_wrong(given: tuple[str, ...], says: str, help: str) -> None:
    outcome = run(*given)
    assert outcome.status == "not executed" and says in outcome.message and help in outcome.help, outcome


def test_a_mistake_is_shown_with_its_line(folder: Path) -> None:
    assert run("add", "users.py:raising").at[-1].startswith(f"{folder / 'users.py'}:14: return torch.ones(3) @")
    (folder / "broken.py").write_text("def make_inputs(:\n")
    outcome = run("add", "broken.py:make_inputs")
    assert outcome.status == "not executed" and outcome.at[0].startswith(f"{folder / 'broken.py'}:1:")


def test_a_function_that_does_not_compile() -> None:
    outcome = run("not_compiling", "users.py:two")
    assert outcome.status == "not executed"  # two arguments are one too many
    (Path.cwd() / "one.py").write_text("import torch\n\ndef one():\n    return torch.ones(3)\n")
    outcome = run("not_compiling", "one.py:one")
    assert outcome.status == "not compiled" and "TypeError: a is of no use" in outcome.message
    assert outcome.at[-1].startswith(f"{FILE}:") and 'raise TypeError("a is of no use")' in outcome.at[-1]


@pytest.mark.parametrize(
    ("stage", "death", "status", "says"),
    [
        ("running", Death("overdue", seconds=7), "not executed", "not done after 7 s, while running"),
        ("running", Death("died", -11), "not executed", "ended with signal SIGSEGV while running"),
        ("compiling add", Death("died", -8), "crashed", "ended with signal SIGFPE while compiling add"),
        ("", Death("died", 1), "not executed", "ended with exit status 1 while starting"),
    ],
)
def test_a_worker_that_dies(stage: str, death: Death, status: str, says: str) -> None:
    outcome = outcome_of_ending(Ending((("stage", stage),) * bool(stage), 1.0, death=death))
    assert outcome.status == status and says in outcome.message


def test_comparing() -> None:
    one = torch.tensor([1.0, float("nan"), float("inf"), 0.0])
    assert compare(one, one.double()).ok and not compare(one[:1], torch.tensor([2.0])).ok
    assert not compare(one, torch.tensor([1.0, 2.0, float("inf"), 0.0])).ok
    assert not compare(one, torch.tensor([1.0, float("nan"), -float("inf"), 0.0])).ok
    half = torch.tensor([1.0]).to(torch.bfloat16)
    assert compare(half, torch.tensor([1.01])).ok and not compare(half, torch.tensor([1.02])).ok
    assert not compare(half, torch.tensor([1.01]), rtol=1e-3).ok
    whole = torch.tensor([2**53 + 1])
    assert compare(whole, whole).ok and not compare(whole, whole - 1).ok
    assert compare(whole, whole[None]).problem == "the shape is (1), and (1, 1) was expected"
    eight = torch.tensor([1.0]).to(torch.float8_e4m3fn)
    assert compare(eight, torch.tensor([1.1])).ok and not compare(eight, torch.tensor([1.2])).ok
