"""Several kernels in one module: what becomes of names that they define differently."""

from __future__ import annotations

from cutegen.codegen.merging import Definition, numbered_names, replaced_names
from cutegen.codegen.parts import Constant


def kernel(threads: int, more: str = "") -> list[Definition]:
    return [
        Definition("THREADS", f"THREADS = {threads}"),
        Definition("width", "def width():\n    return 8"),
        Definition("run", f"def run(x{more}):\n    return x * width() * THREADS"),
    ]


def constants(threads: int) -> list[Definition]:
    """The same kernel, whose number of threads is a constant of the module."""
    first, *rest = kernel(threads)
    return [Definition(first.name, first.text, constant=Constant(first.name, str(threads), "", "schedule")), *rest]


def test_what_kernels_define_differently_is_numbered_and_so_is_what_uses_it() -> None:
    names = numbered_names([kernel(64), kernel(128)], (), ())
    assert names == ({"THREADS": "THREADS_1", "run": "run_1"}, {"THREADS": "THREADS_2", "run": "run_2"})
    text = "def run(THREADS_3):\n    return x.THREADS + THREADS * width(THREADS=THREADS)"
    said = "def run_1(THREADS_3):\n    return x.THREADS + THREADS_1 * width(THREADS=THREADS_1)"
    assert replaced_names(text, names[0]) == said


def test_a_numbered_name_is_no_other_name() -> None:
    """Neither an argument of some kernel, nor what it defines, nor what is taken elsewhere, whichever number it has."""
    names = numbered_names([kernel(64), kernel(128, ", THREADS_1")], (), {"run_2"})
    assert names[1] == {"THREADS": "THREADS_case_2", "run": "run_case_2"}
    other = Definition("THREADS_2", "THREADS_2 = 1")
    assert numbered_names([kernel(64), [*kernel(128), other]], (), ())[0]["THREADS"] == "THREADS_case_1"
    assert numbered_names([kernel(64)], ("width",), ())[0] == {"width": "width_1"}


def test_kernels_that_define_a_function_alike_share_it_beside_one_that_does_not() -> None:
    """Of one name are what is alike: `run` of the first two; what calls another `run` is another one, too."""
    caller = Definition("call", "def call(x):\n    return run(x)")
    names = numbered_names([[*kernel(64), caller], [*kernel(64), caller], [*kernel(64, ", y"), caller]], (), ())
    assert names[0] == names[1] == {"run": "run_1", "call": "call_1"}
    assert names[2] == {"run": "run_3", "call": "call_3"}


def test_constants_of_a_kernel_have_its_number_but_for_kernels_of_one_group() -> None:
    several = [constants(64), constants(64), constants(128)]
    own = numbered_names(several, (), ())
    assert [one["THREADS"] for one in own] == ["THREADS_1", "THREADS_2", "THREADS_3"]
    assert [one["run"] for one in own] == ["run_1", "run_2", "run_3"]
    grouped = numbered_names(several, (), (), (0, 0, 2))
    assert [one["THREADS"] for one in grouped] == ["THREADS_1", "THREADS_1", "THREADS_3"]
    assert [one["run"] for one in grouped] == ["run_1", "run_1", "run_3"]


def test_a_name_that_is_an_argument_is_not_the_constant_of_that_name() -> None:
    names = numbered_names([kernel(64, ", THREADS"), kernel(128, ", THREADS")], (), ())
    assert names[0] == {"THREADS": "THREADS_1"} and names[1] == {"THREADS": "THREADS_2"}
