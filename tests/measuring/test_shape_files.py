"""Files of shapes: what is read, which kernel a shape is for, and that a wrong line is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring_kit import elementwise, gemm

from cutegen.measuring.shape_files import Entry, list_shapes, parse_shapes, read_shapes
from cutegen.measuring.shapes import ShapeError

WANTED = {"M": 256, "N": 8192, "K": 64}


def parsed(text: str) -> list[Entry]:
    return list(parse_shapes(text, "f.txt"))


def listed(tmp_path: Path, text: str, *modules):  # type: ignore[no-untyped-def]
    path = tmp_path / "f.txt"
    path.write_text(text)
    return list_shapes(path, "f.txt", [module.spec for module in modules])


@pytest.mark.parametrize(
    "line",
    [
        "M=256, N=8192, K=64",
        "M=256,N=8192,K=64,",
        "  M = 256  N = 8192\tK=64",
        "M: 256, N: 8192, K: 64",
        "- {M: 256, N: 8192, K: 64}",
        '{"M": 256, "N": 8192, "K": 64},',
        "M,N,K\n256,8192,64",
        "M, N, K\n256, 8192, 64",
        "N;K;M\n8192;64;256",
        "M\tN\tK\n256\t8192\t64",
        '"M","N","K"\n"256","8192","64"',
    ],
)
def test_a_shape_may_be_written_in_any_of_these_ways(line: str) -> None:
    (entry,) = parsed(line)
    assert entry.sizes == WANTED


def test_comments_are_names_and_blank_lines_are_none() -> None:
    text = "# sizes of models\n\nM=1, N=2   # Llama 3, qkv\n   # more\nM=3, N=4\n"
    assert parsed(text) == [Entry(3, {"M": 1, "N": 2}, "Llama 3, qkv"), Entry(5, {"M": 3, "N": 4})]


def test_a_table_may_have_names() -> None:
    text = '# of models\nname,M,N\n"GPT-2, head",1,2\n\n,3,4  # GPT-2 fc\n'
    assert parsed(text) == [Entry(3, {"M": 1, "N": 2}, "GPT-2, head"), Entry(5, {"M": 3, "N": 4}, "GPT-2 fc")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("M=256, N=8k, K=64", "f.txt:1: N cannot be `8k`"),
        ("M=1,N=2,K=3\nM=0, N=1, K=1", "f.txt:2: M cannot be `0`"),
        ("M=256, M=8, K=64", "f.txt:1: M occurs twice"),
        ("M=256, 8192, K=64", "f.txt:1: `8192, K=64` is not a mode and a size"),
        ("M=256 x N=8192", "f.txt:1: `x N=8192` is not a mode and a size"),
        ("M=", "f.txt:1: `M=` is not a mode and a size"),
        ("256, 8192, 64", "f.txt:1: `256` is not the name of a mode"),
        ("M,N,M\n1,2,3", "f.txt:1: the column M occurs twice"),
        ("M,N,K\n1,2", "f.txt:2: it has 2 cells, and the head has 3"),
        ("M,N,K\n1,2,x", "f.txt:2: K cannot be `x`"),
        ("M,model\n1,Llama", "f.txt:2: model cannot be `Llama`"),
    ],
)
def test_a_wrong_line_is_told_with_its_place_and_what_would_work(text: str, words: str) -> None:
    with pytest.raises(ShapeError) as refused:
        parsed(text)
    assert words in refused.value.message and refused.value.help


def test_what_is_no_file_of_shapes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00M")
    (tmp_path / "many").write_text("M=1\n" * 5000)
    for name, words in (("empty", "no shapes"), ("bytes", "not a text"), ("many", "5000 shapes"), ("none", "No such")):
        with pytest.raises(ShapeError, match=words):
            read_shapes(tmp_path / name, name)
    with pytest.raises(ShapeError, match="Is a directory"):
        read_shapes(tmp_path, "folder")


def test_a_byte_order_mark_is_no_part_of_a_mode(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("M,N\r\n1,2\r\n".encode("utf-8-sig"))
    (entry,) = read_shapes(tmp_path / "f", "f")
    assert entry.sizes == {"M": 1, "N": 2}


def test_shapes_are_completed_and_those_that_the_kernel_refuses_kept_apart(tmp_path: Path) -> None:
    text = "M=256, N=512\nM=258, N=512\nM=256, N=512, K=65\nM=512, N=64, K=64  # one\nM=256, N=512, K=64\n"
    (found,) = listed(tmp_path, text, gemm(more="static: {K: 64}\nschedule: {mma: {atom: fma}}\n"))
    assert found is not None
    assert found.shapes == ({"M": 256, "N": 512, "K": 64}, {"M": 512, "N": 64, "K": 64})
    assert [(entry.line, entry.name) for entry in found.entries] == [(1, ""), (4, "one")]
    assert [unfit.entry.line for unfit in found.unfit] == [2, 3]
    assert found.unfit[0].why == "M must be a multiple of 4, not 258 (256 would work)"
    assert found.repeated == ("f.txt:5 repeats line 1",)


def test_a_shape_is_for_each_kernel_with_its_modes(tmp_path: Path) -> None:
    modules = elementwise("D = A + B"), gemm(), elementwise("D = A")
    add, product, copy = listed(tmp_path, "M=64, N=128\nM=64, N=128, K=32\n", *modules)
    assert add.shapes == copy.shapes == ({"M": 64, "N": 128},) and product.shapes == ({"M": 64, "N": 128, "K": 32},)
    none, product = listed(tmp_path, "M=64, N=128, K=32\n", *modules[:2])
    assert none is None and len(product.shapes) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("M=64, N=64, K=64\nM=64, N=64, k=64", "f.txt:2: there is no mode `k`"),
        ("M=64, N=64, K=64\nM=64, K=64", "f.txt:2: N missing for work"),
        ("M=66, N=66, K=1", "f.txt: every shape is refused, as in line 1: M must be a multiple of 4"),
    ],
)
def test_a_shape_that_is_for_no_kernel_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ShapeError) as refused:
        listed(tmp_path, text, gemm(more="schedule: {mma: {atom: fma}}\n"))
    assert words in refused.value.message


def test_a_shape_that_is_for_none_of_several_kernels_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="no kernel has just the modes M, K") as refused:
        listed(tmp_path, "M=64, K=64", elementwise("D = A + B"), gemm())
    assert "M, N, K" in (refused.value.help or "")
