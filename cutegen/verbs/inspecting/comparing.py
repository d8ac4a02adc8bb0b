"""A kernel held against an older build of it: what changed in its resources and its instructions."""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutegen.codegen import generate
from cutegen.compiling import Compiled, Job, Outcome
from cutegen.console import print_table
from cutegen.errors import CutegenError
from cutegen.exits import FINDINGS
from cutegen.project.paths import shown
from cutegen.project.selection import SUFFIXES, SpecFile
from cutegen.project.sources import Unit
from cutegen.project.state import read_header
from cutegen.verbs.inspecting.inspection import NUMBER, Code, Inspection, inspect, inspection_from_json, mainloop

MOST_BYTES = 1 << 28
KINDS_OF_OLD = "a spec, a module that cutegen generated, or what `cutegen inspect --format json` printed"
_OTHER_TARGET = "choose one of its targets with --target"
_SPEC = re.compile(r"^cutegen\s*:", re.MULTILINE)
_ADDRESS = re.compile(r"/\*[0-9a-fA-F]{4,}\*/\s*")

Compile = Callable[[Sequence[Job]], Sequence[Outcome]]
Change = tuple[int, int]  # old, new
Changes = Mapping[str, Mapping[str, Change]]  # kind -> mnemonic -> how many there were, and are


class OldError(CutegenError):
    """Says that the older build cannot be compared with. With `failed`, it does not compile, which is a finding."""

    def __init__(self, message: str, help: str | None = None, *, failed: bool = False) -> None:
        super().__init__(message, help)
        if failed:
            self.exit_code = FINDINGS


@dataclass(frozen=True)
class Comparison:
    """The changes from `old` to `new`: in resources, in instructions, and in the instructions of their mainloops.

    The resources include `bank_clashes`; loops are compared if both have one. A fact that one side lacks is no change.
    """

    old: Inspection
    new: Inspection
    resources: Mapping[str, Change]
    kinds: Changes
    loop_kinds: Changes

    @property
    def same(self) -> bool:
        """Whether nothing changed of what both sides know."""
        return not (self.resources or self.kinds or self.loop_kinds)

    @property
    def unknown(self) -> list[str]:
        """Sentences that say what could not be compared."""
        found = []
        for side in (self.old, self.new):
            which = f"{side.kernel} for {side.target}, the {'old' if side is self.old else 'new'} one"
            if side.code is None:
                found.append(f"instructions were not compared: there is no SASS of {which}")
            unknown = [name.replace("_", " ") for name, value in side.resources.items() if value is None]
            if unknown:
                found.append(f"not known of {which}: {', '.join(unknown)}")
        return found


def read_old(path: Path, targets: Sequence[str], kernel: str | None, compile: Compile) -> list[Inspection]:
    """Reads the older build that a file stands for, for those of the targets that it has. The file may be a pipe.

    `kernel` is the only one of its kernels that is wanted, if it has several. Raises OldError, and SpecError for a spec
    with errors.
    """
    name = shown(path)
    try:
        if path.is_dir():
            raise OldError(f"{name} is a folder", f"name one file: {KINDS_OF_OLD}")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise OldError(f"{name} does not exist", f"name {KINDS_OF_OLD}") from None
    except UnicodeDecodeError:
        raise OldError(f"{name} is not text", f"name {KINDS_OF_OLD}") from None
    except (OSError, ValueError) as error:
        raise OldError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if read_header(data) is not None:
        return _inspect_module(text, name, targets, compile)
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return _read_json(text, name)
    if path.suffix in SUFFIXES or (not path.suffix and _SPEC.search(text)):
        return _inspect_spec(text, path, targets, kernel, compile)
    raise OldError(f"{name} is nothing that can be compared with", f"name {KINDS_OF_OLD}")


def _inspect_module(text: str, name: str, targets: Sequence[str], compile: Compile) -> list[Inspection]:
    """Compiles a generated module and inspects it. Raises OldError where the text is no module."""
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise OldError(f"{name} is not Python: line {error.lineno}: {error.msg}") from None
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in functions}
    kernels = {  # of which one has the name of the public function, in each case; the others fill workspaces
        kernel
        for node in functions
        if any(ast.unparse(d) == "cute.kernel" for d in node.decorator_list)
        and (kernel := re.sub(rf"_kernel{NUMBER}\Z", "", node.name)) in names
    }
    built_for = [
        element.value
        for node in body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "TARGETS"
        and isinstance(node.value, ast.Tuple)
        for element in node.value.elts
        if isinstance(element, ast.Constant) and isinstance(element.value, str)
    ]
    if len(kernels) != 1 or not built_for:
        raise OldError(f"{name} has no kernel and TARGETS as a generated module has", "was it edited?")
    jobs = [Job(text, kernel, target, sass=True) for kernel in kernels for target in targets if target in built_for]
    if not jobs:
        raise OldError(f"{name} is for {', '.join(built_for)}, and not for {_either(targets)}", _OTHER_TARGET)
    # What dynamic shared memory it asks for is only known to the plan that it was made from
    return [inspect(artefact.artefact, None, None) for artefact in _compiled(jobs, name, compile)]


def _inspect_spec(
    text: str, path: Path, targets: Sequence[str], kernel: str | None, compile: Compile
) -> list[Inspection]:
    """Generates and compiles the kernels of a spec and inspects them. Raises OldError where it is for other targets."""
    source = SpecFile(path, path.parent, path.name, path.parent)
    units = [Unit(source, module) for module in generate(text, shown(path)).modules]
    if kernel is not None and any(unit.kernel == kernel for unit in units):
        units = [unit for unit in units if unit.kernel == kernel]
    jobs = {
        Job(unit.module.text, unit.kernel, target, sass=True): unit
        for unit in units
        for target in targets
        if target in unit.module.spec.targets
    }
    if not jobs:
        built_for = dict.fromkeys(target for unit in units for target in unit.module.spec.targets)
        raise OldError(f"{shown(path)} is for {', '.join(built_for)}, and not for {_either(targets)}", _OTHER_TARGET)
    outcomes = _compiled(list(jobs), shown(path), compile)
    return [
        inspect(outcome.artefact, unit.module.plan.smem_on(outcome.artefact.target), None)
        for outcome, unit in zip(outcomes, jobs.values(), strict=True)
    ]


def _compiled(jobs: Sequence[Job], name: str, compile: Compile) -> list[Compiled]:
    """Compiles jobs of the file of that name. Raises OldError for one that fails."""
    found = []
    for job, outcome in zip(jobs, compile(jobs), strict=True):
        if not isinstance(outcome, Compiled):
            raise OldError(f"{job.kernel} of {name} does not compile for {job.target}: {outcome}", failed=True)
        found.append(outcome)
    return found


def _read_json(text: str, name: str) -> list[Inspection]:
    """Reads inspections from what `cutegen inspect --format json` printed. Raises OldError for any other text."""
    how = "write it with `cutegen inspect SPEC --format json`"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise OldError(f"{name} is not JSON: {error}", how) from None
    verb = data.get("verb") if isinstance(data, dict) else None
    if verb != "inspect":
        of = f" but that of `cutegen {verb}`" if isinstance(verb, str) else ""
        raise OldError(f"{name} is not the JSON of `cutegen inspect`{of}", how)
    try:
        return [
            inspection_from_json(kernel["kernel"], target) for kernel in data["kernels"] for target in kernel["targets"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = (
            f"{name} is JSON of `cutegen inspect` that this version does not read: {type(error).__name__}: {error}"
        )
        raise OldError(message, how) from None


def pair(new: Sequence[Inspection], old: Sequence[Inspection], name: str) -> tuple[list[Comparison], list[str]]:
    """Compares each new inspection with the old one of its name and target.

    Gives the comparisons, and a sentence for each inspection that has no counterpart. Where there is one kernel on both
    sides their names do not matter. Raises OldError where nothing pairs.
    """
    names, old_names = (list(dict.fromkeys(i.kernel for i in some)) for some in (new, old))
    if len(names) == len(old_names) == 1:
        old = [replace(i, kernel=names[0]) for i in old]
    elif not set(names) & set(old_names):
        message = f"no kernel of {name} is named {_either(names)}"
        raise OldError(message, f"it has {', '.join(old_names)}; compare one kernel with a file of one")
    by_place = {(i.kernel, i.target): i for i in old}
    found = [compare(by_place[i.kernel, i.target], i) for i in new if (i.kernel, i.target) in by_place]
    lonely = [f"{i.kernel} for {i.target} is not in {name}" for i in new if (i.kernel, i.target) not in by_place]
    if not found:
        targets = ", ".join(dict.fromkeys(i.target for i in old))
        raise OldError(f"{name} is for {targets}, and not for {_either([i.target for i in new])}", _OTHER_TARGET)
    return found, lonely


def _either(names: Sequence[str]) -> str:
    """Names in a list that ends with an `or`."""
    return " or ".join(dict.fromkeys(names))


def compare(old: Inspection, new: Inspection) -> Comparison:
    """Finds what changed between two inspections of a kernel for a target."""
    resources = {}
    for name, value in new.resources.items():
        before = old.resources.get(name)
        if value is not None and before is not None and value != before:
            resources[name] = (before, value)
    if old.banks is not None and new.banks is not None and old.banks.clashes != new.banks.clashes:
        resources["bank_clashes"] = (old.banks.clashes, new.banks.clashes)
    loops = _changes(mainloop(old), mainloop(new))
    return Comparison(old, new, resources, _changes(old.code, new.code), loops)


def _changes(old: Code | None, new: Code | None) -> Changes:
    """The mnemonics whose number changed, by kind, the largest changes first."""
    if old is None or new is None:
        return {}
    found: dict[str, dict[str, Change]] = {}
    for kind in {**new.kinds, **old.kinds}:
        before, after = old.kinds.get(kind, {}), new.kinds.get(kind, {})
        both = {name: (before.get(name, 0), after.get(name, 0)) for name in {**after, **before}}
        changed = [(name, change) for name, change in both.items() if change[0] != change[1]]
        if changed:
            found[kind] = dict(sorted(changed, key=lambda item: (-_size(item[1]), item[0])))
    return dict(sorted(found.items(), key=lambda item: -sum(map(_size, item[1].values()))))


def _size(change: Change) -> int:
    """The difference between the two numbers of a change."""
    return abs(change[1] - change[0])


def text_diff(old: Inspection, new: Inspection, what: str, name: str) -> str:
    """A unified diff of the `ptx` or the `sass` of two inspections.

    SASS is compared without its addresses, which one instruction more would all change. Raises OldError where one of
    the two has no such text.
    """
    texts = {side: getattr(inspection, what) for side, inspection in (("old", old), ("new", new))}
    if texts["old"] is None:
        help = f"write it with `cutegen inspect SPEC --{what} --format json`" if old.code is not None else None
        raise OldError(f"{name} has no {what.upper()} of {old.kernel} for {old.target}", help)
    if texts["new"] is None:
        raise OldError(f"there is no {what.upper()} of {new.kernel} for {new.target}: {'; '.join(new.missing)}")
    before, after = (
        (_ADDRESS.sub("", text) if what == "sass" else text).splitlines() for text in (texts["old"], texts["new"])
    )
    labels = (f"a/{old.kernel}.{old.target}.{what}", f"b/{new.kernel}.{new.target}.{what}")
    return "".join(f"{line}\n" for line in difflib.unified_diff(before, after, *labels, lineterm=""))


def print_comparison(comparison: Comparison, name: str) -> None:
    """Prints what changed since the build of that name."""
    print(f"{comparison.new.kernel} for {comparison.new.target}, against {name}")
    if comparison.same:
        print("  no change in what is known of both")
    else:
        print_table(("what", "old", "new", "change"), comparison_rows(comparison))


def comparison_rows(comparison: Comparison) -> list[list[str]]:
    """The rows of the table of changes: resources, kinds of instructions, and under each kind its mnemonics.

    Each row has what changed, the old and the new number and the difference.
    """
    rows = [_row(name.replace("_", " "), change) for name, change in comparison.resources.items()]
    parts = (
        ("instructions", "", comparison.kinds, comparison.old.code, comparison.new.code),
        ("in the loop", "  ", comparison.loop_kinds, mainloop(comparison.old), mainloop(comparison.new)),
    )
    for title, pad, kinds, old, new in parts:
        if kinds and old is not None and new is not None:
            rows.append(_row(title, (old.instructions, new.instructions)))
            for kind, names in kinds.items():
                totals = (sum(old.kinds.get(kind, {}).values()), sum(new.kinds.get(kind, {}).values()))
                rows.append(_row(f"{pad}{kind}", totals))
                rows += [_row(f"{pad}  {mnemonic}", change) for mnemonic, change in names.items()]
    return rows


def _row(what: str, change: Change) -> list[str]:
    """The cells of one change."""
    old, new = change
    return [what, f"{old:>6}", f"{new:>6}", f"{new - old:+d}" if new != old else "-"]


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON: `{same, resources, kinds, loop_kinds}`.

    Resources are by name, the others by kind and mnemonic, each `[old, new]`.
    """
    return {
        "same": comparison.same,
        "resources": comparison.resources,
        "kinds": comparison.kinds,
        "loop_kinds": comparison.loop_kinds,
    }
