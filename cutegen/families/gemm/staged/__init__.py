"""Code that `fma` and `mma_sync` share: their operands are copied by threads through stages of shared memory."""
