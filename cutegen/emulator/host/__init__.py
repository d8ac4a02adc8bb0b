"""The side that launches: launches of PTX, compiled host code, and generated modules on CPU tensors."""
