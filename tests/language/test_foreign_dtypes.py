"""Errors about element types with foreign names, and about types that the language lacks."""

from __future__ import annotations

import pytest

from cutegen import check
from cutegen.dtypes import Dtype
from cutegen.foreign_dtypes import instead_of_dtype, meant_dtype

MEANT = {
    "f64": ("double", "float64", "fp64", "torch.float64"),
    "f32": ("float", "float32", "fp32", "F32", "np.float32", "f_32"),
    "f16": ("half", "fp16", "float16"),
    "bf16": ("bfloat16", "BF16", "bf_16"),
    "f8e4m3": ("e4m3", "float8_e4m3fn", "fp8_e4m3", "f8e4m3fn", "fp8e4nv"),
    "f8e5m2": ("e5m2", "float8_e5m2"),
    "i64": ("long", "int64", "int64_t", "s64", "torch.int64"),
    "i32": ("int", "int32"),
    "i16": ("short", "int16"),
    "u32": ("uint32", "uint", "uint32_t"),
    "i8": ("char", "int8"),
    "u8": ("byte", "uint8", "ui8"),
    "bool": ("boolean", "Bool", "bol"),
}
INSTEAD = {
    "`((x & 15) ^ 8) - 8`": ("i4", "int4", "s4"),
    "`x & 15` and `x >> 4`": ("u4", "uint4", "f4e2m1", "float4_e2m1fn_x2", "nf4", "e2m1"),
    "`x & 3` are its lowest 2 bits": ("u2", "i2"),
    "pass `x.view(torch.int64)`": ("u64", "uint64", "b64"),
    "pass `x.view(torch.int16)`": ("u16", "uint16"),
    "the widest is `i64`": ("i128", "u128"),
    "the widest is `f64`": ("f128", "f80"),
    "`f8e4m3` and `f8e5m2`": ("fp8", "f8", "f8e4m3fnuz", "float8_e5m2fnuz"),
    "`exp2(x - 127)`": ("e8m0", "float8_e8m0fnu"),
    "`x.real` and `x.imag`": ("complex64", "c64", "complex"),
    "`mma: {operands: tf32}`": ("tf32",),
}
SPEC = """
cutegen: 1
kernel: scale
op: elementwise
tensors:
  X: {shape: [M, N], dtype: %s}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * 2
"""


@pytest.mark.parametrize("dtype", Dtype.__members__)
def test_names_of_other_libraries_and_misspelt_ones_are_known(dtype: str) -> None:
    for name in MEANT[dtype]:
        assert meant_dtype(name, Dtype.__members__) == dtype, name
        assert instead_of_dtype(name) is None or name.startswith(("e", "f")), name


@pytest.mark.parametrize("words", INSTEAD)
def test_a_type_of_another_size_is_no_misspelling(words: str) -> None:
    for name in INSTEAD[words]:
        assert meant_dtype(name, Dtype.__members__) is None, name
        assert words in (instead_of_dtype(name) or ""), name
        (found,) = check(SPEC % name)
        assert found.code == "CG104" and words in (found.help or ""), name


def test_other_words_have_no_help() -> None:
    for name in ("nothing", "x", ""):
        assert meant_dtype(name, Dtype.__members__) is None and instead_of_dtype(name) is None


def test_a_number_of_bits_that_no_type_has_is_a_misspelling() -> None:
    assert [meant_dtype(name, Dtype.__members__) for name in ("f23", "bf17", "u23")] == ["f32", "bf16", "u32"]


def test_a_cast_names_the_type_that_was_meant() -> None:
    (found,) = check((SPEC % "f32").replace("X * 2", "cast(X, bfloat16)"))
    assert (found.message, found.help) == ("unknown dtype `bfloat16`", "did you mean `bf16`?")


def test_a_number_of_64_bits_is_told_with_its_sign() -> None:
    mask = SPEC.replace("f32", "i64") % "i64"
    (found,) = check(mask.replace("X * 2", "X & 18446744073709551615"))
    assert found.help is not None and "`-1`, which has the same bits" in found.help
    assert not check(mask.replace("X * 2", "X & -1"))
    (found,) = check(mask.replace("X * 2", "X & 18446744073709551616"))
    assert found.help is not None and "the same bits" not in found.help
