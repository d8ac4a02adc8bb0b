"""Peers that kernels are measured against, library functions, and which specs compute the same as one of these."""
