"""Gemms of all forms whose tensors stand anywhere: a kernel of the module's own copies their rows, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from anywhere_kit import failures, made
from sweep_kit import sampled

from cutegen import emulator
from cutegen.analysis.claims import claims
from cutegen.codegen import Module
from cutegen.compiling.loading import load
from cutegen.emulator import FaultError, install, on_device
from cutegen.emulator.host.device_tensors import far_apart
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.planning.row_copies import RowCopies

HEAD = "cutegen: 1\nkernel: anywhere\nop: gemm\n"
A, B, C = "  A: {shape: [M, K], dtype: bf16", "  B: {shape: [N, K], dtype: bf16", "  C: {shape: [M, N], dtype: bf16"
TAIL = "schedule: {tiler: {M: 64, N: 32, K: 32}, mma: {atom: wgmma}}\n"
F8 = TAIL.replace("K: 32", "K: 64") + f"tensors:\n{A}}}\n{B}}}\n".replace("bf16", "f8e4m3")
FORMS = {
    "a batch": f"""\
{TAIL}tensors:
  A: {{shape: [L, M, K], dtype: bf16}}
  B: {{shape: [L, N, K], dtype: bf16, major: N}}
  C: {{shape: [L, M, N], dtype: bf16, role: out}}
compute: C = A @ B.T
""",
    "8 bits": f"{F8}{C}, role: out}}\ncompute: C = A @ B.T\n",
    "32 bits": f"{TAIL}tensors:\n{A}}}\n{B}}}\n  C: {{shape: [M, N], dtype: f32, role: out}}\ncompute: C = A @ B.T\n",
    "two products": f"""\
{TAIL}tensors:
{A}}}
  G: {{shape: [N, K], dtype: bf16}}
  U: {{shape: [N, K], dtype: bf16}}
{C}, role: out}}
compute: C = silu(A @ G.T) * (A @ U.T)
""",
    "a residual": f"""\
{TAIL}tensors:
{A}}}
{B}}}
  R: {{shape: [M, N], dtype: bf16}}
{C}, role: out}}
scalars: {{alpha: f32}}
compute: C = A @ B.T * alpha + R
""",
    "two outputs": f"""\
{TAIL}tensors:
{A}}}
{B}}}
  H: {{shape: [M, N], dtype: bf16, role: out}}
{C}, role: out}}
compute: [H = A @ B.T, C = relu(H)]
""",
    "columns": f"{TAIL}tensors:\n{A}, major: M}}\n{B}}}\n{C}, major: M, role: out}}\ncompute: C = A @ B.T\n",
    "static sizes": f"""\
{TAIL}tensors:
{A}}}
{B}}}
{C}, role: out}}
compute: C = A @ B.T
static: {{N: 37, K: 129}}
""",
}


@pytest.mark.parametrize("form", sampled(FORMS))
def test_tensors_of_every_form_are_copied(form: str, tmp_path: Path) -> None:
    module = made(HEAD + FORMS[form])
    assert "PADDED = " in module.text and "_workspace_rows_kernel" in module.text
    assert failures(module, tmp_path) == []


GRID = "grid=[cute.size(tiles), 1, 1]"
OF_A_BATCH = {
    "each matrix is the first": ("row, matrix), mS)", "row, matrix * 0), mS)"),
    "words are as far apart as elements": ("[step // unit for", "[step for"),
    "a matrix too few is launched": (GRID, GRID.replace("cute.size(tiles)", "cute.size(tiles) - tiles[0] * tiles[1]")),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sampled(OF_A_BATCH))
def test_a_mistake_with_matrices_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = OF_A_BATCH[mistake]
    module = made(HEAD + FORMS["a batch"])
    assert module.text.count(old) == 1, module.text
    assert failures(module, tmp_path, module.text.replace(old, new), "long rows")


def _far(module: Module, folder: Path, text: str) -> bool:
    """Whether a product is right whose rows of A, which are copied, lie 2^32 elements and a few apart."""
    import torch

    path = folder / "anywhere.py"
    path.write_text(text, encoding="utf-8")
    loaded = load(path, f"{module.spec.kernel}_of_far_rows")
    emulated = install(loaded, module.spec.kernel, lines=False)
    a, b, c = (torch.randint(-4, 5, shape).bfloat16() for shape in ((3, 9), (8, 9), (3, 8)))
    given = far_apart(on_device(a), 0, (1 << 32) + 9), on_device(b), on_device(c)
    spare = [loaded._spare(name, x) for name, x in zip("abc", given, strict=True)]
    emulated(*given, *loaded._addresses(spare))
    return bool((c == (a.double() @ b.double().T).bfloat16()).all())


def test_rows_may_lie_gigabytes_apart(tmp_path: Path) -> None:
    module = made(HEAD + FORMS["columns"].replace(", major: M", ""))
    assert _far(module, tmp_path, module.text)
    cut = module.text.replace("row, matrix), mS)", "row * 0, matrix), mS)")
    assert cut != module.text
    with pytest.raises(FaultError, match="out-of-bounds"):
        _far(module, tmp_path, cut)


def _in_anyones_code(text: str, folder: Path) -> bool:
    """Whether a product is right that code of anyone asks a module for, of rows at odd addresses and of odd lengths."""
    import torch

    path = folder / "anywhere.py"
    path.write_text(text, encoding="utf-8")
    with emulator.emulating("sm_90a"):
        loaded = load(path, "anywhere_of_anyone")
        wide, b, c = torch.zeros(70, 40), torch.randint(-4, 5, (1, 33, 39)), torch.zeros(1, 70, 33)
        wide[:, 1:] = torch.randint(-4, 5, (70, 39))
        a = wide.bfloat16().to("cuda")[None, :, 1:]
        result = c.bfloat16().to("cuda")
        loaded.anywhere(a, b.mT.contiguous().mT.bfloat16().to("cuda"), c=result)
        return bool((result.double().cpu() == (wide[None, :, 1:] @ b.float().mT).bfloat16()).all())


def test_memory_that_a_module_passes_the_address_of_is_known_in_code_of_anyone(tmp_path: Path) -> None:
    text = made(HEAD + FORMS["a batch"]).text
    assert _in_anyones_code(text, tmp_path)
    elsewhere = text.replace("address = spare +", "address = spare + 16 * (1 - here) +")
    assert elsewhere != text
    with pytest.raises(FaultError, match="out-of-bounds"):
        _in_anyones_code(elsewhere, tmp_path)


WRONG = {
    "threads that are no whole warps": (RowCopies(threads=208), "once"),
    "rows that are no whole words": (RowCopies(align=2), "words"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_plan_is_not_proved(what: str) -> None:
    plan = made(HEAD + FORMS["a residual"]).plan
    assert isinstance(plan, WarpspecializedPlan) and all(claim.holds for claim in claims(plan))
    copies, said = WRONG[what]
    failed = [claim for claim in claims(replace(plan, row_copies=copies)) if not claim.holds]
    assert failed and all(claim.text.startswith("by way of workspaces: ") for claim in failed)
    assert any(said in text for claim in failed for text in (claim.text, *claim.because))
