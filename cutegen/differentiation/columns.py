"""Gradients of what broadcasts along all rows, such as weights: sums over the rows, and no more.

A row kernel adds up rows only where that is all of a statement. So factors and signs go into the sum, and sums that are
added are one: `-2 * a * sum(x, M) + sum(y, M)` is `sum(y - 2 * a * x, M)`.
"""

from __future__ import annotations

from cutegen.expressions.sums import Atom, Powers, Sum, Term, add, inside, of, times_each


def over_rows(x: Sum, rows: frozenset[str]) -> Sum:
    """A sum as one reduction over the modes of the rows, where it is linear in such reductions; else as it is."""
    if not rows or (x.atom is not None and x.atom.kind == "reduce"):
        return x
    found = _taken_in(x, rows)
    if found is None:
        return x
    inner, modes, sizes = found
    for mode in modes:
        inner = of(Atom("reduce", "sum", (inner,), mode))
    (term,) = inner.terms
    return Sum((Term(term.number, (*term.powers, *sizes)),))


_Found = tuple[Sum, tuple[str, ...], Powers]
"""The expression that is summed, the modes of the sums, innermost first, and the sizes of modes that divide the sum."""


def _taken_in(x: Sum, rows: frozenset[str]) -> _Found | None:
    found = [_of_term(term, rows) for term in x.terms]
    first = found[0] if found else None
    if first is None:
        return None
    inner: list[Sum] = []
    for each in found:
        if each is None or {*each[1]} != {*first[1]} or {*each[2]} != {*first[2]}:
            return None
        inner.append(each[0])
    return add(*inner), *first[1:]


def _of_term(term: Term, rows: frozenset[str]) -> _Found | None:
    sums = [(atom, exponent) for atom, exponent in term.powers if _reduces(atom, rows)]
    if len(sums) != 1 or sums[0][1] != 1:
        return None
    atom = sums[0][0]
    found = _of_sum(atom, rows) if atom.kind == "reduce" else None
    if atom.kind == "group":
        found = _taken_in(atom.arguments[0], rows)
    if found is None:
        return None
    inner, modes, sizes = found
    divided = tuple((a, p) for a, p in term.powers if a.kind == "size" and a.name in rows)
    if any(p != -1 for _, p in divided) or (divided and sizes):
        return None
    outside = tuple((a, p) for a, p in term.powers if a != atom and (a, p) not in divided)
    return times_each(inner, Sum((Term(term.number, outside),))), modes, divided or sizes


def _of_sum(atom: Atom, rows: frozenset[str]) -> _Found | None:
    """Returns what nested sums add up, if these are along all modes of the rows; None otherwise."""
    modes: list[str] = []
    inner = of(atom)
    while (part := inner.atom) is not None and part.kind == "reduce" and part.name == "sum" and part.mode in rows:
        modes.insert(0, part.mode)
        inner = part.arguments[0]
    whole = {*modes} == rows and not any(_reduces(part, rows) for part in inner.atoms())
    return (inner, tuple(modes), ()) if whole else None


def _reduces(atom: Atom, rows: frozenset[str]) -> bool:
    """Whether an atom is, or has inside, a reduction along a mode of the rows."""
    return any(part.kind == "reduce" and part.mode in rows for part in inside(of(atom)))
