"""The memories that a kernel reaches: tensors in global memory, shared memory, and copies between the two."""
