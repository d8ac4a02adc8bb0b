"""The language in one file that fits a context window, for programs that write specs: `docs/llms.txt`.

`llms.txt` beside this module has the text, with marks such as `<<keys>>` for what follows from the code: the schema's
fields, functions, diagnostics of typical mistakes, verbs, and specs of this repository.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from cutegen import check
from cutegen.atoms.targets import TARGETS
from cutegen.cli import VERBS
from cutegen.dtypes import Dtype
from cutegen.expressions.functions import FUNCTIONS
from cutegen.expressions.parsing import REDUCTIONS
from cutegen.ops.row_modes import OVER_ROWS
from making.fields import Field, fields
from making.repository import read

FILE = "llms.txt"
SPECS = (
    "add_bias_gelu_bf16", "adamw_step", "rms_norm", "softmax", "layer_norm_bwd", "cross_entropy", "quantize_f8",
    "group_norm", "linear_gelu_preact_bf16", "gemm_few_rows",
)  # fmt: skip
KEYS = ("matrix", "modules", "verify", "bench", "tune", "torch", "expect")  # the text has the others
ANSWERS = ("init", "build", "lint", "explain", "grad", "inspect", "verify", "tune", "bench")  # verbs with their JSON
FAMILIES = {
    "elementwise_schedule": "elementwise",
    "rowwise_schedule": "rowwise",
    "gemm_schedule": "gemm, mma.atom fma (CUDA cores)",
    "gemm_mma_sync_schedule": "gemm, mma.atom mma_sync (single warps)",
    "gemm_wgmma_schedule": "gemm, mma.atom wgmma (warpgroups, sm_90a)",
    "gemm_tcgen05_schedule": "gemm, mma.atom tcgen05 (tensor memory, sm_100a)",
    "contract_schedule": "contract, mma.atom mma_sync (single warps)",
    "attention_wgmma_schedule": "contract, mma.atom wgmma (warpgroups, sm_90a)",
    "probe_schedule": "probe",
    "case": "cases: `schedule` is a list, and the first whose `for` holds is taken",
}
_LAYOUT = re.compile(r" In CuTe's notation.*$")
BASES = {
    "elementwise": """\
cutegen: 1
kernel: k
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X + 1
""",
    "rowwise": """\
cutegen: 1
kernel: k
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X - mean(X, N)
""",
    "gemm": """\
cutegen: 1
kernel: k
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
""",
}
MISTAKES = (  # a base, what is replaced in it, and the mistake
    ("elementwise", "Y = X + 1", "Y = softmax(X)"),
    ("elementwise", "Y = X + 1", "Y = sum(X, N)"),
    ("elementwise", "Y = X + 1", "Y = X[0]"),
    ("elementwise", "Y = X + 1", "Y = X if X > 0 else 0"),
    ("elementwise", "Y = X + 1", "Y = where(X, 1, 0)"),
    ("elementwise", "Y = X + 1", "Y = X + bias"),
    ("elementwise", "compute: Y = X + 1", "compute: [m = maximum(X, 1), Y = m]"),
    ("elementwise", "Y: {shape: [M, N], dtype: f32", "Y: {shape: [M, N], dtype: i32"),
    ("elementwise", "X: {shape: [M, N], dtype: f32", "X: {shape: [M, N], dtype: float32"),
    ("elementwise", "X: {shape: [M, N]", "X: {shape: [M, 4]"),
    ("elementwise", "X + 1\n", "X + 1\nschedule: {thread_layout: (4,32):(32,1)}\n"),
    ("rowwise", "Y = X - mean(X, N)", "Y = max(X, 0)"),
    ("rowwise", "Y: {shape: [M, N]", "Y: {shape: [M]"),
    ("rowwise", "X: {shape: [M, N], dtype: bf16", "X: {shape: [M, N], dtype: bf16, major: M"),
    ("gemm", "C = A @ B.T", "C = A @ B"),
    ("gemm", "B: {shape: [N, K]", "B: {shape: [K, N]"),
    ("gemm", "B.T\n", "B.T\ntargets: [sm_90]\n"),
    ("gemm", "B.T\n", "B.T\nschedule: {tiler: [128, 128, 64]}\n"),
    ("gemm", "B.T\n", "B.T\nschedule: {mma: {atom: wgmma}, tiler: {M: 100}}\n"),
)


def files() -> dict[str, str]:
    """The file."""
    parts = {
        "types": " ".join(dtype.value for dtype in Dtype),
        "targets": " ".join(TARGETS),
        "functions": " ".join(map(_called, FUNCTIONS)),
        "reductions": " ".join(REDUCTIONS),
        "over_rows": " ".join(OVER_ROWS),
        "keys": "\n".join(_lines(field for field in fields().values() if field.shown.split(".")[0] in KEYS)),
        "schedules": "\n".join(_schedules()).strip(),
        "mistakes": "\n".join(_mistakes()),
        "commands": "\n".join(_commands()),
        "specs": "\n".join(f"```yaml\n{_spec(name)}```\n" for name in SPECS).strip(),
    }
    text = read(f"docs/making/{FILE}")
    for name, made in parts.items():
        before, _, after = text.partition(f"<<{name}>>")
        text = before + made + after
    return {FILE: text}


def _called(name: str) -> str:
    """A function as it is called; one of a single value by its name alone."""
    parameters = FUNCTIONS[name].parameters
    return name if len(parameters) == 1 else f"{name}({', '.join(parameters)})"


def _lines(found: Iterable[Field]) -> Iterator[str]:
    """A line for each key that holds no other keys."""
    for field in found:
        if not field.holds:
            takes = _brief(field)
            yield f"- `{_shown(field)}`{f' ({takes})' if takes else ''}: {_LAYOUT.sub('', field.says)}"


def _shown(field: Field) -> str:
    """The path of a key, of a schedule's from there."""
    return field.shown.removeprefix("schedule.")


def _brief(field: Field) -> str:
    """The values that a key takes, in few words; empty if its meaning names them."""
    choices = re.findall("`(.+?)`", field.takes)
    if choices and all(f"`{choice}`" in field.says for choice in choices):
        return ""
    text = field.takes
    for pattern, brief in (
        ("one of (.*)", r"\1"),
        ("a mapping from names to (.*)", r"{NAME: \1}"),
        ("a list; each of it (.*)", r"[\1]"),
        (r"a whole number from (\d+) to (\d+)", r"\1..\2"),
        (r"a whole number from (\d+) on", r"\1.."),
        ("a whole number", "int"),
        ("a layout in CuTe's notation", "LAYOUT"),
        ("a text of at most .* characters|a text", "text"),
        ("`", ""),
    ):
        text = re.sub(pattern, brief, text)
    return text.replace(", ", " | ") if choices else text


def _schedules() -> Iterator[str]:
    """The keys of each family; one that reads as it did the last time is named alone."""
    before: dict[str, tuple[str, str]] = {}
    for group, title in FAMILIES.items():
        own = [field for field in fields().values() if field.group == group and not field.holds]
        again = [field for field in own if before.get(field.shown) == (field.says, field.takes)]
        yield f"### {title}\n"
        yield from _lines(field for field in own if field not in again)
        if again:
            yield f"- as above: {', '.join(f'`{_shown(field)}`' for field in again)}"
        yield ""
        before |= {field.shown: (field.says, field.takes) for field in own}


def _mistakes() -> Iterator[str]:
    """A line for each mistake, with the first thing that is said of it. Raises ValueError where that is nothing."""
    for base, right, wrong in MISTAKES:
        found = check(BASES[base].replace(right, wrong, 1))
        if not found or BASES[base].count(right) != 1:
            raise ValueError(f"nothing is said of {wrong!r}")
        shown = wrong.removeprefix("B.T\n").removeprefix("X + 1\n").strip()
        shown += "}" * (shown.startswith(("X: {", "Y: {", "B: {")) and not shown.endswith("}"))
        yield f"- `{shown}` ({base}): {found[0].code} {found[0].message}. Help: {found[0].help}"


def _commands() -> Iterator[str]:
    """A line for each verb: the first sentence of its help, and of some what their JSON has."""
    for verb in VERBS:
        text = inspect.cleandoc(verb.help or "")
        first = " ".join(re.split(r"[.]\s", text)[0].split()).removesuffix(".")
        answer = re.search(r"^JSON.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        json = " ".join(answer[0].split()) if answer and verb.name in ANSWERS else ""
        yield f"- `cutegen {verb.name}`: {first}. {json}".rstrip()


def _spec(name: str) -> str:
    """A spec of the repository without the line for editors."""
    return read(f"specs/{name}.yaml").partition("\n")[2]
