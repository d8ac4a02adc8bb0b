"""Text to kernel specs: YAML, matrix, schema, then what the language means by it. All problems at once."""

from __future__ import annotations

import math
import pathlib
import re
from dataclasses import replace

from cutegen.expressions.places import ONE
from cutegen.expressions.selecting import kept_in
from cutegen.language import schema
from cutegen.language.asked import cases, choices, op_named
from cutegen.language.computing import compute
from cutegen.language.context import Context
from cutegen.language.declarations import check_kernel_name, check_names, promises, scalars, tensors
from cutegen.language.diagnostics import START, Diagnostic, Span, SpecError, has_errors
from cutegen.language.document import MAX_CHARACTERS, MapNode, Node, parse_documents, plain
from cutegen.language.kinds import Record
from cutegen.language.lengths import with_lengths
from cutegen.language.matrix import Variant, expand, source_of
from cutegen.language.model import Expect, KernelSpec, Schedule, Verify
from cutegen.language.modules import marked
from cutegen.language.names import shown
from cutegen.language.packed import kernel_tensors
from cutegen.language.segments import check_segments, modes_declared, with_blocks, with_segments
from cutegen.language.shapes import MAX_VERIFIED, Promises, bench, check_places, check_shapes
from cutegen.language.torch_ops import torch_op
from cutegen.language.tuning import tune
from cutegen.registry import family_of
from cutegen.views.extents import is_computed, modes_of

_CHARACTERS = re.compile(r"\[(?:!.|[^!])[^\]]*\]")  # of a glob, as fnmatch reads it


def load_specs(file: pathlib.Path, shown: str | None = None) -> tuple[KernelSpec, ...]:
    """Every kernel of a file. `shown` is the path that diagnostics name; the file's own if left out.

    Raises `SpecError` with every diagnostic, also where the file cannot be read.
    """
    path = shown if shown is not None else file.as_posix()
    return read_specs(read_text(file, path), path)


def read_text(file: pathlib.Path, shown: str | None = None) -> str:
    """A spec file's text. Raises `SpecError` where it cannot be read, is too large or is not UTF-8."""
    path = shown if shown is not None else file.as_posix()
    try:
        with file.open("rb") as stream:
            raw = stream.read(4 * MAX_CHARACTERS + 4)
    except IsADirectoryError:
        help = "name the files, or build the directory"
        raise SpecError([Diagnostic("CG001", "this is a directory, not a spec", START, path, help=help)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError([Diagnostic("CG001", f"the file cannot be read: {reason}", START, path)]) from None
    try:
        return raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        if error.end >= len(raw) and len(raw) > 4 * MAX_CHARACTERS:  # cut inside a character: it is the size
            message = f"the file has more than {MAX_CHARACTERS} characters"
            raise SpecError([Diagnostic("CG003", message, START, path)]) from None
        good = raw[: error.start].decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        message = f"the byte 0x{raw[error.start]:02X} is not UTF-8"
        span = Span(len(good), len(good[-1]) + 1)
        help = "save the file as UTF-8"
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            help = "the file starts like UTF-16; save it as UTF-8"
        raise SpecError([Diagnostic("CG002", message, span, path, help=help)]) from None


def read_specs(text: str, path: str = "<spec>") -> tuple[KernelSpec, ...]:
    """Every kernel of the text: of each document, every combination of its matrix, in order.

    Raises `SpecError` with every diagnostic that could be found.
    """
    documents, found = parse_documents(text, path)
    specs: list[KernelSpec] = []
    names: dict[str, KernelSpec] = {}
    for document in documents:
        variants, said = _variants(document, path)
        for variant in variants:
            spec, problems = _spec(variant)
            said += problems
            if spec is None:
                continue
            if (first := names.setdefault(spec.kernel, spec)) is not spec:
                again = _duplicate(spec, first)
                said += [again] if all((d.code, d.span) != ("CG112", again.span) for d in said) else []
            specs.append(spec)
        misnamed = any(d.code in ("CG110", "CG111", "CG112") for d in said)
        found += [d for d in said if not (misnamed and d.code == "CG142")]  # `modules` has the names that are meant
    if has_errors(found):
        raise SpecError(found)
    return tuple(specs)


def _duplicate(spec: KernelSpec, first: KernelSpec) -> Diagnostic:
    here, there = spec.source.at("kernel"), first.source.at("kernel")
    message = f"the kernel `{spec.kernel}` already exists"
    if here == there:
        help = "put every key of the matrix into the kernel's name, as in `sgemm_{a}{b}`"
        return spec.source.diagnostic("CG112", message, "kernel", notes=("two variants get this name",), help=help)
    return spec.source.diagnostic("CG112", message, "kernel", notes=(f"first at line {there.line}",))


def _variants(document: Node, path: str) -> tuple[list[Variant], list[Diagnostic]]:
    """The variants that follow the schema."""
    if isinstance(document, MapNode):
        source, data = source_of(document, path), plain(document)
        if "matrix" not in data or not schema.check_of_all(data, "matrix", source):
            return marked(document, path, *_checked(*expand(document, path)))
    # No expansion is possible; the rest of the document can be checked all the same.
    return [], schema.check(plain(document), source_of(document, path), expanded=False)


def _checked(variants: list[Variant], problems: list[Diagnostic]) -> tuple[list[Variant], list[Diagnostic]]:
    good = []
    for variant in variants:
        wrong = schema.check(variant.data, variant.source)
        problems += wrong
        if not wrong:
            good.append(variant)
        elif variant.data and (better := schema.mended(variant.data)) is not None:
            said = {d.span for d in wrong}
            problems += [d for d in _spec(replace(variant, data=better))[1] if d.span not in said]
    return good, problems


def _spec(variant: Variant) -> tuple[KernelSpec | None, list[Diagnostic]]:
    """The kernel of a variant that follows the schema; None where something is wrong with it."""
    ctx = Context(variant)
    op = op_named(ctx.data["op"])
    written = ctx.data.get("schedule", {})
    check_kernel_name(ctx)
    named = modes_declared(ctx)
    cut, padded, blocks = (tuple(m for m in named if getattr(m, word)) for word in ("offsets", "lengths", "blocks"))
    arguments = with_lengths(with_blocks(with_segments(tensors(ctx), cut), blocks), padded)
    numbers = scalars(ctx)
    declared = kernel_tensors(ctx, arguments)
    known = {tensor.name: tensor for tensor in declared}
    check_names(ctx, arguments, numbers)
    shaped = op.check_places(ctx, declared) & check_segments(ctx, op, cut, declared)
    shaped &= op.check_blocks(ctx, blocks, declared) & op.check_lengths(ctx, padded, declared)
    statements = compute(ctx, op, declared, numbers, shaped=shaped)
    texts = ctx.data["compute"]
    kept = kept_in([texts] if isinstance(texts, str) else texts)
    packed = [item for argument in arguments if argument.views for item in argument.modes]
    computed = [mode for item in packed for mode in (modes_of(item) if is_computed(item) else (item,))]
    own = (mode for tensor in declared for mode in tensor.free if mode != ONE)
    modes = tuple(dict.fromkeys((*own, *computed, *kept)))
    static, divisible = promises(ctx, modes)
    static |= dict.fromkeys([ONE for tensor in declared if ONE in tensor.shape], 1)
    schedule: Schedule
    if isinstance(written, list):
        schedule = cases().read(ctx, op, known, modes, statements)
        candidates = tune(ctx, family_of(op.name, written), known, statements)
    else:
        schedule, candidates = choices().read(ctx, op.name, known, statements)
    derived = op.modes_that_follow(statements, known)
    may_be_empty = op.modes_that_may_be_empty(statements, known) if statements else ()
    promises_kept = Promises(modes, static, divisible, derived, declared)
    check_places(ctx, declared, static, "static")
    verify = _verify(ctx, promises_kept, may_be_empty)
    measured = bench(ctx, promises_kept, numbers)
    expect = _expect(ctx)
    op_of_torch = torch_op(ctx, arguments, numbers)
    if has_errors(ctx.found) or statements is None:
        return None, ctx.found
    spec: KernelSpec = KernelSpec(
        kernel=ctx.data["kernel"],
        summary=ctx.data.get("summary", ""),
        op=op.name,
        tensors=arguments,
        declared_modes=named,
        scalars=numbers,
        compute=statements,
        schedule=schedule,
        tune=candidates,
        targets=tuple(ctx.data.get("targets", ())),
        static=static,
        divisible=divisible,
        verify=verify,
        bench=measured,
        torch=op_of_torch,
        expect=expect,
        source=ctx.source,
        has_module=variant.has_module,
    )
    return spec, ctx.found


def _verify(ctx: Context, promises: Promises, may_be_empty: tuple[str, ...]) -> Verify:
    verify: Verify = Record(Verify).read(ctx.data.get("verify", {}), ctx, ("verify",))
    check_shapes(ctx, "verify", verify.shapes, promises, MAX_VERIFIED, may_be_empty)
    for key, value in vars(verify.tolerance).items():
        if value is not None and not math.isfinite(value):
            ctx.say("CG133", f"`{key}` must be a finite number", "verify", "tolerance", key)
    return verify


def _expect(ctx: Context) -> Expect:
    expect: Expect = Record(Expect).read(ctx.data.get("expect", {}), ctx, ("expect",))
    for glob in expect.sass:
        if not glob or len(glob) > 80 or not re.fullmatch(r"[A-Za-z0-9_.*?\[\]!-]+", glob):
            help = "write a mnemonic such as `LDG.E.128`, with `*` for any text"
            message = f"`{shown(glob)}` is not a glob over SASS mnemonics"
            ctx.say("CG119", message, "expect", "sass", glob, key=True, help=help)
        elif "[" in _CHARACTERS.sub("", glob):  # which fnmatch would take as it is, and no mnemonic has
            help = f"write the characters to choose from, as in `{shown(glob.partition('[')[0])}[A-Z]`"
            message = f"`{shown(glob)}` has a `[` that nothing closes"
            ctx.say("CG119", message, "expect", "sass", glob, key=True, help=help)
    return expect
