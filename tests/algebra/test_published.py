"""Figures of the published texts that teach CuTe's layouts: the elementwise-add notebook, the partition post, the
thread-value post and the SGEMM post. Each was printed there by CuTeDSL.
"""

from __future__ import annotations

import pytest

from cutegen.algebra import evaluate, show
from cutegen.algebra.values import text_of

RAKED = "raked_product((4,32):(32,1), (4,4):(4,1))"
TV = "make_layout_tv((4,32):(32,1), (4,4):(4,1))"
MATRIX = "(8192,4096):(4096,1)"


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        # the add notebook: the four divides
        ("logical_divide((16,32):(32,1), (2,4))", "((2,8),(4,8)):((32,64),(1,4))"),
        ("zipped_divide((16,32):(32,1), (2,4))", "((2,4),(8,8)):((32,1),(64,4))"),
        ("flat_divide((16,32):(32,1), (2,4))", "(2,4,8,8):(32,1,64,4)"),
        ("tiled_divide((16,32):(32,1), (2,4))", "((2,4),8,8):((32,1),64,4)"),
        # vectorised
        (f"zipped_divide({MATRIX}, (1,4))", "((1,4),(8192,1024)):((0,1),(4096,4))"),
        (f"zipped_divide({MATRIX}, (1,4))((_, (5, 7)))", "((1,4)):((0,1))"),
        # building a TV layout step by step, and at once
        (RAKED, "((4,4),(4,32)):((512,32),(128,1))"),
        ("size((4,32):(32,1))", "128"),
        ("size((4,4):(4,1))", "16"),
        (f"composition(right_inverse({RAKED}), make_layout((128,16)))", "((32,4),(4,4)):((64,4),(16,1))"),
        (f"product_each({RAKED}.shape)", "(16,128)"),
        (f"{TV}[0]", "(16,128)"),
        (f"{TV}[1]", "((32,4),(4,4)):((64,4),(16,1))"),
        # the SGEMM post, for 256 x 128 x 64: what a block has of A, B and C, and the tiled copy of A
        ("local_tile((256,64):(1,256), (128,128,8), (0,0,_), proj=(1,_,1))", "(128,8,8):(1,256,2048)"),
        ("local_tile((128,64):(1,128), (128,128,8), (0,0,_), proj=(_,1,1))", "(128,8,8):(1,128,1024)"),
        ("local_tile((256,128):(1,256), (128,128,8), (0,0,_), proj=(1,1,_))", "(128,128):(1,256)"),
        ("make_layout_tv((32,8):(1,32), (4,1):(1,4))[0]", "(128,8)"),
        ("make_layout_tv((32,8):(1,32), (4,1):(1,4))[1]", "(256,4):(4,1)"),
        # the thread-value kernel
        (f"zipped_divide({MATRIX}, {TV}[0])", "((16,128),(512,32)):((4096,1),(65536,128))"),
        (f"size(zipped_divide({MATRIX}, {TV}[0]), mode=[1])", "16384"),
        (f"composition(zipped_divide({MATRIX}, {TV}[0])(((_,_), 0)), {TV}[1])", "((32,4),(4,4)):((4,16384),(1,4096))"),
        (f"composition(zipped_divide({MATRIX}, {TV}[0])(((_,_), 9)), {TV}[1])((3,_))", "((4,4)):((1,4096))"),
        # the partition post: inner
        ("tiled_divide((8192,8192):(8192,1), (1,16))", "((1,16),8192,512):((0,1),8192,16)"),
        ("tiled_divide((8192,8192):(8192,1), (1,16))(((_,_), 3, 4))", "(1,16):(0,1)"),
        # inner and outer
        (
            "local_partition(zipped_divide((8192,8192):(8192,1), (32,256))(((_,_),0)), (8,32):(32,1), 0)",
            "(4,8):(65536,32)",
        ),
        # thread-value, of 4096 columns
        ("make_layout_tv((32,8):(8,1), (4,8):(8,1))[0]", "(128,64)"),
        (
            "composition((128,64):(4096,1), make_layout_tv((32,8):(8,1), (4,8):(8,1))[1])",
            "((8,32),(8,4)):((8,16384),(1,4096))",
        ),
        (
            "composition((128,64):(4096,1), make_layout_tv((32,8):(8,1), (4,8):(8,1))[1])((200,_))",
            "((8,4)):((1,4096))",
        ),
        # the thread-value post
        ("((2,2),(2,3)):((2,12),(1,4))((3,_))", "((2,3)):((1,4))"),
    ],
)
def test_published_layouts(expression: str, printed: str) -> None:
    assert text_of(evaluate(expression).value) == printed


def test_the_four_divides_side_by_side() -> None:
    rows = [line.split()[:2] for line in show.text(evaluate("divide((16,32):(32,1), (2,4))"), 80, 24, grid=True)[:4]]
    assert rows == [
        ["logical_divide", "((2,8),(4,8)):((32,64),(1,4))"],
        ["zipped_divide", "((2,4),(8,8)):((32,1),(64,4))"],
        ["tiled_divide", "((2,4),8,8):((32,1),64,4)"],
        ["flat_divide", "(2,4,8,8):(32,1,64,4)"],
    ]


def test_what_each_thread_has() -> None:
    threads, values, found = show.thread_offsets(evaluate("((2,2),(2,3)):((2,12),(1,4))").value)
    assert (threads, values) == (4, 6)
    assert found == [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
        [12, 13, 16, 17, 20, 21],
        [14, 15, 18, 19, 22, 23],
    ]


def test_the_derivation_of_a_thread_value_layout() -> None:
    steps = [f"{step.expression} = {step.value}" for step in evaluate(TV).steps]
    assert steps == [
        f"{RAKED} = ((4,4),(4,32)):((512,32),(128,1))",
        "right_inverse(((4,4),(4,32)):((512,32),(128,1))) = (32,16,4):(64,4,1)",
        "composition((32,16,4):(64,4,1), (128,16):(1,128)) = ((32,4),(4,4)):((64,4),(16,1))",
        "product_each(((4,4),(4,32))) = (16,128)",
        f"{TV} = ((16,128), ((32,4),(4,4)):((64,4),(16,1)))",
    ]
