"""The backward of a kernel, as a spec of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cutegen.differentiation.asking import (
    SUFFIX,
    Backward,
    GradientNames,
    given_outputs,
    kernel_name,
    wanted_tensors,
)
from cutegen.differentiation.choosing import PRODUCT, Chosen, Value, choose
from cutegen.differentiation.columns import over_rows
from cutegen.differentiation.joining import Joint
from cutegen.differentiation.presenting import Presenter
from cutegen.differentiation.reverse import DifferentiationError, gradients
from cutegen.differentiation.walk_specs import backward_of_walk
from cutegen.differentiation.writing import Names, renamed, statements, text_of, with_functions, with_ways
from cutegen.expressions.annotating import annotate
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.reading_sums import sum_of
from cutegen.expressions.sums import Atom, NoForm, Sum, inside, named, of, total_over
from cutegen.expressions.tree import Compute, Expr, Reduce, Scan, Select, walk
from cutegen.expressions.widths import is_whole
from cutegen.language.model import MAX_STATEMENTS, Bench, Expect, KernelSpec, Source, Tensor, Verify
from cutegen.language.names import MAX_NAME
from cutegen.language.tensor import with_elements
from cutegen.language.torch_key import TorchOp
from cutegen.lint import check
from cutegen.ops.op import op_of
from cutegen.planning import resolve
from cutegen.planning.report import Report
from cutegen.registry import families
from cutegen.views.cuts import argument_of, is_covered
from cutegen.views.sizes import computed_modes

AFTER = "_after"  # ends the name of what the forward left in a tensor that it also read


def backward(spec: KernelSpec, wrt: Sequence[str] = (), of_outputs: Sequence[str] = ()) -> Backward:
    """The kernel that computes the gradients of the tensors `wrt`, by default of all floats that are read.

    It is given the gradients of `of_outputs`, by default of all floats that are written. The others are what is only
    kept for the backward. Raises DifferentiationError where there is none, or where something else than a tensor of
    floats is asked for.
    """
    if not op_of(spec).differentiable:
        ops = dict.fromkeys(family.op.name for family in families() if family.op.differentiable)
        message = f"{spec.kernel} has `op: {spec.op}`, whose statements are not differentiated"
        raise DifferentiationError(message, f"ops that are: {', '.join(ops)}")
    if op_of(spec).walks:
        return backward_of_walk(spec, wrt, of_outputs).made
    kernel_name(spec)
    _refuse_along(spec)
    names = {argument.name: argument.names for argument in spec.by_argument.tensors}
    wrt, of_outputs = ([n for name in some for n in names.get(name, (name,))] for some in (wrt, of_outputs))
    spec = spec.by_view
    wanted = wanted_tensors(spec, wrt)
    given = given_outputs(spec, of_outputs)
    try:
        made = _Backward(_Forward(spec, Joint.of(spec, wanted)), wanted, given, bool(wrt)).made()
    except NoForm as error:
        message = f"the statements of {spec.kernel} cannot be differentiated: {error}"
        raise DifferentiationError(message, "make a number that is taken to high powers a scalar of the spec") from None
    summed = tuple(t.name for t in spec.tensors if (t.at or t.blocks) and t.reads and t.dtype.is_float and not wrt)
    return replace(made, without=(*made.without, *summed), summed=summed)


def _refuse_along(spec: KernelSpec) -> None:
    """Refuses scans and selections, whose gradients are no statements of rows."""
    for node in (node for value in spec.compute.values for node in walk(value)):
        if isinstance(node, Scan):
            flipped = "`g.flip(-1).cumsum(-1).flip(-1)`" if node.function == "cumsum" else "torch's own"
            message = f"`{node.function}` has no gradient here: that goes along {node.mode} from its end"
            raise DifferentiationError(message, f"{flipped} is the gradient, of the rest write a spec of its own")
        if isinstance(node, Select):
            message = f"`{node.function}` has no gradient here: what is kept of a row goes back to its places in it"
            help = "`torch.zeros_like(x).scatter_(-1, places, g)` is the gradient, of the places that `argtopk` gives"
            raise DifferentiationError(message, help)


class _Forward:
    """The statements of a kernel: what each computes, of tensors and scalars alone, and how it says so."""

    def __init__(self, spec: KernelSpec, joint: Joint) -> None:
        self.spec, self.joint = spec, joint
        tensors = {tensor.name: tensor for tensor in spec.tensors}
        meanings = {scalar.name: of(named(scalar.name)) for scalar in spec.scalars} | joint.coordinates
        meanings |= {t.name: of(self.element(t)) for t in spec.tensors if t.reads}
        types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
        typed = annotate(spec.compute, types)
        whole: dict[str, bool] = {}  # of what was computed: whether it is an integer or a truth
        after: dict[str, str] = {}  # of tensors that are read and written: the name of what is written
        self.values: list[Value] = []
        self.outputs: list[Value] = []
        self.texts: dict[str, Expr] = {}
        read_later = {name for statement in spec.compute.statements for name in statement.names()}
        for statement, annotated in zip(spec.compute.statements, typed, strict=True):
            target = statement.target
            value = with_functions(statement.value, lambda x: is_whole(x, types, whole))
            whole[target] = is_whole(statement.value, types, whole)
            meaning = sum_of(joint.joined(value), meanings)
            name = f"{target}{AFTER}" if target in meanings else target
            self.texts[name] = renamed(value, after)
            after[target] = name
            meanings[target] = meaning
            computed, tensor = annotated.value.dtype, tensors.get(target)
            assert computed is not None
            if tensor is not None and tensor.dtype.is_float:
                wide = computed.is_float and tensor.dtype.bits >= computed.bits
                exact = wide or _is_element_of(meaning, tensor, tensors)
                self.outputs.append(Value(target, meaning, exact))
            if target in read_later:
                self.values.append(Value(name, meaning))

    def element(self, tensor: Tensor) -> Atom:
        """The atom of a tensor, with the modes of its elements."""
        return named(tensor.name, self.joint.modes(self.spec.by_element.tensor(tensor.name).modes))

    @property
    def kept(self) -> list[Value]:
        """The outputs that a backward can read: with all modes of what they hold, and no others."""
        shapes = {tensor.name: self.element(tensor).modes for tensor in self.spec.tensors if tensor.role == "out"}
        return [value for value in self.outputs if shapes.get(value.name) == value.meaning.modes]

    @property
    def overwritten(self) -> dict[Atom, Value]:
        """Maps each input that the forward overwrites, as an atom, to the value left in its place. An input is missing
        where no name is free for that value, or where its modes are not the input's.
        """
        spec, found = self.spec, {}
        taken = {*spec.compute.names(), *spec.compute.targets, *spec.modes}
        for value in self.outputs:
            tensor, name = spec.tensor(value.name), f"{value.name}{AFTER}"
            free = name not in taken and len(name) <= MAX_NAME
            if tensor.reads and free and value.meaning.modes == self.element(tensor).modes:
                found[self.element(tensor)] = replace(value, name=name)
        return found


def _is_element_of(meaning: Sum, tensor: Tensor, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a value is the largest or smallest element of a tensor of the same type."""
    reduction = meaning.atom
    argument = reduction.arguments[0].atom if reduction is not None and reduction.name in ("max", "min") else None
    return argument is not None and argument.name in tensors and tensors[argument.name].dtype is tensor.dtype


def _as_the_forward(made: KernelSpec, forward: KernelSpec) -> KernelSpec:
    """A backward that walks tensors of the same modes, element by element, with the schedule of its forward.

    Without it where there is none, or where it does not fit the backward's tensors: inference then has one.
    """
    if made.op != forward.op or op_of(made).has_reductions or made.lead.shape != forward.lead.shape:
        return made
    candidate: KernelSpec = replace(made, schedule=forward.schedule)
    report = Report(candidate.source)
    check(resolve(candidate, report), report, advise=False)
    return made if report.failed else candidate


class _Backward:
    def __init__(self, forward: _Forward, wanted: tuple[Tensor, ...], given: tuple[str, ...], asked: bool) -> None:
        """`asked`: a gradient that there is not is an error."""
        self.forward, self.wanted, self.asked, self.spec = forward, wanted, asked, forward.spec
        self.names = GradientNames(self.spec)
        self.given = {name: self.names.of(name) for name in given}
        self.made_of = {tensor.name: self.names.of(tensor.name, "_before" * tensor.writes) for tensor in wanted}
        self.arguments = {argument.name: argument for argument in self.spec.arguments if argument.views}

    def made(self) -> Backward:
        """The backward's spec."""
        found = self._found()
        without = tuple(tensor.name for tensor in self.wanted if tensor.name not in found)
        if without and (self.asked or not found):
            names = " and ".join(f"`{name}`" for name in without)
            message = f"no float that {self.spec.kernel} writes depends on {names} in a way that has a gradient"
            help = "comparisons, whole numbers and `round`, `floor` and `ceil` have none"
            raise DifferentiationError(message, help)
        widest = max(len(tensor.modes) for tensor in self.spec.by_element.tensors)
        read = {t.name: t.dtype.bytes for t in self.spec.by_element.tensors if len(t.modes) == widest}
        read |= {f"{name}{AFTER}": size for name, size in read.items()}
        results = {self.made_of[name]: x for name, x in found.items()}
        chosen = choose(results, self.forward.values, self.forward.kept, self.forward.overwritten, read)
        lines = self._lines(chosen)
        return Backward((self._spec(chosen, lines),), without)

    def _found(self) -> dict[str, Sum]:
        """The gradients, by the names of the tensors that they are of."""
        joint = self.forward.joint
        shapes = {tensor.name: joint.modes(tensor.modes) for tensor in self.spec.by_element.tensors}
        pairs = []
        for value in self.forward.outputs:
            if value.name not in self.given:
                continue
            shape = shapes[value.name]
            gradient = of(named(self.given[value.name], shape))
            more = [mode for mode in reversed(shape) if mode not in value.meaning.modes]
            pairs.append((total_over(gradient, more), value.meaning))
        atoms = {tensor.name: self.forward.element(tensor) for tensor in self.wanted}
        found = gradients(pairs, list(atoms.values()), joint.modes(self.spec.modes))
        return {name: found[atom] for name, atom in atoms.items() if atom in found}

    def _lines(self, chosen: Chosen) -> list[tuple[str, Expr]]:
        """The statements."""
        spec, forward = self.spec, self.forward
        meanings = dict(chosen.meanings)
        gradients = {name: over_rows(x, self._rows(name)) for name, x in chosen.gradients.items()}
        sums = {*gradients.values(), *meanings.values()}
        sums |= {argument for x in tuple(sums) for atom in inside(x) for argument in atom.arguments}
        presenter = Presenter(forward.joint.sizes(spec.static), self.given.values(), sums)
        tensors = {*self.given.values(), *self.made_of.values(), *(tensor.name for tensor in spec.tensors)}
        names = Names([*self.names.own, *forward.texts], set(self.given.values()), tensors)
        own: dict[str, str] = {}
        texts = {name: x for name, x in forward.texts.items() if name not in chosen.kept}
        values = {name: with_ways(x, chosen.ways) for name, x in texts.items()}
        for atom, meaning in chosen.meanings:
            if atom.name.startswith(PRODUCT):
                product = renamed(presenter.plain(meaning), own)
                own[atom.name] = names.of(product)
                values[own[atom.name]] = product
            elif meaning.atom is not None and meaning.atom.name in ("max", "min"):
                # Elements are compared with it, and must be computed as they were for it, to the last bit
                values[atom.name] = with_ways(renamed(presenter.plain(meaning), own), chosen.ways)
        results = {name: renamed(presenter.gradient(x), own) for name, x in gradients.items()}
        results, values = ({n: forward.joint.apart(x) for n, x in them.items()} for them in (results, values))
        return statements(results, values, names, forward.texts)

    def _rows(self, gradient: str) -> frozenset[str]:
        """The modes of the rows that a gradient is summed over; none where it has other modes than the row's own."""
        tensors, joint = self.spec.by_element.tensors, self.forward.joint
        widest = max(tensors, key=lambda tensor: len(tensor.modes))
        row = joint.mode or widest.contiguous
        of = next(tensor for tensor in tensors if self.made_of.get(tensor.name) == gradient)
        return frozenset(joint.modes(widest.modes)) - {row} if joint.modes(of.modes) == (row,) else frozenset()

    def _spec(self, chosen: Chosen, lines: Sequence[tuple[str, Expr]]) -> KernelSpec:
        """The spec of the statements."""
        spec = self.spec
        compute = parse_compute([text_of(*line) for line in lines])
        compute = Compute(compute.statements, listed=len(lines) > 1)
        if len(lines) > MAX_STATEMENTS:
            message = f"the backward of {spec.kernel} takes {len(lines)} statements, and a spec has {MAX_STATEMENTS}"
            raise DifferentiationError(message, "differentiate by fewer tensors at a time: `--wrt`")
        tensors = tuple(self._tensors(chosen, compute))
        arguments = self._packed(tensors)
        scalars = tuple(scalar for scalar in spec.scalars if scalar.name in compute.names())
        compute = with_named_numbers(
            compute, {*(t.name for t in tensors), *(s.name for s in scalars), *compute.targets}
        )
        reduces = any(isinstance(node, Reduce) for value in compute.values for node in walk(value))
        shapes = {tensor.shape for tensor in with_elements(tensors) if tensor.writes}
        if not reduces and len(shapes) > 1:
            names = [tensor.name for tensor in self.wanted if self.made_of[tensor.name] in chosen.gradients]
            message = f"the gradients of {' and '.join(names)} have different modes, and nothing is reduced"
            raise DifferentiationError(message, f"write a kernel for each: `--wrt {names[0]}`")
        able = (family for family in families() if family.op.differentiable and not family.op.walks)
        family = next(family for family in able if family.op.has_reductions == reduces)
        modes = {mode for tensor in tensors for mode in tensor.shape} | {*computed_modes(arguments)}
        made = " and ".join(chosen.gradients)
        given = ", ".join(tensor.name for tensor in tensors if tensor.name in self.given.values())
        made_spec: KernelSpec = replace(
            spec,
            kernel=kernel_name(spec),
            summary=f"Backward pass of {spec.kernel}, {made} from {given}.",
            op=family.op.name,
            tensors=arguments,
            arguments=(),
            declared_modes=tuple(mode for mode in spec.declared_modes if mode.name in modes),
            scalars=scalars,
            compute=compute,
            schedule=family.schedule(),
            tune={},
            static={mode: size for mode, size in spec.static.items() if mode in modes},
            divisible={mode: size for mode, size in spec.divisible.items() if mode in modes},
            verify=Verify(),
            bench=Bench(),
            torch=TorchOp(spec.torch.op and f"{spec.torch.op}{SUFFIX}"),
            expect=Expect(),
            source=Source(),
        )
        return _as_the_forward(made_spec, spec)

    def _tensors(self, chosen: Chosen, compute: Compute) -> Iterator[Tensor]:
        """Yields the tensors that the statements use: given gradients, tensors that the forward read or wrote, and the
        gradients that they compute.
        """
        used = set(compute.names())
        tensors = {tensor.name: tensor for tensor in self.spec.tensors}
        of = {**tensors, **{gradient: tensors[name] for name, gradient in (self.given | self.made_of).items()}}
        used |= {index for name in used | {*chosen.gradients} if name in of for _, index in of[name].at}
        for name, gradient in self.given.items():
            if gradient in used:
                yield replace(tensors[name], name=gradient, role="in")
        for tensor in self.spec.tensors:
            if tensor.name in used and (tensor.reads or tensor.name in chosen.kept):
                yield replace(tensor, role="in")
            if (after := f"{tensor.name}{AFTER}") in chosen.kept:
                yield replace(tensor, name=after, role="in")
        for name, gradient in self.made_of.items():
            if gradient in chosen.gradients:
                yield replace(tensors[name], name=gradient, role="out")

    def _packed(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The arguments of the backward: packed as those of the forward are, whose views and their gradients it has."""
        found: dict[str, Tensor] = {}
        for tensor in tensors:
            if tensor.view is None:
                found[tensor.name] = tensor
                continue
            argument = self.arguments[argument_of(tensor)]
            name = self._name_of(argument, tensor)
            own = replace(tensor, view=f"{name}{tensor.view[len(argument.name) :]}")
            known = found.get(name) or replace(argument, name=name, role=tensor.role, views=())
            found[name] = replace(known, views=(*known.views, own))
        for argument in found.values():
            if argument.writes and argument.views and not is_covered(argument, argument.views, self.spec.static):
                views = " and ".join(f"`{view.name}`" for view in argument.views)
                message = f"{views} are not all of `{argument.name}`: the rest is a gradient of zeros"
                raise DifferentiationError(message, "give each element of the argument to a view that is read")
        return tuple(found.values())

    def _name_of(self, argument: Tensor, tensor: Tensor) -> str:
        """The name of an argument whose view a tensor is: that of the forward, or a gradient of it."""
        if tensor.name in self.given.values():
            name = f"d{argument.name}"
        elif tensor.name in self.made_of.values():
            name = f"d{argument.name}{'_before' * argument.writes}"
        else:
            name = f"{argument.name}{AFTER * tensor.name.endswith(AFTER)}"
        if name not in self.arguments and (name.lower() in self.names.taken or len(name) > MAX_NAME):
            raise DifferentiationError(f"there is no name for the gradient of `{argument.name}`: `{name}` is taken")
        return name
