"""The digest by which a receipt knows the kernel that it was measured on."""

import pytest

from cutegen.codegen.render import code_hash

MODULE = '''"""add: C = A + B"""

import torch

TARGETS = ("sm_80",)
THREADS = 128  # of a block


@cute.kernel
def add_kernel(mA: cute.Tensor, mC: cute.Tensor):
    """Adds."""
    tidx, _, _ = cute.arch.thread_idx()
    # One element each
    mC[tidx] = mA[tidx] + 1.0


# Of each tensor: type
TENSORS = {"a": torch.float32}
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("128  # of a block", "128  # threads"),
        ("    # One element each\n", ""),
        ('    """Adds."""\n', '    """Adds one to each element."""\n'),
        ('    """Adds."""\n', ""),
        ("(mA: cute.Tensor, mC: cute.Tensor)", "(\n    mA: cute.Tensor,\n    mC: cute.Tensor,\n)"),
        ("torch.float32", "torch.float64"),  # which is the host's
    ],
)
def test_what_no_gpu_runs_may_change(before: str, after: str) -> None:
    assert before in MODULE
    assert code_hash(MODULE.replace(before, after)) == code_hash(MODULE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("THREADS = 128", "THREADS = 256"),
        ("THREADS = 128", "THREADS = 128.0"),
        ("+ 1.0", "- 1.0"),
        ("+ 1.0", "+ 2.0"),
        ("mA[tidx]", "mA[0]"),
        ("@cute.kernel\n", ""),
        ("    mC[tidx] = ", "    if tidx:\n        mC[tidx] = "),
        ('("sm_80",)', '("sm_90a",)'),
    ],
)
def test_what_a_gpu_runs_is_in_it(before: str, after: str) -> None:
    assert before in MODULE
    assert code_hash(MODULE.replace(before, after, 1)) != code_hash(MODULE)
