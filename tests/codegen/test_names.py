"""Names that a user may choose never meet names that the generated code uses for itself.

What is reserved is derived here from modules rendered with names that nothing else can have.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from cutegen.codegen import generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.names import DERIVED, DERIVED_CONSTANTS, RESERVED, RESERVED_ARGUMENTS, derived_from
from cutegen.ops.contract import Contract
from cutegen.ops.rowwise import Rowwise

ELEMENTWISE = """
cutegen: 1
kernel: zzkernel
op: elementwise
tensors:
  Zza: {{shape: [Zzm, Zzn], dtype: {dtype}}}
  Zzb: {{shape: [Zzn], dtype: f32, align: 4}}
  Zzd: {{shape: [Zzm, Zzn], dtype: f32, major: {major}, role: inout}}
scalars: {{zzs: f32, zzi: i32}}
compute: Zzd = where(Zza > zzs, gelu(Zzb), maximum(Zzd, 2)) + silu(zzi + sigmoid(Zzb)) ** 3
schedule: {{partition: {partition}, predication: {{Zzm: {mask}}}}}
"""
GEMM = """
cutegen: 1
kernel: zzkernel
op: gemm
tensors:
  Zza: {{shape: [Zzm, Zzk], dtype: {dtype}, major: {major}}}
  Zzb: {{shape: [Zzn, Zzk], dtype: {dtype}}}
  Zzc: {{shape: [Zzn], dtype: f32, align: 4}}
  Zzd: {{shape: [Zzm, Zzn], dtype: f32, role: out}}
scalars: {{zzs: f32}}
compute: Zzd = minimum(zzs * (Zza @ Zzb.T) + Zzc, 3)
schedule: {{predication: {{Zzm: {mask}}}, pipeline: {{stages: {stages}}}, workspace: {{{spaces}}}}}
"""
PROBE = """
cutegen: 1
kernel: zzkernel
op: probe
tensors:
  Zza: {{shape: [Zzm], dtype: i32}}
  Zzd: {{shape: [Zzt, Zzv], dtype: i32, role: out}}
compute: Zzd = Zza
schedule: {{tv_layout: "{layout}"}}
"""
SPECS = [
    *(
        ELEMENTWISE.format(partition=p, major=m, mask=k, dtype=d)
        for p in ("inner", "inner_outer", "inner_outer, copy: {bits: 128}", "thread_value")
        for m, k, d in (("Zzm", "mask", "f32"), ("Zzn", "none", "bf16"), ("Zzn", "mask", "f64"))
    ),
    *(
        GEMM.format(dtype=d, major=m, mask=k, stages=s, spaces="")
        for d in ("f32", "f16")
        for m, k, s in (("Zzm", "mask", 2), ("Zzk", "none", 3))
    ),
    *(
        GEMM.format(dtype=d, major="Zzk", mask="mask", stages=2, spaces=w)
        for d in ("f32", "f64")
        for w in ("Zzb: {major: Zzn}", "Zza: {major: Zzm}, Zzb: {major: Zzn}")
    ),
    PROBE.format(layout="((2,2),(2,3)):((2,12),(1,4))"),
    PROBE.format(layout="(128,8):(8,1)"),
]


def own_names(function: ast.FunctionDef) -> set[str]:
    """Plain names that a function binds or reads, without those that functions inside it bind for themselves."""
    found = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
    for statement in function.body:
        if isinstance(statement, ast.FunctionDef):
            bound = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            bound |= {argument.arg for argument in statement.args.args}
            found |= {statement.name} | ({n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} - bound)
        else:
            found |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    return found


@cache
def modules() -> list[ast.Module]:
    return [ast.parse(generate(text, "specs/z.yaml").modules[0].text) for text in SPECS]


@pytest.fixture(scope="module")
def beside_arguments() -> set[str]:
    """Names in the functions in which tensors, scalars or modes of the spec are variables."""
    found: set[str] = set()
    for module in modules():
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        assigned = {n.id for node in module.body if isinstance(node, ast.Assign) for n in node.targets}  # type: ignore[attr-defined]
        for function in functions:
            names = own_names(function)
            if any("zz" in name.lower() for name in names - assigned - {f.name for f in functions}):
                found |= names
    return found


@pytest.fixture(scope="module")
def beside_kernel() -> set[str]:
    """Names that are looked up in a module, or defined there: what the kernel's own name would shadow."""
    found: set[str] = set()
    for module in modules():
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                bound |= {a.arg for f in ast.walk(node) if isinstance(f, ast.FunctionDef) for a in f.args.args}
                imported = {n for n in ast.walk(node) if isinstance(n, ast.ImportFrom)}
                bound |= {alias.name for n in imported for alias in n.names}
                if any(isinstance(n, ast.Name) and n.id == "zzkernel" for n in ast.walk(node)):
                    found |= bound  # there a kernel of that name would not be found
                found |= {node.name} | ({n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - bound)
            elif isinstance(node, ast.ClassDef):
                found |= {node.name} | looked_up(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            else:
                found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


def looked_up(node: ast.ClassDef) -> set[str]:
    """Names that the methods of a class read and do not bind."""
    found: set[str] = set()
    for method in (n for n in node.body if isinstance(n, ast.FunctionDef)):
        names = [n for n in ast.walk(method) if isinstance(n, ast.Name)]
        bound = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {a.arg for a in method.args.args}
        found |= {n.id for n in names} - bound
    return found


def unreserved(names: set[str], reserved: tuple[str, ...]) -> set[str]:
    """Without the spec's own names, private ones (a spec's name starts with a letter) and numbered temporaries."""
    own = {n for n in names if "zz" not in n.lower() and not n.startswith("_") and not re.fullmatch(r"x\d+", n)}
    return own - set(reserved)


def test_names_beside_the_specs_variables_are_reserved(beside_arguments: set[str]) -> None:
    assert not unreserved(beside_arguments, RESERVED_ARGUMENTS)


def test_names_of_the_module_are_reserved(beside_kernel: set[str]) -> None:
    assert not unreserved(beside_kernel, RESERVED)


ROWS = """
cutegen: 1
kernel: zzkernel
op: rowwise
tensors:
  Zza: {{shape: [Zzm, Zzn], dtype: bf16}}
  Zzb: {{shape: [Zzn], dtype: bf16}}
  Zzd: {{shape: [Zzm, Zzn], dtype: bf16, role: out}}
compute: {compute}
{more}
"""
SOFTMAX = '["e = exp(Zza - max(Zza, Zzn))", "Zzd = e / sum(e, Zzn) * Zzb"]'
AHEAD = "static: {Zzn: 3072}\nschedule: {keep: registers, threads_per_row: 32, scheduler: {blocks: 3}}"

KEPT = "static: {Zzn: 3072}\nschedule: {keep: smem, cluster: {Zzn: 2}}"


@pytest.mark.parametrize(
    ("compute", "more"), [(SOFTMAX, "targets: [sm_80]"), ("Zzd = Zza * mean(Zza, Zzn) * Zzb", AHEAD), (SOFTMAX, KEPT)]
)
def test_names_of_a_row_kernels_module_are_reserved(compute: str, more: str) -> None:
    """But for those of functions for several reductions at once, which name them all."""
    module = ast.parse(generate(ROWS.format(compute=compute, more=more), "specs/z.yaml").modules[0].text)
    found = {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found |= {n.id for node in module.body if isinstance(node, ast.Assign) for n in node.targets}  # type: ignore[attr-defined]
    alone = {name for name in found if not re.fullmatch(r"row_\w+_and_\w+", name)}
    assert {"of_thread", "THREADS"} <= alone
    assert not unreserved(alone, (*RESERVED, *Rowwise.reserved))


CONTRACTION = """
cutegen: 1
kernel: zzkernel
op: contract
tensors:
  Zzq: {{shape: [Zzb, Zzm, Zzd], dtype: bf16}}
  Zzk: {{shape: [Zzb, Zzn, Zzd], dtype: bf16}}
  Zzv: {{shape: [Zzb, Zzn, Zzd], dtype: bf16}}
  Zzw: {{shape: [Zzm, Zzn], dtype: f32}}
  Zzo: {{shape: [Zzb, Zzm, Zzd], dtype: bf16, role: out}}
  Zzl: {{shape: [Zzb, Zzm], dtype: f32, role: out}}
scalars: {{zzs: f32, zzi: i32}}
compute:
  - zzc = coord(Zzm) - coord(Zzn)
  - zzx = where(zzc >= 0 and zzc <= zzi, sum(Zzq * Zzk, Zzd) * {factor}, -inf)
  - zzy = max(zzx, Zzn)
  - zzp = exp(zzx - zzy)
  - zzt = sum(zzp, Zzn)
  - zzr = sum(zzp * {weight}, Zzn)
  - Zzo = sum(cast(zzp * {weight}, bf16) * Zzv, Zzn) / zzt * coord(Zzd)
  - Zzl = zzy + log(zzr)
static: {{Zzd: 64}}
targets: [{target}]
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_names_of_a_contractions_kernel_are_reserved(target: str) -> None:
    """A scalar or a statement of such a name would be in the place of what the kernel means by it."""
    found: set[str] = set()
    for factor in ("zzs", "(zzs + Zzw)"):
        text = CONTRACTION.format(factor=factor, weight="Zzw", target=target)
        module = ast.parse(generate(text, "specs/z.yaml").modules[0].text)
        kernel = next(n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == "zzkernel_kernel")
        found |= {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)}
    assert {"tidx", "grown", "quad_max"} <= found
    assert not unreserved(found, (*RESERVED, *RESERVED_ARGUMENTS, *Contract.reserved))


def test_names_made_from_the_specs_names_are_known(beside_arguments: set[str]) -> None:
    plain = {"zzkernel", *(f"zz{c}" for c in "abcdsi"), *(f"Zz{c}" for c in "mnktv")}
    for name in beside_arguments - plain:
        if "zz" in name.lower() and not name.startswith("_"):  # as no name of a spec does
            # As the spec writes them: what is made of an argument's name, in lower case, would not be found again
            pattern = re.sub(r"Zz[a-z]|ZZ[A-Z]", "{}", name.replace("zzkernel", "{}"))
            assert re.sub(r"_\d+$", "_0", pattern) in DERIVED, name


def spec_with(**names: str) -> str:
    text = ELEMENTWISE.format(partition="inner", major="Zzn", mask="mask", dtype="f32")
    for old, new in names.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", ["tidx", "rest", "tile", "product", "device", "range", "VECTOR", "vectors", "seed"])
def test_reserved_names_are_refused(name: str) -> None:
    for role in ("zzs", "Zza", "Zzm"):
        with pytest.raises(SpecError, match="CG11"):
            generate(spec_with(**{role: name}), "specs/z.yaml")


@pytest.mark.parametrize(
    ("role", "name"),
    [("zzs", "mZza"), ("zzs", "tZzdrZza"), ("zzi", "copy_Zza"), ("Zzm", "gZza"), ("zzs", "workspace_Zza")],
)
def test_names_that_the_code_makes_from_others_are_refused(role: str, name: str) -> None:
    with pytest.raises(SpecError, match="CG11"):
        generate(spec_with(**{role: name}), "specs/z.yaml")


@pytest.mark.parametrize("name", ["BLK_ZZM", "BLK_ZZK", "SPACE_Zzb", "x", "parser", "wanted"])
def test_a_kernel_is_not_named_like_what_stands_beside_its_name(name: str) -> None:
    text = GEMM.format(dtype="f32", major="Zzk", mask="mask", stages=2, spaces="Zzb: {major: Zzn}")
    with pytest.raises(SpecError, match="CG111"):
        generate(text.replace("zzkernel", name), "specs/z.yaml")


def test_constants_of_modules_that_are_made_from_names_are_known() -> None:
    plain = {"zzkernel", *(f"zz{c}" for c in "abcdsi"), *(f"Zz{c}" for c in "mnktv")}
    for module in modules():
        assigned = {
            n.id
            for node in module.body
            if isinstance(node, ast.Assign)
            for n in ast.walk(node.targets[0])
            if isinstance(n, ast.Name)
        }
        for name in assigned - plain:
            if "zz" in name.lower():
                assert derived_from(name, [*plain, *(f"Zz{c}" for c in "abcd")], DERIVED_CONSTANTS), name


@pytest.mark.parametrize("name", ["pred", "then_block_1", "loop_body_2"])
def test_a_scalar_is_not_named_like_what_the_compiler_makes(name: str) -> None:
    with pytest.raises(SpecError, match="CG113"):
        generate(spec_with(zzs=name), "specs/z.yaml")
    generate(spec_with(Zza=name), "specs/z.yaml")


def test_temporaries_go_around_the_specs_names() -> None:
    text = generate(spec_with(zzs="x0", zzi="x2"), "specs/z.yaml").modules[0].text
    assigned = [
        node.id
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef) and function.name == "zzkernel_kernel"
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    assert "x1" in assigned and "x0" not in assigned and "x2" not in assigned


SEVERAL = """
cutegen: 1
kernel: zzkernel
op: elementwise
tensors:
  Zza: {shape: [Zzm], dtype: f32}
  Zzd: {shape: [Zzm], dtype: f32, role: inout}
  Zze: {shape: [Zzm], dtype: f32, role: out}
scalars: {zzs: f32}
compute:
  - zzv = Zza * zzs
  - Zzd = zzv + Zzd
  - Zze = Zzd * 2 + coord(Zzm) - zzv * zzv
"""


@pytest.mark.parametrize("name", ["result_Zze", "new_zzd", "coord_Zzm", "coords_Zzm"])
def test_names_of_values_go_around_the_specs_names(name: str) -> None:
    """A scalar may have the name that a value would have; a local value any name, whatever else has it."""
    text = generate(SEVERAL, "specs/z.yaml").modules[0].text
    assert f"    {name} = " in text
    renamed = generate(SEVERAL.replace("zzs", name), "specs/z.yaml").modules[0].text
    assert f"    {name}_1 = " in renamed and f"{name}: cutlass.Float32" in renamed


@pytest.mark.parametrize(
    "name",
    ["zza", "Zzm", "x0", "x2", "tidx", "result", "torch", "cute", "tZzdgZza", "mZza", "result_Zze", "zzkernel"],
)
def test_local_values_may_have_any_name(name: str) -> None:
    text = generate(SEVERAL.replace("zzv", name), "specs/z.yaml").modules[0].text
    names = [
        target.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name in ("zzkernel_kernel", "reference")
        for statement in ast.walk(node)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
    own = name if name == "result_Zze" else f"{name}_value"
    assert names.count(own) == 2, "one variable in the kernel, one in the reference"
    if name == "result_Zze":
        assert names.count("result_Zze_1") == 2


CLASHING = """
cutegen: 1
kernel: k
op: {op}
tensors:
  {a}: {{shape: [{m}, {n}], dtype: f32}}
  {b}: {{shape: [{n}], dtype: f32}}
  {y}: {{shape: [{m}, {n}], dtype: f32, role: out}}
scalars: {{{s}: f32}}
compute:
  - {v} = {a} * {s} + coord({n})
  - {y} = {v} * {b} + {v}
"""


@pytest.mark.parametrize("op", ["elementwise", "rowwise"])
@pytest.mark.parametrize(
    "names",
    [
        {"m": "B", "n": "L", "a": "X", "b": "b", "y": "Y", "s": "l", "v": "u"},
        {"m": "b", "n": "n", "a": "B", "b": "N", "y": "Y", "s": "m", "v": "u"},
        {"m": "x", "n": "y", "a": "X", "b": "W", "y": "Y", "s": "n", "v": "N"},
        {"m": "A", "n": "s", "a": "A", "b": "B", "y": "C", "s": "s", "v": "M"},
    ],
)
def test_a_mode_may_be_called_like_an_argument(op: str, names: dict[str, str]) -> None:
    """The sizes of an output that a call makes never take the place of an argument."""
    text = CLASHING.format(op=op, **names)
    if op == "rowwise":
        text = text.replace("+ {v}".format(**names) + "\n", "+ sum({v}, {n})\n".format(**names))
    (module,) = generate(text, "k.yaml").modules
    functions = {f.name: f for f in ast.parse(module.text).body if isinstance(f, ast.FunctionDef)}
    for name in ("k", "reference", "make_inputs"):
        of = functions[name].args
        parameters = {argument.arg for argument in (*of.args, *of.kwonlyargs)}
        assert len(parameters) == len(of.args) + len(of.kwonlyargs)
        unpacked = [
            target
            for node in ast.walk(functions[name])
            if isinstance(node, ast.Assign)
            for target in ast.walk(node.targets[0])
            if isinstance(node.targets[0], ast.Tuple) and isinstance(target, ast.Name)
        ]
        assert name != "k" or not parameters & {target.id for target in unpacked}
