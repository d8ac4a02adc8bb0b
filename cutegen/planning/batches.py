"""Matrix products of a batch: their tensors have a mode before those of the matrices."""

from __future__ import annotations

from cutegen.language.model import Tensor

BATCHED = 3  # modes of a tensor with a batch


def batch_of(output: Tensor) -> str | None:
    """The mode of the batch, where a product has this output; None of a single one."""
    return output.shape[0] if len(output.shape) == BATCHED else None
