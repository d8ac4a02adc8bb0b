"""Tables of what the hardware offers: copy atoms, mma atoms, targets and the GPUs that stand for them."""
