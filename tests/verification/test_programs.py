"""Modules as programs: outputs made wrong on purpose are wrong throughout, and comparing them takes no long import."""

from __future__ import annotations

import sys

import pytest
import torch

from cutegen.verification.programs import _spoil, no_distributed_tensors

WORDS = (torch.uint16, torch.uint32, torch.uint64)
TYPES = (*WORDS, torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool, torch.float16, torch.float32)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_elements_but_the_first_of_several_become_others(dtype: torch.dtype) -> None:
    given = (torch.arange(12).reshape(3, 4) % 5).to(dtype)
    spoiled = given.clone().t()  # strided
    _spoil(spoiled)
    same = spoiled.t().view(torch.uint8).reshape(12, -1) == given.view(torch.uint8).reshape(12, -1)
    assert same.all(dim=1).tolist() == [True, *[False] * 11]


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words_without_a_sign_are_changed_by_operations_on_signed_ones(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch has no xor of them on a GPU."""
    xor = torch.Tensor.__xor__

    def as_on_a_gpu(x: torch.Tensor, other: int) -> torch.Tensor:
        assert x.dtype not in WORDS
        return xor(x, other)

    monkeypatch.setattr(torch.Tensor, "__xor__", as_on_a_gpu)
    _spoil(spoiled := torch.zeros(3).to(dtype))
    assert spoiled.tolist()[0] == 0 and min(spoiled.tolist()[1:]) > 0


def test_a_comparison_does_not_import_distributed_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch.distributed.tensor"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with no_distributed_tensors():
        torch.testing.assert_close(torch.ones(2), torch.ones(2))
        with pytest.raises(AssertionError, match="not close"):
            torch.testing.assert_close(torch.ones(2), torch.zeros(2))
        assert not hasattr(sys.modules[name], "__file__")
    assert name not in sys.modules


def test_distributed_tensors_that_are_there_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch.distributed.tensor"
    monkeypatch.setitem(sys.modules, name, real := type(sys)(name))
    with no_distributed_tensors():
        assert sys.modules[name] is real
    assert sys.modules[name] is real
