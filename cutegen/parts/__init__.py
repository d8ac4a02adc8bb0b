"""Parts that kernels are made of: trees of statements that print CuTeDSL, what these do to barriers and memory, and
proofs of it.
"""
