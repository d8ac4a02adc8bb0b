"""The definitions of the operations at every coordinate of random layouts, and the results of their steps."""

from __future__ import annotations

import random
from collections.abc import Callable

from algebra_kit import random_layout, random_tiler
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_layouts import ComposedLayout, Layout, Swizzle, compose

from cutegen.algebra import AlgebraError, Evaluation, evaluate
from cutegen.algebra.facts import all_offsets, facts
from cutegen.algebra.registry import FUNCTIONS
from cutegen.algebra.values import text_of
from cutegen.layouts import elements, leaves, make_layout_tv, modes_of, reach

SEEDS = st.integers(0, 2**32).map(random.Random)
KINDS = ("compact", "gaps", "zeros", "any")


def holds(test: Callable[[random.Random], None]) -> Callable[[], None]:
    """For layouts of any random choice; a busy machine is no failure."""
    return settings(deadline=None)(given(SEEDS)(test))


def value(expression: str) -> Layout | None:
    try:
        found: Layout = evaluate(expression).value
    except AlgebraError:
        return None
    return found


def image(layout: Layout) -> list[int]:
    return [layout(i) for i in range(elements(layout.shape))]


def a_layout(chance: random.Random, *kinds: str, largest: int = 200) -> Layout:
    found: Layout = evaluate(random_layout(chance, chance.choice(kinds or KINDS), largest=largest)).value
    return found


@holds
def test_composition(chance: random.Random) -> None:
    a, b = a_layout(chance), a_layout(chance)
    result = value(f"composition({text_of(a)}, {text_of(b)})")
    if result is not None:
        assert image(result) == [a(b(i)) for i in range(elements(b.shape))]
        if isinstance(b.shape, tuple):
            assert [elements(mode.shape) for mode in modes_of(result)] == [elements(mode.shape) for mode in modes_of(b)]


@holds
def test_compositions_that_tensor_layouts_makes_are_made(chance: random.Random) -> None:
    """It refuses what is refused here, but for what is wrong where modes add up past the end of a mode."""
    a, b = a_layout(chance), a_layout(chance)
    try:
        theirs = compose(a, b)
    except ValueError:
        return
    if image(theirs) == [a(b(i)) for i in range(elements(b.shape))]:
        assert value(f"composition({text_of(a)}, {text_of(b)})") is not None


@settings(deadline=None)
@given(SEEDS, st.sampled_from([1, 5, 16, 64, 100]))
def test_complement(chance: random.Random, room: int) -> None:
    a = a_layout(chance, "compact", "gaps", "zeros")
    evaluation = evaluate(f"complement({text_of(a)}, {room})")
    found = image(evaluation.value)
    together = [offset + other for offset in set(image(a)) for other in found]
    assert len(set(together)) == len(together), "disjoint"
    assert found == sorted(found), "ordered"
    assert max(together) + 1 >= room, "as far as the cotarget"
    if not evaluation.notes:
        assert set(range(room)) <= set(together), "without gaps, unless a note says so"


@holds
def test_right_inverse(chance: random.Random) -> None:
    a = a_layout(chance)
    inverse = value(f"right_inverse({text_of(a)})")
    assert inverse is not None
    assert [a(inverse(i)) for i in range(elements(inverse.shape))] == list(range(elements(inverse.shape)))
    known = facts(a)
    if known.injective and known.surjective:
        assert elements(inverse.shape) == known.size


@holds
def test_left_inverse(chance: random.Random) -> None:
    a = a_layout(chance)
    inverse = value(f"left_inverse({text_of(a)})")
    if inverse is not None:
        assert all(a(inverse(offset)) == offset for offset in image(a))
        if facts(a).injective:
            assert [inverse(offset) for offset in image(a)] == list(range(elements(a.shape)))


@holds
def test_nullspace(chance: random.Random) -> None:
    a = a_layout(chance, "zeros", "any")
    found = value(f"nullspace({text_of(a)})")
    assert found is not None and {a(found(i)) for i in range(elements(found.shape))} == {0}
    moving = elements(tuple(size for size, stride in leaves(a) if stride) or (1,))
    assert elements(found.shape) * moving == elements(a.shape)


@holds
def test_coalescing_keeps_every_offset(chance: random.Random) -> None:
    a = a_layout(chance)
    once = value(f"coalesce({text_of(a)})")
    assert once is not None and image(once) == image(a) and value(f"coalesce({text_of(once)})") == once
    by_mode = value(f"coalesce({text_of(a)}, ({','.join('1' * len(modes_of(a)))}))")
    assert by_mode is not None and [image(m) for m in modes_of(by_mode)] == [image(m) for m in modes_of(a)]


@holds
def test_divides(chance: random.Random) -> None:
    """The tile at `rest` of a mode has the offsets that the tiler picks there, wherever the arrangement puts them."""
    a = a_layout(chance)
    tiler = random_tiler(chance, text_of(a))
    logical = value(f"logical_divide({text_of(a)}, {tiler})")
    if logical is None:
        return
    if elements(logical.shape) == elements(a.shape):
        assert sorted(image(logical)) == sorted(image(a)), "every element is in one tile"
    arranged = [value(f"{name}({text_of(a)}, {tiler})") for name in ("zipped_divide", "tiled_divide", "flat_divide")]
    zipped, tiled, flat = arranged
    assert zipped is not None and tiled is not None and flat is not None
    assert image(zipped) == image(tiled) == image(flat) and sorted(image(zipped)) == sorted(image(logical))
    assert len(modes_of(zipped)) == 2 and modes_of(tiled)[0] == modes_of(zipped)[0]
    picked = value(f"composition({text_of(a)}, {tiler})")
    if picked is not None:
        assert image(modes_of(zipped)[0]) == image(picked), "the tile at rest 0 is what the tiler picks"


@holds
def test_products(chance: random.Random) -> None:
    block, tiler = (a_layout(chance, "compact", "gaps", largest=32) for _ in range(2))
    both = f"({text_of(block)}, {text_of(tiler)})"
    logical = value(f"logical_product{both}")
    if logical is None:
        return
    first, copies = modes_of(logical)
    assert first == block
    assert len({o + c for o in image(block) for c in image(copies)}) == elements(logical.shape), "copies are disjoint"
    order = sorted(range(elements(tiler.shape)), key=tiler)
    assert order == sorted(range(elements(tiler.shape)), key=copies), "copies are in the tiler's order"
    for name in ("tiled_product", "flat_product", "blocked_product", "raked_product"):
        other = value(f"{name}{both}")
        assert other is None or sorted(image(other)) == sorted(image(logical)), name


@holds
def test_thread_value_layouts(chance: random.Random) -> None:
    threads, values = (a_layout(chance, "compact", largest=32) for _ in range(2))
    try:
        found = evaluate(f"make_layout_tv({text_of(threads)}, {text_of(values)})").value
    except AlgebraError:
        return
    assert (found.tiler, found.layout) == make_layout_tv(threads, values)
    assert sorted(image(found.layout)) == list(range(elements(found.tiler)))
    both = f"({text_of(threads)}, {text_of(values)})"
    raked = evaluate(f"raked_product{both}").value
    count = elements(threads.shape)
    for place in range(elements(found.tiler)):
        thread, number = raked(place) % count, raked(place) // count
        assert found.layout((thread, number)) == place


def test_tiles_and_partitions_have_every_element_once() -> None:
    for matrix in ("(16,32):(32,1)", "(16,32):(1,20)", "((4,4),32):((32,1000),1)"):
        every = sorted(image(evaluate(matrix).value))
        for threads in ("(8,4):(4,1)", "(8,4):(1,8)", "((2,4),4):((1,8),2)", "(8,1):(1,0)"):
            count = evaluate(f"size({threads})").value
            parts = [starting_at(evaluate(f"local_partition({matrix}, {threads}, {i})")) for i in range(count)]
            assert sorted(offset for part in parts for offset in part) == every, (matrix, threads)
        tiles = [f"local_tile({matrix}, (4,8), ({i},{j}))" for i in range(4) for j in range(4)]
        assert sorted(offset for tile in tiles for offset in starting_at(evaluate(tile))) == every


def starting_at(evaluation: Evaluation) -> list[int]:
    """The offsets of a slice, from where its steps say that it starts."""
    (start,) = (int(step.value) for step in evaluation.steps if step.expression.startswith("crd2idx(") and step.value)
    return [start + offset for offset in image(evaluation.value)]


def test_the_thread_of_a_place_is_the_one_that_has_it() -> None:
    threads = evaluate("((2,4),4):((1,8),2)").value
    for index in range(32):
        found = evaluate(f"local_partition((8,4):(1,8), {text_of(threads)}, {index})")
        (place,) = starting_at(found)
        assert threads(place) == index


@holds
def test_coordinates_and_slices(chance: random.Random) -> None:
    a = a_layout(chance)
    shape = random_coordinate(chance, a.shape, holes=False)
    index = chance.randrange(elements(a.shape))
    coordinate = evaluate(f"idx2crd({index}, {text_of(a.shape)})").value
    assert evaluate(f"{text_of(a)}({text_of(coordinate)})").value == a(index)
    assert evaluate(f"{text_of(a)}({text_of(shape)})").value == a(shape)
    if isinstance(a.shape, int):
        return
    cut = random_coordinate(chance, a.shape, holes=True)
    if cut is None or "_" not in text_of(cut):
        return
    evaluation = evaluate(f"slice_({text_of(a)}, {text_of(cut)})")
    start = evaluate(f"crd2idx({text_of(cut)}, {text_of(a)})").value
    every = [evaluate(f"idx2crd({i}, {text_of(a.shape)})").value for i in range(elements(a.shape))]
    assert sorted(start + o for o in image(evaluation.value)) == sorted(a(c) for c in every if fits(c, cut))


def random_coordinate(chance: random.Random, shape: object, *, holes: bool) -> object:
    if holes and chance.random() < 0.4:
        return None
    if isinstance(shape, int):
        return chance.randrange(shape)
    assert isinstance(shape, tuple)
    return tuple(random_coordinate(chance, part, holes=holes) for part in shape)


def fits(coordinate: object, cut: object) -> bool:
    if cut is None or not isinstance(cut, tuple):
        return cut is None or coordinate == cut
    assert isinstance(coordinate, tuple)
    return all(map(fits, coordinate, cut))


@settings(deadline=None)
@given(SEEDS, st.sampled_from([(1, 0, 1), (2, 1, 3), (3, 0, 3), (2, 0, -2)]), st.integers(0, 40))
def test_swizzled_layouts(chance: random.Random, numbers: tuple[int, int, int], offset: int) -> None:
    inner = a_layout(chance)
    swizzle = Swizzle(*numbers)
    text = f"(S<{','.join(map(str, numbers))}> o {offset} o {text_of(inner)})"
    whole = evaluate(text).value
    assert all_offsets(whole, 10**4) == [swizzle(offset + o) for o in image(inner)]
    assert facts(whole).injective == facts(inner).injective
    b = a_layout(chance)
    composed = value(f"composition({text}, {text_of(b)})")
    if composed is not None:
        assert all_offsets(composed, 10**4) == [whole(b(i)) for i in range(elements(b.shape))]
    if isinstance(inner.shape, tuple) and len(inner.shape) == 2:
        column = chance.randrange(elements(inner.shape[1]))
        part = evaluate(f"{text}((_, {column}))").value
        assert isinstance(part, ComposedLayout)
        assert all_offsets(part, 10**4) == [whole((row, column)) for row in range(elements(inner.shape[0]))]


@holds
def test_facts_agree_with_counting(chance: random.Random) -> None:
    a = a_layout(chance)
    known, found = facts(a), image(a)
    assert all_offsets(a, 10**4) == found and all_offsets(a, 7) == found[:7]
    assert (known.size, known.cosize) == (len(found), max(found) + 1) == (elements(a.shape), reach(a))
    assert known.injective == (len(set(found)) == len(found))
    assert known.surjective == (set(found) == set(range(known.cosize)))


def test_facts_of_large_layouts() -> None:
    for text, injective, surjective in (
        ("(65536,65536):(65536,1)", True, True),
        ("(1000,1000):(7,3)", False, False),
        ("(1000000,2):(7,1)", True, False),
        ("(1000,1000):(7000,7001)", None, False),
    ):
        known = facts(evaluate(text).value)
        assert (known.injective, known.surjective) == (injective, surjective), text


@holds
def test_steps_can_be_evaluated_again(chance: random.Random) -> None:
    """Every step is an expression whose value is the one that is shown, and the last one is the whole expression's."""
    a, b = text_of(a_layout(chance)), text_of(a_layout(chance))
    name = chance.choice([n for n, f in FUNCTIONS.items() if f.group in ("algebra", "divides", "products", "tiles")])
    arguments = {1: a, 2: f"{a}, {chance.choice((b, random_tiler(chance, a)))}", 3: f"{a}, {b}, 1", 4: f"{a}, {b}, 1"}
    try:
        evaluation = evaluate(f"{name}({arguments[len(FUNCTIONS[name].parameters)]})")
    except AlgebraError:
        return
    assert evaluation.steps[-1].depth == 0
    if FUNCTIONS[name].group != "divides" or name != "divide":
        assert evaluation.steps[-1].value in (None, text_of(evaluation.value))
    for step in evaluation.steps:
        if step.value is not None:
            assert text_of(evaluate(step.expression).value) == step.value, step
