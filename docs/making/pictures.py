"""The pictures of the README and of the pages on the language in `docs/pictures`: `make pictures` writes them anew.

`roofline.svg` is drawn from the receipts as `cutegen bench -o` draws it, and `diagnostic.svg` shows what `cutegen lint`
prints. Tests compare these and the language's with what would be drawn now. `page.png` is a kernel's page in a
browser, Chromium, which is needed to make it.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from cutegen.drawing.charts import render
from cutegen.measuring import KernelResult, Machine
from cutegen.measuring.limits import products_us
from cutegen.project.selection import select
from cutegen.project.sources import Unit, gather
from cutegen.receipts.receipt import Receipt
from cutegen.receipts.receipt_text import parse
from cutegen.verbs.benching.bench import Benched, BenchReport
from cutegen.verbs.benching.charts import roofline
from making import language_pictures
from making.repository import ROOT

FOLDER = ROOT / "docs" / "pictures"
RECEIPTS = ROOT / "generated" / "receipts" / "nvidia-h200"
KERNELS = (
    "softmax_bwd", "rms_norm", "rms_norm_bwd", "layer_norm", "layer_norm_bwd", "cross_entropy",
    "cross_entropy_vocabulary", "kl_div", "jsd", "swiglu", "geglu", "gemm_f32_fma_ragged", "hgemm_bf16",
    "linear_gelu_bf16", "linear_residual_bf16", "gemm_f8",
)  # fmt: skip
EAGER = "torch eager"  # ten times slower, which would press all else together
PAGE = "sgemm_mmajor"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1500,1000"  # of the browser's window
# Dark on every page, as terminals are
THEME = TerminalTheme(
    (24, 26, 31),
    (224, 226, 231),
    [(24, 26, 31), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194),
     (224, 226, 231)],
)  # fmt: skip
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" font-family="ui-monospace, \
SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">
<style>
.{unique_id}-matrix {{ font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
SPEC = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K}
  B: {shape: [N, K], dtype: f32, major: N}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T
schedule:
  smem: {A: {pad: 0}}
"""


def main() -> None:
    """Writes all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, content in drawn().items():
        (FOLDER / name).write_bytes(content)
    photographed(FOLDER / "page.png")


def drawn() -> dict[str, bytes]:
    """The pictures that need no browser, by name."""
    return {"roofline.svg": shares(), "diagnostic.svg": diagnostic(), **language_pictures.drawn()}


def shares() -> bytes:
    """Kernels and their peers below the roofs of an H200, and as shares of them: of KERNELS those with a receipt, which
    goes when the kernel's text changes, until it is measured again.
    """
    names = [name for name in KERNELS if (RECEIPTS / f"{name}.json").is_file()]
    receipts = [parse((RECEIPTS / f"{name}.json").read_bytes()) for name in names]
    versions = [{**receipt.versions, "cutegen": ""} for receipt in receipts]  # its own says nothing of a kernel's text
    assert all(one == versions[0] for one in versions), "the picture names one set of versions"
    units = {unit.kernel: unit for unit in gather(select([ROOT / "specs" / f"{name}.yaml" for name in names])).units}
    kernels = [Benched(units[receipt.kernel], _result(units[receipt.kernel], receipt)) for receipt in receipts]
    return render(roofline(BenchReport(_machine(receipts[0]), tuple(kernels))), ".svg")


def _machine(receipt: Receipt) -> Machine:
    """The machine that a receipt is of."""
    gpu, versions = receipt.gpu, dict(receipt.versions)
    driver = versions.pop("driver")
    sizes = (gpu.sms, gpu.l2_bytes, gpu.memory_bytes)
    return Machine(gpu.name, gpu.capability, driver, versions, *sizes, limits=receipt.limits)


def _result(unit: Unit, receipt: Receipt) -> KernelResult:
    """The figures of a receipt at the largest measured shape, without the slowest peer."""
    largest = max(receipt.measured, key=lambda one: one.timing.us)
    peers = {name: timing for name, timing in largest.peers.items() if name != EAGER}
    # Receipts that were written before it lack what bounds products on tensor cores
    products = products_us(unit.module.plan.spec, largest.operations, receipt.gpu.name)
    limit = max(us for us in (largest.limit_us, products) if us is not None)
    return KernelResult(receipt.kernel, receipt.code_hash, (replace(largest, peers=peers, limit_us=limit),), (), {})


def diagnostic() -> bytes:
    """The output of `cutegen lint` for a mistake, as a terminal shows it."""
    command = "lint --select CG27 specs/mm.yaml"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "specs").mkdir()
        Path(folder, "specs", "mm.yaml").write_text(SPEC, encoding="utf-8")
        said = cutegen(*command.split(), folder=folder)
    console = Console(record=True, file=io.StringIO(), width=100)
    console.print(Text(f"$ cutegen {command}\n{said.rstrip()}"))
    return console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id="cutegen").encode()


def cutegen(*arguments: str, folder: str) -> str:
    """The output of a verb of this checkout, run in a folder; it may exit with findings."""
    command = [sys.executable, "-m", "cutegen", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode < 2, done.stderr
    return done.stdout


def photographed(path: Path) -> None:
    """Writes a picture of a kernel's page. Raises FileNotFoundError where there is no browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise FileNotFoundError("a kernel's page is photographed by Chromium, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        cutegen("show", str(ROOT / f"specs/{PAGE}.yaml"), "-o", str(page), folder=folder)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}", f"--screenshot={path}"]
        subprocess.run([browser, *flags, page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
