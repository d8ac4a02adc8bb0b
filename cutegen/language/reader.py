"""Text to kernel specs: YAML, matrix, schema, then what the language means by it. All problems at once."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cutegen.language import schema
from cutegen.language.computing import compute
from cutegen.language.context import Context
from cutegen.language.declarations import check_kernel_name, check_names, promises, scalars, tensors
from cutegen.language.diagnostics import START, Diagnostic, Span, SpecError, has_errors
from cutegen.language.document import MAX_CHARACTERS, MapNode, Node, parse_documents, plain
from cutegen.language.matrix import Variant, expand, source_of
from cutegen.language.model import Count, Expect, KernelSpec, Verify
from cutegen.language.names import shown
from cutegen.language.schedules import schedule
from cutegen.language.shapes import MAX_VERIFIED, Promises, bench, check_shapes
from cutegen.language.tuning import tune

_COUNT = re.compile(r"\s*(==|!=|>=|<=|>|<)?\s*([0-9]{1,10})\s*\Z")
_CHARACTERS = re.compile(r"\[(?:!.|[^!])[^\]]*\]")  # of a glob, as fnmatch reads it
MAX_INT = 2**31 - 1


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
        variants, problems = _variants(document, path)
        found += problems
        for variant in variants:
            spec, problems = _spec(variant)
            found += problems
            if spec is None:
                continue
            if spec.kernel in names:
                found.append(_duplicate(spec, names[spec.kernel]))
            names.setdefault(spec.kernel, spec)
            specs.append(spec)
    if has_errors(found):
        raise SpecError(found)
    return tuple(specs)


def _duplicate(spec: KernelSpec, first: KernelSpec) -> Diagnostic:
    here, there = spec.source.at("kernel"), first.source.at("kernel")
    message = f"the kernel `{spec.kernel}` is there already"
    if here == there:
        help = "put every key of the matrix into the kernel's name, as in `sgemm_{a}{b}`"
        return spec.source.diagnostic("CG112", message, "kernel", notes=("two variants get this name",), help=help)
    return spec.source.diagnostic("CG112", message, "kernel", notes=(f"first at line {there.line}",))


def _variants(document: Node, path: str) -> tuple[list[Variant], list[Diagnostic]]:
    """The variants that follow the schema."""
    if isinstance(document, MapNode):
        matrix = document.get("matrix")
        if matrix is None or not schema.check_matrix(plain(matrix), source_of(document, path)):
            return _checked(*expand(document, path))
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
    ctx = Context(variant)
    check_kernel_name(ctx)
    declared, numbers = tensors(ctx), scalars(ctx)
    check_names(ctx, declared, numbers)
    assignment = compute(ctx, declared, numbers)
    modes = tuple(dict.fromkeys(mode for tensor in declared for mode in tensor.shape))
    static, divisible = promises(ctx, modes)
    plan = schedule(ctx, declared, assignment)
    probe = ctx.data["op"] == "probe"
    derived: tuple[str, ...] = next((t.shape for t in declared if probe and t.writes), ())
    may_be_empty: tuple[str, ...] = ()
    if assignment:
        target = next(t for t in declared if t.name == assignment.target)
        if probe:
            derived = target.shape
        elif assignment.matmul:
            a = next(t for t in declared if t.name == assignment.matmul.a)
            may_be_empty = (a.shape[1],)
    promises_kept = Promises(modes, static, divisible, derived, declared)
    verify = _verify(ctx, promises_kept, may_be_empty)
    measured = bench(ctx, promises_kept)
    expect = _expect(ctx)
    candidates = tune(ctx, declared, assignment)
    if has_errors(ctx.found) or assignment is None:
        return None, ctx.found
    spec = KernelSpec(
        kernel=ctx.data["kernel"],
        op=ctx.data["op"],
        tensors=declared,
        compute=assignment,
        schedule=plan,
        summary=ctx.data.get("summary", ""),
        scalars=numbers,
        targets=tuple(ctx.data.get("targets", ())),
        static=static,
        divisible=divisible,
        verify=verify,
        bench=measured,
        expect=expect,
        tune=candidates,
        source=ctx.source,
    )
    return spec, ctx.found


def _verify(ctx: Context, promises: Promises, may_be_empty: tuple[str, ...]) -> Verify:
    data: Mapping[str, Any] = ctx.data.get("verify", {})
    shapes = tuple(dict(shape) for shape in data.get("shapes", ()))
    check_shapes(ctx, "verify", shapes, promises, MAX_VERIFIED, may_be_empty)
    tolerance = data.get("tolerance", {})
    for key, value in tolerance.items():
        if not math.isfinite(value):
            ctx.say("CG133", f"`{key}` must be a finite number", "verify", "tolerance", key)
    rtol, atol = (float(tolerance[key]) if key in tolerance else None for key in ("rtol", "atol"))
    return Verify(shapes, rtol, atol)


def _expect(ctx: Context) -> Expect:
    data: Mapping[str, Any] = ctx.data.get("expect", {})
    sass = {glob: _count(ctx, value, "expect", "sass", glob) for glob, value in data.get("sass", {}).items()}
    for glob in sass:
        if not glob or len(glob) > 80 or not re.fullmatch(r"[A-Za-z0-9_.*?\[\]!-]+", glob):
            help = "write a mnemonic such as `LDG.E.128`, with `*` for any text"
            message = f"`{shown(glob)}` is not a glob over SASS mnemonics"
            ctx.say("CG119", message, "expect", "sass", glob, key=True, help=help)
        elif "[" in _CHARACTERS.sub("", glob):  # which fnmatch would take as it is, and no mnemonic has
            help = f"write the characters to choose from, as in `{shown(glob.partition('[')[0])}[A-Z]`"
            ctx.say(
                "CG119", f"`{shown(glob)}` has a `[` that nothing closes", "expect", "sass", glob, key=True, help=help
            )
    spills, registers, clashes = (
        _count(ctx, data[key], "expect", key) if key in data else None
        for key in ("spills", "registers", "bank_clashes")
    )
    return Expect(spills, registers, sass, clashes)


def _count(ctx: Context, value: int | str, *path: str) -> Count:
    if isinstance(value, int):
        return Count("==", value)
    match = _COUNT.match(value)
    if not match or int(match[2]) > MAX_INT:
        help = "write a number, or a bound such as `>= 512`"
        ctx.say("CG119", f"`{shown(value)}` is not a count", *path, help=help)
        return Count("==", 0)
    relation: Any = match[1] or "=="
    return Count(relation, int(match[2]))
