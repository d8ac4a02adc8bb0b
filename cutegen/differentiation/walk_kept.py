"""Carried sums and maxima expressed by outputs of the forward, which the kernels of a gradient read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.differentiation.choosing import Value
from cutegen.differentiation.cost import divisors
from cutegen.differentiation.folding import Change, changes
from cutegen.differentiation.presenting import Presenter
from cutegen.differentiation.rebuilding import rebuilt
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.differentiation.walk_forward import CARRIED, WalkedForward, carried_in, is_carried
from cutegen.differentiation.writing import expression, replaced
from cutegen.expressions.sums import Atom, Sum, add, call, factor_of, inside, of, scaled
from cutegen.expressions.tree import Expr, Name


@dataclass(frozen=True)
class Kept:
    """Sums by name, in which `outputs` take the place of carried sums and maxima. `missing` are those that no output
    gives.
    """

    sums: Mapping[str, Sum]
    outputs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def kept(sums: Mapping[str, Sum], outputs: Sequence[Value]) -> Kept:
    """The sums with as few carried atoms as possible. No sum gets a new divisor, which could be 0."""
    missing = _missing(sums)
    best = Kept(sums, (), missing)
    if not missing:
        return best
    for value in outputs:
        for change in _ways(value):
            changed = {name: change(x) for name, x in sums.items()}
            left = _missing(changed)
            used = any(value.atom in inside(x) for x in changed.values())
            if not used or not {*left} < {*missing} or _divides_anew(sums, changed, change):
                continue
            others = [Value(one.name, change(one.meaning)) for one in outputs if one is not value]
            found = kept(changed, others)
            if (len(found.missing), 1 + len(found.outputs)) < (len(best.missing), len(best.outputs)) or (
                len(found.missing) < len(best.missing)
            ):
                best = Kept(found.sums, (value.name, *found.outputs), found.missing)
                if not best.missing:
                    return best
    return best


def _divides_anew(before: Mapping[str, Sum], after: Mapping[str, Sum], change: Change) -> bool:
    """Whether sums divide by something after a change that no divisor became."""
    old = divisors(before.values())
    rewritten = {atom for divisor in old for atom, _ in factor_of(change(of(divisor))).powers}
    return bool(divisors(after.values()) - old - rewritten)


def _missing(sums: Mapping[str, Sum]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for x in sums.values() for name in carried_in(x)))


def _ways(value: Value) -> Iterator[Change]:
    """The ways to write sums with an output, for what it is, or for a part that it is solved for."""
    for change, _ in changes(value.atom, value.meaning):
        yield change
    terms = value.meaning.terms
    for term in terms if len(terms) > 1 else ():
        (atom, exponent), *others = (*term.powers, (None, 0))
        if atom is None or not is_carried(atom) or exponent != 1 or len(others) > 1 or abs(term.number) != 1:
            continue
        rest = Sum(tuple(other for other in terms if other is not term))
        if atom in inside(rest):  # it stays where the rest has it, which goes away as a whole
            parts = [*rest.atoms()]
            parts += [part for one in parts for x in one.arguments for part, _ in factor_of(x).powers]
            whole = {part: of(part) for part in parts if part != atom}
            solved = scaled(add(of(value.atom), scaled(rest, -1)), term.number)
            yield _replacing({atom: solved, **whole})


def _replacing(atoms: Mapping[Atom, Sum]) -> Callable[[Sum], Sum]:
    memo: dict[Atom, Sum] = {}
    return lambda x: rebuilt(x, atoms.get, None, memo)


def refuse_missing(
    forward: WalkedForward, sums: Mapping[str, Sum], outputs: Sequence[Value], missing: Sequence[str]
) -> None:
    """Refuses a gradient that needs values which no output keeps. The help is an output that would keep them."""
    first = next(name for name in forward.carried if name in missing)
    said = " and ".join(f"`{_readable(forward, name)}`" for name in forward.carried if name in missing)
    message = f"{forward.line_of(first)}the gradient needs {said} of each row, which no output keeps"
    raise DifferentiationError(message, _keeping(forward, sums, outputs))


def _keeping(forward: WalkedForward, sums: Mapping[str, Sum], outputs: Sequence[Value]) -> str | None:
    """The help: a statement of the logarithm of a softmax's sum, if its value is all that the gradient lacks."""
    spec, rows = forward.spec, forward.rows
    tiled = forward.walked.rows[0]
    order = (mode for tensor in spec.outputs for mode in tensor.shape)
    shape = ", ".join((*dict.fromkeys(mode for mode in order if mode in rows and mode != tiled), tiled))
    divided = {atom for x in sums.values() for term in x.terms for atom, p in term.powers if p < 0}
    taken = {t.name for t in spec.tensors} | {*spec.compute.targets}
    name = next(name for name in ("lse", "kept_lse", "kept_lse_2") if name not in taken)
    for one in (one for one in forward.walked.carried if one.function == "max"):
        for atom in sorted((a for a in divided if a.modes <= {*rows}), key=lambda atom: -atom.height):
            meaning = add(of(forward.carried[one.name]), call("log", [of(atom)]))
            if not kept(sums, [*outputs, Value(name, meaning)]).missing:
                divisor = expression(_written(forward, Presenter({}, (), ()).plain(of(atom))))
                value = f"{name} = {_readable(forward, one.name)} + log({divisor})"
                return f"write `{value}`, and under `tensors` `{name}: {{shape: [{shape}], dtype: f32, role: out}}`"
    return None


def _readable(forward: WalkedForward, name: str) -> str:
    """The text for a carried sum or maximum in a statement: its name, or the reduction itself."""
    return expression(_written(forward, Name(f"{CARRIED}{name}")))


def _written(forward: WalkedForward, x: Expr) -> Expr:
    def named(node: Expr) -> Expr | None:
        if not isinstance(node, Name):
            return None
        name = node.id.removeprefix(CARRIED)
        is_part = name in forward.walked.definitions and name not in forward.spec.compute.targets
        return _written(forward, forward.texts[name]) if is_part else Name(name)

    return replaced(x, named)
