"""The key `modules` of a document: which of its kernels `cutegen build` writes modules of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.language import schema
from cutegen.language.diagnostics import Diagnostic, has_errors
from cutegen.language.document import MapNode, plain
from cutegen.language.matrix import Variant, source_of
from cutegen.language.names import shown, suggestion


def marked(
    document: MapNode, path: str, variants: Sequence[Variant], found: Sequence[Diagnostic]
) -> tuple[list[Variant], list[Diagnostic]]:
    """The variants, marked with whether `modules` names their kernels, and what is wrong with it beside what was
    `found` of them: names are checked where nothing was, since a variant that breaks the schema is missing.
    """
    source, data = source_of(document, path), plain(document)
    problems = [*found, *(schema.check_of_all(data, "modules", source) if "modules" in data else [])]
    if "modules" not in data or has_errors(problems):
        return list(variants), problems
    names, kernels = data["modules"], [variant.data["kernel"] for variant in variants]
    for number, name in enumerate(names):
        if name not in kernels:
            message, help = f"this spec has no kernel `{shown(name, 80)}`", suggestion(name, kernels, "its kernels")
            problems.append(source.diagnostic("CG142", message, "modules", number, help=help))
    return [replace(variant, has_module=variant.data["kernel"] in names) for variant in variants], problems
