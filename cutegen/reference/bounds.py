"""The independent reference: a spec's statements evaluated in float64 with a running bound on the kernel's error.

It works on the typed statements of `expressions.annotate`, never on anything that codegen printed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cutegen.dtypes import Dtype
from cutegen.expressions import parsing as ex
from cutegen.expressions.annotating import annotate
from cutegen.expressions.places import ONE
from cutegen.expressions.spans import Spans, spans_of
from cutegen.expressions.tree import Len, Scan, Select
from cutegen.language.model import KernelSpec, Tensor
from cutegen.reference import (
    arithmetic,
    powers_and_remainders,
    reductions,
    scaled_products,
    torch_functions,
    whole_numbers,
)
from cutegen.reference.asked import family_of, op_of
from cutegen.reference.casting import cast
from cutegen.reference.existing import existing
from cutegen.reference.fast_exponentials import by_exponential
from cutegen.reference.in_parts import parts
from cutegen.reference.normalising import is_inverted
from cutegen.reference.placing import exactly, placed, widened
from cutegen.reference.repeated import NONE, Kept, Repeats, repeats
from cutegen.reference.rounding import Bounded
from cutegen.reference.taking import elements

if TYPE_CHECKING:
    import torch

Additions = Callable[[Sequence[str]], "int | None"]  # of the modes of a sum: the most that a term goes through
_UNSIGNED = ("minimum", "maximum", "relu", "fmin", "fmax", "clamp", "clamp_min", "clamp_max")
"""Of zeros of both signs these give either."""


class Expected(NamedTuple):
    """The expected values of an output, and by how much a correct kernel may differ from them. Both have the output's
    shape.

    `value` is float64, or int64 for an integer or bool output; `bound` is float64, 0 where the result must be exact,
    infinite where nothing can be said. The rounding to the output's dtype is included. `signed`: a zero that must be
    exact must have the sign of the zero in `value`, which is that of IEEE 754 for the computation. `moved` has the
    values that must arrive with all their bits, those of NaNs too, where a tensor is only moved.
    """

    value: torch.Tensor
    bound: torch.Tensor
    signed: bool = False
    moved: torch.Tensor | None = None


def evaluate(
    spec: KernelSpec,
    tensors: Mapping[str, torch.Tensor],
    scalars: Mapping[str, int | float | bool],
    coordinates: Mapping[str, Sequence[int]] = MappingProxyType({}),
    additions: Additions | None = None,
    whole: Mapping[str, int] = MappingProxyType({}),
    by_torch: bool = False,
) -> dict[str, Expected]:
    """The expected values and bound of each output, by its name, in the order of `spec.outputs`.

    `tensors` maps each tensor that is read (as it is before the run) to its values, in the spec's shape, on any device;
    an output may be there too and gives sizes that no input has; `scalars` maps each scalar to a number. Of an output
    that is written at places these are its elements there. Along a mode in `coordinates` the tensors have only those,
    in that order, of as many as `whole` says. `additions` says for the modes of a sum how many of its additions follow
    each other at most, which makes bounds narrower. The result shares no memory with the tensors. With `by_torch`
    bounds are those of torch on a GPU, where a mean is a sum times the rounded reciprocal of its size.
    Raises `KeyError` for a tensor or scalar that is missing, `ValueError` for sizes that disagree.
    """
    import torch

    if each := existing(spec, tensors, coordinates, whole):
        every = [evaluate(x.spec, x.tensors, scalars, x.coordinates, additions, x.whole, by_torch) for x in each]
        return {t.name: _joined([one[t.name] for one in every], t.shape.index(each[0].of)) for t in spec.outputs}
    spec, tensors = spec.by_element, elements(spec, tensors, coordinates)
    evaluator = Evaluator(spec, tensors, scalars, coordinates, additions and _remembered(additions), whole, by_torch)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values()):
        return evaluator.outputs()
    given = {mode for name in tensors for mode in spec.tensor(name).shape}
    sizes = {mode: size for mode, size in evaluator.mode_sizes.items() if mode in given}
    mode, cut = parts(spec, sizes, any(x.is_cuda for x in tensors.values()))
    if len(cut) < 2:
        return evaluator.outputs()
    found = [evaluator.part(mode, some).outputs() for some in cut]
    return {t.name: _joined([one[t.name] for one in found], t.shape.index(mode)) for t in spec.outputs}


def statements(spec: KernelSpec) -> tuple[ex.Typed, ...]:
    """The statements with a type on every node."""
    return _known(spec)[0]


def _known(spec: KernelSpec) -> tuple[tuple[ex.Typed, ...], Repeats]:
    """Its statements, and what they repeat. Those of the last specs are kept: all cases of a kernel have them."""
    found = next((known for one, known in _last if one is spec), None)
    if found is None:
        types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
        typed = annotate(spec.compute, types, family_of(spec).accumulator(spec), narrowed=False)
        found = typed, repeats(typed)
        _last.append((spec, found))
    return found


_last: deque[tuple[KernelSpec, tuple[tuple[ex.Typed, ...], Repeats]]] = deque(maxlen=8)


def _remembered(additions: Additions) -> Additions:
    """The same, asked only once for the same modes."""
    known = cache(lambda modes: additions(modes))
    return lambda modes: known(tuple(modes))


def _joined(found: Sequence[Expected], axis: int) -> Expected:
    """The expected values and bound of an output, joined from its parts along an axis."""
    import torch

    value = torch.cat([one.value for one in found], axis)
    bound = torch.cat([one.bound for one in found], axis)
    moved = [one.moved for one in found if one.moved is not None]
    return Expected(value, bound, found[0].signed, torch.cat(moved, axis) if moved else None)


class Evaluator:
    """Evaluates one spec on one set of values.

    `mode_sizes` maps every mode of the given tensors, and every one of a fixed size, to its size.
    """

    def __init__(
        self,
        spec: KernelSpec,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, int | float | bool],
        coordinates: Mapping[str, Sequence[int]] = MappingProxyType({}),
        additions: Additions | None = None,
        whole: Mapping[str, int] = MappingProxyType({}),
        by_torch: bool = False,
    ) -> None:
        self.by_torch = by_torch
        self.spec, self.tensors, self.scalars, self.coordinates = spec, tensors, scalars, coordinates
        self.additions, self.whole = additions, whole
        self.device = next(iter(tensors.values())).device if tensors else "cpu"
        self.computed: dict[str, Bounded] = {}  # by each statement so far, before it was rounded to a tensor's type
        self.signed: dict[str, bool] = {}  # by target: whether the sign of a zero is known
        self.kept = Kept(NONE)
        self.axes = op_of(spec).axes(spec)  # the modes of all values, in their order
        self.mode_sizes: dict[str, int] = {}
        for name, values in tensors.items():
            shape = spec.tensor(name).shape
            if len(shape) != values.dim():
                raise ValueError(f"{name} has {values.dim()} modes, its spec has {len(shape)}")
            for mode, size in zip(shape, values.shape, strict=True):
                if self.mode_sizes.setdefault(mode, size) != size:
                    raise ValueError(f"{name}: mode {mode} is {size} here and {self.mode_sizes[mode]} elsewhere")
        self.mode_sizes = {**spec.static, **self.mode_sizes, **op_of(spec).sizes(spec)}

    def part(self, mode: str, some: range) -> Evaluator:
        """The one for some coordinates of a mode only."""
        tensors = {}
        for name, x in self.tensors.items():
            shape = self.spec.tensor(name).shape
            tensors[name] = x.narrow(shape.index(mode), some.start, len(some)) if mode in shape else x
        there = self.coordinates.get(mode, range(self.mode_sizes[mode]))[some.start : some.stop]
        coordinates = {**self.coordinates, mode: there}
        whole = {mode: self.mode_sizes[mode], **self.whole}
        return Evaluator(self.spec, tensors, self.scalars, coordinates, self.additions, whole, self.by_torch)

    def outputs(self) -> dict[str, Expected]:
        """Evaluates the statements in their order, each once."""
        found: dict[str, Expected] = {}
        typed, repeated = _known(self.spec)
        self.kept = Kept(repeated)
        for statement in typed:
            self.computed[statement.target] = computed = self.expr(statement.value)
            self.signed[statement.target] = self.is_signed(statement.value)
            if statement.stored is not None:
                found[statement.target] = self._stored(statement, statement.stored, computed)
        return {tensor.name: found[tensor.name] for tensor in self.spec.outputs}

    def _stored(self, statement: ex.Typed, stored: ex.Expr, computed: Bounded) -> Expected:
        """The expected contents of the tensor that a statement assigns to: `computed`, in the tensor's type."""
        import torch

        if isinstance(stored, ex.Cast) and stored.x is statement.value:
            assert stored.dtype is not None
            computed = cast(computed, stored.dtype)
        elif stored is not statement.value:  # a number, written in the tensor's type
            computed = self.expr(stored)
        tensor = self.spec.tensor(statement.target)
        shape = tuple(self.size(mode) for mode in tensor.shape)
        kind = torch.float64 if tensor.dtype.is_float else torch.int64
        signed = tensor.dtype.is_float and self.is_signed(statement.value)
        moved = None
        if isinstance(stored, ex.Name) and stored.id in self.tensors and stored.dtype == tensor.dtype:
            source = self.spec.tensor(stored.id).shape
            if set(source) <= set(tensor.modes):
                moved = placed(self.tensors[stored.id], source, tensor.shape).expand(shape).clone()
        value, error = (self._of_modes(x, tensor).expand(shape) for x in (computed.value.to(kind), computed.error))
        return Expected(value, error, signed, moved)

    def _of_modes(self, x: torch.Tensor, tensor: Tensor) -> torch.Tensor:
        """Values with all modes without those that a tensor lacks, along which they have size 1."""
        if x.dim() == 0:
            return x
        x = x[tuple(slice(None) if mode in tensor.shape else 0 for mode in self.axes)]
        kept = [mode for mode in self.axes if mode in tensor.shape]
        x = x.permute([kept.index(mode) for mode in tensor.modes])
        return x[tuple(None if mode == ONE else slice(None) for mode in tensor.shape)]

    @cached_property
    def spans(self) -> Spans:
        """The modes of every tensor and of what each statement computes."""
        return spans_of(self.spec.compute, {t.name: t.modes for t in self.spec.tensors})

    def is_signed(self, value: ex.Expr) -> bool:
        """Whether IEEE 754 and torch agree on the sign of a zero: not of a sum of many, a minimum or a maximum, unless
        they are of integers, which have a single zero.
        """
        match value:
            case ex.Node(dtype=dtype) if dtype is not None and dtype.is_integer:
                return True
            case ex.Cast(x=ex.Node(dtype=Dtype.bool)):
                return True
            case ex.Local(id=name):
                return self.signed[name]
            case ex.MatMul() | ex.Reduce() | Scan() | Select():
                return False
            case ex.Call(function=function) if function in _UNSIGNED:
                return False
            case ex.Call(body=ex.Node() as body):
                self.signed |= {name: self.is_signed(x) for name, x in value.bound}
                return self.is_signed(body)
        return all(map(self.is_signed, value.children))

    def size(self, mode: str) -> int:
        if mode not in self.mode_sizes:
            having = next(t.name for t in self.spec.outputs if mode in t.shape)
            raise ValueError(f"the size of {mode} follows from no tensor that is read: pass {having}")
        return self.mode_sizes[mode]

    def expr(self, node: ex.Expr) -> Bounded:
        return self.kept.get(node) or self.kept.put(node, self._expr(node))

    def _expr(self, node: ex.Expr) -> Bounded:
        dtype = node.dtype
        assert dtype is not None
        match node:
            case ex.Literal_():
                return self.number(node.value, dtype)
            case ex.Name():
                return self._name(node.id)
            case ex.Local():
                return self.computed[node.id]
            case ex.Coord():
                return self._coordinates(node.mode, dtype)
            case Len():
                return self.number(self.whole.get(node.mode, self.size(node.mode)), dtype)
            case ex.MatMul():
                return scaled_products.product(node, dtype, self)
            case ex.Unary(op="-"):
                return arithmetic.negate(self.expr(node.x))
            case ex.Unary():
                return arithmetic.invert(self.expr(node.x))
            case ex.Cast():
                return cast(self.expr(node.x), dtype)
            case ex.Reduce():
                return reductions.reduced(node, self)
            case Scan():
                return reductions.scanned(node, self)
            case Select():
                return reductions.selected(node, self)
            case ex.Call(body=None):
                return self._call(node, dtype)
            case ex.Call():
                return self._defined(node)
            case ex.Binary(op="**", right=ex.Literal_(value=exponent)):
                return arithmetic.power(self.expr(node.left), int(exponent), dtype)
            case ex.Binary():
                return self._binary(node, dtype)
        raise AssertionError(node)

    def _binary(self, node: ex.Binary, dtype: Dtype) -> Bounded:
        a, b = self.expr(node.left), self.expr(node.right)
        match node.op:
            case "+":
                return arithmetic.add(a, b, dtype)
            case "-":
                return arithmetic.add(a, b, dtype, -1)
            case "*":
                return arithmetic.multiply(a, b, dtype)
            case "/":
                inverted = is_inverted(node, self.spec, statements(self.spec))
                divide = arithmetic.scale_by_reciprocal if inverted else arithmetic.divide
                return self._beside_pole(node.right, b, divide(a, b, dtype))
            case "and" | "or":
                return arithmetic.logical(node.op, a, b)
            case "//" | "%" | "<<" | ">>" | "&" | "|" | "^":
                return whole_numbers.operate(node.op, a, b, dtype)
        return arithmetic.compare(node.op, a, b)

    def _defined(self, node: ex.Call) -> Bounded:
        """A function that is defined by others: the value of torch's own, with the error that the definition has."""
        assert node.body is not None
        arguments = [self.expr(x) for x in node.arguments]
        given = dict(zip(node.arguments, arguments, strict=True))
        self.computed |= {name: given[x] for name, x in node.bound}
        self.signed |= {name: self.is_signed(x) for name, x in node.bound}
        return torch_functions.valued(node.function, arguments, self.expr(node.body))

    def _call(self, node: ex.Call, dtype: Dtype) -> Bounded:
        arguments = [self.expr(a) for a in node.arguments]
        match node.function:
            case "where":
                return arithmetic.where(*arguments)
            case "minimum" | "maximum":
                return arithmetic.extremum(node.function, *arguments)
            case "relu":
                return arithmetic.relu(arguments[0])
            case "abs":
                return arithmetic.absolute(arguments[0])
            case "pow":
                return powers_and_remainders.general_power(arguments[0], arguments[1], dtype)
            case "fmod":
                return powers_and_remainders.remainder_of_division(arguments[0], arguments[1], dtype)
        schedule, base = self.spec.schedule, self._base_of(node)
        result = arithmetic.function(node.function, arguments[0], dtype, schedule.fast_math, base)
        result = by_exponential(result) if node.function == "tanh" and schedule.fast_elements else result
        return self._beside_pole(node.arguments[0], arguments[0], result) if node.function == "rsqrt" else result

    @cached_property
    def scaled_late(self) -> str | None:
        """The statement whose values may be scaled where their exponentials are computed."""
        return op_of(self.spec).scaled_late(self.spec)

    def _base_of(self, node: ex.Call) -> Bounded | None:
        """The m of exp(s - m) whose two parts may be scaled and rounded apart; None of another call."""
        match node:
            case ex.Call(function="exp", arguments=(ex.Binary(op="-", left=ex.Local(id=name), right=m),)):
                return self.expr(m) if self.spec.schedule.fast_math and name == self.scaled_late else None
        return None

    def most_additions(self, modes: Sequence[str]) -> int | None:
        """The additions that a term of a sum over modes goes through at most, where that is known."""
        return self.additions(modes) if self.additions else None

    def _beside_pole(self, argument: ex.Expr, x: Bounded, result: Bounded) -> Bounded:
        """A `result` with a pole at x = 0: where that zero's sign is open, either infinity may come."""
        import torch

        if self.is_signed(argument) or not x.dtype.is_float:
            return result
        return replace(result, error=torch.where(x.value == 0, torch.inf, result.error))

    def number(self, value: float, dtype: Dtype) -> Bounded:
        """A literal or scalar as the kernel receives it: rounded to its dtype once."""
        return _number(value, math.copysign(1, value), dtype, self.device)

    def _name(self, name: str) -> Bounded:
        """A tensor's elements, broadcastable to the output's shape; or a scalar."""
        if name in self.scalars:
            return self.number(self.scalars[name], next(s.dtype for s in self.spec.scalars if s.name == name))
        tensor = self.spec.tensor(name)
        return op_of(self.spec).elements(self.spec, tensor, widened(self.tensors[name], tensor.dtype))

    def _coordinates(self, mode: str, dtype: Dtype) -> Bounded:
        """The coordinates along a mode of the output: 0, 1, 2, ..., or those that there are."""
        import torch

        some = self.coordinates.get(mode, range(self.size(mode)))
        if isinstance(some, range):
            along = torch.arange(some.start, some.stop, some.step, dtype=torch.int64, device=self.device)
        else:
            along = torch.tensor(some, dtype=torch.int64, device=self.device)
        return exactly(placed(along, (mode,), self.axes), dtype)


@lru_cache(maxsize=256)
def _number(value: float, sign: float, dtype: Dtype, device: torch.device | str) -> Bounded:
    """A number rounded to a type, not to be changed; its `sign`, 1 or -1, tells the zeros apart."""
    import torch

    zero = torch.zeros((), dtype=torch.float64, device=device)
    if not dtype.is_float:
        return Bounded(torch.tensor(int(value), dtype=torch.int64, device=device), zero, dtype)
    return cast(Bounded(torch.tensor(float(value), dtype=torch.float64, device=device), zero, Dtype.f64), dtype)
