"""The walks over a row: what each reads, computes, reduces and stores, and what is computed once for the row."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import Binary, Call, Cast, Coord, Expr, Literal_, Local, Name, Reduce, Unary, walk
from cutegen.families.rowwise.program import program_of
from cutegen.families.rowwise.walks import Named, Program, Reduction, Store, Walk

SHAPES = {"X": "MN", "Z": "MN", "w": "N", "r": "M", "Y": "MN", "s": "M", "W": "MN", "v": "N"}


def show(node: Expr) -> str:
    """Prefix form without types, conversions in braces: an own printer."""
    match node:
        case Literal_():
            return f"{node.value:g}"
        case Name():
            return node.id
        case Local():
            return f"${node.id}"
        case Coord():
            return f"coord({node.mode})"
        case Unary():
            return f"{node.op}{show(node.x)}"
        case Binary():
            return f"({show(node.left)} {node.op} {show(node.right)})"
        case Cast():
            return f"{{{show(node.x)}}}"
        case Call():
            return f"{node.function}({', '.join(map(show, node.arguments))})"
    raise AssertionError(node)


def shown(step: Named | Reduction | Store) -> str:
    match step:
        case Named():
            return f"{step.name} = {show(step.value)}"
        case Reduction():
            above = "" if step.above is None else f" above ${step.above}"
            around = "" if step.around is None else f" around ${step.around[0]} / ${step.around[1]}"
            return f"{step.name} <- {step.function} {show(step.value)}{above}{around}"
        case Store():
            return f"{step.tensor} := {show(step.value)}"


def lines(walk: Walk) -> list[str]:
    """All of a walk, in the order in which it happens."""
    steps = (*walk.elements, *walk.reductions, *walk.stores)
    return [f"read {', '.join(walk.reads)}", *map(shown, steps), *(f"row {shown(step)}" for step in walk.after)]


def program(
    *statements: str,
    size: int | None = None,
    once: bool = True,
    types: Mapping[str, Dtype] | None = None,
    online: bool = False,
    fast: bool = False,
) -> Program:
    kinds = dict.fromkeys((*SHAPES, "alpha"), Dtype.f32) | dict(types or {})
    typed = annotate(parse_compute(statements), kinds)
    shapes = {name: tuple(shape) for name, shape in SHAPES.items()}
    return program_of(typed, shapes, "N", size, once, online, fast=fast)


SOFTMAX = ("e = exp(X - max(X, N))", "Y = e * (1 / sum(e, N))")
LAYER_NORM = ("d = X - mean(X, N)", "Y = d * rsqrt(mean(d * d, N) + 1e-5) * w + r")


def test_a_softmax_is_two_reductions_and_a_store() -> None:
    found = program(*SOFTMAX)
    assert found.before == () and [lines(one) for one in found.walks] == [
        ["read X", "row_max <- max X"],
        ["read X", "e = exp((X - $row_max))", "row_sum <- sum $e", "row row_value = (1 / $row_sum)"],
        ["read ", "Y := ($e * $row_value)"],
    ]


def test_a_row_that_is_read_again_is_computed_again() -> None:
    found = program(*SOFTMAX, once=False)
    first, second, last = map(lines, found.walks)
    assert [first, second] == [lines(one) for one in program(*SOFTMAX).walks[:2]]
    assert last == ["read X", "e = exp((X - $row_max))", "Y := ($e * $row_value)"]


@pytest.mark.parametrize(("once", "online"), [(True, False), (False, False), (False, True)])
def test_a_fast_softmax_multiplies_by_one_reciprocal(once: bool, online: bool) -> None:
    statements = ("e = exp(X - max(X, N))", "Y = e / sum(e, N)", "W = e / sum(e, N) + 1")
    fast = program(*statements, once=once, online=online, fast=True)
    assert [shown(step) for step in fast.rows] == ["row_inverse = (1 / $row_sum)"]
    values = [show(store.value) for one in fast.walks for store in one.stores]
    assert values == ["($e * $row_inverse)", "(($e * $row_inverse) + 1)"]
    precise = program(*statements, once=once, online=online)
    assert [show(store.value) for one in precise.walks for store in one.stores][0] == "($e / $row_sum)"


@pytest.mark.parametrize(
    "statement",
    [
        "Y = X / sum(X, N)",  # of any size, 0 and infinite among them
        "Y = X / sum(exp(X), N)",
        "Y = X / prod(exp(X - max(X, N)), N)",
        "Y = X / sqrt(sum(X * X, N))",
        "Y = X / r",
        "s = sum(exp(X - max(X, N)), N) / r",  # of each row, which is divided once
        "Y = sum(exp(X - max(X, N)), N) / X",
    ],
)
def test_other_quotients_stay_quotients(statement: str) -> None:
    assert program(statement, fast=True) == program(statement)


LOSS = ("z = X * 2 - max(X * 2, N)", "e = exp(z)", "s = log(sum(e, N)) - sum(z, N)", "Y = e")


MEAN = ("s = mean(exp(X - max(X, N)), N)", "Y = X")


@pytest.mark.parametrize(
    ("statements", "value", "walks"), [(SOFTMAX, "X", (2, 3)), (LOSS, "(X * 2)", (2, 2)), (MEAN, "X", (1, 2))]
)
def test_a_sum_above_the_largest_value_shares_its_walk(
    statements: tuple[str, ...], value: str, walks: tuple[int, int]
) -> None:
    found, before = program(*statements, once=False, online=True), program(*statements, once=False)
    first = lines(found.walks[0])
    assert first[:3] == ["read X", f"row_max <- max {value}", f"row_sum <- sum {value} above $row_max"]
    assert (len(found.walks), len(before.walks)) == walks
    assert [s.tensor for one in found.walks for s in one.stores] == [
        s.tensor for one in before.walks for s in one.stores
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "Y = sum(exp(X - max(Z, N)), N) + X",  # above the largest of other values
        "Y = sum(exp(max(X, N) - X), N) + X",
        "Y = sum(exp(X - min(X, N)), N) + X",
        "Y = sum(exp(X - sum(X, N)), N) + X",
        "Y = max(exp(X - max(X, N)), N) + X",
        "Y = sum(exp(X - max(X, N)) * Z, N) + X",
        "Y = sum(sqrt(X - max(X, N)), N) + X",
        "Y = sum(exp(X + max(X, N)), N) + X",
    ],
)
def test_other_sums_have_walks_of_their_own(statement: str) -> None:
    found = program(statement, once=False, online=True)
    assert found == program(statement, once=False) and all(one.above is None for one in found.reductions)


VARIANCES = (
    LAYER_NORM,
    ("Y = X * sum((X - mean(X, N)) * (X - mean(X, N)), N)",),
    ("m = mean(X, N)", "Y = m + mean((X - m) ** 2, N) * X"),
)


@pytest.mark.parametrize("size", [None, 24])
@pytest.mark.parametrize("statements", VARIANCES)
def test_squares_around_a_mean_share_its_walk(statements: tuple[str, ...], size: int | None) -> None:
    """With a count of what has come so far, as each part of a row has a mean of its own."""
    found = program(*statements, size=size, once=False, online=True)
    before = program(*statements, size=size, once=False)
    assert lines(found.walks[0])[:4] == [
        "read X",
        "row_sum <- sum X",
        "counted <- sum 1",
        "row_sum_1 <- sum X around $row_sum / $counted",
    ]
    assert (len(found.walks), len(before.walks)) == (2, 3)


@pytest.mark.parametrize(
    "statement",
    [
        "Y = sum((X - mean(Z, N)) ** 2, N) * X",  # around the mean of other values
        "Y = sum((X - sum(X, N)) ** 2, N) * X",
        "Y = sum((X - max(X, N)) ** 2, N) * X",
        "Y = sum((X - mean(X, N)) ** 3, N) * X",
        "Y = sum((X - mean(X, N)) * (Z - mean(X, N)), N) * X",
        "Y = sum((X + mean(X, N)) ** 2, N) * X",
        "Y = max((X - mean(X, N)) ** 2, N) * X",
        "Y = sum((X - sum(X, N) / 7) ** 2, N) * X",
    ],
)
def test_other_squares_have_walks_of_their_own(statement: str) -> None:
    found = program(statement, once=False, online=True)
    assert found == program(statement, once=False) and all(one.around is None for one in found.reductions)


@pytest.mark.parametrize(("size", "divisor"), [(None, "{N}"), (24, "24")])
def test_a_mean_is_a_sum_that_is_divided_by_the_size_of_the_row(size: int | None, divisor: str) -> None:
    found = program(*LAYER_NORM, size=size)
    assert [lines(one) for one in found.walks] == [
        ["read X", "row_sum <- sum X", f"row row_mean = ($row_sum / {divisor})"],
        ["read X", "d = (X - $row_mean)", "row_sum_1 <- sum ($d * $d)",
         f"row row_mean_1 = ($row_sum_1 / {divisor})", "row row_value = rsqrt(($row_mean_1 + 1e-05))"],
        ["read w", "Y := ((($d * $row_value) * w) + r)"],
    ]  # fmt: skip


def test_the_size_of_the_row_is_converted_to_the_type_of_the_mean() -> None:
    for kind, wanted in ((Dtype.f64, Dtype.f64), (Dtype.f16, Dtype.f32), (Dtype.i32, Dtype.f32)):
        for size in (None, 24):
            found = program("m = mean(X, N)", "Y = cast(m, f32)", size=size, types={"X": kind})
            (mean,) = (step for one in found.walks for step in one.after if step.name == "m")  # type: ignore[union-attr]
            assert isinstance(mean.value, Binary) and mean.value.op == "/" and mean.value.dtype is wanted
            assert mean.value.left.dtype is mean.value.right.dtype is wanted
            assert isinstance(mean.value.right, Cast if size is None else Literal_)


def test_reductions_that_do_not_need_each_other_share_a_walk() -> None:
    found = program("s = sum(X, N) + max(X, N) * min(Z * w, N)", "Y = X")
    (one,) = found.walks
    assert [r.function for r in one.reductions] == ["sum", "max", "min"] and one.reads == ("X", "Z", "w")
    assert [shown(step) for step in one.stores] == ["Y := X"]
    assert [shown(step) for step in one.after] == ["s := ($row_sum + ($row_max * $row_min))"]


def test_a_store_comes_as_soon_as_what_it_needs_is_known() -> None:
    found = program("Y = X * 2", "W = X - max(X, N)", "s = sum(X * X, N)")
    first, second = map(lines, found.walks)
    assert first == ["read X", "row_max <- max X", "s <- sum (X * X)", "Y := (X * 2)", "row s := $s"]
    assert second == ["read X", "W := (X - $row_max)"]


def test_what_nothing_reduces_is_known_before_the_first_walk() -> None:
    found = program("a = r * alpha", "Y = X * a - max(X, N)", "s = r + 1")
    assert [shown(step) for step in found.before] == ["a = (r * alpha)", "s := (r + 1)"]
    assert [line for one in found.walks for line in lines(one)] == [
        "read X", "row_max <- max X", "read X", "Y := ((X * $a) - $row_max)",
    ]  # fmt: skip
    assert [shown(step) for step in found.rows] == ["a = (r * alpha)", "s := (r + 1)"]


def test_what_is_the_same_along_the_row_is_computed_once_for_it() -> None:
    found = program("Y = X * exp(r * alpha) + exp(r * alpha) - (2 * 3) * sum(X, N)")
    assert [shown(step) for step in found.before] == ["row_value = exp((r * alpha))"]
    assert [shown(step) for step in found.walks[0].after] == ["row_value_1 = (6 * $row_sum)"]
    assert shown(found.walks[-1].stores[0]) == "Y := (((X * $row_value) + $row_value) - $row_value_1)"


def test_numbers_alone_have_no_name() -> None:
    found = program("Y = X * (1 / 3) - max(X, N)")
    assert found.rows == () and show(found.walks[-1].stores[0].value) == "((X * (1 / 3)) - $row_max)"


@pytest.mark.parametrize("function", ["sum", "mean", "max", "min"])
def test_a_reduction_that_is_written_twice_happens_once(function: str) -> None:
    found = program(f"Y = X - {function}(X, N)", f"W = X * {function}(X, N) + {function}(X * 1, N)")
    assert [show(r.value) for r in found.reductions] == ["X", "(X * 1)"]
    once, again = (show(store.value) for store in found.walks[-1].stores)
    name = f"$row_{function}"
    assert once == f"(X - {name})" and f"(X * {name})" in again


def test_a_sum_that_a_mean_has_too_happens_once() -> None:
    found = program("Y = X - mean(X, N) * sum(X, N)")
    assert [r.name for r in found.reductions] == ["row_sum"]


def test_a_statement_that_is_a_reduction_gives_it_its_name() -> None:
    found = program("m = max(X, N)", "Y = X - m")
    assert lines(found.walks[0]) == ["read X", "m <- max X"]
    assert lines(found.walks[1]) == ["read X", "Y := (X - $m)"]
    found = program("m = mean(X, N)", "Y = X - m")
    assert lines(found.walks[0]) == ["read X", "row_sum <- sum X", "row m = ($row_sum / {N})"]


def test_two_names_of_one_reduction_are_one_reduction() -> None:
    found = program("m = max(X, N)", "n = max(X, N)", "Y = (X - m) * n")
    assert len(found.reductions) == 1
    assert [shown(step) for step in found.rows] == ["n = $m"]
    assert shown(found.walks[-1].stores[0]) == "Y := ((X - $m) * $n)"


def test_names_that_are_taken_get_a_number() -> None:
    found = program("row_max = X * 2", "Y = row_max - max(X, N)")
    assert [r.name for r in found.reductions] == ["row_max_1"]
    assert shown(found.walks[-1].stores[0]) == "Y := ($row_max - $row_max_1)"


def test_a_reduction_over_what_an_output_means_is_over_what_was_computed() -> None:
    """Before it was rounded to the tensor's type."""
    found = program("Y = X * 2", "s = sum(Y, N)", types={"Y": Dtype.f16})
    (one,) = found.walks
    assert lines(one) == ["read X", "Y = (X * 2)", "s <- sum $Y", "Y := {$Y}", "row s := $s"]
    assert one.elements[0].value.dtype is Dtype.f32 and one.stores[0].value.dtype is Dtype.f16


def test_a_row_of_constants_can_be_stored_whole() -> None:
    found = program("m = max(X, N)", "Y = m")
    assert lines(found.walks[1]) == ["read ", "Y := $m"]


def test_reductions_in_reductions_take_a_walk_each() -> None:
    found = program("s = sum(X * max(X - sum(X, N), N), N)")
    assert [[r.function for r in one.reductions] for one in found.walks] == [["sum"], ["max"], ["sum"]]
    assert lines(found.walks[1]) == ["read X", "row_max <- max (X - $row_sum)"]


def test_coordinates_along_the_row_are_of_each_element_and_others_are_not() -> None:
    found = program("Y = X * (coord(M) + 1) + sum(where(coord(N) <= coord(M), X, 0), N)")
    assert [shown(step) for step in found.before] == ["row_value = {(coord(M) + 1)}"]
    assert [shown(r) for r in found.reductions] == ["row_sum <- sum where((coord(N) <= coord(M)), X, 0)"]


# ---------------------------------------------------------------------------------------------------------- any program

VALUES = st.recursive(
    st.sampled_from(["X", "Z", "w", "r", "alpha", "coord(N)", "2.5", "a"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["sum", "mean", "max", "min"]), inner).map(lambda t: f"{t[0]}(X * {t[1]}, N)"),
        inner.map(lambda t: f"exp({t})"),
    ),
    max_leaves=7,
)


@settings(deadline=None, max_examples=60)
@given(VALUES, VALUES, VALUES, st.booleans())
def test_every_walk_has_what_it_needs(first: str, second: str, third: str, once: bool) -> None:
    """Elements are computed in the walk or, once, in one before; the rest of the row before the walk."""
    found = program(
        "a = X * 0.5", f"b = {first}", f"Y = {second} + b * a", f"s = max({third} + X, N)", "W = s * X", once=once
    )
    of_row: set[str] = set()
    of_elements: set[str] = set()
    stored: list[str] = []

    def locals_of(node: Expr) -> set[str]:
        assert not any(isinstance(n, Reduce) for n in walk(node)), "reductions have names"
        return {n.id for n in walk(node) if isinstance(n, Local)}

    def of_a_row(step: Named | Store) -> None:
        names = {n.id for n in walk(step.value) if isinstance(n, Name)} - {"N"}
        assert locals_of(step.value) <= of_row and all("N" not in SHAPES.get(name, "") for name in names)
        assert not any(isinstance(n, Coord) and n.mode == "N" for n in walk(step.value))
        if isinstance(step, Named):
            of_row.add(step.name)
        else:
            stored.append(step.tensor)

    for step in found.before:
        of_a_row(step)
    for one in found.walks:
        here = set(of_elements) if once else set()
        read = set()
        for named in one.elements:
            assert locals_of(named.value) <= of_row | here and named.name not in here
            here.add(named.name)
        for step in (*one.reductions, *one.stores):
            assert locals_of(step.value) <= of_row | here
        for value in one.values:
            read |= {n.id for n in walk(value) if isinstance(n, Name) and "N" in SHAPES.get(n.id, "")}
        assert read == set(one.reads)
        of_elements |= here
        of_row |= {r.name for r in one.reductions}
        stored += [store.tensor for store in one.stores]
        for step in one.after:
            of_a_row(step)
    assert sorted(stored) == ["W", "Y", "s"]
    names = [n.name for one in found.walks for n in (*one.elements * once, *one.reductions)]
    names += [step.name for step in found.rows if isinstance(step, Named)]
    assert len(names) == len(set(names)), "no name has two meanings"
    values = [(r.function, show(r.value)) for r in found.reductions]
    assert len(values) == len(set(values)), "nothing is reduced twice"


def test_what_is_read_again_is_written_after_that() -> None:
    """In place: the second walk reads X as it was, and so it does in a chain of two tensors that need each other's."""
    kept, again = (program("X = X + Z", "Y = X * sum(X, N)", once=once) for once in (True, False))
    assert [[store.tensor for store in one.stores] for one in kept.walks] == [["X"], ["Y"]]
    assert [[store.tensor for store in one.stores] for one in again.walks] == [[], ["X", "Y"]]
    chained = program("X = X + max(Z, N)", "Z = Z - max(X, N)", "Y = Z + max(Z, N)", once=False)
    for number, one in enumerate(chained.walks):
        later = {name for other in chained.walks[number + 1 :] for name in other.reads}
        assert not later & {store.tensor for store in one.stores}
