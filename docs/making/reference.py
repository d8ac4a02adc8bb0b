"""The reference of the language: every field with what it means, what may stand there, what it is where it is left out,
and an example."""

from __future__ import annotations

from collections.abc import Iterable

from making.examples import Base, Example, examples, left_out
from making.fields import Field, fields

FOLDER = "reference"
PAGES = {  # by file: title, the fields' groups, and what is said of them
    "index": (
        "The keys of a spec",
        ("", "tensor", "mode"),
        "The keys of all specs. The keys of `schedule` depend on `op`, and for a gemm on\n"
        "`mma: {atom: ...}`; they have pages of their own.",
    ),
    "elementwise": ("Schedules of elementwise kernels", ("elementwise_schedule",), "`op: elementwise`."),
    "rowwise": ("Schedules of row kernels", ("rowwise_schedule",), "`op: rowwise`."),
    "gemm": ("Schedules of gemms on the CUDA cores", ("gemm_schedule",), "`op: gemm`, `mma: {atom: fma}`."),
    "gemm_mma_sync": (
        "Schedules of gemms by single warps",
        ("gemm_mma_sync_schedule",),
        "`op: gemm`, `mma: {atom: mma_sync}`: tensor cores from Ampere on.",
    ),
    "gemm_wgmma": (
        "Schedules of gemms by warpgroups",
        ("gemm_wgmma_schedule",),
        "`op: gemm`, `mma: {atom: wgmma}`: Hopper's tensor cores.",
    ),
    "gemm_tcgen05": (
        "Schedules of gemms in tensor memory",
        ("gemm_tcgen05_schedule",),
        "`op: gemm`, `mma: {atom: tcgen05}`: Blackwell's tensor cores, executed on the CPU and never on a GPU.",
    ),
    "contract": (
        "Schedules of contractions by single warps",
        ("contract_schedule",),
        "`op: contract`, `mma: {atom: mma_sync}`: tensor cores from Ampere on.",
    ),
    "contract_wgmma": (
        "Schedules of contractions by warpgroups",
        ("attention_wgmma_schedule",),
        "`op: contract`, `mma: {atom: wgmma}`: Hopper's tensor cores.",
    ),
    "probe": ("Schedules of probes", ("probe_schedule",), "`op: probe`."),
    "cases": (
        "Conditions of cases",
        ("case",),
        "`schedule` may be a list of cases, and a call takes the first whose `for` holds; the other keys of a case\n"
        "are those of a schedule. [More on cases](../language/cases.md).",
    ),
}


def files() -> dict[str, str]:
    """All pages."""
    return {f"{FOLDER}/{name}.md": page(*said) for name, said in PAGES.items()}


def page(title: str, groups: tuple[str, ...], says: str) -> str:
    """The fields of some groups, and the specs that their examples are added to."""
    found = [field for field in fields().values() if field.group in groups]
    lines = [f"# {title}", "", says, ""]
    lines += [
        "Each example is added to a [whole spec](#the-whole-specs), builds, and makes a difference: the tests try all.",
        "Inferred values have the reason that `cutegen explain` gives for that spec.",
        "",
    ]
    for field in found:
        lines += section(field, examples()[field.name])
    bases = dict.fromkeys(examples()[field.name].base for field in found)
    return "\n".join([*lines, *specs(bases)])


def section(field: Field, example: Example) -> list[str]:
    """The text about one field."""
    return [
        f'<a id="{anchor(field)}"></a>',
        "",
        f"### `{field.shown}`",
        "",
        f"{field.says}",
        "",
        f"- Takes: {field.takes}.",
        f"- Left out: {left_out(field, example)}.",
        f"- Example, in [{example.base.says}](#{example.base.name}-spec):",
        "",
        "```yaml",
        example.text.rstrip(),
        "```",
        "",
    ]


def specs(bases: Iterable[Base]) -> list[str]:
    """The whole specs that examples are added to."""
    lines = ["## The whole specs", ""]
    for base in bases:
        title = base.says[0].upper() + base.says[1:]
        lines += [f'<a id="{base.name}-spec"></a>', "", f"### {title}", "", "```yaml", base.text.rstrip(), "```", ""]
    return lines


def anchor(field: Field) -> str:
    """The anchor of a link to a field."""
    return field.shown.replace(".", "-")
