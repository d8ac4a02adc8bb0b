"""Functions that remember are asked once about an object, and again about another one that is equal to it."""

from __future__ import annotations

from cutegen.remembering import remembers


def test_an_object_is_told_by_identity() -> None:
    asked: list[list[int]] = []

    @remembers(2)
    def first(numbers: list[int]) -> int:
        """The first number."""
        asked.append(numbers)
        return numbers[0]

    one, equal, other = [1], [1], [2]
    assert [first(one), first(one), first(equal), first(one), first(other)] == [1, 1, 1, 1, 2]
    assert [any(each is one for each in asked), len(asked)] == [True, 3]
    assert first(one) == 1 and len(asked) == 4, "the oldest one is forgotten"
    assert first.__doc__ == "The first number."


def test_what_raises_is_asked_again() -> None:
    tried: list[object] = []

    @remembers(1)
    def fails(given: object) -> None:
        tried.append(given)
        raise ValueError

    for _ in range(2):
        try:
            fails("")
        except ValueError:
            continue
    assert len(tried) == 2
