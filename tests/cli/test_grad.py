"""The verb `cutegen grad`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cutegen.cli import cli

SOFTMAX = """\
cutegen: 1
kernel: softmax
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e * (1 / sum(e, N))
targets: [sm_90a]
"""
BACKWARD = """\
cutegen: 1
kernel: softmax_bwd
summary: Backward pass of softmax, dX from dY.
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16}
  dX: {shape: [M, N], dtype: bf16, role: out}
compute: dX = Y * (dY - sum(dY * Y, N))
targets: [sm_90a]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "softmax.yaml").write_text(SOFTMAX)
    return tmp_path


def grad(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["grad", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_it_prints_the_spec_of_the_backward() -> None:
    result = grad("softmax.yaml")
    assert (result.exit_code, result.stdout) == (0, BACKWARD)


def test_it_writes_a_file_that_lint_takes(folder: Path) -> None:
    result = grad("softmax.yaml", "--wrt", "X", "-o", "specs/softmax_bwd.yaml")
    assert result.exit_code == 0
    assert result.stdout == "wrote specs/softmax_bwd.yaml\nnext: cutegen build specs/softmax_bwd.yaml\n"
    written = (folder / "specs/softmax_bwd.yaml").read_text()
    head, mark, text = written.split("\n", 2)
    assert head == "# yaml-language-server: $schema=.cutegen.schema.json" and text == BACKWARD
    assert mark.startswith("# `cutegen grad` wrote this, and writes it again as long as nobody edits it: sha256 ")
    assert (folder / "specs/.cutegen.schema.json").exists()
    assert CliRunner().invoke(cli, ["lint", "specs/softmax_bwd.yaml"]).exit_code == 0


def test_it_writes_again_over_its_own_file_and_over_no_other(folder: Path) -> None:
    file = folder / "softmax_bwd.yaml"
    arguments = ("softmax.yaml", "-o", file.name)
    assert grad(*arguments).exit_code == 0
    (folder / "softmax.yaml").write_text(SOFTMAX.replace("bf16", "f16"))
    assert grad(*arguments).exit_code == 0
    written = file.read_text()
    assert written.endswith(BACKWARD.replace("bf16", "f16"))
    file.write_text(written.replace("Backward pass", "The backward pass"))
    edited = grad(*arguments)
    assert edited.exit_code == 2 and "was edited since `cutegen grad` wrote it" in edited.stderr
    assert "The backward pass" in file.read_text()
    file.write_text(BACKWARD)
    other = grad(*arguments)
    assert other.exit_code == 2 and "already exists, and `cutegen grad` did not write it" in other.stderr
    assert file.read_text() == BACKWARD


def test_json() -> None:
    data = json.loads(grad("softmax.yaml", "--format", "json").stdout)
    kernel = {"kernel": "softmax_bwd", "of": "softmax", "text": BACKWARD, "without": [], "refused": {}}
    assert data == {
        "verb": "grad", "ok": True, "exit_code": 0, "spec": "softmax.yaml", "diagnostics": [], "kernels": [kernel],
        "written": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments, said",
    (
        (["--wrt", "Q"], "softmax has no tensor `Q`"),
        (["--wrt", "X,,"], "is not a list of names"),
        (["--of", "X"], "`X` is not an output of floats"),
        (["--kernel", "other"], "there is no kernel `other`"),
        (["-o", "x.txt"], "is not a YAML file"),
    ),
)
def test_what_is_refused(arguments: list[str], said: str) -> None:
    result = grad("softmax.yaml", *arguments)
    assert result.exit_code == 2 and said in result.stderr and not result.stdout


def test_a_broken_spec_a_folder_and_another_op(folder: Path) -> None:
    (folder / "bad.yaml").write_text(SOFTMAX.replace("exp(X", "exp(Q"))
    assert "CG121" in grad("bad.yaml").stderr
    assert "is a folder" in grad(".").stderr
    assert CliRunner().invoke(cli, ["init", "mm", "--op", "gemm", "--atom", "fma", "--out", "mm.yaml"]).exit_code == 0
    result = grad("mm.yaml")
    assert result.exit_code == 2 and "has `op: gemm`, whose statements are not differentiated" in result.stderr


def test_a_matrix_gives_a_document_for_each_kernel_and_notes_tell_what_has_no_gradient(folder: Path) -> None:
    text = """\
cutegen: 1
matrix: {t: [f32, bf16]}
kernel: scale_{t}
op: elementwise
tensors:
  X: {shape: [N], dtype: "{t}"}
  Z: {shape: [N], dtype: f32}
  Y: {shape: [N], dtype: f32, role: out}
compute: Y = X * floor(Z)
"""
    (folder / "scale.yaml").write_text(text)
    result = grad("scale.yaml")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("---\n") == 1 and result.stdout.count("compute: dX = dY * floor(Z)") == 2
    assert "note: `Z` has no gradient" in result.stderr
    assert grad("scale.yaml", "--kernel", "scale_f32").stdout.count("kernel:") == 1


ROPE = """\
cutegen: 1
kernel: turn
op: elementwise
tensors:
  X: {shape: [T, H, D], dtype: bf16}
  COS: {shape: [T, D], dtype: f32}
  Y: {shape: [T, H, D], dtype: bf16, role: out}
compute: Y = X * COS
"""


def test_gradients_that_no_kernel_computes_are_left_out_with_the_reason(folder: Path) -> None:
    (folder / "turn.yaml").write_text(ROPE)
    result = grad("turn.yaml", "-o", "turn_bwd.yaml")
    assert result.exit_code == 0 and "the gradient of `COS` is left out: CG127" in result.stderr
    assert "compute: dX = dY * COS" in (folder / "turn_bwd.yaml").read_text()
    assert CliRunner().invoke(cli, ["lint", "turn_bwd.yaml"]).exit_code == 0
    data = json.loads(grad("turn.yaml", "--format", "json").stdout)
    assert data["kernels"][0]["refused"]["COS"]["code"] == "CG127"


def test_such_a_gradient_that_is_asked_for_is_refused(folder: Path) -> None:
    (folder / "turn.yaml").write_text(ROPE)
    result = grad("turn.yaml", "--wrt", "X,COS")
    assert result.exit_code == 2 and not result.stdout
    assert "computes the gradients of `COS`: CG127" in result.stderr and "`--wrt X`" in result.stderr


GATE = """\
cutegen: 1
kernel: own
op: elementwise
tensors:
  G: {shape: [M, N], dtype: bf16}
  U: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = silu(G) * U
torch: {op: "mine::own", backward: own_bwd}
"""


def test_the_gradient_that_an_op_names_need_not_be_there_yet(folder: Path) -> None:
    (folder / "own.yaml").write_text(GATE)
    assert grad("own.yaml", "-o", "own_bwd.yaml").exit_code == 0
    result = CliRunner().invoke(cli, ["build", "--no-compile", "own.yaml"])
    assert result.exit_code == 0, result.output


ATTENTION = """\
cutegen: 1
kernel: attend
op: contract
tensors:
  Q: {shape: [B, H, M, D], dtype: bf16}
  K: {shape: [B, H, N, D], dtype: bf16}
  V: {shape: [B, H, N, E], dtype: bf16}
  bias: {shape: [H, M, N], dtype: bf16}
  O: {shape: [B, H, M, E], dtype: bf16, role: out}
  lse: {shape: [B, H, M], dtype: f32, role: out}
scalars: {scale: f32}
compute:
  - s = sum(Q * K, D) * scale + bias
  - m = max(s, N)
  - p = exp(s - m)
  - l = sum(p, N)
  - O = sum(cast(p, bf16) * V, N) / l
  - lse = m + log(l)
static: {D: 32, E: 32}
targets: [sm_80]
"""


def test_the_backward_of_attention_is_several_kernels_of_one_file(folder: Path) -> None:
    (folder / "attend.yaml").write_text(ATTENTION)
    result = grad("attend.yaml", "--of", "O", "-o", "attend_bwd.yaml")
    assert result.exit_code == 0 and "the gradient of `bias` is left out: CG127, " in result.stderr
    text = (folder / "attend_bwd.yaml").read_text()
    kernels = [line.removeprefix("kernel: ") for line in text.splitlines() if line.startswith("kernel: ")]
    assert kernels == ["attend_bwd_delta", "attend_bwd_q", "attend_bwd_kv"]
    assert CliRunner().invoke(cli, ["lint", "attend_bwd.yaml"]).exit_code == 0
    data = json.loads(grad("attend.yaml", "--of", "O", "--format", "json").stdout)
    assert [one["kernel"] for one in data["kernels"]] == kernels
    assert all(one["of"] == "attend" and one["refused"]["bias"]["code"] == "CG127" for one in data["kernels"])
    assert "---\n".join(one["text"] for one in data["kernels"]) == text.split("\n", 2)[2]


def test_attention_that_keeps_too_little_is_refused_with_what_to_add(folder: Path) -> None:
    text = ATTENTION.replace("  - lse = m + log(l)\n", "").replace(
        "  lse: {shape: [B, H, M], dtype: f32, role: out}\n", ""
    )
    (folder / "attend.yaml").write_text(text)
    result = grad("attend.yaml")
    assert result.exit_code == 2 and not result.stdout
    assert "line 13: the gradient needs `m` and `l` of each row, which no output keeps" in result.stderr
    assert "write `lse = m + log(l)`, and under `tensors` `lse: {shape: [B, H, M], dtype: f32, role" in result.stderr
