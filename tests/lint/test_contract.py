"""Restrictions by inference get a note each, whose line lifts them; a written promise is kept or is an error."""

from __future__ import annotations

from typing import Any

import pytest
from lint_kit import found_in
from planning_specs import document

from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import Diagnostic
from cutegen.lint.contract import narrowed


def spec(op: str = "gemm", dtype: str = "f32", align: int | None = 16, **more: Any) -> str:
    aligned = {} if align is None else {"align": align}
    if op == "elementwise":
        tensors: dict[str, Any] = {"X": {"shape": ["M", "N"]}, "C": {"shape": ["M", "N"], "role": "out"}}
        compute = "C = 2 * X"
    else:
        tensors = {"A": {"shape": ["M", "K"]}, "B": {"shape": ["N", "K"]}, "C": {"shape": ["M", "N"], "role": "out"}}
        compute = "C = A @ B.T"
    tensors = {name: {**tensor, "dtype": dtype, **aligned} for name, tensor in tensors.items()}
    return document(op, tensors, compute, more.pop("schedule", {}), **more)


def module_of(text: str) -> Module:
    (module,) = generate(text, "x.yaml").modules
    return module


def notes_of(text: str) -> list[Diagnostic]:
    module = module_of(text)
    return list(narrowed(module.spec, module.inferred))


def refusing(op: str, **copy: object) -> dict[str, Any]:
    """A schedule with which a kernel demands what its accesses need, as a gemm does that names its atom."""
    return {"mma": {"atom": "fma"}} if op == "gemm" else {"copy": {"fallback": "refuse", **copy}}


@pytest.mark.parametrize("op", ["gemm", "elementwise"])
@pytest.mark.parametrize(("dtype", "step"), [("f32", 4), ("f16", 8)])
def test_a_promise_that_was_inferred_is_said_with_the_line_that_lifts_it(op: str, dtype: str, step: int) -> None:
    given = refusing(op)
    (note,) = notes_of(spec(op, dtype, schedule=given))
    assert (note.code, note.severity) == ("CG225", "note")
    assert f"N must be a multiple of {step}" in note.message
    if op == "elementwise":
        assert note.help == "leave out `schedule.copy.fallback` for any N"
    else:
        assert note.help is not None and "write `divisible: {N: 1}` for any N" in note.help
        assert f"moves {16 // step} bytes of " in note.help and note.help.endswith("not 16")
    assert module_of(spec(op, dtype, schedule=given)).spec.divisible == {"N": step}
    lifted = module_of(spec(op, dtype, schedule=given, divisible={"N": 1}))
    assert lifted.spec.divisible == {"N": 1} and not notes_of(spec(op, dtype, schedule=given, divisible={"N": 1}))
    assert "DIVISIBLE" not in lifted.text


@pytest.mark.parametrize("op", ["gemm", "elementwise"])
@pytest.mark.parametrize("promise", [1, 2, 3, 4, 12, 128])
def test_a_written_promise_stands(op: str, promise: int) -> None:
    text = spec(op, divisible={"N": promise})
    assert module_of(text).spec.divisible == {"N": promise}
    assert not notes_of(text)


def test_what_was_written_and_asks_for_more_is_refused() -> None:
    text = spec("elementwise", schedule=refusing("elementwise", bits=128), divisible={"N": 6})
    (error,) = found_in(text)
    assert error.code == "CG224" and "a multiple of 6, and the schedule needs one of 12" in error.message
    assert error.help is not None and "`N: 12`" in error.help
    assert not found_in(text.replace("N: 6", "N: 12"))


def test_a_written_width_is_named_where_it_is_what_narrows() -> None:
    (note,) = notes_of(spec("elementwise", schedule=refusing("elementwise", bits=128)))
    assert note.help == "leave out `schedule.copy.fallback` for any N"
    notes = notes_of(spec("elementwise", schedule={"predication": {"M": "none"}}, divisible={"N": 4}))
    assert [n.help for n in notes] == ["leave out `schedule.predication.M` for any M"]


def test_an_alignment_that_was_inferred_is_said_with_what_lifts_it() -> None:
    (note,) = notes_of(spec("gemm", align=None, divisible={"N": 4}, schedule=refusing("gemm")))
    assert note.code == "CG226" and note.message.startswith(
        "A, B, C: addresses and strides must be multiples of 16 bytes"
    )
    assert note.help == "write `align: 4` for A, B, C to take any; one access then moves 4 bytes of C, not 16"
    assert not notes_of(spec("gemm", align=4))


def test_an_alignment_says_which_case_needs_it() -> None:
    """Where the first one takes any tensor, the reason is that of another; several reasons name their tensors."""
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "bf16"},
        "B": {"shape": ["N", "K"], "dtype": "bf16"},
        "C": {"shape": ["M", "N"], "dtype": "bf16", "role": "out"},
    }
    any_tensor = {"for": {"target": "sm_90a"}, "mma": {"atom": "wgmma"}}
    other, targets = {"mma": {"atom": "mma_sync"}}, ["sm_80", "sm_90a"]

    def reasons(first: object) -> tuple[str, ...]:
        text = document("gemm", tensors, "C = A @ B.T", [first, other], targets=targets)  # type: ignore[arg-type]
        (note,) = [note for note in notes_of(text) if note.code == "CG226"]
        return note.notes

    assert reasons(any_tensor) == ("one 128-bit access, in case 2",)
    assert reasons(any_tensor | {"copies": {"A": {"misaligned": "refuse"}}}) == (
        "A: tensor maps need 16-byte alignment, in case 1",
        "B, C: one 128-bit access, in case 2",
    )


def rows(along: str, **tensor: str) -> str:
    tensors = {"X": {"shape": ["M", "N"], "dtype": "f32", **tensor}}
    tensors["Y"] = {**tensors["X"], "role": "out"}
    return document("rowwise", tensors, f"Y = X - mean(X, {along})", {})


def test_rows_that_are_not_torchs_own_are_said() -> None:
    (note,) = notes_of(rows("M"))
    assert (note.code, note.severity) == ("CG227", "note")
    assert note.message == "X, Y: must be contiguous along M (inferred)"
    assert note.help == "write `major: M` to keep it, or reduce along N"
    assert "torch's defaults are contiguous along N" in note.notes
    assert "neighbours lie along M" in note.notes
    assert not notes_of(rows("M", major="M")) and not notes_of(rows("N"))


def test_a_probe_says_how_its_tensor_lies() -> None:
    tensors = {"A": {"shape": ["M", "N"], "dtype": "i32"}, "D": {"shape": ["T", "V"], "dtype": "i32", "role": "out"}}
    text = document("probe", tensors, "D = A", {"tv_layout": "(2,2):(1,2)", "tiler": {"M": 2, "N": 2}})
    (note,) = notes_of(text)
    assert (note.code, note.help) == ("CG227", "write `major: M` to keep it, or `major: N`")


@pytest.mark.parametrize("promises", [{}, {"align": 16}, {"align": None}, {"align": None, "divisible": {"N": 4}}])
def test_what_was_not_written_is_not_asked_of_callers(promises: dict[str, Any]) -> None:
    """A kernel with narrow accesses for what its wide ones do not fit has nothing to say of sizes and addresses."""
    module = module_of(spec("elementwise", **promises))
    assert not notes_of(spec("elementwise", **promises)) and module.spec.schedule.copy.fallback == "narrow"
    assert module.spec.divisible == promises.get("divisible", {})
    assert {t.align for t in module.spec.tensors} == {promises.get("align", 16) or 4}


def test_where_all_is_promised_there_are_no_narrow_accesses() -> None:
    module = module_of(spec("elementwise", divisible={"N": 4}))
    assert module.spec.schedule.copy.fallback is None and "else of one element" not in module.text
    (error,) = found_in(spec("elementwise", divisible={"N": 4}, schedule={"copy": {"fallback": "narrow"}}))
    assert error.code == "CG203" and "what is promised allows all accesses" in error.message
    (error,) = found_in(spec("elementwise", schedule={"copy": {"fallback": "narrow", "bits": 32}}))
    assert error.code == "CG203" and "every access is of one element" in error.message
