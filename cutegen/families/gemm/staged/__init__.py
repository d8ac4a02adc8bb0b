"""What `fma` and `mma_sync` share: operands that threads copy through stages of shared memory."""
