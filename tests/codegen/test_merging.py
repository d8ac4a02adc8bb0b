"""Several kernels in one module: what becomes of names that they define differently."""

from __future__ import annotations

from cutegen.codegen.merging import Definition, numbered_names, replaced_names


def kernel(threads: int, more: str = "") -> list[Definition]:
    return [
        Definition("THREADS", f"THREADS = {threads}"),
        Definition("width", "def width():\n    return 8"),
        Definition("run", f"def run(x{more}):\n    return x * width() * THREADS"),
    ]


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
