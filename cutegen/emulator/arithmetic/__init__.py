"""Arithmetic on arrays of numbers, rounded exactly as PTX defines it; it knows nothing of instructions."""
